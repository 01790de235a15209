//! Backfills beside the schedule of their job.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    api::convert,
    model::{
        backfill::BackfillGroup,
        ids::RunId,
        job::{Job, JobSpec, MisfirePolicy, OverlapPolicy, Placement},
        run::{NewRun, RunExtra, RunRecord, RunState, TriggerKind},
        schedule::{Schedule, Trigger},
    },
    store::schedules::{Backfill, Backfilled},
};

use crate::world::{World, at};

fn every(seconds: u64, overlap: OverlapPolicy) -> JobSpec {
    let trigger = Trigger::Interval(Duration::from_secs(seconds));
    let schedules = vec![Schedule { trigger, ..Schedule::default() }];
    JobSpec { schedules, overlap, ..JobSpec::default() }
}

fn sec(seconds: i64) -> TimeDelta {
    TimeDelta::seconds(seconds)
}

/// Runs for each tenth second of the hour before, at most so many.
async fn backfill(world: &World, job: &Job, count: i64, at_once: u32) -> Backfilled {
    let now = world.now();
    let first = RunId::by_hand(now, 0);
    let run = |n: i64| NewRun {
        id: RunId::by_hand(now, (n as u128) << 64),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Backfill,
        fire_at: now - TimeDelta::hours(1) + sec(10 * n),
        due_at: now,
        extra: Some(Box::new(RunExtra {
            backfill: Some(BackfillGroup { first, at_once }),
            follow: job.spec.follow(),
            ..RunExtra::default()
        })),
    };
    let runs = (0..count).map(run).collect();
    let asked = Backfill { job: job.id, runs, request: None, dry_run: false };
    world.store.backfill(&asked, now).await.expect("made")
}

fn is_backfill(run: &RunRecord) -> bool {
    run.run.trigger == TriggerKind::Backfill
}

/// When each run was at work.
fn spans(world: &World, runs: &[RunRecord]) -> Vec<(bool, DateTime<Utc>, DateTime<Utc>)> {
    let span = |run: &RunRecord| {
        let executions = world.ledger.get(&run.run.id)?;
        let last = executions.last()?;
        Some((is_backfill(run), last.at, last.ended.unwrap_or(DateTime::<Utc>::MAX_UTC)))
    };
    runs.iter().filter_map(span).collect()
}

fn together(
    one: &(bool, DateTime<Utc>, DateTime<Utc>),
    other: &(bool, DateTime<Utc>, DateTime<Utc>),
) -> bool {
    one.1 < other.2 && other.1 < one.2
}

#[tokio::test]
async fn a_backfill_keeps_to_its_number_at_once_and_takes_no_fire_time_from_the_schedule() {
    for overlap in [OverlapPolicy::Skip, OverlapPolicy::Queue, OverlapPolicy::Replace] {
        let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
        world.steady("one", 50, sec(3)).await;
        let job = world.job("a", every(10, overlap)).await;
        world.pass(sec(5)).await;
        let done = backfill(&world, &job, 12, 2).await;
        assert_eq!(done, Backfilled { made: 12, had_run: 0 });
        world.pass(sec(120)).await;
        let runs = world.runs_of(&job).await;
        assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded), "{overlap:?}");
        let (back, own): (Vec<_>, Vec<_>) = runs.iter().partition(|run| is_backfill(run));
        assert_eq!((back.len(), own.len()), (12, 12), "{overlap:?}");
        let spans = spans(&world, &runs);
        for one in &spans {
            let beside: Vec<_> = spans.iter().filter(|other| together(one, other)).collect();
            let allowed = if one.0 { 2 } else { 1 };
            assert!(beside.len() <= allowed, "{overlap:?}: {} at once", beside.len());
        }
        assert!(spans.iter().any(|one| spans.iter().filter(|o| together(one, o)).count() == 2));
        for run in own {
            let waited = world.ledger[&run.run.id][0].at - run.run.fire_at;
            assert!(waited <= sec(3), "{overlap:?}: waited {waited}");
        }
        // The oldest fire time goes first.
        let mut began: Vec<_> =
            back.iter().map(|run| (world.ledger[&run.run.id][0].at, run.run.fire_at)).collect();
        began.sort_unstable();
        assert!(began.is_sorted_by_key(|(_, fire)| *fire), "{began:?}");
    }
}

#[tokio::test]
async fn where_overlap_is_allowed_a_backfill_runs_beside_the_schedule() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(8)).await;
    let job = world.job("a", every(10, OverlapPolicy::Allow)).await;
    world.pass(sec(5)).await;
    backfill(&world, &job, 6, 3).await;
    world.pass(sec(40)).await;
    let runs = world.runs_of(&job).await;
    let spans = spans(&world, &runs);
    let mixed = spans.iter().any(|one| spans.iter().any(|o| o.0 != one.0 && together(one, o)));
    assert!(mixed, "none ran beside another");
    for run in runs.iter().filter(|run| !is_backfill(run)) {
        assert_eq!(world.ledger[&run.run.id][0].at, run.run.fire_at, "on time");
    }
    for one in spans.iter().filter(|one| one.0) {
        assert!(spans.iter().filter(|o| o.0 && together(one, o)).count() <= 3);
    }
}

#[tokio::test]
async fn a_sharded_job_is_backfilled_by_whole_runs_one_after_the_other() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(3)).await;
    let placement = Placement { shard_total: 3, ..Placement::default() };
    let spec = JobSpec { placement, ..every(600, OverlapPolicy::Skip) };
    let job = world.job("a", spec).await;
    world.pass(sec(5)).await;
    assert_eq!(backfill(&world, &job, 4, 1).await, Backfilled { made: 4, had_run: 0 });
    world.pass(sec(60)).await;
    let runs = world.runs_of(&job).await;
    let (parents, shards): (Vec<_>, Vec<_>) = runs.iter().partition(|r| r.run.parent().is_none());
    assert_eq!((parents.len(), shards.len()), (4, 12));
    assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded));
    let mut spans: Vec<_> = parents
        .iter()
        .map(|parent| {
            let own = shards.iter().filter(|shard| shard.run.parent() == Some(parent.run.id));
            let told: Vec<_> = own.map(|shard| &world.ledger[&shard.run.id][0]).collect();
            let fires = told.iter().map(|told| told.command.fire_time.expect("one").seconds);
            assert!(fires.clone().all(|fire| fire == parent.run.fire_at.timestamp()));
            let begin = told.iter().map(|told| told.at).min();
            (begin.expect("three"), told.iter().filter_map(|told| told.ended).max().expect("ends"))
        })
        .collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one at once: {spans:?}");
}

#[tokio::test]
async fn a_backfill_goes_on_after_a_restart() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(3)).await;
    let job = world.job("a", every(600, OverlapPolicy::Skip)).await;
    world.pass(sec(5)).await;
    backfill(&world, &job, 10, 1).await;
    world.pass(sec(10)).await;
    let before = world.runs_of(&job).await;
    let ended = before.iter().filter(|run| run.run.state == RunState::Succeeded).count();
    assert!((1..10).contains(&ended), "{ended} ended");
    world.restart();
    world.steady("two", 50, sec(3)).await;
    world.pass(sec(240)).await;
    let runs = world.runs_of(&job).await;
    let back: Vec<_> = runs.iter().filter(|run| is_backfill(run)).collect();
    assert_eq!(back.len(), 10);
    assert!(back.iter().all(|run| run.run.state == RunState::Succeeded));
}

#[tokio::test]
async fn runs_of_a_backfill_wait_their_turn_without_expiring() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(5)).await;
    let hurried = JobSpec {
        queue_timeout: Some(Duration::from_secs(8)),
        max_queued: 2,
        ..every(600, OverlapPolicy::Queue)
    };
    let job = world.job("a", hurried).await;
    world.pass(sec(5)).await;
    backfill(&world, &job, 8, 1).await;
    world.pass(sec(60)).await;
    let runs = world.runs_of(&job).await;
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded));
}

/// What the API says of why each run of the backfill is in its state, the oldest fire time first.
async fn told(world: &World, job: &Job) -> Vec<(RunState, String)> {
    let mut runs = world.runs_of(job).await;
    runs.sort_by_key(|run| run.run.fire_at);
    let shown = |run: &RunRecord| convert::run::to_proto(run, None, false, world.now());
    runs.iter().map(|run| (run.run.state, shown(run).state_message)).collect()
}

#[tokio::test]
async fn runs_of_a_backfill_that_wait_for_their_turn_say_so() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let job = world.job("a", every(600, OverlapPolicy::Skip)).await;
    world.pass(sec(5)).await;
    backfill(&world, &job, 4, 2).await;
    world.pass(sec(5)).await;
    let turn = "waits for its turn: the backfill runs 2 at once";
    let why = told(&world, &job).await;
    assert!(why[..2].iter().all(|(_, why)| why.contains("no connected executor")), "{why:?}");
    assert!(why[2..].iter().all(|(_, why)| why.starts_with(turn)), "{why:?}");
    world.steady("one", 50, sec(20)).await;
    world.pass(sec(5)).await;
    let why = told(&world, &job).await;
    assert!(why[..2].iter().all(|(state, _)| *state == RunState::Running), "{why:?}");
    assert!(why[..2].iter().all(|(_, why)| !why.contains("waits for its turn")), "{why:?}");
    assert!(why[2..].iter().all(|(_, why)| why.starts_with(turn)), "{why:?}");
    world.pass(sec(60)).await;
    let why = told(&world, &job).await;
    assert!(why.iter().all(|end| *end == (RunState::Succeeded, String::new())), "{why:?}");
}

#[tokio::test]
async fn all_missed_fire_times_run_one_after_the_other_under_the_overlap_policy_skip() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(20)).await;
    let all = JobSpec { misfire: MisfirePolicy::FireAll, ..every(600, OverlapPolicy::Skip) };
    let job = world.job("a", all).await;
    world.pass(sec(30)).await;
    world.set_down(true);
    world.pass(sec(3600)).await;
    world.set_down(false);
    world.pass(sec(300)).await;
    let runs = world.runs_of(&job).await;
    let fires: Vec<i64> = runs
        .iter()
        .map(|run| (run.run.fire_at - at("2026-06-10T12:00:00Z")).num_minutes())
        .collect();
    assert_eq!(fires, [10, 20, 30, 40, 50, 60]);
    assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded));
    let spans = spans(&world, &runs);
    for one in &spans {
        assert_eq!(spans.iter().filter(|other| together(one, other)).count(), 1, "in turn");
    }
}
