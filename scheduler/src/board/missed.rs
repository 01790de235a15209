//! Fire times that passed while nobody served them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, Inner};
use crate::model::{
    ids::{JobId, RunId},
    job::Job,
    misfire::{self, Missed},
    run::{NewRun, TriggerKind},
};

/// A job with fire times that nobody served.
pub struct Late {
    /// The job.
    pub job: Arc<Job>,
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
        for Reverse((fire, id)) in &inner.fires.0 {
            if *fire < now && inner.jobs.get(id).is_some_and(|entry| entry.next == Some(*fire)) {
                ids.insert(*id);
            }
        }
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
        let Some(entry) = inner.jobs.get_mut(&job) else { return };
        inner.behind.insert(entry.job.partition);
        if entry.next.is_some_and(|next| next < limit) {
            entry.next = entry.next_after(limit - TimeDelta::milliseconds(1));
            if let Some(next) = entry.next {
                inner.fires.0.push(Reverse((next, job)));
            }
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
        inner.jobs.get(&job).map(|entry| entry.new_run(fire_at, trigger))
    }

    /// The first fire time of the job after `after`.
    pub fn fire_after(&self, job: JobId, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.inner.lock().jobs.get(&job)?.next_after(after)
    }
}

/// What a job missed, if it did.
fn late_job(inner: &Inner, id: JobId, mut rows: Vec<RunId>, now: DateTime<Utc>) -> Option<Late> {
    let entry = inner.jobs.get(&id).filter(|entry| entry.fires())?;
    let limit = now - entry.job.spec.misfire_threshold();
    let (unplanned, spread) =
        misfire::missed_before(&entry.job, &entry.compiled, entry.next, limit);
    rows.retain(|run| inner.runs.get(run).is_some_and(|live| live.run.due_at < limit));
    if rows.is_empty() && unplanned.newest.is_empty() {
        return None;
    }
    rows.sort_by_key(|run| inner.runs.get(run).map(|live| live.run.fire_at));
    Some(Late { job: entry.job.clone(), unplanned, spread, queued: rows })
}
