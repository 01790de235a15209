//! The coming fire times of many jobs, in order, and which minutes are crowded.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use chrono::{DateTime, DurationRound, TimeDelta, Utc};

use super::{
    job::{Job, JobState},
    plan,
    schedule::Compiled,
};

/// Minutes looked at on either side of a fire time for a quieter one.
pub const AROUND_MINUTES: i64 = 30;
/// Jobs that fire in one minute from which it is called crowded.
pub const CROWDED_MIN: usize = 10;

/// A job that will fire, with its schedules made ready.
#[derive(Clone, Debug)]
pub struct Coming {
    /// The job.
    pub job: Arc<Job>,
    compiled: Vec<Arc<Compiled>>,
}

/// One coming fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fire {
    /// Place of the job in what was asked about.
    pub index: usize,
    /// When.
    pub at: DateTime<Utc>,
    /// When its run is due: later by the job's share of a spread.
    pub due: DateTime<Utc>,
    /// The zone of the schedule that names it.
    pub time_zone: String,
}

impl Coming {
    /// `None` for a job that won't fire by itself: its schedules can't be read, or it is paused
    /// without an end.
    pub fn of(job: Job) -> Option<Self> {
        let paused_for_good = job.state == JobState::Paused && job.pause_until.is_none();
        if job.state == JobState::Expired || paused_for_good || !job.problem.is_empty() {
            return None;
        }
        let compiled = plan::compile_all(&job).ok().filter(|compiled| !compiled.is_empty())?;
        Some(Self { job: Arc::new(job), compiled })
    }

    /// The first fire time after `after`, and the schedule that names it.
    fn next(&self, after: DateTime<Utc>) -> Option<(DateTime<Utc>, &Compiled)> {
        let resumed = match self.job.state {
            JobState::Paused => {
                self.job.pause_until.map(|until| until - TimeDelta::milliseconds(1))
            }
            _ => Some(self.job.effective_from),
        };
        let after = resumed.map_or(after, |from| after.max(from));
        let created = self.job.created_at;
        let fires =
            self.compiled.iter().filter_map(|c| Some((c.next_fire(after, created)?, c.as_ref())));
        fires.min_by_key(|(at, _)| *at)
    }
}

/// The fires from `start` on and before `end`, ordered by time and then by the jobs' places; at
/// most the first `max`. With `last` only those behind it.
pub fn fires(
    jobs: &[Coming],
    start: DateTime<Utc>,
    end: DateTime<Utc>,
    last: Option<(DateTime<Utc>, usize)>,
    max: usize,
) -> Vec<Fire> {
    let from = last.map_or(start, |(at, _)| at) - TimeDelta::milliseconds(1);
    let mut heap = BinaryHeap::with_capacity(jobs.len());
    for (index, coming) in jobs.iter().enumerate() {
        // At the last one's own instant only the jobs behind it are still to come.
        let shown = last.is_some_and(|(_, place)| index <= place);
        let after = if shown { from + TimeDelta::milliseconds(1) } else { from };
        let next = coming.next(after).filter(|(at, _)| *at < end);
        heap.extend(next.map(|(at, _)| Reverse((at, index))));
    }
    let mut found = Vec::new();
    while found.len() < max
        && let Some(Reverse((at, index))) = heap.pop()
    {
        let coming = &jobs[index];
        let named = coming.next(at - TimeDelta::milliseconds(1));
        let due = plan::due_at(&coming.job.name, coming.job.created_at, &coming.compiled, at);
        let time_zone = named.map(|(_, schedule)| schedule.time_zone().to_owned());
        found.push(Fire { index, at, due, time_zone: time_zone.unwrap_or_default() });
        let next = coming.next(at).filter(|(at, _)| *at < end);
        heap.extend(next.map(|(at, _)| Reverse((at, index))));
    }
    found
}

/// A minute in which many jobs fire, and a quieter one near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many jobs fire in the minute that was asked about.
    pub jobs: usize,
    /// The quiet minute's begin.
    pub quiet: DateTime<Utc>,
    /// How many jobs fire in that one.
    pub quiet_jobs: usize,
}

/// Whether the minute of `at` is crowded, when a minute near it has at most half as many jobs.
///
/// Each job is asked once per minute at most in which it fires.
pub fn crowd(jobs: &[Coming], at: DateTime<Utc>) -> Option<Crowd> {
    let minute = at.duration_trunc(TimeDelta::minutes(1)).ok()?;
    let around = TimeDelta::minutes(AROUND_MINUTES);
    let (first, end) = (minute - around, minute + around + TimeDelta::minutes(1));
    let mut counts: BTreeMap<i64, usize> =
        (-AROUND_MINUTES..=AROUND_MINUTES).map(|offset| (offset, 0)).collect();
    for coming in jobs {
        let mut after = first - TimeDelta::milliseconds(1);
        while let Some((fire, _)) = coming.next(after).filter(|(fire, _)| *fire < end) {
            let offset = (fire - minute).num_milliseconds().div_euclid(60_000);
            *counts.entry(offset).or_default() += 1;
            after = minute + TimeDelta::minutes(offset + 1) - TimeDelta::milliseconds(1);
        }
    }
    let jobs = counts.get(&0).copied().unwrap_or(0);
    let quiet = counts.iter().min_by_key(|(offset, count)| (**count, offset.abs()))?;
    let (offset, quiet_jobs) = (*quiet.0, *quiet.1);
    (jobs >= CROWDED_MIN && quiet_jobs * 2 <= jobs).then(|| Crowd {
        jobs,
        quiet: minute + TimeDelta::minutes(offset),
        quiet_jobs,
    })
}
