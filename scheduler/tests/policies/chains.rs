//! Chains: which ends start which jobs, and that each does so once.

use std::time::Duration;

use chrono::TimeDelta;
use clawjob_proto::v1::{Outcome, Payload, RunCommand, RunResult};
use clawjob_scheduler::{
    model::{
        ids::RunId,
        job::{Job, JobSpec, JobState, LostPolicy, OverlapPolicy},
        retry::RetryPolicy,
        run::{KillReason, RunExtra, RunRecord, RunState, TriggerKind},
    },
    store::ops::{AttemptEnd, EndRun, JobChange, MarkCanceling, StateSet},
};

use crate::world::{Act, World, at};

const NOON: &str = "2026-06-10T12:00:00Z";

fn names(jobs: &[&Job]) -> Vec<String> {
    jobs.iter().map(|job| job.resource_name()).collect()
}

fn starts(on_success: &[&Job], on_failure: &[&Job]) -> JobSpec {
    JobSpec { on_success: names(on_success), on_failure: names(on_failure), ..JobSpec::default() }
}

/// A world with two jobs to be started, `good` and `bad`, whose handler ends at once.
async fn world() -> (World, Job, Job) {
    let world = World::new(at(NOON)).await;
    let good = world.job("good", JobSpec::default()).await;
    let bad = world.job("bad", JobSpec::default()).await;
    (world, good, bad)
}

/// A worker that does with runs of job `first` what it is told, and lets the others succeed.
async fn worker(world: &mut World, act: Act) {
    let script = move |command: &RunCommand, _| {
        if command.job.ends_with("/first") {
            act.clone()
        } else {
            Act::succeed(TimeDelta::seconds(1))
        }
    };
    world.worker("one", 8, Box::new(script)).await;
}

async fn started(world: &World, job: &Job) -> Vec<RunRecord> {
    world.runs_of(job).await
}

#[tokio::test]
async fn a_success_starts_the_jobs_of_on_success_once_with_its_output_at_hand() {
    let (mut world, good, bad) = world().await;
    let other = world.job("other", JobSpec::default()).await;
    let job = world.job("first", starts(&[&good, &other], &[&bad])).await;
    let output = Payload { content_type: "application/json".to_owned(), data: "[1,2]".into() };
    let result = RunResult {
        outcome: Outcome::Succeeded.into(),
        output: Some(output.clone()),
        ..RunResult::default()
    };
    worker(&mut world, Act::End(TimeDelta::seconds(5), Box::new(result))).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(1)).await;
    for next in [&good, &other] {
        let runs = started(&world, next).await;
        assert_eq!(runs.len(), 1, "{}", next.name);
        let next = &runs[0];
        assert_eq!((next.run.state, next.run.trigger), (RunState::Succeeded, TriggerKind::Chain));
        assert_eq!(next.run.fire_at, at(NOON), "the date of the run before it");
        let extra = next.run.extra.as_ref().expect("a cause");
        assert_eq!(extra.caused_by, Some(run));
        let command = &world.ledger[&next.run.id][0].command;
        assert_eq!(command.caused_by, format!("apps/day/runs/{run}"));
        assert_eq!(command.caused_by_output.as_ref(), Some(&output));
    }
    assert_eq!(started(&world, &bad).await.len(), 0);
}

#[tokio::test]
async fn a_failure_starts_the_jobs_of_on_failure_after_its_last_attempt() {
    let (mut world, good, bad) = world().await;
    let retry = RetryPolicy {
        max_attempts: 3,
        initial_backoff: Duration::from_secs(10),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let job = world.job("first", JobSpec { retry, ..starts(&[&good], &[&bad]) }).await;
    worker(&mut world, Act::fail(TimeDelta::seconds(1), "NO_LUCK")).await;
    world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(20)).await;
    assert_eq!(started(&world, &bad).await.len(), 0, "it is tried again");
    world.pass(TimeDelta::minutes(2)).await;
    assert_eq!(started(&world, &bad).await.len(), 1);
    assert_eq!(started(&world, &good).await.len(), 0);
}

#[tokio::test]
async fn r53_an_abort_by_timeout_or_limit_starts_the_jobs_of_on_failure() {
    let (mut world, good, bad) = world().await;
    let timeout = Some(Duration::from_secs(30));
    let job = world.job("first", JobSpec { timeout, ..starts(&[&good], &[&bad]) }).await;
    worker(&mut world, Act::Deaf).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(2)).await;
    assert_eq!(world.run(run).await.run.state, RunState::TimedOut);
    assert_eq!(started(&world, &bad).await.len(), 1);

    // Nobody takes this one in time.
    let queue_timeout = Some(Duration::from_secs(30));
    let spec = JobSpec { handler: "nobody".to_owned(), queue_timeout, ..starts(&[&good], &[&bad]) };
    let waiting = world.job("waiting", spec).await;
    let run = world.trigger(&waiting, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(2)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Failed);
    assert_eq!(started(&world, &bad).await.len(), 2);
    assert_eq!(started(&world, &good).await.len(), 0);
}

#[tokio::test]
async fn a_loss_for_good_starts_the_jobs_of_on_failure() {
    let (mut world, good, bad) = world().await;
    let lost_policy = LostPolicy::Fail;
    let job = world.job("first", JobSpec { lost_policy, ..starts(&[&good], &[&bad]) }).await;
    worker(&mut world, Act::Forever).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(2)).await;
    world.lose("one");
    world.steady("two", 4, TimeDelta::seconds(1)).await;
    world.pass(TimeDelta::minutes(5)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Lost);
    assert_eq!(started(&world, &bad).await.len(), 1);
    assert_eq!(started(&world, &good).await.len(), 0);
}

#[tokio::test]
async fn canceled_and_skipped_runs_start_nothing() {
    let (mut world, good, bad) = world().await;
    let job = world.job("first", starts(&[&good], &[&bad])).await;
    worker(&mut world, Act::Forever).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    let skipped = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    assert_eq!(world.run(skipped).await.run.state, RunState::Skipped);
    let row = world.store.open_runs(&[run]).await.expect("reads").remove(0);
    let kill = MarkCanceling {
        attempt: row.attempt_ref(),
        from: StateSet::OPEN,
        reason: KillReason::User,
        grace: None,
        message: "enough".to_owned(),
    };
    world.store.mark_canceling(&[kill], world.now()).await.expect("marked");
    world.pass(TimeDelta::minutes(1)).await;
    assert_eq!(world.run(run).await.run.state, RunState::Canceled);
    assert_eq!(started(&world, &good).await.len() + started(&world, &bad).await.len(), 0);
}

#[tokio::test]
async fn a_deleted_child_leaves_the_others_working_and_a_paused_one_starts() {
    let (mut world, good, bad) = world().await;
    let paused = world.job("paused", JobSpec::default()).await;
    let job = world.job("first", starts(&[&bad, &paused, &good], &[])).await;
    let change = JobChange { drop_due: true, ..JobChange::by("test") };
    let none = || Box::new(|_: &_| Vec::new());
    let delete = JobChange { delete: true, ..change.clone() };
    world.store.change_job(bad.id, &delete, none(), world.now()).await.expect("deleted");
    let pause = JobChange { state: Some((JobState::Paused, None, String::new())), ..change };
    world.store.change_job(paused.id, &pause, none(), world.now()).await.expect("paused");
    worker(&mut world, Act::succeed(TimeDelta::seconds(1))).await;
    world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(1)).await;
    assert_eq!(started(&world, &bad).await.len(), 0);
    for next in [&paused, &good] {
        let runs = started(&world, next).await;
        assert_eq!(runs.len(), 1, "{}", next.name);
        assert_eq!(runs[0].run.state, RunState::Succeeded, "{}", next.name);
    }
}

#[tokio::test]
async fn a_chained_run_keeps_the_overlap_of_its_own_job() {
    let mut world = World::new(at(NOON)).await;
    let slow = JobSpec { overlap: OverlapPolicy::Skip, ..JobSpec::default() };
    let slow = world.job("slow", slow).await;
    let job = world.job("first", starts(&[&slow], &[])).await;
    let script = |command: &RunCommand, _| match command.job.as_str() {
        "apps/day/jobs/slow" => Act::succeed(TimeDelta::minutes(1)),
        _ => Act::succeed(TimeDelta::seconds(1)),
    };
    world.worker("one", 8, Box::new(script)).await;
    for _ in 0..2 {
        world.trigger(&job, RunExtra::default()).await;
        world.pass(TimeDelta::seconds(10)).await;
    }
    world.pass(TimeDelta::minutes(2)).await;
    let states: Vec<RunState> =
        started(&world, &slow).await.iter().map(|run| run.run.state).collect();
    assert_eq!(states, [RunState::Succeeded, RunState::Skipped]);
}

#[tokio::test]
async fn a_chain_goes_on_link_by_link_and_outlives_a_crash_between_end_and_start() {
    let mut world = World::new(at(NOON)).await;
    let third = world.job("third", JobSpec::default()).await;
    let second = world.job("second", starts(&[&third], &[])).await;
    let job = world.job("first", starts(&[&second], &[])).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    world.steady("one", 4, TimeDelta::seconds(1)).await;
    world.pass(TimeDelta::milliseconds(900)).await;
    // The end is written, and the process dies before anybody has followed it up.
    let row = world.store.open_runs(&[run]).await.expect("reads").remove(0);
    let end = EndRun {
        attempt: row.attempt_ref(),
        from: StateSet::OPEN,
        to: RunState::Succeeded,
        end: AttemptEnd::default(),
        output: None,
        output_truncated: false,
        message: String::new(),
        missed: false,
    };
    world.store.end_runs(&[end], world.now()).await.expect("ended");
    world.restart();
    world.steady("two", 4, TimeDelta::seconds(1)).await;
    world.pass(TimeDelta::minutes(1)).await;
    let ids = |runs: Vec<RunRecord>| runs.iter().map(|run| run.run.id).collect::<Vec<RunId>>();
    let (two, three) = (ids(world.runs_of(&second).await), ids(world.runs_of(&third).await));
    assert_eq!((two.len(), three.len()), (1, 1));
    let last = world.run(three[0]).await;
    assert_eq!(last.run.extra.expect("a cause").caused_by, Some(two[0]));
    assert_eq!(last.run.state, RunState::Succeeded);
}

/// More of them than one batch holds; they are tried again, and go through once they can.
#[tokio::test]
async fn ends_that_can_t_be_followed_up_do_not_block_those_behind_them() {
    let (mut world, good, bad) = world().await;
    let spec = JobSpec { overlap: OverlapPolicy::Allow, ..starts(&[&good], &[]) };
    let job = world.job("first", spec).await;
    let after = world.job("last", starts(&[&bad], &[])).await;
    world.steady("steady", 400, TimeDelta::seconds(1)).await;
    world.flaky.damage_ends_up_to(300);
    for _ in 0..6 {
        for _ in 0..50 {
            world.trigger(&job, RunExtra::default()).await;
        }
        world.pass(TimeDelta::seconds(5)).await;
    }
    let ran = started(&world, &job).await;
    assert!(ran.iter().all(|run| run.run.state == RunState::Succeeded) && ran.len() == 300);
    world.trigger(&after, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    assert_eq!(started(&world, &bad).await.len(), 1, "the end behind them");
    world.flaky.damage_ends_up_to(0);
    world.pass(TimeDelta::minutes(6)).await;
    assert_eq!(started(&world, &good).await.len(), 300, "each of them in the end");
}
