//! Which runs a job's schedules make within a stretch of time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use super::{
    ids::RunId,
    job::{Job, JobState},
    misfire::{self, Decided, Missed, Timetable},
    run::{NewRun, Skip, TriggerKind},
    schedule::{Compiled, SPREAD_MAX, ScheduleError},
};

/// Fire times between the end of a pause and what is planned already, which are planned with it.
const RESUMED_FIRES_MAX: usize = 1_000;
/// Fire times that an owner may be about to serve: each second of the longest misfire threshold, a day.
const PASSED_FIRES_MAX: usize = 86_401;

/// The schedules of a job made ready, in their order; on failure the faults with their index.
///
/// # Errors
/// Every fault of every schedule.
pub fn compile_all(job: &Job) -> Result<Vec<Arc<Compiled>>, Vec<(usize, ScheduleError)>> {
    let mut compiled = Vec::with_capacity(job.spec.schedules.len());
    let mut faults = Vec::new();
    for (index, schedule) in job.spec.schedules.iter().enumerate() {
        match schedule.compile_with(&job.calendars) {
            Ok(ready) => compiled.push(Arc::new(ready)),
            Err(found) => faults.extend(found.into_iter().map(|fault| (index, fault))),
        }
    }
    if faults.is_empty() { Ok(compiled) } else { Err(faults) }
}

/// Faults of schedules in one line.
pub fn in_words<'a>(faults: impl Iterator<Item = &'a ScheduleError>) -> String {
    faults.map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// The runs that the job's schedules make for fire times after `from` and before `until`, both
/// exclusive, ordered by fire time; at most the first `max`.
///
/// A job that is not active, and the time up to its `effective_from`, make none; a fire time that
/// two schedules share is one run, due at the earlier of both. Delays make none here: they count
/// from the end of a run. A caller that gets `max` runs goes on from the last one's fire time.
pub fn fires_between(
    job: &Job,
    compiled: &[Arc<Compiled>],
    from: DateTime<Utc>,
    until: DateTime<Utc>,
    max: usize,
) -> Vec<NewRun> {
    collect(job, compiled, |_| from, until, max)
}

/// The runs to put in place of those that a change of the job at `now` removed: all that are due
/// after `now` and have a fire time before `planned_until`. With a spread that includes fire times
/// that have passed already, also if less was planned: the owner goes on from `now`.
pub fn replan(
    job: &Job,
    compiled: &[Arc<Compiled>],
    now: DateTime<Utc>,
    planned_until: DateTime<Utc>,
    max: usize,
) -> Vec<NewRun> {
    let until = planned_until.max(now);
    let mut runs = collect(job, compiled, |offset| now - offset, until, max);
    runs.retain(|run| run.due_at > now);
    runs
}

/// The runs of a job that was just resumed: all of its fire times since its pause ended that its
/// partition counts as planned. The pause may have ended a little before anybody noticed.
pub fn resumed_fires(job: &Job, planned_until: DateTime<Utc>) -> Vec<NewRun> {
    let compiled = compile_all(job).unwrap_or_default();
    fires_between(job, &compiled, job.effective_from, planned_until, RESUMED_FIRES_MAX)
}

/// The runs of a job that is about to change at `now`: of its fire times that have come and that its
/// partition does not count as planned, since the owner is only about to serve them. Those older
/// than the misfire threshold are the misfire policy's, see [`missed_fires`].
pub fn passed_fires(job: &Job, planned_until: DateTime<Utc>, now: DateTime<Utc>) -> Vec<NewRun> {
    let from = planned_until.max(misfire_limit(job, now));
    if from > now {
        return Vec::new();
    }
    let compiled = compile_all(job).unwrap_or_default();
    let (from, until) = (from - TimeDelta::milliseconds(1), now + TimeDelta::microseconds(1));
    fires_between(job, &compiled, from, until, PASSED_FIRES_MAX)
}

/// The fire times of a job that is about to change at `now` that nobody served in time, as when its
/// partition has no owner: after the change no owner would look for them. With them come the runs of
/// those that their spread has put off: they are not late.
pub fn missed_fires(
    job: &Job,
    planned_until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> (Missed, Vec<NewRun>) {
    let limit = misfire_limit(job, now);
    if planned_until >= limit || !job.fires() {
        return (Missed::default(), Vec::new());
    }
    let compiled = compile_all(job).unwrap_or_default();
    let first = next_fire(job, &compiled, planned_until - TimeDelta::milliseconds(1));
    let timetable = Timetable::of(job, &compiled);
    let (missed, spread) = misfire::missed_before(&timetable, first, limit);
    let due_at = |at| due_at(&job.name, job.created_at, &compiled, at);
    let runs = spread.iter().map(|at| planned_run(job, *at, due_at(*at)));
    // Those to come are the replan's.
    (missed, runs.filter(|run| run.due_at <= now).collect())
}

/// Fire times before this are too late to be served as usual. To the millisecond, as they are.
fn misfire_limit(job: &Job, now: DateTime<Utc>) -> DateTime<Utc> {
    (now - job.spec.misfire_threshold()).trunc_subsecs(3)
}

/// What the misfire policy of a job that is about to change makes of fire times that nobody served:
/// runs, and the row of those left out. `decided` is what was decided about them before.
pub fn settle_missed(
    job: &Job,
    mut missed: Missed,
    decided: &Decided,
    now: DateTime<Utc>,
) -> (Vec<NewRun>, Option<Skip>) {
    let compiled = compile_all(job).unwrap_or_default();
    decided.take_out(&mut missed, |at| next_fire(job, &compiled, at));
    let made_up = misfire::make_up(&job.spec, &missed.newest, now);
    let gap = misfire::gap(&missed, &made_up);
    let skip = gap.map(|gap| misfire::skip(job.id, job.app, (job.revision, &job.spec), &gap));
    let run = |at: &DateTime<Utc>| {
        let trigger = TriggerKind::Misfire;
        NewRun { trigger, ..planned_run(job, *at, *at) }
    };
    (made_up.iter().map(run).collect(), skip)
}

/// Fire times of each schedule after what `from` says for its spread offset.
fn collect(
    job: &Job,
    compiled: &[Arc<Compiled>],
    from: impl Fn(TimeDelta) -> DateTime<Utc>,
    until: DateTime<Utc>,
    max: usize,
) -> Vec<NewRun> {
    if job.state != JobState::Active || job.deleted {
        return Vec::new();
    }
    let mut due_by_fire: BTreeMap<DateTime<Utc>, DateTime<Utc>> = BTreeMap::new();
    for schedule in compiled {
        let offset = spread_offset(&job.name, schedule);
        let mut after = from(offset).max(job.effective_from);
        for _ in 0..max {
            let Some(fire_at) = schedule.next_fire(after, job.created_at) else { break };
            if fire_at >= until {
                break;
            }
            let due_at = fire_at + offset;
            due_by_fire.entry(fire_at).and_modify(|due| *due = due_at.min(*due)).or_insert(due_at);
            after = fire_at;
        }
    }
    let runs = due_by_fire.into_iter().take(max);
    runs.map(|(fire_at, due_at)| planned_run(job, fire_at, due_at)).collect()
}

/// The fire times that the schedules name from `start` on and before `end`, in order, each once; at
/// most the first `max`. Neither the job's state nor what it was told to fire from counts.
pub fn fire_times(
    job: &Job,
    compiled: &[Arc<Compiled>],
    start: DateTime<Utc>,
    end: DateTime<Utc>,
    max: usize,
) -> Vec<DateTime<Utc>> {
    let mut found = BTreeSet::new();
    for schedule in compiled {
        let mut after = start - TimeDelta::milliseconds(1);
        for _ in 0..max {
            match schedule.next_fire(after, job.created_at) {
                Some(fire) if fire < end => after = fire,
                _ => break,
            }
            found.insert(after);
        }
    }
    found.into_iter().take(max).collect()
}

/// The first fire time after `after` of any of the schedules; `None` when there is none any more,
/// or only ends of runs make one.
pub fn next_fire(
    job: &Job,
    compiled: &[Arc<Compiled>],
    after: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    first_fire(compiled, job.created_at, after.max(job.effective_from))
}

/// The first fire time after `after` of any of the schedules; intervals count from the job's creation.
pub fn first_fire(
    compiled: &[Arc<Compiled>],
    created_at: DateTime<Utc>,
    after: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    compiled.iter().filter_map(|schedule| schedule.next_fire(after, created_at)).min()
}

/// Why none of the schedules that are not over fires any more after `from`, when their calendars are to
/// blame; intervals count from the job's creation.
pub fn shut_out(
    created_at: DateTime<Utc>,
    compiled: &[Arc<Compiled>],
    from: DateTime<Utc>,
) -> Option<String> {
    let mut left = compiled.iter().filter(|c| !c.never_fires(from, created_at));
    let first = left.next()?.closed_for_good(from, created_at)?;
    left.all(|c| c.closed_for_good(from, created_at).is_some()).then_some(first)
}

/// How much later than its fire time a run of the job of that name is due: a hash of the name.
pub fn spread_offset(job_name: &str, schedule: &Compiled) -> TimeDelta {
    let offset = schedule.spread_offset(job_name);
    TimeDelta::from_std(offset.min(SPREAD_MAX)).unwrap_or_default()
}

/// When the run of a fire time is due: later by the spread of the schedule that names it, the
/// shortest if several do; intervals count from the job's creation.
pub fn due_at(
    job_name: &str,
    created_at: DateTime<Utc>,
    compiled: &[Arc<Compiled>],
    fire_at: DateTime<Utc>,
) -> DateTime<Utc> {
    if !compiled.iter().any(|schedule| schedule.is_spread()) {
        return fire_at;
    }
    let before = fire_at - TimeDelta::milliseconds(1);
    let names = |c: &&Arc<Compiled>| c.next_fire(before, created_at) == Some(fire_at);
    let offsets = compiled.iter().filter(names).map(|schedule| spread_offset(job_name, schedule));
    fire_at + offsets.min().unwrap_or_default()
}

/// The run of one fire time of the job's schedule.
pub fn planned_run(job: &Job, fire_at: DateTime<Utc>, due_at: DateTime<Utc>) -> NewRun {
    NewRun {
        id: RunId::scheduled(job.id, fire_at),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Schedule,
        fire_at,
        due_at,
        extra: job.spec.run_extra(),
    }
}

/// The pause after a run's end of the first delay among the schedules.
pub fn delay(compiled: &[Arc<Compiled>]) -> Option<Duration> {
    compiled.iter().find_map(|schedule| schedule.delay())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        ids::{AppId, JobId},
        job::JobSpec,
        schedule::{Schedule, Trigger},
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
    }

    fn every(seconds: u64) -> Schedule {
        Schedule { trigger: Trigger::Interval(Duration::from_secs(seconds)), ..Schedule::default() }
    }

    fn job(schedules: Vec<Schedule>) -> (Job, Vec<Arc<Compiled>>) {
        let job = Job {
            id: JobId(7),
            app: AppId(1),
            spec: Arc::new(JobSpec { schedules, ..JobSpec::default() }),
            revision: 3,
            ..Job::draft("demo", "hello", at(0))
        };
        let compiled = compile_all(&job).expect("good schedules");
        (job, compiled)
    }

    fn fires(runs: &[NewRun]) -> Vec<i64> {
        runs.iter().map(|run| (run.fire_at - at(0)).num_seconds()).collect()
    }

    #[test]
    fn both_ends_are_exclusive_and_a_shared_fire_time_is_one_run() {
        let (job, compiled) = job(vec![every(10), every(15)]);
        let runs = fires_between(&job, &compiled, at(0), at(60), 100);
        assert_eq!(fires(&runs), [10, 15, 20, 30, 40, 45, 50]);
        assert_eq!(runs[3].id, RunId::scheduled(job.id, at(30)));
        assert_eq!(runs[3].revision, 3);
        assert_eq!(fires(&fires_between(&job, &compiled, at(10), at(30), 100)), [15, 20]);
        assert_eq!(fires(&fires_between(&job, &compiled, at(0), at(60), 3)), [10, 15, 20]);
    }

    #[test]
    fn nothing_fires_before_the_schedule_is_in_effect_or_while_paused() {
        let (mut job, compiled) = job(vec![every(10)]);
        job.effective_from = at(30);
        assert_eq!(fires(&fires_between(&job, &compiled, at(0), at(60), 100)), [40, 50]);
        assert_eq!(next_fire(&job, &compiled, at(0)), Some(at(40)));
        job.state = JobState::Paused;
        assert!(fires_between(&job, &compiled, at(0), at(60), 100).is_empty());
    }

    #[test]
    fn x11_a_spread_run_whose_fire_time_has_passed_is_planned_again() {
        let spread = Schedule { spread: Duration::from_secs(3600), ..every(7200) };
        let (job, compiled) = job(vec![spread]);
        let offset = spread_offset(&job.name, &compiled[0]);
        assert!(offset > TimeDelta::seconds(2), "the hash of this name spreads it");
        let now = at(7200) + TimeDelta::seconds(1);
        let runs = replan(&job, &compiled, now, now + TimeDelta::seconds(5), 100);
        assert_eq!(fires(&runs), [7200]);
        assert_eq!(runs[0].due_at, at(7200) + offset);
        assert_eq!(replan(&job, &compiled, now, at(0), 100), runs, "the owner goes on from now");
        let late = at(7200) + offset;
        assert!(replan(&job, &compiled, late, late + TimeDelta::seconds(5), 100).is_empty());
    }
}
