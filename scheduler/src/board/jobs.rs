//! Jobs and their coming fire times.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, Inner};
use crate::{
    model::{
        ids::{JobId, PartitionId, RunId},
        job::{Job, JobState},
        misfire::{MISSED_COUNT_MAX, Missed},
        run::{NewRun, TriggerKind},
        schedule::{Compiled, Schedule},
    },
    store::ops::{Advance, PartitionRow},
};

/// Compiled schedules kept for sharing; the map is swept when it grows past this.
const COMPILED_MAX: usize = 10_000;
/// Fire times tried per window while looking back for the newest missed one.
const LOOK_BACK_SECONDS: [i64; 6] =
    [60, 3_600, 86_400, 31 * 86_400, 366 * 86_400, 5 * 366 * 86_400];

/// A job with what the owner knows of it.
pub struct JobEntry {
    /// The job.
    pub job: Arc<Job>,
    /// Its schedules, ready to compute.
    pub(super) compiled: Vec<Arc<Compiled>>,
    /// Registration row of the executor that round robin chose last; 0 before the first.
    pub cursor: u64,
    /// When its last run ended; `delay` counts from here.
    pub(super) last_end: Option<DateTime<Utc>>,
    /// Its first fire time that is not planned.
    pub(super) next: Option<DateTime<Utc>>,
    /// Open runs that its schedules made; a `delay` waits for their end.
    pub(super) planned: usize,
    /// Runs that overlap and limits count: due, let in, not ended.
    pub(super) admitted: Vec<RunId>,
    /// Due runs that wait for an admitted one to end.
    pub(super) pending: VecDeque<RunId>,
}

impl JobEntry {
    fn fires(&self) -> bool {
        self.job.state == JobState::Active && !self.job.deleted && self.job.problem.is_empty()
    }

    /// The first fire time after `after` of any of its schedules.
    fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let after = after.max(self.job.effective_from);
        self.compiled.iter().filter_map(|c| c.next_fire(after, self.job.created_at)).min()
    }

    /// The next fire time that counts from the end of the last run.
    fn next_delayed(&self) -> Option<DateTime<Utc>> {
        let delay = self.compiled.iter().filter_map(|c| c.delay()).min()?;
        let from =
            self.last_end.map_or(self.job.effective_from, |end| end.max(self.job.effective_from));
        Some(from + delay)
    }

    /// When a fire time may be dispatched: later by the spread of the schedule that names it.
    fn due_at(&self, fire_at: DateTime<Utc>) -> DateTime<Utc> {
        let before = fire_at - TimeDelta::milliseconds(1);
        let offset = self
            .compiled
            .iter()
            .filter(|c| c.next_fire(before, self.job.created_at) == Some(fire_at))
            .map(|c| c.spread_offset(&self.job.name))
            .min()
            .unwrap_or_default();
        fire_at + offset
    }

    /// The run of a fire time.
    pub(crate) fn new_run(&self, fire_at: DateTime<Utc>, trigger: TriggerKind) -> NewRun {
        let due_at = if trigger == TriggerKind::Schedule { self.due_at(fire_at) } else { fire_at };
        NewRun {
            id: RunId::scheduled(self.job.id, fire_at),
            job: self.job.id,
            app: self.job.app,
            revision: self.job.revision,
            trigger,
            fire_at,
            due_at,
            extra: self.job.spec.run_extra(),
        }
    }
}

/// Next fire times of all jobs. Entries that no longer match their job's `next` fall through.
#[derive(Default)]
pub(super) struct FireQueue(BinaryHeap<Reverse<(DateTime<Utc>, JobId)>>);

/// One step of planning, as the store's `plan` takes it.
#[derive(Default)]
pub struct PlanStep {
    /// The partitions it moves.
    pub advances: Vec<Advance>,
    /// The runs it makes.
    pub runs: Vec<NewRun>,
    /// More fire times lie before the horizon.
    pub more: bool,
    /// Where each job stood before the step, for those whose partition does not move.
    before: HashMap<JobId, DateTime<Utc>>,
}

/// A job with fire times that nobody served.
pub struct Late {
    /// The job.
    pub job: Arc<Job>,
    /// Fire times without a row.
    pub unplanned: Missed,
    /// Rows that are queued and were due while nobody dispatched.
    pub queued: Vec<RunId>,
}

impl Board {
    /// The fire times before `until`, at most `max`, with the partitions they are of. The step is
    /// confirmed by [`Board::planned`].
    pub fn plan_step(&self, until: DateTime<Utc>, served: DateTime<Utc>, max: usize) -> PlanStep {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut step = PlanStep::default();
        let mut reached = until;
        while let Some(Reverse((fire, id))) = inner.fires.0.peek().copied() {
            if fire >= until {
                break;
            }
            if step.runs.len() == max {
                step.more = true;
                reached = fire;
                break;
            }
            inner.fires.0.pop();
            let Some(entry) = inner.jobs.get_mut(&id) else { continue };
            if entry.next != Some(fire) {
                continue;
            }
            step.runs.push(entry.new_run(fire, TriggerKind::Schedule));
            step.before.entry(id).or_insert(fire);
            entry.next = entry.next_after(fire);
            if let Some(next) = entry.next {
                inner.fires.0.push(Reverse((next, id)));
            }
        }
        // Partitions without a fire time before the horizon need no move: nothing of theirs would
        // be planned again. A step without any runs tells how far all of them were served.
        let planned: HashSet<PartitionId> =
            step.runs.iter().map(|run| run.job.partition()).collect();
        step.advances = inner
            .partitions
            .values()
            .filter(|row| planned.is_empty() || planned.contains(&row.id))
            .map(|row| Advance {
                partition: row.id,
                epoch: row.epoch,
                jobs_version: row.jobs_version,
                planned_until: row.planned_until.max(reached),
                served_until: row.served_until.max(served),
            })
            .collect();
        step
    }

    /// What the store made of a step: runs that were inserted are now queued here; jobs of partitions
    /// that did not move are planned again after a reload.
    pub fn planned(&self, step: PlanStep, advanced: &[PartitionId], inserted: &[RunId]) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let advanced: HashSet<PartitionId> = advanced.iter().copied().collect();
        let inserted: HashSet<RunId> = inserted.iter().copied().collect();
        for advance in step.advances.iter().filter(|a| advanced.contains(&a.partition)) {
            if let Some(row) = inner.partitions.get_mut(&advance.partition) {
                row.planned_until = advance.planned_until;
                row.served_until = advance.served_until;
            }
        }
        for (job, fire) in step.before {
            let Some(entry) = inner.jobs.get_mut(&job) else { continue };
            if !advanced.contains(&job.partition()) {
                entry.next = Some(fire);
                inner.fires.0.push(Reverse((fire, job)));
            }
        }
        for run in step.runs.into_iter().filter(|run| inserted.contains(&run.id)) {
            inner.put_planned(run);
        }
    }

    /// When the next fire time that is not planned comes.
    pub fn next_fire(&self) -> Option<DateTime<Utc>> {
        self.inner.lock().fires.0.peek().map(|entry| entry.0.0)
    }

    /// Jobs whose fire times in `[from, now)` nobody served and whose misfire threshold they
    /// passed, with the first `max` of them; their unplanned fire times are taken out of the
    /// queue and come again by [`Board::settle_late`].
    pub fn late(&self, from: DateTime<Utc>, now: DateTime<Utc>, max: usize) -> Vec<Late> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut queued: BTreeMap<JobId, Vec<RunId>> = BTreeMap::new();
        for live in inner.runs.values().filter(|live| live.was_due_unserved(from, now)) {
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
            let Some(entry) = inner.jobs.get(&id).filter(|entry| entry.fires()) else { continue };
            let limit = now - entry.job.spec.misfire_threshold();
            let unplanned = missed_before(entry, limit);
            let mut rows = queued.remove(&id).unwrap_or_default();
            rows.retain(|run| inner.runs.get(run).is_some_and(|live| live.run.due_at < limit));
            if rows.is_empty() && unplanned.newest.is_empty() {
                continue;
            }
            rows.sort_by_key(|run| inner.runs.get(run).map(|live| live.run.fire_at));
            late.push(Late { job: entry.job.clone(), unplanned, queued: rows });
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
        if entry.next.is_some_and(|next| next < limit) {
            entry.next = entry.next_after(limit - TimeDelta::milliseconds(1));
            if let Some(next) = entry.next {
                inner.fires.0.push(Reverse((next, job)));
            }
        }
    }

    /// The run of a missed fire time of a job.
    pub fn misfire_run(&self, job: JobId, fire_at: DateTime<Utc>) -> Option<NewRun> {
        let inner = self.inner.lock();
        inner.jobs.get(&job).map(|entry| entry.new_run(fire_at, TriggerKind::Misfire))
    }

    /// The held row of a partition.
    pub fn partition(&self, id: PartitionId) -> Option<PartitionRow> {
        self.inner.lock().partitions.get(&id).copied()
    }

    /// Jobs whose pause has an end that passed, and jobs that have schedules but no fire time
    /// left: at most `max` of each.
    pub fn jobs_to_change(&self, now: DateTime<Utc>, max: usize) -> (Vec<Arc<Job>>, Vec<Arc<Job>>) {
        let inner = self.inner.lock();
        let live = || inner.jobs.values().filter(|entry| !entry.job.deleted);
        let resume = live()
            .filter(|entry| entry.job.state == JobState::Paused)
            .filter(|entry| entry.job.pause_until.is_some_and(|until| until <= now))
            .map(|entry| entry.job.clone())
            .take(max)
            .collect();
        let expire = live()
            .filter(|entry| entry.fires() && entry.next.is_none())
            .filter(|entry| !entry.compiled.is_empty())
            .filter(|entry| entry.compiled.iter().all(|c| never_again(c, &entry.job, now)))
            .map(|entry| entry.job.clone())
            .take(max)
            .collect();
        (resume, expire)
    }

    /// Jobs whose shown next fire time is not the true one, at most `max`.
    pub fn next_fires_to_show(
        &self,
        now: DateTime<Utc>,
        max: usize,
    ) -> Vec<(JobId, Option<DateTime<Utc>>)> {
        let mut inner = self.inner.lock();
        let mut stale = Vec::new();
        for (id, entry) in &mut inner.jobs {
            if entry.job.deleted || entry.job.next_fire_at.is_some_and(|shown| shown > now) {
                continue;
            }
            let next = if entry.fires() { entry.next_after(now) } else { None };
            if next == entry.job.next_fire_at {
                continue;
            }
            let mut job = (*entry.job).clone();
            job.next_fire_at = next;
            entry.job = Arc::new(job);
            stale.push((*id, next));
            if stale.len() == max {
                break;
            }
        }
        stale
    }
}

fn never_again(compiled: &Compiled, job: &Job, now: DateTime<Utc>) -> bool {
    compiled.never_fires(now.max(job.effective_from), job.created_at)
}

/// The fire times of a job that are not planned and lie before `limit`.
fn missed_before(entry: &JobEntry, limit: DateTime<Utc>) -> Missed {
    let mut missed = Missed::default();
    let Some(first) = entry.next.filter(|first| *first < limit) else { return missed };
    // A delay has one fire time at most, and it is never too late for it.
    if entry.compiled.iter().any(|c| c.is_delay()) {
        return missed;
    }
    let mut next = Some(first);
    while let Some(fire) = next.filter(|fire| *fire < limit) {
        if missed.newest.len() == MISSED_COUNT_MAX {
            missed.newest = newest_before(entry, limit);
            missed.first = Some(first);
            break;
        }
        missed.newest.push(fire);
        next = entry.next_after(fire);
    }
    missed
}

/// The newest fire times before `limit`, found by looking back ever further.
fn newest_before(entry: &JobEntry, limit: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    for seconds in LOOK_BACK_SECONDS {
        let mut found = Vec::new();
        let mut next = entry.next_after(limit - TimeDelta::seconds(seconds));
        while let Some(fire) = next.filter(|fire| *fire < limit) {
            found.push(fire);
            if found.len() == MISSED_COUNT_MAX {
                break;
            }
            next = entry.next_after(fire);
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

impl Inner {
    /// Puts a job in place of its older self; its runs, cursor and last end stay.
    pub(super) fn put_job(&mut self, job: Job) {
        let compiled = self.compile_all(&job.spec.schedules);
        let mut job = job;
        if let Err(fault) = &compiled
            && job.problem.is_empty()
        {
            job.problem = fault.clone();
        }
        let compiled = compiled.unwrap_or_default();
        let id = job.id;
        let job = Arc::new(job);
        match self.jobs.get_mut(&id) {
            Some(entry) => {
                entry.job = job;
                entry.compiled = compiled;
            }
            None => {
                let entry = JobEntry {
                    job,
                    compiled,
                    cursor: 0,
                    last_end: None,
                    next: None,
                    planned: 0,
                    admitted: Vec::new(),
                    pending: VecDeque::new(),
                };
                self.jobs.insert(id, entry);
            }
        }
    }

    /// Finds the job's first unplanned fire time, from its partition's `planned_until` on.
    pub(super) fn queue_next_fire(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Some(row) = self.partitions.get(&entry.job.partition) else { return };
        entry.next = None;
        if !entry.fires() {
            return;
        }
        let from = row.planned_until - TimeDelta::milliseconds(1);
        entry.next = entry.next_after(from);
        if entry.planned == 0
            && let Some(delayed) = entry.next_delayed()
        {
            entry.next = Some(entry.next.map_or(delayed, |next| next.min(delayed)));
        }
        if let Some(next) = entry.next {
            self.fires.0.push(Reverse((next, id)));
        }
    }

    fn compile_all(&mut self, schedules: &[Schedule]) -> Result<Vec<Arc<Compiled>>, String> {
        let mut all = Vec::with_capacity(schedules.len());
        for schedule in schedules {
            if let Some(known) = self.compiled.get(schedule) {
                all.push(known.clone());
                continue;
            }
            let compiled = schedule.compile().map_err(|faults| {
                faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>().join("; ")
            })?;
            if self.compiled.len() >= COMPILED_MAX {
                self.compiled.retain(|_, shared| Arc::strong_count(shared) > 1);
            }
            let shared = Arc::new(compiled);
            self.compiled.insert(schedule.clone(), shared.clone());
            all.push(shared);
        }
        Ok(all)
    }
}
