//! A whole day on a clock that is moved by hand: a hundred jobs, an executor that is lost, a slow
//! one, and a database that is away for a while. At the end every fire time is accounted for. The
//! same on the days of 23 and of 25 hours.

#[path = "support/flaky.rs"]
mod flaky;
#[path = "support/world.rs"]
mod world;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::model::{
    ids::{JobId, RunId},
    job::{Job, JobSpec, MisfirePolicy, OverlapPolicy},
    run::{RunRecord, RunState},
    schedule::{Schedule, Trigger},
};
use world::{Execution, World, at, cron};

/// When the database goes away, for so long.
const OUTAGE: (TimeDelta, TimeDelta) = (TimeDelta::hours(13), TimeDelta::seconds(95));
/// When one executor vanishes for good.
const LOSS: TimeDelta = TimeDelta::minutes(6 * 60 + 3);

/// A mix of what companies have.
fn spec(index: usize, time_zone: &str) -> JobSpec {
    let minute = index % 60;
    let schedule = match index % 10 {
        0 => cron(&format!("{minute} 2 * * *"), time_zone),
        1 => cron(&format!("{minute} * * * *"), time_zone),
        2 => cron("*/15 * * * *", time_zone),
        3 => cron("0 0/10 * * * ?", time_zone),
        4 => cron(&format!("0 {minute} 1-4 * * *"), time_zone),
        5 => Schedule {
            trigger: Trigger::Interval(Duration::from_secs(300 + index as u64)),
            ..Schedule::default()
        },
        6 => cron(&format!("30 {minute} 2 * * ?"), time_zone),
        7 => cron("*/5 8-18 * * *", time_zone),
        8 => cron(&format!("@every {}m", 7 + index % 5), time_zone),
        _ => cron("* * * * *", time_zone),
    };
    let overlap = match index % 3 {
        0 => OverlapPolicy::Skip,
        1 => OverlapPolicy::Allow,
        _ => OverlapPolicy::Queue,
    };
    let misfire =
        if index.is_multiple_of(2) { MisfirePolicy::FireOnce } else { MisfirePolicy::Skip };
    JobSpec { schedules: vec![schedule], overlap, misfire, ..JobSpec::default() }
}

async fn simulate(begin: DateTime<Utc>, hours: i64, jobs: usize, time_zone: &str) {
    let mut world = World::new(begin).await;
    let mut made = Vec::new();
    for index in 0..jobs {
        made.push(world.job(&format!("job-{index}"), spec(index, time_zone)).await);
    }
    world.steady("lost", 20, TimeDelta::seconds(2)).await;
    world.steady("slow", 20, TimeDelta::seconds(90)).await;
    world.steady("steady", 20, TimeDelta::seconds(1)).await;
    world.run_until(begin + LOSS).await;
    world.lose("lost");
    world.run_until(begin + OUTAGE.0).await;
    world.set_down(true);
    world.pass(OUTAGE.1).await;
    world.set_down(false);
    let end = begin + TimeDelta::hours(hours);
    world.run_until(end).await;
    // What was under way ends.
    world.pass(TimeDelta::minutes(20)).await;
    let fires = check(&made, &world.runs().await, &world.ledger, begin, end);
    println!("{fires} fire times of {jobs} jobs in {hours} h are accounted for");
}

/// Every fire time has one row of its own, or lies in one recorded gap; what succeeded was executed.
fn check(
    jobs: &[Job],
    runs: &[RunRecord],
    ledger: &HashMap<RunId, Vec<Execution>>,
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
) -> usize {
    let mut rows: HashMap<JobId, BTreeMap<DateTime<Utc>, Vec<&RunRecord>>> = HashMap::new();
    for run in runs {
        rows.entry(run.run.job).or_default().entry(run.run.fire_at).or_default().push(run);
    }
    let mut fires = 0;
    let mut faults = BTreeSet::new();
    for job in jobs {
        let compiled = job.spec.schedules[0].compile().expect("a schedule");
        let rows = rows.remove(&job.id).unwrap_or_default();
        let mut next = compiled.next_fire(begin, job.created_at);
        while let Some(fire) = next.filter(|fire| *fire < end) {
            fires += 1;
            let own = rows.get(&fire).map_or(0, Vec::len);
            let gaps = rows.values().flatten().filter(|run| {
                run.missed_count > 1
                    && run.run.fire_at < fire
                    && run.missed_until.is_some_and(|until| fire <= until)
            });
            let gaps = gaps.count();
            if own + gaps != 1 {
                faults.insert(format!("{} at {fire}: {own} rows, {gaps} gaps", job.name));
            }
            next = compiled.next_fire(fire, job.created_at);
        }
    }
    for run in runs {
        let executed = ledger.get(&run.run.id).map_or(0, Vec::len);
        let state = run.run.state;
        if state == RunState::Succeeded && executed == 0 {
            faults.insert(format!("{} succeeded without having been executed", run.run.id));
        }
        if state == RunState::Skipped && executed > 0 {
            faults.insert(format!("{} is skipped but was executed", run.run.id));
        }
        if executed > 1 + run.run.lost as usize {
            faults.insert(format!("{} was executed {executed} times", run.run.id));
        }
        if !state.is_final() && run.run.fire_at < end {
            faults.insert(format!("{} has no end: {state:?}", run.run.id));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{faults:#?}", faults.len());
    fires
}

#[tokio::test]
async fn a_dispatch_whose_answer_was_lost_is_sent_after_all() {
    let begin = at("2026-06-10T22:00:00Z");
    let mut world = World::new(begin).await;
    let spec = JobSpec { schedules: vec![cron("* * * * *", "UTC")], ..JobSpec::default() };
    world.job("job", spec).await;
    world.steady("one", 20, TimeDelta::seconds(1)).await;
    world.pass(TimeDelta::seconds(150)).await;
    world.flaky.lose_next_dispatch();
    world.pass(TimeDelta::seconds(180)).await;
    let states: Vec<_> = world.runs().await.iter().map(|run| run.run.state).collect();
    assert_eq!(states, [RunState::Succeeded; 5]);
    assert!(world.ledger.values().all(|executions| executions.len() == 1), "{:?}", world.ledger);
}

#[tokio::test]
async fn a_day_with_faults_accounts_for_every_fire_time() {
    simulate(at("2026-06-10T22:00:00Z"), 24, 100, "Europe/Berlin").await;
}

#[tokio::test]
async fn r1_a_day_of_25_hours_accounts_for_every_fire_time() {
    simulate(at("2026-10-24T22:00:00Z"), 25, 30, "Europe/Berlin").await;
}

#[tokio::test]
async fn r2_a_day_of_23_hours_accounts_for_every_fire_time() {
    simulate(at("2026-03-28T23:00:00Z"), 23, 30, "Europe/Berlin").await;
}
