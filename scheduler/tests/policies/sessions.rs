//! Executors that fall silent, die, come back, or are removed.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1::{
    Heartbeat, LogChunk, LogRecord, Outcome, RunCommand, RunResult, session_request::Frame as Up,
};
use clawjob_scheduler::{
    clock::Clock as _,
    hub::{Contact, live::LiveState, wire},
    model::{
        ids::{AttemptRef, RunId},
        job::{JobSpec, LostPolicy, OverlapPolicy},
        log::LogLevel,
        retry::RetryPolicy,
        run::{RunExtra, RunState},
    },
    store::{
        StoreError,
        ops::{JobChange, LogQuery, Retention},
    },
};

use crate::world::{Act, Worker, World, at, cron};

/// A world that has been up for so long that no grace of its start is in force any more.
async fn settled_world() -> World {
    let mut world = World::new(at("2026-03-02T10:00:00Z")).await;
    world.pass(TimeDelta::minutes(2)).await;
    world
}

fn each_minute() -> JobSpec {
    JobSpec { schedules: vec![cron("* * * * *", "UTC")], ..JobSpec::default() }
}

/// When the executor was heard last.
fn heard(world: &World, name: &str) -> DateTime<Utc> {
    world.hub.snapshot(world.app.id, name).expect("connected").heard_at
}

fn state(world: &World, name: &str) -> Option<LiveState> {
    world.hub.snapshot(world.app.id, name).map(|live| live.state)
}

fn worker<'a>(world: &'a mut World, name: &str) -> &'a mut Worker {
    world.workers.iter_mut().find(|worker| worker.name == name).expect("it is there")
}

/// The attempt that the run is at.
async fn attempt(world: &World, run: RunId) -> AttemptRef {
    let open = world.store.open_runs(&[run]).await.expect("reads");
    open.first().expect("open").attempt_ref()
}

#[tokio::test]
async fn r34_a_cut_network_is_seen_in_7_s_and_its_run_is_sent_again_after_lost_after_only() {
    let mut world = settled_world().await;
    world.worker("cut", 4, Box::new(|_, _| Act::Forever)).await;
    let job = world.job("job", JobSpec::default()).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(20)).await;
    world.steady("other", 4, TimeDelta::seconds(1)).await;
    assert_eq!(state(&world, "cut"), Some(LiveState::Online));
    // Nothing of it arrives any more, and no end of the connection either.
    let last = heard(&world, "cut");
    worker(&mut world, "cut").gone = true;
    world.run_until(last + TimeDelta::seconds(7)).await;
    world.hub.tick(world.now(), world.clock.elapsed());
    assert_eq!(state(&world, "cut"), Some(LiveState::Suspect));
    world.run_until(last + TimeDelta::seconds(59)).await;
    assert_eq!(world.hub.contact(world.app.id, "cut"), Contact::Since(last));
    assert_eq!(world.run(run).await.run.state, RunState::Running);
    assert_eq!(world.ledger[&run].len(), 1, "it is not sent again before lost_after");
    world.run_until(last + TimeDelta::seconds(70)).await;
    let executions = &world.ledger[&run];
    let places: Vec<_> = executions.iter().map(|e| (&*e.executor, e.attempt)).collect();
    assert_eq!(places, [("cut", 1), ("other", 2)]);
    assert!(executions[1].at >= last + TimeDelta::seconds(60), "{:?}", executions[1].at);
    let record = world.run(run).await.run;
    assert_eq!((record.state, record.lost), (RunState::Succeeded, 1));
}

#[tokio::test]
async fn r46_the_run_of_a_dead_executor_is_lost_and_the_next_tick_runs() {
    let mut world = settled_world().await;
    let spec =
        JobSpec { overlap: OverlapPolicy::Skip, lost_policy: LostPolicy::Fail, ..each_minute() };
    let job = world.job("job", spec).await;
    world.worker("dies", 4, Box::new(|_, _| Act::Forever)).await;
    world.run_until(at("2026-03-02T10:03:30Z")).await;
    world.lose("dies");
    world.steady("other", 4, TimeDelta::seconds(1)).await;
    world.run_until(at("2026-03-02T10:06:30Z")).await;
    let runs = world.runs_of(&job).await;
    let states: Vec<_> = runs.iter().map(|run| run.run.state).collect();
    use RunState::{Lost, Skipped, Succeeded};
    // Taken at 10:03, dead at 10:03:30, given up at 10:04:30.
    assert_eq!(states, [Lost, Skipped, Succeeded, Succeeded]);
    let failure = world.run(runs[0].run.id).await.failure.expect("a reason");
    assert_eq!(failure.code, "EXECUTOR_LOST");
    assert!(world.board.runs_on(job.app, &"dies".into()).is_empty());
}

#[tokio::test]
async fn the_runs_of_a_deleted_job_go_on_after_a_restart_as_those_of_any_other() {
    let mut world = settled_world().await;
    let spec = JobSpec { lost_policy: LostPolicy::Fail, ..JobSpec::default() };
    let dies = world.job("dies", spec).await;
    let retry = RetryPolicy {
        max_attempts: 2,
        initial_backoff: Duration::from_secs(120),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let fails = world.job("fails", JobSpec { retry, ..JobSpec::default() }).await;
    let script = |command: &RunCommand, _| match command.job.ends_with("/fails") {
        true => Act::fail(TimeDelta::seconds(1), "NO_LUCK"),
        false => Act::Forever,
    };
    world.worker("one", 4, Box::new(script)).await;
    let (lost, failed) = (
        world.trigger(&dies, RunExtra::default()).await,
        world.trigger(&fails, RunExtra::default()).await,
    );
    world.pass(TimeDelta::seconds(10)).await;
    for job in [&dies, &fails] {
        let delete = JobChange { delete: true, drop_due: true, ..JobChange::by("test") };
        let none = Box::new(|_: &_| Vec::new());
        world.store.change_job(job.id, &delete, none, world.now()).await.expect("deleted");
    }
    world.restart();
    world.steady("other", 4, TimeDelta::seconds(1)).await;
    world.pass(TimeDelta::seconds(180)).await;
    assert_eq!(world.run(lost).await.run.state, RunState::Lost);
    assert_eq!(world.run(failed).await.run.state, RunState::Succeeded);
}

#[tokio::test]
async fn r47_a_deaf_handler_ends_at_its_limit_and_the_executor_shows_that_it_runs_on() {
    let mut world = settled_world().await;
    world.worker("deaf", 4, Box::new(|_, _| Act::Deaf)).await;
    let (timeout, grace) = (Duration::from_secs(60), Duration::from_secs(10));
    let spec = JobSpec { timeout: Some(timeout), kill_grace: Some(grace), ..JobSpec::default() };
    let job = world.job("job", spec).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.settle().await;
    let begun = world.now();
    world.pass(TimeDelta::seconds(90)).await;
    let record = world.run(run).await;
    assert_eq!(record.run.state, RunState::TimedOut);
    let took = record.ended_at.expect("ended") - begun - TimeDelta::seconds(70);
    assert!(took.abs() <= TimeDelta::seconds(1), "{took}");
    assert_eq!(world.ledger[&run][0].ended, None, "it still runs over there");
    // The executor gives it up too, and counts it until it ends.
    let attempt = record.run.attempt_ref();
    let canceled = RunResult { outcome: Outcome::Canceled.into(), ..RunResult::default() };
    let abandoned = Heartbeat { abandoned_handlers: 1, free_slots: 3, ..Heartbeat::default() };
    let executor = &mut worker(&mut world, "deaf").executor;
    executor.finish(attempt, canceled);
    executor.send(Up::Heartbeat(abandoned));
    world.settle().await;
    assert_eq!(world.run(run).await.run.state, RunState::TimedOut);
    let live = world.hub.snapshot(world.app.id, "deaf").expect("connected");
    assert_eq!((live.vitals.abandoned, live.free_slots), (1, 3));
}

#[tokio::test]
async fn r54_the_run_of_a_restarted_host_is_settled_and_the_next_tick_is_not_doubled() {
    let mut world = settled_world().await;
    let job = world.job("job", each_minute()).await;
    world.steady("host", 4, TimeDelta::seconds(20)).await;
    world.run_until(at("2026-03-02T10:03:10Z")).await;
    world.replace("host", Box::new(|_, _| Act::succeed(TimeDelta::seconds(5)))).await;
    world.run_until(at("2026-03-02T10:06:30Z")).await;
    let runs = world.runs_of(&job).await;
    let fires: Vec<_> = runs.iter().map(|run| run.run.fire_at).collect();
    let minutes = ["10:03", "10:04", "10:05", "10:06"];
    assert_eq!(fires, minutes.map(|minute| at(&format!("2026-03-02T{minute}:00Z"))));
    let ends: Vec<_> = runs.iter().map(|r| (r.run.state, r.run.attempt, r.run.lost)).collect();
    let plain = (RunState::Succeeded, 1, 0);
    assert_eq!(ends, [(RunState::Succeeded, 2, 1), plain, plain, plain]);
    let executions: Vec<_> = runs.iter().map(|run| world.ledger[&run.run.id].len()).collect();
    assert_eq!(executions, [2, 1, 1, 1]);
    // Settled at once: nobody waited for the host to be out of contact for long.
    let again = world.ledger[&runs[0].run.id][1].at;
    assert!(again < at("2026-03-02T10:03:20Z"), "{again}");
}

#[tokio::test]
async fn x28_an_executor_that_was_removed_does_not_come_back_by_a_late_heartbeat() {
    let mut world = settled_world().await;
    world.steady("gone", 4, TimeDelta::seconds(1)).await;
    world.pass(TimeDelta::seconds(10)).await;
    let origin = worker(&mut world, "gone").executor.link().origin().clone();
    worker(&mut world, "gone").executor.goodbye();
    let now = world.now();
    let ended = world.store.end_session(origin.row, origin.epoch, true, now).await;
    ended.expect("written");
    world.store.delete_executor(origin.app, "gone").await.expect("forgotten");
    worker(&mut world, "gone").executor.heartbeat();
    world.hub.touch(&world.store, now).await;
    world.pass(TimeDelta::seconds(30)).await;
    worker(&mut world, "gone").executor.heartbeat();
    world
        .store
        .touch_executors(&[(origin.row, origin.epoch)], world.now())
        .await
        .expect("no error");
    let row = world.store.get_executor(origin.app, "gone").await;
    assert!(matches!(row, Err(StoreError::NotFound(_))), "{row:?}");
    assert_eq!((world.hub.sessions(), state(&world, "gone")), (0, None));
    let job = world.job("job", JobSpec::default()).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(30)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Queued);
}

#[tokio::test]
async fn x47_the_log_of_a_run_outlives_its_executor_for_its_retention() {
    let mut world = settled_world().await;
    world.steady("pod", 4, TimeDelta::seconds(5)).await;
    let job = world.job("job", JobSpec::default()).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.settle().await;
    let records = ["one", "two"]
        .map(|message| LogRecord { message: message.to_owned(), ..LogRecord::default() });
    let chunk = LogChunk {
        r#ref: Some(wire::to_ref(attempt(&world, run).await)),
        first_seq: 1,
        records: records.to_vec(),
        dropped: 0,
    };
    worker(&mut world, "pod").executor.send(Up::LogChunk(chunk));
    world.pass(TimeDelta::seconds(10)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Succeeded);
    let origin = worker(&mut world, "pod").executor.link().origin().clone();
    worker(&mut world, "pod").executor.goodbye();
    let ended = world.now();
    world.store.end_session(origin.row, origin.epoch, true, ended).await.expect("written");
    world.store.delete_executor(origin.app, "pod").await.expect("forgotten");
    let days = |days: u64| Duration::from_secs(days * 24 * 3600);
    let keep = Retention { runs: days(30), logs: days(7) };
    for (age, kept) in [(6, 2), (8, 0)] {
        while world.store.prune(&keep, ended + TimeDelta::days(age)).await.expect("prunes") {}
        let query = LogQuery {
            run,
            attempt: 0,
            after_seq: 0,
            min_level: LogLevel::Trace,
            contains: String::new(),
            limit: 10,
        };
        let page = world.store.list_logs(&query).await.expect("the run is still there");
        assert_eq!(page.records.len(), kept, "after {age} days");
    }
}

#[tokio::test]
async fn f4_nobody_is_lost_while_executors_wait_to_be_admitted() {
    let mut world = settled_world().await;
    world.worker("far", 4, Box::new(|_, _| Act::Forever)).await;
    let job = world.job("job", JobSpec::default()).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    world.restart();
    // A crowd comes back, and this executor is turned away with it.
    for _ in 0..20 {
        while world.hub.admit().is_ok() {}
        world.pass(TimeDelta::seconds(5)).await;
    }
    assert_eq!(world.run(run).await.run.state, RunState::Running, "100 s after the start");
    world.pass(TimeDelta::seconds(40)).await;
    let record = world.run(run).await.run;
    assert_eq!((record.state, record.lost), (RunState::Queued, 1));
}
