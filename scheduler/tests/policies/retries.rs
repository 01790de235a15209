//! Retries: when attempts begin and how a run ends after the last.

use std::time::Duration;

use chrono::TimeDelta;
use clawjob_scheduler::model::{
    job::JobSpec,
    retry::RetryPolicy,
    run::{RunExtra, RunState},
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
