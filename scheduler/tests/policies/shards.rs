//! Shards and broadcast: one parent, its parts, and that both tell the truth about each other.

use std::{collections::BTreeSet, time::Duration};

use chrono::TimeDelta;
use clawjob_proto::v1::RunCommand;
use clawjob_scheduler::{
    model::{
        ids::{AttemptRef, RunId},
        job::{Job, JobSpec, LostPolicy, OverlapPolicy, Placement},
        run::{KillReason, OpenRun, RunExtra, RunRecord, RunState, TriggerKind},
        shards::{CODE_SHARDS_FAILED, Part},
    },
    store::ops::{JobChange, MarkCanceling, StateSet},
};

use crate::world::{Act, World, at, cron};

const NOON: &str = "2026-06-10T12:00:00Z";

fn sharded(shard_total: u32) -> JobSpec {
    JobSpec { placement: Placement { shard_total, ..Placement::default() }, ..JobSpec::default() }
}

fn broadcast() -> JobSpec {
    JobSpec {
        placement: Placement { broadcast: true, ..Placement::default() },
        ..JobSpec::default()
    }
}

/// A parent with its shards by index.
async fn family(world: &World, parent: RunId) -> (RunRecord, Vec<RunRecord>) {
    let mut shards = world.runs().await;
    shards.retain(|run| run.run.parent() == Some(parent));
    shards.sort_by_key(|run| run.run.extra.as_ref().map(|extra| extra.shard_index));
    (world.run(parent).await, shards)
}

fn states(shards: &[RunRecord]) -> Vec<RunState> {
    shards.iter().map(|run| run.run.state).collect()
}

async fn open(world: &World, run: RunId) -> OpenRun {
    world.store.open_runs(&[run]).await.expect("reads").remove(0)
}

async fn cancel(world: &World, run: RunId) {
    let row = open(world, run).await;
    let kill = MarkCanceling {
        attempt: row.attempt_ref(),
        from: StateSet::OPEN,
        reason: KillReason::User,
        grace: None,
        message: "enough".to_owned(),
    };
    let marked = world.store.mark_canceling(&[kill], world.now()).await.expect("marked");
    assert_eq!(marked.len(), 1);
}

/// Runs of a job that are no shards.
async fn parents_of(world: &World, job: &Job) -> Vec<RunRecord> {
    let mut runs = world.runs_of(job).await;
    runs.retain(|run| run.run.parent().is_none());
    runs
}

#[tokio::test]
async fn a_run_is_split_into_its_shards_and_ends_with_the_last_of_them() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("five", sharded(5)).await;
    let script = |command: &RunCommand, _| {
        Act::succeed(TimeDelta::seconds(10 + i64::from(command.shard_index)))
    };
    world.worker("one", 2, Box::new(script)).await;
    world.worker("two", 8, Box::new(script)).await;
    let extra = RunExtra { triggered_by: "me".to_owned(), ..RunExtra::default() };
    let parent = world.trigger(&job, extra).await;
    world.pass(TimeDelta::seconds(5)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!((run.run.state, shards.len()), (RunState::Running, 5));
    assert_eq!(run.run.started_at, Some(at(NOON)));
    assert_eq!(run.run.extra.as_ref().map(|extra| extra.shard_total), Some(5));
    assert!(!world.ledger.contains_key(&parent), "a parent is never sent");
    world.pass(TimeDelta::seconds(8)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(run.run.state, RunState::Running, "{:?}", states(&shards));
    world.pass(TimeDelta::minutes(1)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(run.run.state, RunState::Succeeded);
    assert_eq!(run.ended_at, shards.iter().filter_map(|shard| shard.ended_at).max());
    for (index, shard) in (0..).zip(&shards) {
        let told = &world.ledger[&shard.run.id];
        assert_eq!(told.len(), 1);
        let command = &told[0].command;
        assert_eq!((command.shard_index, command.shard_total), (index, 5));
        let extra = shard.run.extra.as_ref().expect("what it is");
        assert_eq!((extra.parent, extra.triggered_by.as_str()), (Some(parent), "me"));
        assert_eq!((shard.run.trigger, shard.run.fire_at), (TriggerKind::Api, at(NOON)));
    }
}

#[tokio::test]
async fn the_worst_shard_decides_and_the_failure_names_it() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("three", sharded(3)).await;
    let script = |command: &RunCommand, _| match command.shard_index {
        1 => Act::fail(TimeDelta::seconds(1), "BOOM"),
        _ => Act::succeed(TimeDelta::seconds(1)),
    };
    world.worker("one", 8, Box::new(script)).await;
    let parent = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(30)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(states(&shards), [RunState::Succeeded, RunState::Failed, RunState::Succeeded]);
    assert_eq!(run.run.state, RunState::Failed);
    let failure = run.failure.expect("a failure");
    assert_eq!(failure.code, CODE_SHARDS_FAILED);
    assert_eq!(failure.message, "1 of 3 shards did not succeed: shard 1 FAILED (BOOM)");
}

#[tokio::test]
async fn x40_a_shard_whose_executor_dies_runs_elsewhere_with_the_same_index_and_total() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("five", sharded(5)).await;
    for name in ["w1", "w2", "w3", "w4", "w5"] {
        world.steady(name, 2, TimeDelta::minutes(3)).await;
    }
    let parent = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(70)).await;
    let (_, shards) = family(&world, parent).await;
    let third = shards.iter().find(|run| run.run.executor.as_deref() == Some("w3"));
    let third = third.expect("each has one").run.id;
    world.lose("w3");
    world.pass(TimeDelta::minutes(10)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(
        (run.run.state, states(&shards)),
        (RunState::Succeeded, [RunState::Succeeded; 5].into())
    );
    let told = &world.ledger[&third];
    assert_eq!(told.len(), 2);
    let facts = |n: usize| (told[n].command.shard_index, told[n].command.shard_total);
    assert_eq!(facts(0), facts(1));
    assert_eq!(facts(1).1, 5);
    assert_ne!(told[0].executor, told[1].executor);
    let indexes: BTreeSet<u32> =
        shards.iter().map(|run| world.ledger[&run.run.id][0].command.shard_index).collect();
    assert_eq!(indexes, BTreeSet::from([0, 1, 2, 3, 4]));
}

#[tokio::test]
async fn a_broadcast_waits_for_an_executor_and_then_reaches_each_once() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("all", broadcast()).await;
    let parent = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!((run.run.state, shards.len()), (RunState::Queued, 0));
    assert!(run.run.message.starts_with("waits for an executor to broadcast to"), "{run:?}");
    for name in ["w1", "w2", "w3"] {
        world.steady(name, 1, TimeDelta::seconds(5)).await;
    }
    world.pass(TimeDelta::seconds(3)).await;
    world.steady("late", 1, TimeDelta::seconds(5)).await;
    world.pass(TimeDelta::minutes(1)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!((run.run.state, run.run.message.as_str()), (RunState::Succeeded, ""));
    let went: Vec<(u32, u32, String)> = shards
        .iter()
        .map(|shard| &world.ledger[&shard.run.id][0])
        .map(|told| (told.command.shard_index, told.command.shard_total, told.executor.clone()))
        .collect();
    let wanted = ["w1", "w2", "w3"].map(str::to_owned);
    assert_eq!(went, [0, 1, 2].map(|n| (n, 3, wanted[n as usize].clone())));
}

#[tokio::test]
async fn a_broadcast_to_an_executor_that_dies_for_good_is_lost_there_alone() {
    for (lost_policy, slots) in
        [(LostPolicy::Retry, 1), (LostPolicy::Fail, 1), (LostPolicy::Retry, 0)]
    {
        let mut world = World::new(at(NOON)).await;
        let job = world.job("all", JobSpec { lost_policy, ..broadcast() }).await;
        world.steady("good", 1, TimeDelta::minutes(1)).await;
        // Without a slot it never begins.
        world.worker("bad", slots, Box::new(|_, _| Act::Forever)).await;
        let parent = world.trigger(&job, RunExtra::default()).await;
        world.pass(TimeDelta::seconds(70)).await;
        world.lose("bad");
        world.pass(TimeDelta::minutes(10)).await;
        let (run, shards) = family(&world, parent).await;
        let case = format!("{lost_policy:?} {slots}");
        assert_eq!(states(&shards), [RunState::Succeeded, RunState::Lost], "{case}");
        assert_eq!(run.run.state, RunState::Lost, "{case}");
        let elsewhere = world.ledger.get(&shards[1].run.id).into_iter().flatten();
        assert!(elsewhere.into_iter().all(|told| told.executor == "bad"), "{case}");
    }
}

#[tokio::test]
async fn a_cancel_of_the_parent_ends_all_its_shards_and_starts_no_others() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("four", sharded(4)).await;
    // Two run, two wait for a slot.
    world.worker("one", 2, Box::new(|_, _| Act::Forever)).await;
    let parent = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    cancel(&world, parent).await;
    assert_eq!(open(&world, parent).await.state, RunState::Running, "its state is its shards'");
    // The owner dies before it has told any shard.
    world.restart();
    world.worker("two", 2, Box::new(|_, _| Act::Forever)).await;
    world.pass(TimeDelta::minutes(5)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(
        (run.run.state, states(&shards)),
        (RunState::Canceled, [RunState::Canceled; 4].into())
    );
    assert_eq!(run.run.kill_reason, Some(KillReason::User));
    assert_eq!(run.run.message, "enough");
    assert!(world.ledger.values().flatten().all(|told| told.executor == "one"));
}

#[tokio::test]
async fn one_shard_can_be_canceled_alone() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("two", sharded(2)).await;
    let script = |command: &RunCommand, _| match command.shard_index {
        0 => Act::Forever,
        _ => Act::succeed(TimeDelta::seconds(30)),
    };
    world.worker("one", 2, Box::new(script)).await;
    let parent = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    let (_, shards) = family(&world, parent).await;
    cancel(&world, shards[0].run.id).await;
    world.pass(TimeDelta::minutes(1)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(states(&shards), [RunState::Canceled, RunState::Succeeded]);
    assert_eq!(run.run.state, RunState::Canceled);
}

#[tokio::test]
async fn a_parent_is_one_run_for_overlap_and_its_chain_starts_after_all_shards() {
    let mut world = World::new(at(NOON)).await;
    let next = world.job("next", JobSpec::default()).await;
    let spec = JobSpec {
        overlap: OverlapPolicy::Skip,
        on_success: vec![next.resource_name()],
        schedules: vec![cron("* * * * *", "UTC")],
        ..sharded(3)
    };
    let job = world.job("three", spec).await;
    let script = |command: &RunCommand, _| match command.shard_total {
        0 => Act::succeed(TimeDelta::seconds(1)),
        _ => Act::succeed(TimeDelta::seconds(20 + 35 * i64::from(command.shard_index))),
    };
    world.worker("one", 8, Box::new(script)).await;
    world.run_until(at("2026-06-10T12:06:30Z")).await;
    let parents = parents_of(&world, &job).await;
    use RunState as S;
    let wanted = [S::Succeeded, S::Skipped, S::Succeeded, S::Skipped, S::Succeeded, S::Skipped];
    assert_eq!(states(&parents), wanted);
    let chained = world.runs_of(&next).await;
    assert_eq!(chained.len(), 3);
    for (parent, next) in parents.iter().step_by(2).zip(&chained) {
        let cause = next.run.extra.as_ref().expect("a cause").caused_by;
        assert_eq!(cause, Some(parent.run.id));
        assert!(next.run.created_at >= parent.ended_at.expect("ended"));
    }
}

#[tokio::test]
async fn a_pause_leaves_the_shards_of_a_run_that_goes_on() {
    let mut world = World::new(at(NOON)).await;
    let spec = JobSpec { schedules: vec![cron("* * * * *", "UTC")], ..sharded(3) };
    let job = world.job("three", spec).await;
    // One slot: two shards wait in the queue when the pause comes.
    world.steady("one", 1, TimeDelta::seconds(10)).await;
    world.run_until(at("2026-06-10T12:01:05Z")).await;
    let change = JobChange {
        state: Some((clawjob_scheduler::model::job::JobState::Paused, None, String::new())),
        drop_due: true,
        ..JobChange::by("test")
    };
    let none = Box::new(|_: &_| Vec::new());
    world.store.change_job(job.id, &change, none, world.now()).await.expect("paused");
    world.pass(TimeDelta::minutes(3)).await;
    let parents = parents_of(&world, &job).await;
    assert_eq!(states(&parents), [RunState::Succeeded]);
    let (_, shards) = family(&world, parents[0].run.id).await;
    assert_eq!(states(&shards), [RunState::Succeeded; 3]);
}

#[tokio::test]
async fn a_crash_at_any_step_leaves_the_family_whole() {
    // The process is killed after so many seconds: before the split, while shards run, after the
    // last of them has ended.
    for seconds in [0, 1, 12, 25, 31, 33] {
        let mut world = World::new(at(NOON)).await;
        let job = world.job("six", sharded(6)).await;
        let parent = world.trigger(&job, RunExtra::default()).await;
        world.steady("one", 2, TimeDelta::seconds(10)).await;
        world.pass(TimeDelta::seconds(seconds)).await;
        world.restart();
        world.steady("two", 2, TimeDelta::seconds(10)).await;
        world.pass(TimeDelta::minutes(30)).await;
        let (run, shards) = family(&world, parent).await;
        assert_eq!(states(&shards), [RunState::Succeeded; 6], "after {seconds} s");
        assert_eq!(run.run.state, RunState::Succeeded, "after {seconds} s");
    }
}

#[tokio::test]
async fn parts_that_are_repeated_keep_their_index_and_total() {
    let mut world = World::new(at(NOON)).await;
    let job = world.job("five", sharded(5)).await;
    world.steady("one", 8, TimeDelta::seconds(1)).await;
    let part = |index| Part { index, target: String::new() };
    let extra = RunExtra { shard_total: 5, shards: vec![part(1), part(4)], ..RunExtra::default() };
    let parent = world.trigger(&job, extra).await;
    world.pass(TimeDelta::seconds(30)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(run.run.state, RunState::Succeeded);
    let told: Vec<(u32, u32)> = shards
        .iter()
        .map(|shard| &world.ledger[&shard.run.id][0].command)
        .map(|command| (command.shard_index, command.shard_total))
        .collect();
    assert_eq!(told, [(1, 5), (4, 5)]);
}

#[tokio::test]
async fn a_shard_is_tried_again_by_itself_and_times_out_by_itself() {
    let mut world = World::new(at(NOON)).await;
    let timeout = Some(Duration::from_secs(20));
    let job = world.job("three", JobSpec { timeout, ..sharded(3) }).await;
    let script = |command: &RunCommand, _| match command.shard_index {
        2 => Act::Forever,
        _ => Act::succeed(TimeDelta::seconds(15)),
    };
    // One slot: the whole takes longer than the timeout, which is each shard's own.
    world.worker("one", 1, Box::new(script)).await;
    let parent = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(3)).await;
    let (run, shards) = family(&world, parent).await;
    assert_eq!(states(&shards), [RunState::Succeeded, RunState::Succeeded, RunState::TimedOut]);
    assert_eq!(run.run.state, RunState::TimedOut);
    let attempt: AttemptRef = run.run.attempt_ref();
    assert_eq!(attempt.attempt, 1);
}
