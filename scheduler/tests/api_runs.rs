//! RunService over a SQLite store.

#[path = "support/api.rs"]
mod support;

use std::{collections::BTreeMap, time::Duration};

use clawjob_proto::v1::{
    self as pb, job_service_server::JobService as _, run_service_server::RunService as _,
    watch_runs_response::Type,
};
use clawjob_scheduler::{
    clock::Clock as _,
    model::{
        ids::{PARTITION_COUNT, PartitionId},
        log::{LogLevel, LogRecord},
        run::{NewRun, TriggerKind},
    },
    store::ops::{Advance, LogAppend, Plan, Retention},
};
use futures::StreamExt as _;
use support::*;
use tonic::Code;

/// So long is real time waited for; then the clock is moved a little.
const PATIENCE: Duration = Duration::from_millis(500);

async fn get(world: &World, name: &str) -> pb::Run {
    let request = pb::GetRunRequest { name: name.to_owned(), view: 0 };
    world.runs.get_run(admin(request)).await.expect("reads").into_inner()
}

async fn cancel(world: &World, name: &str) -> Result<pb::Run, tonic::Status> {
    let request = pb::CancelRunRequest {
        name: name.to_owned(),
        reason: "enough".to_owned(),
        ..Default::default()
    };
    world.runs.cancel_run(admin(request)).await.map(tonic::Response::into_inner)
}

/// A watch of app `a`.
struct Watch(clawjob_scheduler::api::streams::EventStream<pb::WatchRunsResponse>);

impl Watch {
    async fn start(world: &World, filter: &str, resume_token: &str) -> Self {
        let request = pb::WatchRunsRequest {
            parent: "apps/a".to_owned(),
            filter: filter.to_owned(),
            resume_token: resume_token.to_owned(),
            ..Default::default()
        };
        Self(world.runs.watch_runs(admin(request)).await.expect("starts").into_inner())
    }

    async fn next(&mut self) -> pb::WatchRunsResponse {
        soon(self.0.next()).await.expect("goes on").expect("no error")
    }

    /// The first event about the run in the state.
    async fn until(&mut self, run: &str, state: pb::RunState) -> pb::WatchRunsResponse {
        loop {
            let event = self.next().await;
            let run_shown = event.run.as_ref().filter(|shown| shown.name == run);
            if run_shown.is_some_and(|shown| shown.state() == state) {
                return event;
            }
        }
    }

    /// The first event of the kind.
    async fn until_kind(&mut self, kind: Type) -> pb::WatchRunsResponse {
        loop {
            let event = self.next().await;
            if event.r#type() == kind {
                return event;
            }
        }
    }
}

#[tokio::test]
async fn a_run_is_shown_in_full_and_its_list_entry_in_brief() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let params = pb::Payload { content_type: String::new(), data: "{\"n\":1}".into() };
    let job = world.create("a", "j", pb::Job { params: Some(params), ..hello() }).await;
    let run = world.trigger(&job.name).await;
    let attempt = world.start(&run).await;
    let full = get(&world, &run.name).await;
    assert_eq!((full.state(), full.trigger()), (pb::RunState::Running, pb::run::Trigger::Api));
    assert_eq!(full.executor, "apps/a/executors/host-1");
    assert_eq!(full.triggered_by, "tokens/t1");
    assert_eq!(full.params.expect("its job's").data.as_ref(), b"{\"n\":1}");
    assert_eq!(full.attempts.len(), 1);
    assert_eq!(full.end_time, None);
    world.succeed(attempt).await;
    let list = pb::ListRunsRequest { parent: "apps/a".to_owned(), ..Default::default() };
    let runs = world.runs.list_runs(admin(list)).await.expect("lists").into_inner().runs;
    assert_eq!(runs[0].state(), pb::RunState::Succeeded);
    assert!(runs[0].params.is_none() && runs[0].attempts.is_empty());

    let foreign = pb::GetRunRequest { name: run.name.replace("apps/a/", "apps/b/"), view: 0 };
    let status = world.runs.get_run(admin(foreign)).await.expect_err("another app's");
    assert_eq!(why(&status), (Code::NotFound, "RUN_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn r63_the_runs_of_a_job_are_not_those_of_one_whose_name_begins_alike() {
    let world = World::new().await;
    for id in ["reindex", "reindex_all"] {
        let job = world.create("a", id, hello()).await;
        world.trigger(&job.name).await;
    }
    let list = |filter: &str| pb::ListRunsRequest {
        parent: "apps/a".to_owned(),
        filter: filter.to_owned(),
        ..Default::default()
    };
    let one = list("job = apps/a/jobs/reindex");
    let runs = world.runs.list_runs(admin(one)).await.expect("lists").into_inner().runs;
    assert_eq!(
        runs.iter().map(|run| run.job.as_str()).collect::<Vec<_>>(),
        ["apps/a/jobs/reindex"]
    );
    let none = list("job = apps/a/jobs/rein");
    let runs = world.runs.list_runs(admin(none)).await.expect("lists").into_inner().runs;
    assert!(runs.is_empty());
}

#[tokio::test]
async fn a_waiting_run_is_canceled_at_once_and_for_good() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let canceled = cancel(&world, &run.name).await.expect("cancels");
    assert_eq!(canceled.state(), pb::RunState::Canceled);
    assert!(canceled.state_message.contains("enough"), "{}", canceled.state_message);
    let again = cancel(&world, &run.name).await.expect("no error");
    assert_eq!(again, canceled);
}

#[tokio::test]
async fn the_owner_hears_of_a_waiting_run_that_was_canceled() {
    let world = World::new().await;
    world.own(Duration::from_secs(60)).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
    world.store.take_inbox(&all).await.expect("the run that was made");
    cancel(&world, &run.name).await.expect("canceled");
    assert_eq!(world.store.take_inbox(&all).await.expect("its end").ids, [run_id(&run)]);
}

#[tokio::test]
async fn a_running_run_is_asked_to_stop_and_one_that_ended_stays_as_it_is() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let attempt = world.start(&run).await;
    let canceling = cancel(&world, &run.name).await.expect("cancels");
    assert_eq!(canceling.state(), pb::RunState::Canceling);
    assert_eq!(canceling.kill_reason(), pb::KillReason::User);
    let again = cancel(&world, &run.name).await.expect("no error");
    assert_eq!(again.state(), pb::RunState::Canceling);
    world.succeed(attempt).await;
    let ended = cancel(&world, &run.name).await.expect("no error");
    assert_eq!(ended.state(), pb::RunState::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancels_that_race_with_the_start_of_the_run_all_have_an_answer() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let calls = (0..10).map(|_| {
        let (runs, name) = (world.runs.clone(), run.name.clone());
        tokio::spawn(async move {
            let request = pb::CancelRunRequest { name, ..Default::default() };
            runs.cancel_run(admin(request)).await
        })
    });
    for call in futures::future::join_all(calls).await {
        let state = call.expect("no panic").expect("an answer").into_inner().state();
        assert_eq!(state, pb::RunState::Canceled);
    }
}

#[tokio::test]
async fn r28_a_canceled_planned_run_is_not_planned_again() {
    let world = World::new().await;
    world.own(Duration::from_secs(30)).await;
    let job = world.create("a", "j", every(20)).await;
    let planned = || pb::ListRunsRequest {
        parent: "apps/a".to_owned(),
        filter: "state = SCHEDULED".to_owned(),
        ..Default::default()
    };
    let runs = world.runs.list_runs(admin(planned())).await.expect("lists").into_inner().runs;
    assert_eq!(runs.len(), 1);
    cancel(&world, &runs[0].name).await.expect("cancels");
    let stored = world.store.get_job("a", "j").await.expect("reads");
    let row = world.store.check_partitions(&[stored.partition]).await.expect("held")[0];
    let again = NewRun {
        id: run_id(&runs[0]),
        job: stored.id,
        app: stored.app,
        revision: 1,
        trigger: TriggerKind::Schedule,
        fire_at: world.now() + Duration::from_secs(20),
        due_at: world.now() + Duration::from_secs(20),
        extra: None,
    };
    let advance = Advance {
        partition: row.id,
        epoch: row.epoch,
        jobs_version: row.jobs_version,
        planned_until: row.planned_until,
        served_until: row.served_until,
    };
    let plan = Plan { advances: vec![advance], runs: vec![again.into()], ..Plan::default() };
    let planned_again = world.store.plan(&plan, world.now()).await.expect("plans");
    assert!(planned_again.inserted.is_empty());
    let patch = pb::Job { name: job.name, owner: "me".to_owned(), ..Default::default() };
    let request = pb::UpdateJobRequest { job: Some(patch), ..Default::default() };
    world.jobs.update_job(admin(request)).await.expect("an edit plans anew");
    assert_eq!(get(&world, &runs[0].name).await.state(), pb::RunState::Canceled);
    let left = world.runs.list_runs(admin(planned())).await.expect("lists").into_inner().runs;
    assert!(left.is_empty());
}

#[tokio::test]
async fn a_rerun_keeps_fire_time_and_params_of_the_ended_run() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let params = |n: u32| pb::Payload {
        content_type: "application/json".to_owned(),
        data: format!("{{\"n\":{n}}}").into(),
    };
    let job = world.create("a", "j", pb::Job { params: Some(params(1)), ..hello() }).await;
    let run = world.trigger(&job.name).await;
    let request = |id: &str| pb::RerunRunRequest {
        name: run.name.clone(),
        request_id: id.to_owned(),
        ..Default::default()
    };
    let status = world.runs.rerun_run(admin(request("r"))).await.expect_err("goes on");
    assert_eq!(why(&status), (Code::FailedPrecondition, "RUN_NOT_ENDED".to_owned()));
    let attempt = world.start(&run).await;
    world.succeed(attempt).await;
    let patch = pb::Job { name: job.name, params: Some(params(2)), ..Default::default() };
    let update = pb::UpdateJobRequest { job: Some(patch), ..Default::default() };
    world.jobs.update_job(admin(update)).await.expect("changes");
    world.clock.advance(Duration::from_secs(3600));
    let again = world.runs.rerun_run(admin(request("r"))).await.expect("reruns").into_inner();
    assert_eq!(again.rerun_of, run.name);
    assert_eq!((again.fire_time, again.job_revision), (run.fire_time, 2));
    assert_eq!(again.params, Some(params(1)));
    assert_eq!(again.trigger(), pb::run::Trigger::Rerun);
    let same = world.runs.rerun_run(admin(request("r"))).await.expect("the same").into_inner();
    assert_eq!(same.name, again.name);
}

#[tokio::test]
async fn a_wait_ends_with_the_run_or_with_its_time() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let attempt = world.start(&run).await;
    let wait = |seconds: i64| {
        let request = pb::WaitRunRequest {
            name: run.name.clone(),
            timeout: Some(prost_types::Duration { seconds, nanos: 0 }),
        };
        let runs = world.runs.clone();
        async move { runs.wait_run(admin(request)).await.expect("waits").into_inner() }
    };
    assert_eq!(soon(wait(0)).await.state(), pb::RunState::Running);
    let mut waiting = tokio::spawn(wait(60));
    // Its first look may come before or after the end: both give the answer.
    tokio::task::yield_now().await;
    world.succeed(attempt).await;
    // The feed may have begun after the end: then the sweep finds it.
    let ended = soon(async {
        loop {
            match tokio::time::timeout(PATIENCE, &mut waiting).await {
                Ok(ended) => return ended,
                Err(_) => world.clock.advance(Duration::from_secs(1)),
            }
        }
    });
    assert_eq!(ended.await.expect("no panic").state(), pb::RunState::Succeeded);
}

#[tokio::test]
async fn a_watch_begins_with_what_is_and_goes_on_where_it_was_left() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let other = world.create("b", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    world.trigger(&other.name).await;

    let mut watch = Watch::start(&world, "", "").await;
    let first = watch.next().await;
    assert_eq!((first.r#type(), first.run.expect("a run").name), (Type::Current, run.name.clone()));
    let mark = watch.next().await;
    assert_eq!(mark.r#type(), Type::Bookmark, "nothing of the other app comes before it");

    let attempt = world.start(&run).await;
    let changed = watch.until(&run.name, pb::RunState::Running).await;
    assert_eq!(changed.r#type(), Type::Changed);
    drop(watch);
    world.succeed(attempt).await;
    let mut watch = Watch::start(&world, "", &changed.resume_token).await;
    let event = watch.until(&run.name, pb::RunState::Succeeded).await;
    assert_eq!(event.r#type(), Type::Changed, "no full list comes again");

    let foreign = pb::WatchRunsRequest {
        parent: "apps/b".to_owned(),
        resume_token: changed.resume_token,
        ..Default::default()
    };
    let status = world.runs.watch_runs(admin(foreign)).await.expect_err("of another watch");
    assert_eq!(fields(&status), ["resume_token"]);
}

#[tokio::test]
async fn a_quiet_watch_has_bookmarks_and_ends_after_half_an_hour() {
    let world = World::new().await;
    world.create("a", "j", hello()).await;
    let mut watch = Watch::start(&world, "", "").await;
    assert_eq!(watch.next().await.r#type(), Type::Bookmark, "behind the present state");
    let mut bookmarks = 0;
    let ended = loop {
        world.clock.advance(Duration::from_secs(15));
        match said(&world, &mut watch.0).await {
            Some(event) => assert_eq!(event.expect("no error").r#type(), Type::Bookmark),
            None => break world.clock.elapsed(),
        }
        bookmarks += 1;
    };
    assert!(ended >= Duration::from_secs(1800), "{ended:?}");
    assert!((100..=120).contains(&bookmarks), "{bookmarks}");
}

#[tokio::test]
async fn a_run_that_leaves_the_filter_is_told_as_deleted() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let mut watch = Watch::start(&world, "state = QUEUED", "").await;
    watch.until(&run.name, pb::RunState::Queued).await;
    world.start(&run).await;
    let gone = watch.until_kind(Type::Deleted).await;
    assert_eq!(gone.run.expect("names it").name, run.name);
}

#[tokio::test]
async fn a_planned_run_is_left_out_of_a_watch_until_it_is_sent() {
    let world = World::new().await;
    world.own(Duration::from_secs(30)).await;
    world.create("a", "j", every(20)).await;
    let list = pb::ListRunsRequest {
        parent: "apps/a".to_owned(),
        filter: "state = SCHEDULED".to_owned(),
        ..Default::default()
    };
    let runs = world.runs.list_runs(admin(list)).await.expect("lists").into_inner().runs;
    let mut watch = Watch::start(&world, "", "").await;
    assert_eq!(watch.next().await.r#type(), Type::Bookmark, "no planned run comes before it");
    world.clock.advance(Duration::from_secs(20));
    world.start(&runs[0]).await;
    watch.until(&runs[0].name, pb::RunState::Running).await;
}

#[tokio::test]
async fn a_token_that_is_too_old_resets_the_watch() {
    let world = World::new().await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let token = {
        let mut watch = Watch::start(&world, "", "").await;
        watch.until_kind(Type::Bookmark).await.resume_token
    };
    world.trigger(&job.name).await;
    world.clock.advance(Duration::from_secs(2 * 3600));
    let day = Duration::from_secs(86_400);
    let keep = Retention { runs: 30 * day, logs: 7 * day };
    while world.store.prune(&keep, world.now()).await.expect("prunes") {}
    let mut watch = Watch::start(&world, "", &token).await;
    assert_eq!(watch.next().await.r#type(), Type::Reset);
    watch.until(&run.name, pb::RunState::Queued).await;
}

fn records(seqs: std::ops::RangeInclusive<u64>) -> Vec<LogRecord> {
    seqs.map(|seq| LogRecord {
        seq,
        time: chrono::DateTime::UNIX_EPOCH,
        level: if seq % 2 == 0 { LogLevel::Info } else { LogLevel::Debug },
        message: format!("line {seq}"),
        fields: BTreeMap::new(),
    })
    .collect()
}

#[tokio::test]
async fn a_log_is_paged_and_tailed_to_its_end() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let attempt = world.start(&run).await;
    let append = |seqs| LogAppend { attempt, records: records(seqs), dropped: 0 };
    world.store.append_logs(&[append(1..=5)], world.now()).await.expect("appends");

    let tail = pb::TailRunLogsRequest { name: run.name.clone(), ..Default::default() };
    let mut tail = world.runs.tail_run_logs(admin(tail)).await.expect("tails").into_inner();
    let first = said(&world, &mut tail).await.expect("goes on").expect("no error");
    assert_eq!((first.records.len(), first.through_seq, first.complete), (5, 5, false));
    world.store.append_logs(&[append(6..=7)], world.now()).await.expect("appends");
    let second = said(&world, &mut tail).await.expect("goes on").expect("no error");
    assert_eq!(second.records.iter().map(|r| r.seq).collect::<Vec<_>>(), [6, 7]);
    world.succeed(attempt).await;
    let last = said(&world, &mut tail).await.expect("goes on").expect("no error");
    assert!(last.complete);
    assert!(said(&world, &mut tail).await.is_none());

    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = pb::ListRunLogsRequest {
            name: run.name.clone(),
            page_size: 2,
            page_token: token,
            min_level: pb::LogLevel::Info as i32,
            ..Default::default()
        };
        let page = world.runs.list_run_logs(admin(page)).await.expect("lists").into_inner();
        seen.extend(page.records.into_iter().map(|record| record.seq));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, [2, 4, 6]);
}

#[tokio::test]
async fn runs_of_a_deleted_job_are_found_by_its_name_and_so_are_those_of_the_next_one() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let first = world.trigger(&job.name).await;
    let attempt = world.start(&first).await;
    world.succeed(attempt).await;
    let request = pb::DeleteJobRequest { name: job.name.clone(), ..Default::default() };
    world.jobs.delete_job(admin(request)).await.expect("deleted");
    let list = async || {
        let request = pb::ListRunsRequest {
            parent: "apps/-".to_owned(),
            filter: "job = \"apps/a/jobs/j\"".to_owned(),
            ..Default::default()
        };
        let page = world.runs.list_runs(admin(request)).await.expect("lists").into_inner();
        page.runs.into_iter().map(|run| run.name).collect::<Vec<_>>()
    };
    assert_eq!(list().await, std::slice::from_ref(&first.name));
    world.clock.advance(Duration::from_secs(1));
    let next = world.create("a", "j", hello()).await;
    let second = world.trigger(&next.name).await;
    assert_eq!(list().await, [second.name, first.name]);
}

#[tokio::test]
async fn r69_a_watch_and_a_tail_end_within_a_minute_of_their_token_s_end() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    world.start(&run).await;
    let mut watch = Watch::start(&world, "", "").await;
    let tail = pb::TailRunLogsRequest { name: run.name.clone(), ..Default::default() };
    let mut tail = world.runs.tail_run_logs(admin(tail)).await.expect("tails").into_inner();
    watch.until_kind(Type::Bookmark).await;
    let refused =
        |status: tonic::Status| why(&status) == (Code::Unauthenticated, "TOKEN_REVOKED".into());
    // Each says something every 15 s, so none of their steps is missed while the clock moves on.
    let (mut watched, mut tailed, mut revoked_at) = (None, None, None);
    while watched.is_none() || tailed.is_none() {
        world.clock.advance(Duration::from_secs(15));
        if watched.is_none()
            && let Some(Err(end)) = said(&world, &mut watch.0).await
        {
            assert!(refused(end));
            watched = Some(world.clock.elapsed());
        }
        if tailed.is_none()
            && let Some(Err(end)) = said(&world, &mut tail).await
        {
            assert!(refused(end));
            tailed = Some(world.clock.elapsed());
        }
        // Both have asked once: the token is remembered as a good one.
        if revoked_at.is_none() {
            world.store.revoke_token("t1", world.now()).await.expect("revoked");
            revoked_at = Some(world.clock.elapsed());
        }
    }
    for end in [watched, tailed] {
        let after = end.expect("it ended") - revoked_at.expect("it was revoked");
        assert!(after <= Duration::from_secs(60), "{after:?}");
    }
}

/// The next word of a stream, or its end. One that began to wait just after the clock moved is helped on.
async fn said<T>(
    world: &World,
    stream: &mut clawjob_scheduler::api::streams::EventStream<T>,
) -> Option<Result<T, tonic::Status>> {
    soon(async {
        loop {
            match tokio::time::timeout(PATIENCE, stream.next()).await {
                Ok(next) => return next,
                Err(_) => world.clock.advance(Duration::from_secs(1)),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_planned_run_that_vanishes_is_told_to_who_watches_planned_ones_by_its_name() {
    let world = World::new().await;
    world.own(Duration::from_secs(30)).await;
    let job = world.create("a", "j", every(20)).await;
    let mut watch = Watch::start(&world, "state = SCHEDULED", "").await;
    let planned = watch.until_kind(Type::Current).await.run.expect("a run").name;
    let request = pb::DeleteJobRequest { name: job.name, ..Default::default() };
    world.jobs.delete_job(admin(request)).await.expect("deleted");
    let gone = watch.until_kind(Type::Deleted).await;
    assert_eq!(gone.run.expect("it is named").name, planned);
}
