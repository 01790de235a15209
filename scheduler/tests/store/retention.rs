//! What is past its time goes; what is not, or is still referred to, stays.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clawjob_scheduler::{
    model::{
        ids::{AttemptRef, RunId},
        job::{Job, JobSpec, JobState},
        log::{LogLevel, LogRecord},
        run::{NewRun, RunExtra, RunState, TriggerKind},
    },
    store::{
        StoreError,
        ops::{
            Claim, ExecutorQuery, JobChange, LogAppend, LogQuery, NewJob, NodeRow, RequestKey,
            Retention,
        },
    },
};

use super::fixture::{Fixture, at, ending, fire};

const DAY: i64 = 24 * 3600;

/// Everything that can go goes; a case's few rows take few steps.
async fn prune(f: &Fixture, runs: i64, logs: i64, now: DateTime<Utc>) {
    let days = |days: i64| Duration::from_secs((days * DAY).unsigned_abs());
    let keep = Retention { runs: days(runs), logs: days(logs) };
    let mut steps = 0;
    while f.store.prune(&keep, now).await.expect("a step") {
        steps += 1;
        assert!(steps < 100, "there is no end to it");
    }
}

async fn job_kept(f: &Fixture, name: &str, days: u64) -> Job {
    let keep = Duration::from_secs(days * DAY.unsigned_abs());
    let job = NewJob {
        app: f.app.id,
        name: name.to_owned(),
        state: JobState::Active,
        spec: JobSpec { run_retention: Some(keep), ..JobSpec::default() },
        updated_by: "me".to_owned(),
        request: None,
    };
    f.store.create_job(&job, Box::new(|_| Vec::new()), at(0)).await.expect("a job")
}

async fn ended(f: &Fixture, job: &Job, fire_at: DateTime<Utc>) -> RunId {
    let sent = f.dispatched(f.planned(job, fire_at).await).await;
    f.store.end_runs(&[ending(sent, RunState::Succeeded)], fire_at).await.expect("ended");
    sent.run
}

async fn is_there(f: &Fixture, run: RunId) -> bool {
    match f.store.get_run(run).await {
        Ok(_) => true,
        Err(StoreError::NotFound(_)) => false,
        Err(fault) => panic!("{fault}"),
    }
}

pub(crate) async fn ended_runs_go_after_their_time_and_open_ones_stay(f: &Fixture) {
    let job = f.job("a").await;
    let old = ended(f, &job, at(0)).await;
    let newer = ended(f, &job, at(20 * DAY)).await;
    let open = f.planned(&job, at(1)).await.run;
    prune(f, 30, 7, at(29 * DAY)).await;
    assert!(is_there(f, old).await, "it is not 30 days old");
    prune(f, 30, 7, at(32 * DAY)).await;
    assert!(!is_there(f, old).await);
    assert!(is_there(f, newer).await && is_there(f, open).await);
}

pub(crate) async fn a_job_s_own_retention_outdoes_the_server_s(f: &Fixture) {
    let (short, usual, long) =
        (job_kept(f, "a", 2).await, f.job("b").await, job_kept(f, "c", 90).await);
    let runs = [
        ended(f, &short, at(0)).await,
        ended(f, &usual, at(0)).await,
        ended(f, &long, at(0)).await,
    ];
    let there = async || {
        [is_there(f, runs[0]).await, is_there(f, runs[1]).await, is_there(f, runs[2]).await]
    };
    prune(f, 30, 7, at(4 * DAY)).await;
    assert_eq!(there().await, [false, true, true]);
    prune(f, 30, 7, at(32 * DAY)).await;
    assert_eq!(there().await, [false, false, true]);
    prune(f, 30, 7, at(92 * DAY)).await;
    assert_eq!(there().await, [false, false, false]);
}

pub(crate) async fn logs_go_before_their_run_but_not_while_it_goes_on(f: &Fixture) {
    let sent = f.run_in("a", RunState::Running).await;
    let record = LogRecord {
        seq: 1,
        time: at(12),
        level: LogLevel::Info,
        message: "hello".to_owned(),
        fields: Default::default(),
    };
    let chunk = LogAppend { attempt: sent, records: vec![record], dropped: 0 };
    f.store.append_logs(&[chunk], at(12)).await.expect("stored");
    let query = LogQuery {
        run: sent.run,
        attempt: 0,
        after_seq: 0,
        min_level: LogLevel::Trace,
        contains: String::new(),
        limit: 10,
    };
    let stored = async || f.store.list_logs(&query).await.expect("a page").records.len();
    prune(f, 30, 7, at(9 * DAY)).await;
    assert_eq!(stored().await, 1);
    f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(9 * DAY)).await.expect("ended");
    prune(f, 30, 7, at(9 * DAY)).await;
    assert_eq!(stored().await, 0);
    assert!(is_there(f, sent.run).await);
}

pub(crate) async fn a_deleted_job_stays_while_its_runs_do(f: &Fixture) {
    let job = f.job("a").await;
    let run = ended(f, &job, at(0)).await;
    let delete = JobChange { delete: true, drop_due: true, ..JobChange::by("me") };
    f.store.change_job(job.id, &delete, Box::new(|_| Vec::new()), at(1)).await.expect("deleted");
    prune(f, 30, 7, at(20 * DAY)).await;
    assert_eq!(&*f.store.get_run(run).await.expect("found").job_name, "a");
    assert_eq!(f.store.list_revisions(job.id, 0, 9).await.expect("revisions").len(), 1);
    prune(f, 30, 7, at(32 * DAY)).await;
    prune(f, 30, 7, at(32 * DAY)).await;
    assert_eq!(f.store.list_revisions(job.id, 0, 9).await.expect("revisions").len(), 0);
}

pub(crate) async fn a_request_id_is_free_again_after_a_day(f: &Fixture) {
    let job = f.job("a").await;
    let key = RequestKey { key: "ann/TriggerJob/1".to_owned(), body_hash: vec![1; 32] };
    let run = fire(&job, at(5));
    f.store.create_run(&run, Some(&key), at(5)).await.expect("a run");
    let other = RequestKey { body_hash: vec![2; 32], ..key };
    let next = fire(&job, at(6));
    prune(f, 30, 7, at(DAY - 60)).await;
    let reused = f.store.create_run(&next, Some(&other), at(DAY)).await;
    assert!(matches!(reused, Err(StoreError::Conflict(_))), "{reused:?}");
    prune(f, 30, 7, at(DAY + 60)).await;
    let made = f.store.create_run(&next, Some(&other), at(DAY)).await;
    assert_eq!(made.expect("the id is free"), next.id);
}

pub(crate) async fn nodes_and_executors_that_stay_away_are_forgotten(f: &Fixture) {
    let node = NodeRow {
        id: "n9".to_owned(),
        version: "1".to_owned(),
        advertise_address: "here:1".to_owned(),
        draining: false,
        gone: false,
        started_at: at(0),
        last_seen_at: at(1),
        sessions: 3,
        partitions: vec![clawjob_scheduler::model::ids::PartitionId(5)],
        clock_offset_us: -7,
        lag: Duration::from_millis(3),
        database_latency: Duration::from_micros(250),
    };
    f.store.put_node(&node).await.expect("stored");
    assert_eq!(f.store.list_nodes(at(60)).await.expect("nodes"), std::slice::from_ref(&node));
    f.store.remove_node("n9", at(60)).await.expect("removed");
    let listed = f.store.list_nodes(at(61)).await.expect("nodes");
    assert_eq!(
        listed.iter().map(|node| (node.gone, node.sessions)).collect::<Vec<_>>(),
        [(true, 0)]
    );
    assert_eq!(f.store.list_nodes(at(2 * DAY)).await.expect("nodes"), []);
    let claim = Claim {
        app: f.app.id,
        name: "e1".to_owned(),
        spec: Default::default(),
        instance_id: "p1".to_owned(),
        resume_hash: Vec::new(),
        fresh_resume_hash: vec![1; 32],
        principal: "tokens/t1".to_owned(),
        node: "n9".to_owned(),
        peer_address: String::new(),
        alive_since: at(0),
        may_hold: None,
    };
    let row = f.store.claim_executor(&claim, at(1)).await.expect("claimed").executor;
    prune(f, 30, 7, at(60 * DAY)).await;
    f.store.get_executor(f.app.id, "e1").await.expect("it is connected");
    f.store.end_session(row.row, row.session_epoch, false, at(2)).await.expect("ended");
    prune(f, 30, 7, at(60 * DAY)).await;
    let gone = f.store.get_executor(f.app.id, "e1").await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
}

pub(crate) async fn r42_ten_thousand_executors_that_left_leave_nothing_in_lists(f: &Fixture) {
    let claim = |name: &str| Claim {
        app: f.app.id,
        name: name.to_owned(),
        spec: Default::default(),
        instance_id: "p1".to_owned(),
        resume_hash: Vec::new(),
        fresh_resume_hash: vec![1; 32],
        principal: "tokens/t1".to_owned(),
        node: "n1".to_owned(),
        peer_address: String::new(),
        alive_since: at(0),
        may_hold: None,
    };
    for (name, end) in [("living", None), ("silent", Some(false)), ("pod", Some(true))] {
        let row = f.store.claim_executor(&claim(name), at(1)).await.expect("claimed").executor;
        if let Some(left) = end {
            f.store.end_session(row.row, row.session_epoch, left, at(2)).await.expect("ended");
        }
    }
    f.sql(
        "INSERT INTO executor (app_id, name, spec, instance_id, resume_hash, principal,
             session_epoch, node, peer_address, connected_at, disconnected_at, gone, last_seen_at)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         SELECT app_id, name || '-' || i, spec, instance_id, resume_hash, principal,
             session_epoch, node, peer_address, connected_at, disconnected_at, gone, last_seen_at
         FROM executor, n WHERE name = 'pod'",
    )
    .await;
    let listed = async || {
        let query = ExecutorQuery { limit: 20_000, ..ExecutorQuery::default() };
        let rows = f.store.list_executors(&query).await.expect("executors");
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(listed().await.len(), 10_003);
    prune(f, 30, 7, at(60)).await;
    assert_eq!(listed().await.len(), 10_003, "they are shown for a while");
    prune(f, 30, 7, at(2 + 3_601)).await;
    assert_eq!(listed().await, ["living", "silent"]);
    prune(f, 30, 7, at(31 * DAY)).await;
    assert_eq!(listed().await, ["living"]);
}

pub(crate) async fn a_shard_stays_while_its_parent_goes_on(f: &Fixture) {
    let job = job_kept(f, "a", 2).await;
    prune(f, 365, 7, at(0)).await;
    let run = |n, extra| NewRun {
        id: RunId::by_hand(at(n), 7),
        trigger: TriggerKind::Api,
        extra: Some(Box::new(extra)),
        ..fire(&job, at(n))
    };
    let parent = run(1, RunExtra { shard_total: 2, ..RunExtra::default() });
    let of_parent =
        RunExtra { parent: Some(parent.id), shard_total: 2, shard_index: 1, ..RunExtra::default() };
    let shard = run(2, of_parent);
    for new in [&parent, &shard] {
        f.store.create_run(new, None, at(2)).await.expect("a run");
    }
    let other = ended(f, &job, at(3)).await;
    let sent = f.dispatched(AttemptRef { run: shard.id, attempt: 1, fence: 0 }).await;
    f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(20)).await.expect("ended");
    prune(f, 10, 7, at(40 * DAY)).await;
    assert!(!is_there(f, other).await, "it is no shard");
    assert!(is_there(f, shard.id).await, "its parent goes on");
    let sent = f.dispatched(AttemptRef { run: parent.id, attempt: 1, fence: 0 }).await;
    f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(40 * DAY)).await.expect("ended");
    prune(f, 10, 7, at(80 * DAY)).await;
    assert!(!is_there(f, shard.id).await && !is_there(f, parent.id).await);
}
