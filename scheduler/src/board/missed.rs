//! Fire times that passed while nobody served them.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, Inner, KnownJob, moment::Moment};
use crate::model::{
    ids::{JobId, RunId},
    misfire::{self, Missed},
    run::{NewRun, TriggerKind},
};

/// A job with fire times that nobody served.
pub struct Late {
    /// The job.
    pub job: KnownJob,
    /// Fire times without a row.
    pub unplanned: Missed,
    /// Fire times without a row that passed too, but are spread over a time that goes on.
    pub spread: Vec<DateTime<Utc>>,
    /// Rows that are queued and were due while nobody dispatched.
    pub queued: Vec<RunId>,
}

impl Board {
    /// Jobs with fire times before `now` that nobody served and that passed their misfire threshold,
    /// at most `max`; their unplanned fire times are taken out of the queue and come again by
    /// [`Board::settle_late`].
    ///
    /// A run that has a row is judged by its own partition's `served_until`, which follows each row
    /// within about a second. The others' may be hours old: nothing of them was due.
    pub fn late(&self, now: DateTime<Utc>, max: usize) -> Vec<Late> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut queued: BTreeMap<JobId, Vec<RunId>> = BTreeMap::new();
        for live in inner.runs.values() {
            let row = inner.partitions.get(&live.run.partition);
            if !row.is_some_and(|row| live.was_due_unserved(row.served_until, now)) {
                continue;
            }
            queued.entry(live.run.job).or_default().push(live.run.id);
        }
        let mut ids: HashSet<JobId> = queued.keys().copied().collect();
        let before = Moment::from(now);
        let passed = inner.fires.passed(before).filter_map(|slot| inner.jobs.at(slot));
        let passed = passed.filter(|entry| entry.next != Moment::NONE && entry.next < before);
        ids.extend(passed.map(|entry| entry.id));
        let mut late = Vec::new();
        for id in ids {
            let rows = queued.remove(&id).unwrap_or_default();
            late.extend(late_job(inner, id, rows, now));
            if late.len() == max {
                break;
            }
        }
        late
    }

    /// The job's missed fire times up to `limit` are decided and stored: it goes on after them.
    pub fn settle_late(&self, job: JobId, limit: DateTime<Utc>) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(slot) = inner.jobs.slot(job) else { return };
        let Some(entry) = inner.jobs.at(slot) else { return };
        inner.behind.insert(job.partition());
        if entry.next.get().is_some_and(|next| next < limit) {
            let next = entry.next_after(limit - TimeDelta::milliseconds(1));
            inner.set_next(slot, next);
        }
    }

    /// The run of a fire time of a job, for one that was missed or one that is still spread.
    pub fn late_run(
        &self,
        job: JobId,
        fire_at: DateTime<Utc>,
        trigger: TriggerKind,
    ) -> Option<NewRun> {
        let inner = self.inner.lock();
        let slot = inner.jobs.slot(job)?;
        Some(inner.jobs.at(slot)?.new_run(inner.jobs.name(slot), fire_at, trigger))
    }

    /// The first fire time of the job after `after`.
    pub fn fire_after(&self, job: JobId, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.inner.lock().jobs.get(job)?.next_after(after)
    }
}

/// What a job missed, if it did.
fn late_job(inner: &Inner, id: JobId, mut rows: Vec<RunId>, now: DateTime<Utc>) -> Option<Late> {
    let slot = inner.jobs.slot(id)?;
    let entry = inner.jobs.at(slot).filter(|entry| entry.fires())?;
    let limit = now - entry.kind.spec.misfire_threshold();
    let timetable = entry.timetable(inner.jobs.name(slot));
    let (unplanned, spread) = misfire::missed_before(&timetable, entry.next.get(), limit);
    rows.retain(|run| inner.runs.get(run).is_some_and(|live| live.run.due_at < limit));
    if rows.is_empty() && unplanned.newest.is_empty() {
        return None;
    }
    rows.sort_by_key(|run| inner.runs.get(run).map(|live| live.run.fire_at));
    Some(Late { job: inner.known_job(slot)?, unplanned, spread, queued: rows })
}
