//! Fire times that nobody served: after an outage, a stop of the machine, a step of the clock.

use std::{collections::BTreeSet, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::clock::Clock as _;
use clawjob_scheduler::model::{
    ids::{AttemptRef, PARTITION_COUNT, PartitionId, RunId},
    job::{Job, JobSpec, MisfirePolicy, OverlapPolicy},
    run::{NewRun, RunRecord, RunState, Skip, TriggerKind},
    schedule::{Schedule, Trigger},
};
use clawjob_scheduler::store::{
    SharedStore,
    ops::{Advance, EndAnswer, EndRun, JobChange, Plan, PlanRow, ReplanInput},
};

use crate::world::{World, at, cron};

const POLICIES: [MisfirePolicy; 3] =
    [MisfirePolicy::Skip, MisfirePolicy::FireOnce, MisfirePolicy::FireAll];

fn spec(schedule: Schedule, misfire: MisfirePolicy) -> JobSpec {
    JobSpec {
        schedules: vec![schedule],
        misfire,
        overlap: OverlapPolicy::Allow,
        ..JobSpec::default()
    }
}

fn every(seconds: u64) -> Schedule {
    Schedule { trigger: Trigger::Interval(Duration::from_secs(seconds)), ..Schedule::default() }
}

fn sec(seconds: i64) -> TimeDelta {
    TimeDelta::seconds(seconds)
}

/// The database is away from the one instant to the other.
async fn outage(world: &mut World, from: DateTime<Utc>, until: DateTime<Utc>) {
    world.run_until(from).await;
    world.set_down(true);
    world.run_until(until).await;
    world.set_down(false);
}

/// How each fire time of a job was decided: those that ran, and those that a row says were not.
/// Fails when one has no row, or more than one.
fn decided(
    runs: &[RunRecord],
    fires: &[DateTime<Utc>],
) -> (BTreeSet<DateTime<Utc>>, BTreeSet<DateTime<Utc>>) {
    let (mut ran, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let gap = |run: &&RunRecord| run.missed_until.is_some();
    let counted: u32 = runs.iter().filter(gap).map(|run| run.missed_count).sum();
    let mut in_gaps = 0;
    for fire in fires {
        let own = runs.iter().filter(|run| run.run.fire_at == *fire && !gap(run));
        let within = runs
            .iter()
            .filter(gap)
            .filter(|run| (run.run.fire_at..=run.missed_until.expect("a gap")).contains(fire));
        let own: Vec<&RunRecord> = own.collect();
        match (own.as_slice(), within.count()) {
            ([one], _) if one.run.state == RunState::Succeeded => {
                ran.insert(*fire);
            }
            ([one], _) => {
                assert_eq!(one.run.state, RunState::Skipped, "{fire}");
                assert!(one.run.message.contains("not served in time"), "{}", one.run.message);
                skipped.insert(*fire);
            }
            ([], 1) => {
                in_gaps += 1;
                skipped.insert(*fire);
            }
            (own, gaps) => panic!("{fire} has {} rows and {gaps} gaps", own.len()),
        }
    }
    assert_eq!(counted, in_gaps, "gaps count what they stand for");
    let known: BTreeSet<_> = fires.iter().copied().collect();
    assert!(runs.iter().all(|run| known.contains(&run.run.fire_at)), "a run out of turn");
    (ran, skipped)
}

fn series(first: DateTime<Utc>, step: TimeDelta, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    std::iter::successors(Some(first), |at| Some(*at + step))
        .take_while(|at| *at <= until)
        .collect()
}

#[tokio::test]
async fn x12_an_hour_away_fires_none_one_or_all_of_six_each_with_its_reason() {
    let mut world = World::new(at("2026-06-10T11:55:00Z")).await;
    world.steady("one", 50, sec(1)).await;
    let mut jobs = Vec::new();
    for policy in POLICIES {
        let name = format!("{policy:?}").to_lowercase();
        jobs.push(world.job(&name, spec(cron("*/10 * * * *", ""), policy)).await);
    }
    let (from, until) = (at("2026-06-10T12:05:00Z"), at("2026-06-10T13:05:00Z"));
    outage(&mut world, from, until).await;
    world.run_until(at("2026-06-10T13:15:00Z")).await;
    let fires = series(at("2026-06-10T12:00:00Z"), sec(600), at("2026-06-10T13:10:00Z"));
    let missed: BTreeSet<_> = fires[1..7].iter().copied().collect();
    for (job, wanted) in jobs.iter().zip([0, 1, 6]) {
        let runs = world.runs_of(job).await;
        let (ran, skipped) = decided(&runs, &fires);
        let made_up = ran.intersection(&missed).count();
        assert_eq!((made_up, skipped.len()), (wanted, 6 - wanted), "{}", job.name);
        let late = runs.iter().filter(|run| run.run.trigger == TriggerKind::Misfire);
        assert_eq!(late.count(), wanted, "{}: made up for, and shown as that", job.name);
        if let Some(gap) = runs.iter().find(|run| run.missed_until.is_some()) {
            let policy = if wanted == 0 { "SKIP" } else { "FIRE_ONCE" };
            assert!(gap.run.message.contains(policy), "{}", gap.run.message);
        }
    }
}

#[tokio::test]
async fn fire_all_keeps_to_its_maximum_and_its_window_and_records_the_rest() {
    let mut world = World::new(at("2026-06-10T11:55:00Z")).await;
    world.steady("one", 50, sec(1)).await;
    let all = spec(every(60), MisfirePolicy::FireAll);
    let few = world.job("few", JobSpec { misfire_max: 7, ..all.clone() }).await;
    let window = Some(Duration::from_secs(600));
    let near = world.job("near", JobSpec { misfire_window: window, ..all.clone() }).await;
    let usual = world.job("usual", all).await;
    let (from, until) = (at("2026-06-10T12:00:30Z"), at("2026-06-10T14:00:30Z"));
    outage(&mut world, from, until).await;
    world.run_until(at("2026-06-10T14:02:30Z")).await;
    let fires = series(at("2026-06-10T11:56:00Z"), sec(60), at("2026-06-10T14:02:00Z"));
    for (job, made_up) in [(few, 7), (near, 10), (usual, 100)] {
        let (ran, skipped) = decided(&world.runs_of(&job).await, &fires);
        assert_eq!((ran.len(), skipped.len()), (5 + made_up + 2, 120 - made_up), "{}", job.name);
        let oldest = ran.iter().find(|at| **at > from).expect("one was made up for");
        assert!(skipped.iter().all(|at| at < oldest), "the newest are made up for");
    }
}

#[tokio::test]
async fn x4_after_30_seconds_without_the_database_each_job_follows_its_policy() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 200, TimeDelta::zero()).await;
    let mut jobs = Vec::new();
    for policy in POLICIES {
        for seconds in [1, 7, 20] {
            let name = format!("{policy:?}-{seconds}").to_lowercase();
            jobs.push((seconds, policy, world.job(&name, spec(every(seconds), policy)).await));
        }
    }
    let (from, until) = (at("2026-06-10T12:01:00Z"), at("2026-06-10T12:01:30Z"));
    outage(&mut world, from, until).await;
    let end = at("2026-06-10T12:02:30Z");
    world.run_until(end + sec(1)).await;
    for (seconds, policy, job) in jobs {
        let step = sec(seconds as i64);
        let fires = series(at("2026-06-10T12:00:00Z") + step, step, end);
        let runs: Vec<_> =
            world.runs_of(&job).await.into_iter().filter(|run| run.run.fire_at <= end).collect();
        let (_, skipped) = decided(&runs, &fires);
        let in_outage = fires.iter().filter(|at| **at > from && **at < until - sec(5)).count();
        // Those of the last five seconds are late, not missed.
        let wanted = match policy {
            MisfirePolicy::FireAll => 0,
            MisfirePolicy::Skip => in_outage,
            MisfirePolicy::FireOnce => in_outage.saturating_sub(1),
        };
        assert_eq!(skipped.len(), wanted, "{}", job.name);
    }
}

#[tokio::test]
async fn x9_a_stall_of_ten_seconds_loses_no_second_of_many_jobs() {
    // The whole count: 300 jobs, an hour.
    let soak = std::env::var_os("CLAWJOB_SOAK").is_some();
    let (count, minutes) = if soak { (300, 60) } else { (30, 3) };
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 2_000, TimeDelta::zero()).await;
    let mut jobs = Vec::new();
    for n in 0..count {
        let policy = if n % 2 == 0 { MisfirePolicy::FireAll } else { MisfirePolicy::Skip };
        jobs.push((policy, world.job(&format!("job-{n}"), spec(every(1), policy)).await));
    }
    let middle = begin + TimeDelta::minutes(minutes) / 2;
    outage(&mut world, middle, middle + sec(10)).await;
    let end = begin + TimeDelta::minutes(minutes);
    world.run_until(end + sec(1)).await;
    let fires = series(begin + sec(1), sec(1), end);
    let mut runs = world.runs().await;
    runs.retain(|run| run.run.fire_at <= end);
    for (policy, job) in jobs {
        let own: Vec<_> = runs.iter().filter(|run| run.run.job == job.id).cloned().collect();
        let (ran, skipped) = decided(&own, &fires);
        match policy {
            MisfirePolicy::FireAll => assert_eq!((ran.len(), skipped.len()), (fires.len(), 0)),
            // The five seconds before it came back are late, not missed.
            _ => assert_eq!(skipped.len(), 4, "{}", job.name),
        }
    }
}

#[tokio::test]
async fn a_machine_that_was_suspended_settles_what_it_slept_through() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(1)).await;
    let mut jobs = Vec::new();
    for policy in POLICIES {
        let name = format!("{policy:?}").to_lowercase();
        jobs.push(world.job(&name, spec(every(60), policy)).await);
    }
    world.run_until(at("2026-06-10T12:05:30Z")).await;
    // Nothing moves for two hours but the clock.
    world.clock.advance(Duration::from_secs(2 * 3600));
    world.run_until(at("2026-06-10T14:10:30Z")).await;
    let fires = series(at("2026-06-10T12:01:00Z"), sec(60), at("2026-06-10T14:10:00Z"));
    for (job, wanted) in jobs.iter().zip([0, 1, 100]) {
        let (_, skipped) = decided(&world.runs_of(job).await, &fires);
        assert_eq!(skipped.len(), 120 - wanted, "{}", job.name);
    }
}

#[tokio::test]
async fn r33_a_clock_put_back_an_hour_runs_nothing_twice_and_nothing_early() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, TimeDelta::zero()).await;
    let job = world.job("a", spec(every(60), MisfirePolicy::FireAll)).await;
    world.run_until(at("2026-06-10T13:00:30Z")).await;
    world.clock.step_to(at("2026-06-10T12:00:30Z"));
    world.run_until(at("2026-06-10T13:10:30Z")).await;
    let fires = series(at("2026-06-10T12:01:00Z"), sec(60), at("2026-06-10T13:10:00Z"));
    let (ran, _) = decided(&world.runs_of(&job).await, &fires);
    assert_eq!(ran.len(), fires.len());
    for (run, executions) in &world.ledger {
        assert_eq!(executions.len(), 1, "{run} ran again");
        assert!(executions[0].at >= run.time(), "{run} ran before its time");
    }
}

#[tokio::test]
async fn a_clock_put_forward_is_a_gap_like_any_other() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, TimeDelta::zero()).await;
    let once = world.job("once", spec(every(60), MisfirePolicy::FireOnce)).await;
    world.run_until(at("2026-06-10T12:02:30Z")).await;
    world.clock.step_to(at("2026-06-10T13:02:30Z"));
    world.run_until(at("2026-06-10T13:05:30Z")).await;
    let fires = series(at("2026-06-10T12:01:00Z"), sec(60), at("2026-06-10T13:05:00Z"));
    let (ran, skipped) = decided(&world.runs_of(&once).await, &fires);
    assert_eq!((ran.len(), skipped.len()), (2 + 1 + 3, 59));
}

#[tokio::test]
async fn a_scheduler_that_died_while_it_settled_a_gap_is_finished_by_the_next() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 50, sec(1)).await;
    let job = world.job("a", spec(every(60), MisfirePolicy::FireOnce)).await;
    let away = at("2026-06-10T12:10:30Z");
    outage(&mut world, away, at("2026-06-10T13:00:30Z")).await;
    // It had come back, decided about the first gap, and died before it planned on.
    half_settled(&world, &job, &series(at("2026-06-10T12:11:00Z"), sec(60), world.now())).await;
    world.set_down(true);
    world.run_until(at("2026-06-10T13:20:30Z")).await;
    world.set_down(false);
    world.run_until(at("2026-06-10T13:25:30Z")).await;
    let fires = series(begin + sec(60), sec(60), at("2026-06-10T13:25:00Z"));
    let (ran, skipped) = decided(&world.runs_of(&job).await, &fires);
    // 10 before, one for each of both gaps, 5 after.
    assert_eq!((ran.len(), skipped.len()), (10 + 2 + 5, 49 + 19));
}

/// What an owner writes of a gap: the newest fire time runs, the others are one row.
async fn half_settled(world: &World, job: &Job, missed: &[DateTime<Utc>]) {
    let all: Vec<_> = (0..PARTITION_COUNT).map(PartitionId).collect();
    let rows = world.store.take_partitions("another", &all, world.now()).await.expect("taken");
    let row = rows.iter().find(|row| row.id == job.partition).expect("all of them");
    let (newest, others) = missed.split_last().expect("some were missed");
    let (first, last) = (others[0], others[others.len() - 1]);
    let run = NewRun {
        id: RunId::scheduled(job.id, *newest),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Misfire,
        fire_at: *newest,
        due_at: *newest,
        extra: None,
    };
    let skip = Skip {
        id: RunId::scheduled(job.id, first),
        job: job.id,
        app: job.app,
        revision: job.revision,
        fire_at: first,
        message: "missed".to_owned(),
        missed_count: u32::try_from(others.len()).expect("few"),
        missed_until: last,
    };
    let advance = Advance {
        partition: row.id,
        epoch: row.epoch,
        jobs_version: row.jobs_version,
        planned_until: row.planned_until,
        served_until: row.served_until,
    };
    let plan = Plan {
        advances: vec![advance],
        runs: vec![run.into()],
        skips: vec![skip],
        ..Plan::default()
    };
    let planned = world.store.plan(&plan, world.now()).await.expect("planned");
    assert_eq!(planned.inserted.len(), 1);
}

/// What an owner writes of fire times that it serves and does not run.
async fn serve_without_running(store: &SharedStore, job: &Job, fires: &[DateTime<Utc>]) {
    let now = fires[fires.len() - 1];
    let took = store.take_partitions("another", &[job.partition], now).await.expect("taken");
    let [row] = &took[..] else { panic!("it is free") };
    let run = |fire: &DateTime<Utc>| NewRun {
        id: RunId::scheduled(job.id, *fire),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Schedule,
        fire_at: *fire,
        due_at: *fire,
        extra: None,
    };
    let runs: Vec<NewRun> = fires.iter().map(run).collect();
    let skip = |run: &NewRun| {
        EndRun::skip(AttemptRef { run: run.id, attempt: 1, fence: 0 }, "not wanted".to_owned())
    };
    let ends: Vec<EndRun> = runs.iter().map(skip).collect();
    let advance = Advance {
        partition: row.id,
        epoch: row.epoch,
        jobs_version: row.jobs_version,
        planned_until: row.planned_until,
        served_until: row.served_until,
    };
    let runs = runs.into_iter().map(PlanRow::from).collect();
    let plan = Plan { advances: vec![advance], runs, ..Plan::default() };
    assert_eq!(store.plan(&plan, now).await.expect("planned").inserted.len(), fires.len());
    for answer in store.end_runs(&ends, now).await.expect("ended") {
        assert_eq!(answer, EndAnswer::Ended(job.id));
    }
    store.release_partitions(&[job.partition]).await.expect("given back");
}

#[tokio::test]
async fn what_another_owner_did_while_a_takeover_took_long_is_not_done_again() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 50, sec(0)).await;
    let job = world.job("often", spec(every(1), MisfirePolicy::FireAll)).await;
    world.pass(sec(5)).await;
    world.restart();
    let fires: Vec<_> = (1..=20).map(|n| begin + sec(5 + n)).collect();
    let (store, clock, served) = (world.store.clone(), world.clock.clone(), job.clone());
    let skipped = fires.clone();
    world.flaky.meanwhile("take_partitions", async move {
        serve_without_running(&store, &served, &skipped).await;
        clock.advance(Duration::from_secs(20));
    });
    world.settle().await;
    world.steady("one", 50, sec(0)).await;
    world.pass(sec(30)).await;
    for fire in &fires {
        let run = RunId::scheduled(job.id, *fire);
        assert_eq!(world.ledger.get(&run).map(Vec::len), None, "{fire} was not to run");
        assert_eq!(world.run(run).await.run.state, RunState::Skipped);
    }
    let unseen: Vec<_> = world.flaky.fresh().into_iter().map(|run| run.time()).collect();
    assert!(unseen.iter().all(|at| !fires.contains(at)), "written without a look: {unseen:?}");
    let later = RunId::scheduled(job.id, begin + sec(40));
    assert_eq!(world.ledger[&later].len(), 1, "it goes on after that");
}

#[tokio::test]
async fn a_spread_run_whose_time_has_not_come_is_late_for_nothing() {
    let begin = at("2026-06-10T11:58:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 50, sec(1)).await;
    let spread = Schedule { spread: Duration::from_secs(1800), ..cron("0 * * * *", "") };
    let job = world.job("report", spec(spread.clone(), MisfirePolicy::Skip)).await;
    let fire = at("2026-06-10T12:00:00Z");
    let offset = spread.compile().expect("good").spread_offset("report");
    assert!(offset > Duration::from_secs(600), "the hash of this name spreads it: {offset:?}");
    outage(&mut world, at("2026-06-10T11:59:30Z"), at("2026-06-10T12:05:00Z")).await;
    world.run_until(at("2026-06-10T12:59:00Z")).await;
    let runs = world.runs_of(&job).await;
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!((run.run.fire_at, run.run.state), (fire, RunState::Succeeded));
    assert_eq!(world.ledger[&run.run.id][0].at, fire + offset);
}

/// Each of them was in hand when it fell due, and stayed so until the restart.
#[tokio::test]
async fn what_overlap_or_a_limit_keeps_waiting_is_not_missed_at_a_restart() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 50, sec(60)).await;
    let queue = JobSpec { overlap: OverlapPolicy::Queue, ..spec(every(10), MisfirePolicy::Skip) };
    let once = JobSpec { misfire: MisfirePolicy::FireOnce, ..queue.clone() };
    let limited = JobSpec { max_concurrency: 1, ..spec(every(10), MisfirePolicy::Skip) };
    let spread = Schedule { spread: Duration::from_secs(40), ..every(10) };
    let spread = JobSpec { schedules: vec![spread], ..queue.clone() };
    let mut jobs = Vec::new();
    for (name, spec) in [("queue", queue), ("once", once), ("limited", limited), ("apart", spread)]
    {
        jobs.push(world.job(name, spec).await);
    }
    world.run_until(at("2026-06-10T12:02:05Z")).await;
    world.restart();
    world.steady("two", 50, sec(1)).await;
    world.run_until(at("2026-06-10T12:10:00Z")).await;
    for job in jobs {
        let runs = world.runs_of(&job).await;
        assert!(runs.len() > 50, "{}: {} runs", job.name, runs.len());
        let skipped = runs.iter().filter(|run| run.run.state == RunState::Skipped);
        let skipped: Vec<_> = skipped.map(|run| (run.run.fire_at, &run.run.message)).collect();
        assert_eq!(skipped, [], "{}", job.name);
    }
}

#[tokio::test]
async fn a_job_that_changes_while_its_missed_fire_times_are_settled_misses_none() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 50, sec(1)).await;
    let job = world.job("all", spec(every(10), MisfirePolicy::FireAll)).await;
    let (store, clock, id) = (world.store.clone(), world.clock.clone(), job.id);
    world.flaky.meanwhile("load_decided", async move {
        let none = Box::new(|_: &ReplanInput| Vec::new());
        let changed = store.change_job(id, &JobChange::by("me"), none, clock.now()).await;
        changed.expect("changed");
    });
    outage(&mut world, begin + sec(5), begin + sec(65)).await;
    world.run_until(begin + sec(95)).await;
    let runs = world.runs_of(&job).await;
    assert_eq!(world.store.get_job(&job.app_name, &job.name).await.expect("found").version, 2);
    let fires = series(begin + sec(10), sec(10), begin + sec(90));
    let (ran, skipped) = decided(&runs, &fires);
    assert_eq!((ran.len(), skipped.len()), (9, 0));
}

#[tokio::test]
async fn the_missed_fire_times_of_very_many_jobs_are_settled_each_by_its_own_policy() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 2_000, sec(1)).await;
    let mut jobs = Vec::new();
    for n in 0..300 {
        let spec = spec(every(10), POLICIES[n % POLICIES.len()]);
        jobs.push(world.job(&format!("j{n}"), spec).await);
    }
    outage(&mut world, begin + sec(5), begin + sec(65)).await;
    world.run_until(begin + sec(75)).await;
    let fires = series(begin + sec(10), sec(10), begin + sec(70));
    for (n, job) in jobs.iter().enumerate() {
        let (ran, skipped) = decided(&world.runs_of(job).await, &fires);
        // The last two came when the database was there again, or within the misfire threshold.
        assert_eq!(ran.len(), [2, 3, 7][n % POLICIES.len()], "{}: {ran:?} {skipped:?}", job.name);
    }
}
