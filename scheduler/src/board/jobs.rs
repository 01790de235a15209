//! Jobs and their coming fire times.

use std::{cmp::Reverse, collections::VecDeque, sync::Arc};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, Inner, backfill::Backfills};
use crate::model::{
    ids::{JobId, RunId},
    job::{Job, JobState},
    plan,
    route::RouteCursor,
    run::{NewRun, TriggerKind},
    schedule::Compiled,
};

/// How long the stored next fire time of a job may have passed that fires again within this time.
const NEXT_FIRE_STALE_MAX: TimeDelta = TimeDelta::seconds(60);

/// A job with what the owner knows of it.
pub struct JobEntry {
    /// The job.
    pub job: Arc<Job>,
    /// Its schedules, ready to compute.
    pub(super) compiled: Vec<Arc<Compiled>>,
    /// Where its route stands.
    pub cursor: RouteCursor,
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
    /// Its due runs of backfills.
    pub(super) backfills: Backfills,
    /// Admitted runs that wait for an executor.
    pub(super) waiting: usize,
}

impl JobEntry {
    pub(super) fn fires(&self) -> bool {
        self.job.fires()
    }

    /// The first fire time after `after` of any of its schedules.
    pub(super) fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let after = after.max(self.job.effective_from);
        self.compiled.iter().filter_map(|c| c.next_fire(after, self.job.created_at)).min()
    }

    /// The next fire time that counts from the end of the last run.
    fn next_delayed(&self) -> Option<DateTime<Utc>> {
        let from =
            self.last_end.map_or(self.job.effective_from, |end| end.max(self.job.effective_from));
        self.compiled.iter().filter_map(|c| c.next_delayed(from)).min()
    }

    /// Whether nothing is left to fire although no schedule is over: calendars shut all of it out.
    fn is_shut(&self) -> bool {
        self.next.is_none()
            && self.planned == 0
            && self.compiled.iter().any(|compiled| compiled.has_calendars())
    }

    /// When a fire time may be dispatched: later by the spread of the schedule that names it.
    pub(super) fn due_at(&self, fire_at: DateTime<Utc>) -> DateTime<Utc> {
        plan::due_at(&self.job, &self.compiled, fire_at)
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

/// Jobs that change by themselves.
#[derive(Default)]
pub struct SelfChanges {
    /// Their pause has an end, and it passed.
    pub resume: Vec<Arc<Job>>,
    /// They have schedules, and all of them are over.
    pub expire: Vec<Arc<Job>>,
    /// Their calendars leave no fire time; with the words to show.
    pub shut: Vec<(Arc<Job>, String)>,
}

impl Board {
    /// Jobs that are to change by themselves, at most `max` of each kind.
    pub fn jobs_to_change(&self, now: DateTime<Utc>, max: usize) -> SelfChanges {
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
        let shut = live().filter(|entry| entry.fires() && entry.is_shut());
        let shut = shut.filter_map(|entry| {
            let why = plan::shut_out(&entry.job, &entry.compiled, now)?;
            Some((entry.job.clone(), why))
        });
        let shut = shut.take(max).collect();
        SelfChanges { resume, expire, shut }
    }

    /// Jobs whose stored next fire time has passed, with the true one; at most `max`. Of those that
    /// fire often a passed one stays for [`NEXT_FIRE_STALE_MAX`]: whoever reads them works it out.
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
            let often = entry.next.is_some_and(|next| next - now <= NEXT_FIRE_STALE_MAX);
            let shown = entry.job.next_fire_at;
            if often && shown.is_some_and(|shown| now - shown < NEXT_FIRE_STALE_MAX) {
                continue;
            }
            // What calendars shut out is not searched for again and again.
            let next = if entry.fires() && !entry.is_shut() { entry.next_after(now) } else { None };
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

impl Inner {
    /// Puts a job in place of its older self; its runs, cursor and last end stay.
    pub(super) fn put_job(&mut self, job: Job) {
        let compiled = self.compile_all(&job);
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
                    // One that was not there when its partition was taken has not had a run.
                    cursor: RouteCursor { turn: Some(0), uses: None },
                    last_end: None,
                    next: None,
                    planned: 0,
                    admitted: Vec::new(),
                    pending: VecDeque::new(),
                    backfills: Backfills::default(),
                    waiting: 0,
                };
                self.jobs.insert(id, entry);
            }
        }
    }

    /// From when on a job as it was just loaded may have fire times without a row: what was served
    /// since it changed was the job as it is remembered.
    pub(super) fn unplanned_from(&self, job: &Job) -> DateTime<Utc> {
        let row = self.partitions.get(&job.partition);
        let planned = row.map_or(job.effective_from, |row| row.planned_until);
        let changed_at = match self.jobs.get(&job.id).map(|entry| &entry.job) {
            Some(old) if old.effective_from != job.effective_from => job.effective_from,
            Some(old) if old.updated_at != job.updated_at => job.updated_at,
            Some(_) => planned,
            None => job.effective_from,
        };
        planned.min(changed_at)
    }

    /// Finds the job's first unplanned fire time, from its partition's `planned_until` on.
    pub(super) fn queue_next_fire(&mut self, id: JobId) {
        let partition = self.jobs.get(&id).map(|entry| entry.job.partition);
        let row = partition.and_then(|partition| self.partitions.get(&partition));
        if let Some(planned_until) = row.map(|row| row.planned_until) {
            self.queue_fire_from(id, planned_until);
        }
    }

    /// The same for a changed job, from `from` on: its partition is planned up to what is found only.
    /// A fire time that has a row is met in the store.
    pub(super) fn queue_changed(&mut self, id: JobId, from: DateTime<Utc>) {
        self.queue_fire_from(id, from);
        let Some(entry) = self.jobs.get(&id) else { return };
        let row = self.partitions.get_mut(&entry.job.partition);
        if let (Some(row), Some(next)) = (row, entry.next) {
            row.planned_until = row.planned_until.min(next);
        }
    }

    fn queue_fire_from(&mut self, id: JobId, from: DateTime<Utc>) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.next = None;
        if !entry.fires() {
            return;
        }
        entry.next = entry.next_after(from - TimeDelta::milliseconds(1));
        if entry.planned == 0
            && let Some(delayed) = entry.next_delayed()
        {
            entry.next = Some(entry.next.map_or(delayed, |next| next.min(delayed)));
        }
        if let Some(next) = entry.next {
            self.fires.0.push(Reverse((next, id)));
        }
    }

    fn compile_all(&mut self, job: &Job) -> Result<Vec<Arc<Compiled>>, String> {
        let mut all = Vec::with_capacity(job.spec.schedules.len());
        for schedule in &job.spec.schedules {
            if let Some(known) = self.compiled.get(schedule) {
                all.push(known);
                continue;
            }
            let compiled = schedule
                .compile_with(&job.calendars)
                .map_err(|faults| plan::in_words(faults.iter()))?;
            // What a calendar covers changes without the schedule: such a form is no other job's.
            if schedule.names_calendars() {
                all.push(Arc::new(compiled));
                continue;
            }
            all.push(self.compiled.put(schedule, compiled));
        }
        Ok(all)
    }
}
