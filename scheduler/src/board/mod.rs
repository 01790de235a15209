//! What an owner keeps in memory of its partitions: jobs with their next fire times, runs that are
//! due, waiting or sent, and the limits among them. No I/O and no clock: the loops move it, the
//! store's answers correct it.
//!
//! Memory may lag behind the rows, never the other way round: every write that follows from it is
//! guarded in SQL, and whoever meets a failed guard reads the row again and merges it here.

mod admission;
mod backfill;
mod fires;
mod fresh;
mod jobs;
mod kinds;
mod lanes;
mod limits;
mod missed;
mod moment;
mod parents;
mod queue;
mod runs;
mod table;
mod upkeep;

use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use admission::Replacement;
pub use jobs::KnownJob;
pub use lanes::{Demand, LaneKey, PRIORITY_STEP, Pick};
pub use limits::AppRoom;
pub use missed::Late;
pub use parents::ToSplit;
pub use runs::{DueStep, Live, Sent};
pub use upkeep::{AtVersion, SelfChanges};

use crate::{
    model::{
        app::AppSpec,
        ids::{AppId, JobId, PARTITION_COUNT, PartitionId, RunId},
        job::{Job, JobSpec},
        route::{RouteCursor, Uses},
        run::OpenRun,
    },
    store::ops::{Advance, OpenRuns, PartitionRow},
};
use queue::FireQueue;
use runs::DueQueue;

/// The owner's memory, shared by its loops and by whoever hears of a run's end.
#[derive(Default)]
pub struct Board {
    inner: Mutex<Inner>,
    /// Wakes the owner's loop early when a run's end or return lets something else go on.
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    partitions: BTreeMap<PartitionId, PartitionRow>,
    jobs: table::Jobs,
    kinds: kinds::Kinds,
    fires: FireQueue,
    runs: HashMap<RunId, Live>,
    due: DueQueue,
    lanes: HashMap<Arc<LaneKey>, lanes::Lane>,
    /// Sent runs by executor, for the judgement of lost ones.
    sent: HashMap<(AppId, Arc<str>), HashSet<RunId>>,
    /// (when to look, run, fence): timeouts and queue timeouts. Outdated entries fall through.
    deadlines: BinaryHeap<std::cmp::Reverse<(DateTime<Utc>, RunId, u64)>>,
    parents: parents::Parents,
    apps: HashMap<AppId, AppSpec>,
    /// Apps that have limits.
    limits: HashMap<AppId, limits::Limited>,
    /// Jobs with runs that overlap or a limit keeps back; may name some that have none any more.
    held: HashSet<JobId>,
    /// Of those, the ones with a run that replaces earlier ones, which is named.
    replacing: HashMap<JobId, RunId>,
    /// Runs that have no row yet, by the time of their ids.
    unwritten: BTreeSet<RunId>,
    /// From when on nobody but this owner can have written runs of fire times.
    fresh: fresh::Fresh,
    /// The store refused what was to be written of a partition or a job.
    refused: bool,
    /// Partitions with runs beyond their stored `planned_until` or `served_until`.
    behind: BTreeSet<PartitionId>,
}

/// What an owner loads when it takes partitions.
#[derive(Default)]
pub struct Adoption {
    /// The partitions' rows.
    pub partitions: Vec<PartitionRow>,
    /// Their jobs.
    pub jobs: Vec<Job>,
    /// Their open runs.
    pub open: OpenRuns,
    /// What routes that count have counted.
    pub uses: Vec<(JobId, Uses)>,
    /// Newest ends of runs of jobs with a delay.
    pub last_ends: Vec<(JobId, DateTime<Utc>)>,
}

impl Board {
    /// Takes over partitions with what the store has of them.
    pub fn adopt(&self, adoption: Adoption) {
        let mut inner = self.inner.lock();
        for row in &adoption.partitions {
            inner.partitions.insert(row.id, *row);
            inner.fresh.taken(row.id);
        }
        let ends: HashMap<_, _> = adoption.last_ends.into_iter().collect();
        let mut uses: HashMap<_, _> = adoption.uses.into_iter().collect();
        for job in &adoption.jobs {
            inner.put_job(job);
            if let Some(entry) = inner.jobs.get_mut(job.id) {
                entry.set_cursor(RouteCursor { turn: None, uses: uses.remove(&job.id) });
                ends.get(&job.id).into_iter().for_each(|end| entry.run_ended(*end));
            }
        }
        let specs = index(&adoption.open);
        for run in adoption.open.runs {
            inner.merge_run(run, &specs);
        }
        for job in &adoption.jobs {
            inner.queue_next_fire(job.id);
        }
        for row in &adoption.partitions {
            inner.jobs.trim(row.id);
        }
    }

    /// Forgets everything: the pen is gone, and with it every partition.
    pub fn clear(&self) {
        *self.inner.lock() = Inner::default();
    }

    /// The partitions held.
    pub fn partitions(&self) -> Vec<PartitionRow> {
        self.inner.lock().partitions.values().copied().collect()
    }

    /// Puts changed jobs in place, with all their open runs that were never sent as they stand, the
    /// newest ends of runs of those with a delay, and the versions of their partitions. Runs that were
    /// sent stay: what becomes of them is told for each.
    pub fn replace_jobs(
        &self,
        rows: &[PartitionRow],
        jobs: Vec<Job>,
        open: OpenRuns,
        last_ends: &[(JobId, DateTime<Utc>)],
    ) {
        let mut inner = self.inner.lock();
        for row in rows {
            if let Some(held) = inner.partitions.get_mut(&row.id) {
                held.jobs_version = row.jobs_version;
                held.planned_until = held.planned_until.max(row.planned_until);
            }
        }
        let changed: HashMap<JobId, DateTime<Utc>> =
            jobs.iter().map(|job| (job.id, inner.unplanned_from(job))).collect();
        let mut specs = index(&open);
        let unsent: HashSet<RunId> = open.runs.iter().map(|run| run.id).collect();
        let mut runs = open.runs;
        let mut stale = Vec::new();
        for live in inner.runs.values().filter(|live| changed.contains_key(&live.run.job)) {
            let (run, was_sent) = (&live.run, live.run.fence > 0);
            if !inner.jobs.contains(run.job) {
                // It came before its job, and counts as seen for the first time.
                stale.push(run.id);
                if was_sent {
                    specs.insert((run.job, run.revision), live.spec.clone());
                    runs.push(run.clone());
                }
            } else if !was_sent && !unsent.contains(&run.id) {
                stale.push(run.id);
            }
        }
        for id in stale {
            inner.drop_run(id, None);
        }
        for job in &jobs {
            inner.put_job(job);
            inner.fresh.changed(job.id);
        }
        for (job, end) in last_ends {
            if let Some(entry) = inner.jobs.get_mut(*job) {
                entry.run_ended(*end);
            }
        }
        for run in runs {
            inner.merge_run(run, &specs);
        }
        for (id, from) in changed {
            inner.queue_changed(id, from);
        }
    }

    /// Puts rows in place as they stand; of `asked`, those without a row have ended or were
    /// removed.
    pub fn merge(&self, asked: &[RunId], open: OpenRuns, now: DateTime<Utc>) {
        let mut inner = self.inner.lock();
        let specs = index(&open);
        let there: HashSet<RunId> = open.runs.iter().map(|run| run.id).collect();
        for run in open.runs {
            inner.merge_run(run, &specs);
        }
        for id in asked.iter().filter(|id| !there.contains(id)) {
            // A `delay` counts from the end of what had come, and would name its fire time again.
            let had_come = inner.runs.get(id).is_some_and(|live| live.run.fire_at <= now);
            inner.drop_run(*id, had_come.then_some(now));
        }
    }

    /// Gives partitions away: their jobs and runs are another owner's.
    pub fn release(&self, partitions: &[PartitionId]) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let gone = |partition: &PartitionId| partitions.contains(partition);
        let runs = inner.runs.values().filter(|live| gone(&live.run.partition));
        let runs: Vec<RunId> = runs.map(|live| live.run.id).collect();
        for id in runs {
            inner.unlink(id);
            inner.runs.remove(&id);
        }
        inner.partitions.retain(|id, _| !gone(id));
        inner.behind.retain(|id| !gone(id));
        partitions.iter().for_each(|id| inner.fresh.gave(*id));
        inner.held.retain(|job| !gone(&job.partition()));
        inner.replacing.retain(|job, _| !gone(&job.partition()));
        inner.fires.release(|partition| gone(&partition));
        for partition in partitions {
            inner.jobs.release(*partition);
        }
    }

    /// How far the partitions are planned and served.
    pub fn standing(&self, partitions: &[PartitionId]) -> Vec<Advance> {
        let inner = self.inner.lock();
        let rows = partitions.iter().filter_map(|id| inner.partitions.get(id));
        rows.map(|row| Advance {
            partition: row.id,
            epoch: row.epoch,
            jobs_version: row.jobs_version,
            planned_until: row.planned_until,
            served_until: row.served_until,
        })
        .collect()
    }

    /// Whether the partition is held.
    pub fn holds(&self, partition: PartitionId) -> bool {
        self.inner.lock().partitions.contains_key(&partition)
    }

    /// Whether every partition is held.
    pub fn holds_all(&self) -> bool {
        self.inner.lock().partitions.len() == usize::from(PARTITION_COUNT)
    }

    /// Whether the run is with an executor.
    pub fn is_sent(&self, run: RunId) -> bool {
        self.inner.lock().runs.get(&run).is_some_and(|live| live.run.state.is_sent())
    }

    /// Whether a run of which only the id is known is surely one of this owner's.
    pub fn is_known(&self, run: RunId) -> bool {
        let inner = self.inner.lock();
        inner.partitions.len() == usize::from(PARTITION_COUNT) || inner.runs.contains_key(&run)
    }

    /// A run waits again; the row as it is now.
    pub fn put_back(&self, run: OpenRun) {
        self.inner.lock().merge_run(run, &Specs::new());
        self.changed.notify_one();
    }

    /// A run has ended (at `at`): frees what it held. Safe to call for unknown runs.
    pub fn ended(&self, run: RunId, at: DateTime<Utc>) {
        if self.inner.lock().drop_run(run, Some(at)) {
            self.changed.notify_one();
        }
    }

    /// Returns when a run's end has let in another, or planned one.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How long an executor of the run may be out of contact: the job's word, else the app's.
    pub fn lost_after(&self, run: &OpenRun, spec: &JobSpec) -> Option<Duration> {
        spec.lost_after.or_else(|| self.inner.lock().apps.get(&run.app)?.lost_after)
    }

    /// The spec of the revision that a run was planned with.
    pub fn spec_of(&self, run: RunId) -> Option<Arc<JobSpec>> {
        self.inner.lock().runs.get(&run).map(|live| live.spec.clone())
    }

    /// The run as remembered.
    pub fn run(&self, id: RunId) -> Option<OpenRun> {
        self.inner.lock().runs.get(&id).map(|live| live.run.clone())
    }

    /// The ids of all runs that may be with an executor, some of which may have ended; `None` unless
    /// every partition is held, since the runs of the others are not known here.
    pub fn may_hold(&self, app: AppId, executor: &str) -> Option<Vec<RunId>> {
        let inner = self.inner.lock();
        if inner.partitions.len() < usize::from(PARTITION_COUNT) {
            return None;
        }
        let sent = inner.sent.get(&(app, Arc::from(executor)));
        Some(sent.into_iter().flatten().copied().collect())
    }

    /// How many jobs and runs are held, for metrics.
    pub fn sizes(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.jobs.len(), inner.runs.len())
    }

    /// Up to here due runs of all partitions were taken in hand; `None` if none is held.
    pub fn served_until(&self) -> Option<DateTime<Utc>> {
        self.inner.lock().partitions.values().map(|row| row.served_until).min()
    }

    /// Everything due until `now` is in hand.
    pub fn set_served(&self, now: DateTime<Utc>) {
        for row in self.inner.lock().partitions.values_mut() {
            row.served_until = now;
        }
    }

    /// When the next fire time comes, a run is due or a deadline passes; `None`: nothing is known.
    pub fn next_wake(&self) -> Option<DateTime<Utc>> {
        let inner = self.inner.lock();
        let deadline = inner.deadlines.peek().map(|entry| entry.0.0);
        [inner.fires.next(), inner.due.next(), deadline].into_iter().flatten().min()
    }
}

type Specs = HashMap<(JobId, u64), Arc<JobSpec>>;

fn index(open: &OpenRuns) -> Specs {
    open.specs.iter().map(|spec| ((spec.job, spec.revision), spec.spec.clone())).collect()
}

#[cfg(test)]
mod tests;
