//! Every timeout ends its run at its limit, whatever the executor does.

use std::time::Duration;

use chrono::TimeDelta;
use clawjob_proto::v1::{Heartbeat, RunResult, session_request::Frame as Up};
use clawjob_scheduler::{
    model::{
        ids::RunId,
        job::{JobSpec, OverlapPolicy},
        retry::RetryPolicy,
        run::{KillReason, RunExtra, RunState},
    },
    store::ops::{MarkCanceling, StateSet},
};

use crate::world::{Act, World, at};

const SECOND: TimeDelta = TimeDelta::seconds(1);

async fn world() -> World {
    World::new(at("2026-06-10T12:00:00Z")).await
}

fn limited(timeout: u64, grace: u64) -> JobSpec {
    JobSpec {
        timeout: Some(Duration::from_secs(timeout)),
        kill_grace: Some(Duration::from_secs(grace)),
        ..JobSpec::default()
    }
}

/// Seconds from the run's fire time to its end.
async fn lasted(world: &World, run: RunId) -> f64 {
    let run = world.run(run).await;
    let ended = run.ended_at.expect("it has ended");
    (ended - run.run.fire_at).num_milliseconds() as f64 / 1_000.0
}

#[tokio::test]
async fn x25_r47_a_handler_that_ignores_its_kill_is_timed_out_at_the_limit() {
    let mut world = world().await;
    let job = world.job("deaf", limited(30, 5)).await;
    world.worker("one", 2, Box::new(|_, _| Act::Deaf)).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(33)).await;
    let stopping = world.run(run).await.run;
    assert_eq!(stopping.state, RunState::Canceling);
    assert_eq!(stopping.kill_reason, Some(KillReason::Timeout));
    world.pass(TimeDelta::seconds(10)).await;
    let ended = world.run(run).await;
    assert_eq!(ended.run.state, RunState::TimedOut);
    assert_eq!(ended.failure.as_ref().map(|failure| failure.code.as_str()), Some("TIMEOUT"));
    let lasted = lasted(&world, run).await;
    assert!((34.0..=36.0).contains(&lasted), "{lasted} s");
    // The job is free for its next run at once.
    let next = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    assert_eq!(world.run(next).await.run.state, RunState::Running);
    // Its executor tells of the handlers that it could not stop.
    let heartbeat = Heartbeat { abandoned_handlers: 1, free_slots: 1, ..Heartbeat::default() };
    world.workers[0].executor.send(Up::Heartbeat(heartbeat));
    let live = world.hub.snapshot(world.app.id, "one").expect("it is connected");
    assert_eq!(live.vitals.abandoned, 1);
}

#[tokio::test]
async fn x25_a_timeout_holds_when_the_executor_hangs_or_is_gone() {
    for breaks in [false, true] {
        let mut world = world().await;
        let job = world.job("hung", limited(40, 5)).await;
        world.worker("one", 2, Box::new(|_, _| Act::Forever)).await;
        let run = world.trigger(&job, RunExtra::default()).await;
        world.pass(SECOND).await;
        if breaks {
            world.lose("one");
        } else {
            world.workers[0].gone = true;
        }
        world.pass(TimeDelta::seconds(50)).await;
        assert_eq!(world.run(run).await.run.state, RunState::TimedOut, "breaks: {breaks}");
        let lasted = lasted(&world, run).await;
        assert!((44.0..=46.0).contains(&lasted), "{lasted} s, breaks: {breaks}");
    }
}

#[tokio::test]
async fn a_timeout_counts_from_when_the_run_came_however_long_its_writing_took() {
    let mut world = world().await;
    let job = world.job("late", limited(10, 5)).await;
    world.worker("one", 2, Box::new(|_, _| Act::succeed(SECOND * 6))).await;
    world.settle().await;
    let run = world.trigger(&job, RunExtra::default()).await;
    let clock = world.clock.clone();
    world.flaky.meanwhile("dispatch", async move { clock.advance(Duration::from_secs(20)) });
    world.pass(TimeDelta::seconds(40)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Succeeded);
    assert_eq!(world.ledger[&run].len(), 1);
}

#[tokio::test]
async fn a_timeout_counts_from_each_attempt_and_is_retried_as_a_failure() {
    let mut world = world().await;
    let retry = RetryPolicy {
        max_attempts: 3,
        initial_backoff: Duration::from_secs(10),
        multiplier: 1.0,
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let job = world.job("slow", JobSpec { retry: retry.clone(), ..limited(20, 5) }).await;
    world.worker("one", 2, Box::new(|_, _| Act::Forever)).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(3)).await;
    let ended = world.run(run).await;
    assert_eq!((ended.run.state, ended.attempts.len()), (RunState::TimedOut, 3));
    assert_eq!(ended.run.message, "passed its timeout of 20s");
    // The executor obeys the kill half a second after the limit.
    let begun: Vec<_> = world.ledger[&run]
        .iter()
        .map(|e| (e.at - ended.run.fire_at).num_milliseconds() as f64 / 1_000.0)
        .collect();
    assert!((29.0..32.0).contains(&begun[1]) && (59.0..63.0).contains(&begun[2]), "{begun:?}");
    // Unless its code is among those that are never retried.
    let codes = vec!["TIMEOUT".to_owned()];
    let retry = RetryPolicy { non_retryable_codes: codes, ..retry };
    let job = world.job("once", JobSpec { retry, ..limited(20, 5) }).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(3)).await;
    let ended = world.run(run).await;
    assert_eq!((ended.run.state, ended.attempts.len()), (RunState::TimedOut, 1));
}

#[tokio::test]
async fn a_run_that_nobody_takes_fails_at_its_queue_timeout() {
    let mut world = world().await;
    let queue_timeout = Some(Duration::from_secs(30));
    let alone = world.job("alone", JobSpec { queue_timeout, ..JobSpec::default() }).await;
    let spec = JobSpec { queue_timeout, overlap: OverlapPolicy::Queue, ..JobSpec::default() };
    let held = world.job("held", JobSpec { handler: "slow".to_owned(), ..spec }).await;
    let (first, second) = (
        world.trigger(&alone, RunExtra::default()).await,
        world.trigger(&held, RunExtra::default()).await,
    );
    let third = world.trigger(&held, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(40)).await;
    for run in [first, second, third] {
        let ended = world.run(run).await;
        assert_eq!(ended.run.state, RunState::Failed);
        let failure = ended.failure.expect("why");
        assert_eq!(failure.code, "QUEUE_EXPIRED");
        assert!(failure.message.starts_with("still queued after 30s: "), "{}", failure.message);
        let lasted = lasted(&world, run).await;
        assert!((29.0..=31.0).contains(&lasted), "{lasted} s");
    }
}

#[tokio::test]
async fn the_queue_timeout_holds_for_a_further_attempt_too() {
    let mut world = world().await;
    let retry = RetryPolicy {
        max_attempts: 2,
        initial_backoff: Duration::from_secs(60),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let queue_timeout = Some(Duration::from_secs(30));
    let job = world.job("alone", JobSpec { queue_timeout, retry, ..JobSpec::default() }).await;
    world.worker("one", 2, Box::new(|_, _| Act::fail(SECOND, "NO_LUCK"))).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND * 5).await;
    assert_eq!(world.run(run).await.run.state, RunState::RetryWait);
    world.lose("one");
    world.pass(TimeDelta::seconds(120)).await;
    let ended = world.run(run).await;
    assert_eq!(ended.run.state, RunState::Failed);
    assert_eq!(ended.failure.as_ref().map(|f| f.code.as_str()), Some("QUEUE_EXPIRED"));
    let lasted = lasted(&world, run).await;
    assert!((90.0..=92.0).contains(&lasted), "{lasted} s");
}

async fn cancel(world: &World, run: RunId) {
    let attempt = world.run(run).await.run.attempt_ref();
    let kill = MarkCanceling {
        attempt,
        from: StateSet::OPEN,
        reason: KillReason::User,
        grace: Some(Duration::from_secs(5)),
        message: "asked for".to_owned(),
    };
    let marked = world.store.mark_canceling(&[kill], world.now()).await.expect("marked");
    assert_eq!(marked, [attempt]);
}

#[tokio::test]
async fn x37_a_kill_that_is_ignored_stays_a_request_and_its_slot_stays_taken() {
    let mut world = world().await;
    let job =
        world.job("deaf", JobSpec { overlap: OverlapPolicy::Queue, ..limited(3_600, 5) }).await;
    let other = world.job("other", JobSpec::default()).await;
    world.worker("one", 1, Box::new(|_, _| Act::Deaf)).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    cancel(&world, run).await;
    let next = world.trigger(&job, RunExtra::default()).await;
    let elsewhere = world.trigger(&other, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(5)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Canceling);
    assert!(!world.ledger.contains_key(&next), "the job's place is not given away");
    assert!(!world.ledger.contains_key(&elsewhere), "nor is the slot");
    // The executor says at last that it gave the handler up.
    let attempt = world.run(run).await.run.attempt_ref();
    let outcome = clawjob_proto::v1::Outcome::Canceled.into();
    world.workers[0].executor.finish(attempt, RunResult { outcome, ..RunResult::default() });
    world.pass(SECOND * 5).await;
    assert_eq!(world.run(run).await.run.state, RunState::Canceled);
    let begun = [&next, &elsewhere].iter().filter(|run| world.ledger.contains_key(run)).count();
    assert_eq!(begun, 1, "the one slot is used again");
}

#[tokio::test]
async fn x20_an_executor_that_acknowledges_late_runs_its_handler_once() {
    // Below the time after which the command is sent again, below the end of the session, after it.
    for (silence, reconnects) in [(3, false), (7, false), (14, true)] {
        let mut world = world().await;
        let retry = RetryPolicy { max_attempts: 4, ..RetryPolicy::default() };
        let job = world.job("late", JobSpec { retry, ..JobSpec::default() }).await;
        world.steady("one", 2, SECOND * 2).await;
        world.pass(SECOND).await;
        let run = world.trigger(&job, RunExtra::default()).await;
        world.workers[0].gone = true;
        world.pass(TimeDelta::seconds(silence)).await;
        world.workers[0].gone = false;
        if reconnects {
            world.settle().await;
            let store = world.store.clone();
            world.workers[0].executor.reconnect(&*store).await.expect("it comes back");
        }
        world.pass(TimeDelta::minutes(3)).await;
        let ended = world.run(run).await;
        assert_eq!(ended.run.state, RunState::Succeeded, "after {silence} s");
        assert_eq!(world.ledger[&run].len(), 1, "after {silence} s");
        assert_eq!(ended.attempts.len(), 1, "after {silence} s");
    }
}
