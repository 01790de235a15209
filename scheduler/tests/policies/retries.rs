//! Retries: when attempts begin and how a run ends after the last.

use std::time::Duration;

use chrono::TimeDelta;
use clawjob_proto::v1::{Failure, Outcome, RunCommand, RunResult};
use clawjob_scheduler::{
    model::{
        job::JobSpec,
        retry::RetryPolicy,
        run::{RunExtra, RunState},
        schedule::{Schedule, Trigger},
    },
    store::ops::{EndAnswer, EndRun},
};

use crate::world::{Act, World, at};

#[tokio::test]
async fn attempts_begin_after_a_growing_wait_and_the_last_one_decides() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let retry = RetryPolicy {
        max_attempts: 4,
        initial_backoff: Duration::from_secs(10),
        multiplier: 3.0,
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let job = world.job("flaky", JobSpec { retry, ..JobSpec::default() }).await;
    world.worker("one", 4, Box::new(|_, _| Act::fail(TimeDelta::zero(), "NO_LUCK"))).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(5)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Failed);
    let began: Vec<i64> = world.ledger[&run]
        .iter()
        .map(|e| (e.at - at("2026-06-10T12:00:00Z")).num_seconds())
        .collect();
    assert_eq!(began, [0, 10, 40, 130]);
}

#[tokio::test]
async fn a_delay_counts_on_from_a_run_that_was_canceled_while_it_waited_for_its_retry() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let retry = RetryPolicy {
        max_attempts: 3,
        initial_backoff: Duration::from_secs(300),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let delay =
        Schedule { trigger: Trigger::Delay(Duration::from_secs(60)), ..Schedule::default() };
    let job =
        world.job("delay", JobSpec { schedules: vec![delay], retry, ..JobSpec::default() }).await;
    world.worker("one", 4, Box::new(|_, _| Act::fail(TimeDelta::zero(), "NO_LUCK"))).await;
    world.pass(TimeDelta::seconds(90)).await;
    let runs = world.runs_of(&job).await;
    let [run] = &runs[..] else { panic!("{} runs", runs.len()) };
    assert_eq!(run.run.state, RunState::RetryWait);
    let end = EndRun::unheard(&run.run, RunState::Canceled, "not wanted".to_owned());
    let ended = world.store.end_runs(&[end], world.now()).await.expect("ended");
    assert_eq!(ended, [EndAnswer::Ended(job.id)]);
    world.store.tell_owners(&[(run.run.id, Some(job.partition))]).await.expect("told");
    world.pass(TimeDelta::seconds(80)).await;
    let states: Vec<_> = world.runs_of(&job).await.iter().map(|run| run.run.state).collect();
    assert_eq!(states, [RunState::Canceled, RunState::RetryWait]);
    assert_eq!(world.ledger[&run.run.id].len(), 1, "it is not executed again");
}

fn failing(code: &str, change: impl FnOnce(&mut Failure)) -> Act {
    let mut failure = Failure { code: code.to_owned(), ..Failure::default() };
    change(&mut failure);
    let outcome = Outcome::Failed.into();
    let result = RunResult { outcome, failure: Some(failure), ..RunResult::default() };
    Act::End(TimeDelta::zero(), Box::new(result))
}

#[tokio::test]
async fn a_handler_says_how_long_to_wait_or_that_waiting_is_no_use() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let retry = RetryPolicy { max_attempts: 10, jitter: 0.0, ..RetryPolicy::default() };
    let job = world.job("picky", JobSpec { retry, ..JobSpec::default() }).await;
    let script = |command: &RunCommand, _| match command.r#ref.as_ref().map(|r| r.attempt) {
        Some(1) => failing("LATER", |failure| {
            failure.retry_after = Some(prost_types::Duration { seconds: 90, nanos: 0 });
        }),
        Some(2) => failing("AGAIN", |_| {}),
        _ => failing("HOPELESS", |failure| failure.non_retryable = true),
    };
    world.worker("one", 4, Box::new(script)).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(5)).await;
    let ended = world.run(run).await;
    assert_eq!(ended.run.state, RunState::Failed);
    assert_eq!(ended.failure.as_ref().map(|failure| failure.code.as_str()), Some("HOPELESS"));
    let began: Vec<i64> =
        world.ledger[&run].iter().map(|e| (e.at - ended.run.fire_at).num_seconds()).collect();
    assert_eq!(began, [0, 90, 92], "the wait asked for, then the second of the policy");
    let codes: Vec<String> =
        ended.attempts.iter().map(|a| a.failure.clone().unwrap_or_default().code).collect();
    assert_eq!(codes, ["LATER", "AGAIN", "HOPELESS"], "all attempts belong to the one run");
}

#[tokio::test]
async fn losses_count_by_themselves_and_end_the_run_as_lost() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let retry = RetryPolicy { max_attempts: 2, max_lost: 2, ..RetryPolicy::default() };
    let job = world.job("poison", JobSpec { retry, ..JobSpec::default() }).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    for name in ["one", "two", "three"] {
        world.worker(name, 1, Box::new(|_, _| Act::Forever)).await;
        world.pass(TimeDelta::seconds(10)).await;
        world.lose(name);
        world.pass(TimeDelta::minutes(3)).await;
    }
    let ended = world.run(run).await;
    assert_eq!(ended.run.state, RunState::Lost);
    assert_eq!((ended.attempts.len(), ended.run.lost), (3, 2));
    let places: Vec<_> = world.ledger[&run].iter().map(|e| e.executor.as_str()).collect();
    assert_eq!(places, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_loss_uses_up_none_of_the_attempts() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let retry = RetryPolicy { max_attempts: 2, max_lost: 3, ..RetryPolicy::default() };
    let job = world.job("unlucky", JobSpec { retry, ..JobSpec::default() }).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    for name in ["one", "two"] {
        world.worker(name, 1, Box::new(|_, _| Act::Forever)).await;
        world.pass(TimeDelta::seconds(10)).await;
        world.lose(name);
        world.pass(TimeDelta::minutes(3)).await;
    }
    world.worker("three", 1, Box::new(|_, _| failing("NO_LUCK", |_| {}))).await;
    world.pass(TimeDelta::minutes(3)).await;
    let ended = world.run(run).await;
    assert_eq!(ended.run.state, RunState::Failed);
    assert_eq!(ended.attempts.len(), 4, "two lost, two failed");
}
