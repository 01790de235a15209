//! What changes by itself: pauses end, schedules are used up, shown fire times pass.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, jobs::JobEntry, moment::Moment};
use crate::model::{
    ids::{JobId, PARTITION_COUNT, PartitionId},
    job::JobState,
};

/// How long the stored next fire time of a job may have passed that fires again within this time.
const NEXT_FIRE_STALE_MAX: TimeDelta = TimeDelta::seconds(60);

/// A job at its version.
pub type AtVersion = (JobId, u64);

/// Jobs that change by themselves.
#[derive(Default)]
pub struct SelfChanges {
    /// Their pause has an end, and it passed.
    pub resume: Vec<AtVersion>,
    /// They have schedules, and all of them are over.
    pub expire: Vec<AtVersion>,
    /// Their calendars leave no fire time; with the words to show.
    pub shut: Vec<(AtVersion, String)>,
}

impl Board {
    /// Jobs that are to change by themselves, at most `max` of each kind. Of very many jobs those of one
    /// partition at a time are looked at, and fire times are served meanwhile.
    pub fn jobs_to_change(&self, now: DateTime<Utc>, max: usize) -> SelfChanges {
        let mut changes = SelfChanges::default();
        for partition in (0..PARTITION_COUNT).map(PartitionId) {
            let inner = self.inner.lock();
            for entry in inner.jobs.of(partition).filter(|entry| !entry.deleted) {
                changes.look_at(entry, now, max);
            }
        }
        changes
    }

    /// Jobs whose stored next fire time has passed, with the true one; at most `max`. Of those that
    /// fire often a passed one stays for [`NEXT_FIRE_STALE_MAX`]: whoever reads them works it out.
    pub fn next_fires_to_show(
        &self,
        now: DateTime<Utc>,
        max: usize,
    ) -> Vec<(JobId, Option<DateTime<Utc>>)> {
        let passed = Moment::from(now);
        let mut next = Vec::new();
        for partition in (0..PARTITION_COUNT).map(PartitionId) {
            let mut inner = self.inner.lock();
            let jobs = inner.jobs.of_mut(partition);
            let stale = jobs.filter(|entry| !entry.deleted && entry.shown <= passed);
            let shown = stale.filter_map(|entry| Some((entry.id, show_next(entry, now)?)));
            next.extend(shown.take(max - next.len()));
        }
        next
    }
}

impl SelfChanges {
    fn look_at(&mut self, entry: &JobEntry, now: DateTime<Utc>, max: usize) {
        let job = entry.at_version();
        if entry.state == JobState::Paused {
            let until = entry.work().pause_until;
            if until.is_some_and(|until| until <= now) && self.resume.len() < max {
                self.resume.push(job);
            }
        } else if entry.next == Moment::NONE && entry.fires() {
            if self.expire.len() < max && entry.is_over(now) {
                self.expire.push(job);
            }
            if self.shut.len() < max && entry.is_shut() {
                self.shut.extend(entry.shut_out(now).map(|why| (job, why)));
            }
        }
    }
}

/// What is to be shown of a job from now on, if it is something else than is stored.
fn show_next(entry: &mut JobEntry, now: DateTime<Utc>) -> Option<Option<DateTime<Utc>>> {
    let often = entry.next.get().is_some_and(|next| next - now <= NEXT_FIRE_STALE_MAX);
    if often && entry.shown.get().is_some_and(|shown| now - shown < NEXT_FIRE_STALE_MAX) {
        return None;
    }
    // What calendars shut out is not searched for again and again.
    let next = if entry.fires() && !entry.is_shut() { entry.next_after(now) } else { None };
    if entry.shown == next.into() {
        return None;
    }
    entry.shown = next.into();
    Some(next)
}
