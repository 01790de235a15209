//! Many jobs at the same moment: none is dropped, none is starved, all are on time.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        job::{JobSpec, OverlapPolicy},
        run::RunState,
        schedule::{Schedule, Trigger},
    },
    telemetry::metrics::metrics,
};

use crate::world::{World, at, cron};

const SECOND: TimeDelta = TimeDelta::seconds(1);

fn scheduled(text: &str) -> JobSpec {
    JobSpec {
        schedules: vec![cron(text, "UTC")],
        overlap: OverlapPolicy::Allow,
        ..JobSpec::default()
    }
}

/// Dispatch after fire time, of every execution.
fn lateness(world: &World) -> Vec<TimeDelta> {
    let executions = world.ledger.values().flatten();
    let fire = |execution: &crate::world::Execution| {
        let fire = execution.command.fire_time.as_ref().expect("a fire time");
        DateTime::<Utc>::from_timestamp(fire.seconds, fire.nanos.unsigned_abs()).expect("in range")
    };
    let mut late: Vec<TimeDelta> = executions.map(|e| e.at - fire(e)).collect();
    late.sort();
    late
}

#[tokio::test]
async fn x7_ten_thousand_jobs_of_one_second_are_all_dispatched() {
    let mut world = World::new(at("2026-06-10T11:59:40Z")).await;
    for n in 0..10_000 {
        world.job(&format!("job-{n}"), scheduled("0 12 * * *")).await;
    }
    // Slots for a quarter of them at a time.
    for name in ["one", "two", "three", "four"] {
        world.steady(name, 625, SECOND * 2).await;
    }
    world.run_until(at("2026-06-10T12:00:01Z")).await;
    let runs = world.runs().await;
    assert_eq!(runs.len(), 10_000);
    let mut states = BTreeMap::<RunState, usize>::new();
    for run in &runs {
        *states.entry(run.run.state).or_default() += 1;
    }
    assert_eq!(states.get(&RunState::Queued), Some(&7_500), "the others wait and are seen to");
    world.pass(TimeDelta::seconds(20)).await;
    let runs = world.runs().await;
    assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded));
    assert_eq!(world.ledger.len(), 10_000);
    assert!(world.ledger.values().all(|executions| executions.len() == 1));
    assert!(*lateness(&world).last().expect("executions") < TimeDelta::seconds(8));
    let text = metrics().text();
    assert!(text.contains("clawjob_lateness_seconds_bucket"), "lateness is reported");
}

/// Jobs that fire at noon once, and executors with a slot for each.
async fn noon(jobs: u32) -> World {
    let mut world = World::new(at("2026-06-10T11:59:50Z")).await;
    for n in 0..jobs {
        world.job(&format!("job-{n}"), scheduled("0 12 * * *")).await;
    }
    for name in ["one", "two", "three", "four"] {
        world.steady(name, jobs / 4, SECOND * 60).await;
    }
    world.run_until(at("2026-06-10T11:59:59Z")).await;
    world
}

/// The next operation of the kind is answered only once another one has come.
fn answer_after_the_next(world: &World, operation: &'static str) {
    let (flaky, (tell, told)) = (world.flaky.clone(), tokio::sync::oneshot::channel());
    world.flaky.meanwhile(operation, async move {
        flaky.meanwhile(operation, async move { tell.send(()).expect("the first is waited for") });
        told.await.expect("another one comes");
    });
}

#[tokio::test]
async fn of_very_many_runs_the_next_are_written_while_the_first_are_waited_for() {
    let mut world = noon(600).await;
    answer_after_the_next(&world, "plan");
    let passed = world.run_until(at("2026-06-10T12:00:30Z"));
    tokio::time::timeout(Duration::from_secs(60), passed).await.expect("none waits for the other");
    assert_eq!(world.ledger.len(), 600);
}

#[tokio::test]
async fn of_very_many_results_the_next_are_written_while_the_first_are_waited_for() {
    let mut world = noon(600).await;
    world.run_until(at("2026-06-10T12:00:30Z")).await;
    answer_after_the_next(&world, "end_runs");
    let passed = world.run_until(at("2026-06-10T12:01:30Z"));
    tokio::time::timeout(Duration::from_secs(60), passed).await.expect("none waits for the other");
    let runs = world.runs().await;
    assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded));
}

#[tokio::test]
async fn slots_of_runs_that_could_not_be_written_are_free_again() {
    let mut world = noon(600).await;
    world.flaky.fail_only("plan");
    world.run_until(at("2026-06-10T12:00:02Z")).await;
    assert_eq!(world.ledger.len(), 0);
    world.flaky.fail_only("");
    world.run_until(at("2026-06-10T12:00:10Z")).await;
    assert_eq!(world.ledger.len(), 600, "each has a slot");
}

#[tokio::test]
async fn x8_thousands_of_jobs_each_second_do_not_starve_a_daily_one() {
    let mut world = World::new(at("2026-06-10T11:59:57Z")).await;
    for n in 0..6_000 {
        world.job(&format!("job-{n}"), scheduled("* * * * * *")).await;
    }
    let daily = world.job("daily", scheduled("0 12 * * *")).await;
    // Several: all results of an executor come at one instant here, and it reads no ack meanwhile.
    for n in 0..10 {
        world.steady(&format!("worker-{n}"), 1_000, TimeDelta::milliseconds(100)).await;
    }
    world.run_until(at("2026-06-10T12:00:01Z")).await;
    let runs = world.runs_of(&daily).await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].run.state, RunState::Succeeded, "{:?}", runs[0]);
    let begun = world.ledger[&runs[0].run.id][0].at;
    assert_eq!(begun, at("2026-06-10T12:00:00Z"));
}

#[tokio::test]
async fn r18_jobs_of_every_second_and_every_ten_seconds_are_on_time() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let second = world.job("second", scheduled("* * * * * *")).await;
    let ten = world.job("ten", scheduled("*/10 * * * * *")).await;
    world.steady("one", 10, TimeDelta::milliseconds(300)).await;
    world.run_until(at("2026-06-10T12:10:00.5Z")).await;
    assert_eq!(world.runs_of(&second).await.len(), 600);
    assert_eq!(world.runs_of(&ten).await.len(), 60);
    let late = lateness(&world);
    assert!(late[0] >= TimeDelta::zero(), "none before its time");
    let ninety_nine = late[late.len() * 99 / 100];
    assert!(ninety_nine <= TimeDelta::milliseconds(50), "{ninety_nine}");
    assert!(late[late.len() - 1] <= SECOND);
}

/// How long runs are left to gather after twice as many jobs fired, 20 ms apart, with runs that take as
/// long.
async fn gathering(jobs: u32, slots: u32) -> Duration {
    let apart = TimeDelta::milliseconds(20);
    let mut world = World::new(at("2026-06-10T11:59:50Z")).await;
    let first = at("2026-06-10T12:00:00Z");
    for n in 0..jobs * 2 {
        let start_at = Some(if n < jobs { first } else { first + apart });
        let trigger = Trigger::Interval(Duration::from_secs(3_600));
        let schedules = vec![Schedule { trigger, start_at, ..Schedule::default() }];
        let spec = JobSpec { schedules, overlap: OverlapPolicy::Allow, ..JobSpec::default() };
        world.job(&format!("job-{n}"), spec).await;
    }
    for name in ["one", "two", "three", "four"] {
        world.steady(name, slots / 4, apart).await;
    }
    world.run_until(first + apart).await;
    world.settle().await;
    assert_eq!(world.ledger.len(), usize::try_from((jobs * 2).min(slots * 2)).expect("few"));
    world.gathering()
}

#[tokio::test]
async fn where_very_many_runs_come_due_the_next_round_waits_for_more_but_not_while_slots_are_awaited()
 {
    let waits = gathering(400, 1_000).await;
    let bounds = Duration::from_millis(10)..=Duration::from_micros(12_500);
    assert!(bounds.contains(&waits), "200 come in 10 ms: {waits:?}");
    assert_eq!(gathering(100, 1_000).await, Duration::ZERO, "too few to wait for");
    assert_eq!(gathering(800, 400).await, Duration::ZERO, "each waits for a slot already");
}
