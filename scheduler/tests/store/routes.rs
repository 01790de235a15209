//! What routes go by: counted uses, and the executor of a job's newest dispatch.

use std::sync::Arc;

use chrono::TimeDelta;
use clawjob_scheduler::{
    model::{
        executor::ExecutorSpec,
        ids::AttemptRef,
        job::Job,
        route::{RouteCursor, Use},
        run::{RunExtra, RunState},
    },
    store::ops::{Addressee, Claim, Dispatch, DispatchRow, EndRun, NewRun},
};

use super::fixture::{Fixture, at, ending, fire, retry_later, to_e1};

pub(crate) async fn later_uses_replace_the_earlier(f: &Fixture) {
    let (one, other) = (f.job("a").await, f.job("b").await);
    let mut cursor = RouteCursor::default();
    for second in [11, 12] {
        cursor.count(7, [7].into_iter(), 0);
        cursor.count(3, [3].into_iter(), 40);
        let mut batch = to_e1(f.planned(&one, at(second)).await);
        batch.uses = vec![(one.id, cursor.uses.clone().expect("counted"))];
        f.store.dispatch(&batch, at(second)).await.expect("a dispatch");
    }
    let found = f.store.load_uses(&[one.id, other.id]).await.expect("uses");
    let uses = vec![Use { row: 3, count: 42, last: 4 }, Use { row: 7, count: 2, last: 3 }];
    assert_eq!(found, [(one.id, Arc::new(uses))]);
    f.store.dispatch(&to_e1(f.planned(&one, at(13)).await), at(13)).await.expect("a dispatch");
    assert_eq!(f.store.load_uses(&[one.id]).await.expect("uses"), found, "nothing was counted");
}

pub(crate) async fn uses_that_can_t_be_read_are_counted_anew(f: &Fixture) {
    let job = f.job("a").await;
    let mut batch = to_e1(f.planned(&job, at(11)).await);
    batch.uses = vec![(job.id, Arc::new(vec![Use { row: 7, count: 1, last: 1 }]))];
    f.store.dispatch(&batch, at(11)).await.expect("a dispatch");
    f.sql("UPDATE route_cursor SET uses = '{\"odd\": 1}'").await;
    assert_eq!(f.store.load_uses(&[job.id]).await.expect("uses"), []);
}

/// Registers an executor; gives its row.
async fn registered(f: &Fixture, name: &str) -> u64 {
    let claim = Claim {
        app: f.app.id,
        name: name.to_owned(),
        spec: ExecutorSpec { slots: 4, ..ExecutorSpec::default() },
        instance_id: name.to_owned(),
        resume_hash: Vec::new(),
        fresh_resume_hash: vec![1; 32],
        principal: "tokens/t1".to_owned(),
        node: "n1".to_owned(),
        peer_address: "10.0.0.7:5000".to_owned(),
        alive_since: at(0),
        may_hold: None,
    };
    let claimed = f.store.claim_executor(&claim, at(1)).await.expect("claimed");
    claimed.executor.row.unsigned_abs()
}

/// One dispatch of some runs to executors.
async fn send(f: &Fixture, runs: &[(AttemptRef, &str)], second: i64) -> Vec<AttemptRef> {
    let row = |(attempt, name): &(AttemptRef, &str)| DispatchRow {
        attempt: *attempt,
        to: Addressee { executor: (*name).into(), session_epoch: 1 },
    };
    let batch = Dispatch { rows: runs.iter().map(row).collect(), uses: Vec::new() };
    let sent = f.store.dispatch(&batch, at(second)).await.expect("a dispatch");
    assert_eq!(sent.len(), runs.len());
    sent
}

/// A new run of the job, sent to the executor as soon as it is due.
async fn run_on(f: &Fixture, job: &Job, name: &str, second: i64) -> AttemptRef {
    send(f, &[(f.planned(job, at(second)).await, name)], second).await[0]
}

async fn end(f: &Fixture, attempt: AttemptRef, second: i64) {
    f.store.end_runs(&[ending(attempt, RunState::Succeeded)], at(second)).await.expect("ended");
}

async fn last(f: &Fixture, job: &Job) -> Option<u64> {
    let found = f.store.last_dispatches(&[job.id], at(100)).await.expect("read");
    assert!(found.iter().all(|(id, _)| *id == job.id));
    found.first().map(|(_, row)| *row)
}

pub(crate) async fn the_newest_dispatch_counts_whether_its_run_is_open_or_ended(f: &Fixture) {
    let (e1, e2) = (registered(f, "e1").await, registered(f, "e2").await);
    let (job, other) = (f.job("a").await, f.job("b").await);
    assert_eq!(last(f, &job).await, None);
    let queued = f.planned(&job, at(9)).await;
    assert_eq!(last(f, &job).await, None, "planned only");
    let first = run_on(f, &job, "e1", 10).await;
    let second = run_on(f, &job, "e2", 11).await;
    run_on(f, &other, "e1", 12).await;
    assert_eq!(last(f, &job).await, Some(e2));
    end(f, second, 13).await;
    assert_eq!(last(f, &job).await, Some(e2), "that of an open run is older");
    end(f, first, 14).await;
    assert_eq!(last(f, &job).await, Some(e2), "ends don't count");
    let late = send(f, &[(queued, "e1")], 15).await[0];
    assert_eq!(last(f, &job).await, Some(e1), "nor does the fire time");
    end(f, late, 16).await;
    let both = f.store.last_dispatches(&[job.id, other.id], at(100)).await.expect("read");
    assert_eq!(both.len(), 2);
    assert!(both.iter().all(|(_, row)| *row == e1), "{both:?}");
}

pub(crate) async fn of_one_dispatch_the_run_that_was_due_last_counts(f: &Fixture) {
    let (e1, e2) = (registered(f, "e1").await, registered(f, "e2").await);
    let job = f.job("a").await;
    let (one, two) = (f.planned(&job, at(8)).await, f.planned(&job, at(9)).await);
    let sent = send(f, &[(two, "e1"), (one, "e2")], 10).await;
    assert_eq!(last(f, &job).await, Some(e1));
    for attempt in sent {
        end(f, attempt, 11).await;
    }
    assert_eq!(last(f, &job).await, Some(e1));
    let (one, two) = (f.planned(&job, at(12)).await, f.planned(&job, at(13)).await);
    send(f, &[(two, "e2"), (one, "e1")], 14).await;
    assert_eq!(last(f, &job).await, Some(e2));
}

pub(crate) async fn a_run_that_waits_again_was_sent_as_the_attempt_before(f: &Fixture) {
    let (e1, e2) = (registered(f, "e1").await, registered(f, "e2").await);
    let job = f.job("a").await;
    let first = run_on(f, &job, "e1", 10).await;
    end(f, first, 11).await;
    let second = run_on(f, &job, "e2", 12).await;
    f.store.put_back(&[retry_later(second)], at(13)).await.expect("put back");
    assert_eq!(last(f, &job).await, Some(e2));
    let woken = f.store.wake_retries(&[second], at(60)).await.expect("woken");
    assert_eq!(last(f, &job).await, Some(e2));
    send(f, &[(woken[0], "e1")], 61).await;
    assert_eq!(last(f, &job).await, Some(e1));
}

pub(crate) async fn a_dispatch_of_a_run_that_named_its_executor_does_not_count(f: &Fixture) {
    let e1 = registered(f, "e1").await;
    registered(f, "e2").await;
    let job = f.job("a").await;
    let first = run_on(f, &job, "e1", 10).await;
    let extra = RunExtra { target_executor: "e2".to_owned(), ..RunExtra::default() };
    let named = NewRun { extra: Some(Box::new(extra)), ..fire(&job, at(11)) };
    let plan = f.plan_of(std::slice::from_ref(&named)).await;
    f.store.plan(&plan, at(0)).await.expect("planned");
    let named = AttemptRef { run: named.id, attempt: 1, fence: 0 };
    let named = send(f, &[(named, "e2")], 12).await[0];
    assert_eq!(last(f, &job).await, Some(e1));
    end(f, named, 13).await;
    end(f, first, 14).await;
    assert_eq!(last(f, &job).await, Some(e1));
}

pub(crate) async fn an_executor_that_is_forgotten_leaves_it_to_the_one_before(f: &Fixture) {
    let e1 = registered(f, "e1").await;
    registered(f, "e2").await;
    let job = f.job("a").await;
    for (name, second) in [("e1", 10), ("e2", 11)] {
        let sent = run_on(f, &job, name, second).await;
        end(f, sent, second).await;
    }
    f.sql("DELETE FROM executor WHERE name = 'e2'").await;
    assert_eq!(last(f, &job).await, Some(e1));
    f.sql("DELETE FROM executor WHERE name = 'e1'").await;
    assert_eq!(last(f, &job).await, None);
}

pub(crate) async fn a_dispatch_is_found_behind_runs_that_were_never_sent_and_after_weeks(
    f: &Fixture,
) {
    let e1 = registered(f, "e1").await;
    let job = f.job("a").await;
    let sent = run_on(f, &job, "e1", 10).await;
    end(f, sent, 11).await;
    let weeks = at(11) + TimeDelta::weeks(5);
    let found = f.store.last_dispatches(&[job.id], weeks).await.expect("read");
    assert_eq!(found, [(job.id, e1)]);
    for second in 20..40 {
        let skip = EndRun::skip(f.planned(&job, at(second)).await, "no room".to_owned());
        f.store.end_runs(&[skip], at(second)).await.expect("skipped");
    }
    let found = f.store.last_dispatches(&[job.id], weeks).await.expect("read");
    assert_eq!(found, [(job.id, e1)]);
}
