//! Jobs and their coming fire times.

use std::{collections::VecDeque, sync::Arc};

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    AtVersion, Board, Inner, backfill::Backfills, kinds::Kind, moment::Moment, table::Slot,
};
use crate::model::{
    ids::{AppId, JobId, RunId},
    job::{Job, JobName, JobSpec, JobState, RouteStrategy},
    misfire::Timetable,
    plan,
    route::{RouteCursor, Uses},
    run::{NewRun, TriggerKind},
};

/// Whose turn it is has not been read; no executor's row has this number.
const TURN_UNREAD: u64 = u64::MAX;

/// A job with what the owner knows of it. Of a million jobs nearly all are idle at any moment: so they
/// are packed, and what equal ones have in common is shared.
pub(super) struct JobEntry {
    pub(super) id: JobId,
    pub(super) kind: Arc<Kind>,
    /// Nothing of an idle job.
    pub(super) work: Option<Box<Work>>,
    created_at: Moment,
    effective_from: Moment,
    /// The next fire time that the store has, for showing only.
    pub(super) shown: Moment,
    /// Its first fire time that is not planned.
    pub(super) next: Moment,
    /// Like the version half as wide as elsewhere: with a change each second it lasts for 136 years.
    revision: u32,
    version: u32,
    /// Row of the executor chosen last by round robin, or [`TURN_UNREAD`].
    turn: u64,
    /// Where its name ends in its table.
    pub(super) name_end: u32,
    pub(super) state: JobState,
    pub(super) deleted: bool,
    /// Something keeps it from firing.
    broken: bool,
}

/// What of a job is under way, waits, or is remembered for its next run.
#[derive(Default)]
pub(super) struct Work {
    /// What its route has counted.
    uses: Option<Uses>,
    /// When its last run ended; a `delay` counts from here.
    last_end: Option<DateTime<Utc>>,
    /// While paused with an end.
    pub(super) pause_until: Option<DateTime<Utc>>,
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

/// Of a job that has none.
static NO_WORK: Work = Work {
    uses: None,
    last_end: None,
    pause_until: None,
    planned: 0,
    admitted: Vec::new(),
    pending: VecDeque::new(),
    backfills: Backfills::NONE,
    waiting: 0,
};

impl Work {
    fn is_nothing(&self) -> bool {
        self.uses.is_none()
            && self.last_end.is_none()
            && self.pause_until.is_none()
            && self.planned == 0
            && self.admitted.is_empty()
            && self.pending.is_empty()
            && self.backfills.is_nothing()
            && self.waiting == 0
    }
}

/// What the owner tells of a job.
pub struct KnownJob {
    /// Its row id.
    pub id: JobId,
    /// Its app's row id.
    pub app: AppId,
    /// Its name.
    pub name: JobName,
    /// The current revision's content.
    pub spec: Arc<JobSpec>,
    /// Which revision that is.
    pub revision: u64,
    /// Whether it fires.
    pub state: JobState,
    /// Why its schedules can't be computed on this machine, if they can't.
    pub fault: Option<String>,
}

impl JobEntry {
    fn new(job: &Job, kind: Arc<Kind>) -> Self {
        let mut entry = Self {
            id: job.id,
            kind: kind.clone(),
            work: None,
            created_at: Moment::NONE,
            effective_from: Moment::NONE,
            shown: Moment::NONE,
            next: Moment::NONE,
            revision: 0,
            version: 0,
            // One that was not there when its partition was taken has not had a run.
            turn: 0,
            name_end: 0,
            state: job.state,
            deleted: false,
            broken: false,
        };
        entry.put(job, kind);
        entry
    }

    /// Puts a job in place of its older self.
    fn put(&mut self, job: &Job, kind: Arc<Kind>) {
        self.broken = kind.fault.is_some() || !job.problem.is_empty();
        self.kind = kind;
        self.created_at = job.created_at.into();
        self.effective_from = job.effective_from.into();
        self.shown = job.next_fire_at.into();
        self.revision = narrow(job.revision);
        self.version = narrow(job.version);
        self.state = job.state;
        self.deleted = job.deleted;
        if job.pause_until.is_some() || self.work.is_some() {
            self.work_mut().pause_until = job.pause_until;
        }
        self.rest();
    }

    /// What is under way, waits or is remembered.
    pub(super) fn work(&self) -> &Work {
        self.work.as_deref().unwrap_or(&NO_WORK)
    }

    /// The same, to be changed; followed by [`JobEntry::rest`] where something of it ends.
    pub(super) fn work_mut(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Gives back the room for work if there is none.
    pub(super) fn rest(&mut self) {
        if self.work.as_ref().is_some_and(|work| work.is_nothing()) {
            self.work = None;
        }
    }

    /// Where its route stands.
    pub(super) fn cursor(&self) -> RouteCursor {
        let turn = Some(self.turn).filter(|turn| *turn != TURN_UNREAD);
        RouteCursor { turn, uses: self.work().uses.clone() }
    }

    pub(super) fn set_cursor(&mut self, cursor: RouteCursor) {
        self.turn = cursor.turn.unwrap_or(TURN_UNREAD);
        if cursor.uses.is_some() || self.work.is_some() {
            self.work_mut().uses = cursor.uses;
        }
    }

    /// Whether its next run goes by a turn that has not been read.
    pub(super) fn asks_for_turn(&self) -> bool {
        self.turn == TURN_UNREAD && self.kind.spec.placement.route == RouteStrategy::RoundRobin
    }

    /// The turn, as it was read; what is remembered counts.
    pub(super) fn turn_read(&mut self, turn: u64) {
        if self.turn == TURN_UNREAD {
            self.turn = turn;
        }
    }

    /// A run of it has ended. Only a `delay` asks when.
    pub(super) fn run_ended(&mut self, at: DateTime<Utc>) {
        if self.kind.is_delayed() {
            let last = &mut self.work_mut().last_end;
            *last = Some(last.map_or(at, |last| last.max(at)));
        }
    }

    /// Which one it is, as it stands.
    pub(super) fn at_version(&self) -> AtVersion {
        (self.id, self.version.into())
    }

    pub(super) fn fires(&self) -> bool {
        self.state == JobState::Active && !self.deleted && !self.broken
    }

    /// The first fire time after `after` of any of its schedules.
    pub(super) fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let after = after.max(self.effective_from.at());
        plan::first_fire(&self.kind.compiled, self.created_at.at(), after)
    }

    /// The next fire time that counts from the end of the last run.
    fn next_delayed(&self) -> Option<DateTime<Utc>> {
        let effective_from = self.effective_from.at();
        let from = self.work().last_end.map_or(effective_from, |end| end.max(effective_from));
        self.kind.compiled.iter().filter_map(|c| c.next_delayed(from)).min()
    }

    /// Whether nothing is left to fire although no schedule is over: calendars shut all of it out.
    pub(super) fn is_shut(&self) -> bool {
        self.next == Moment::NONE && self.work().planned == 0 && self.kind.has_calendars()
    }

    /// Why calendars shut all of it out, if they do.
    pub(super) fn shut_out(&self, now: DateTime<Utc>) -> Option<String> {
        let from = now.max(self.effective_from.at());
        plan::shut_out(self.created_at.at(), &self.kind.compiled, from)
    }

    /// Whether none of its schedules, of which there are some, will ever fire again.
    pub(super) fn is_over(&self, now: DateTime<Utc>) -> bool {
        let (after, created_at) = (now.max(self.effective_from.at()), self.created_at.at());
        let mut schedules = self.kind.compiled.iter();
        schedules.len() > 0 && schedules.all(|c| c.never_fires(after, created_at))
    }

    /// When a fire time may be dispatched: later by the spread of the schedule that names it.
    pub(super) fn due_at(&self, name: &str, fire_at: DateTime<Utc>) -> DateTime<Utc> {
        plan::due_at(name, self.created_at.at(), &self.kind.compiled, fire_at)
    }

    /// When it fires; `name` is the job's.
    pub(super) fn timetable<'a>(&'a self, name: &'a str) -> Timetable<'a> {
        Timetable {
            name,
            spec: &self.kind.spec,
            compiled: &self.kind.compiled,
            created_at: self.created_at.at(),
            effective_from: self.effective_from.at(),
        }
    }

    /// The run of a fire time; `name` is the job's.
    pub(super) fn new_run(
        &self,
        name: &str,
        fire_at: DateTime<Utc>,
        trigger: TriggerKind,
    ) -> NewRun {
        let scheduled = trigger == TriggerKind::Schedule;
        let due_at = if scheduled { self.due_at(name, fire_at) } else { fire_at };
        NewRun {
            id: RunId::scheduled(self.id, fire_at),
            job: self.id,
            app: self.kind.app,
            revision: self.revision.into(),
            trigger,
            fire_at,
            due_at,
            extra: self.kind.spec.run_extra(),
        }
    }
}

/// A revision or a version as entries keep it.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Board {
    /// The job, if it is one of this owner's.
    pub fn job(&self, id: JobId) -> Option<KnownJob> {
        let inner = self.inner.lock();
        inner.known_job(inner.jobs.slot(id)?)
    }
}

impl Inner {
    pub(super) fn name_of(&self, slot: Slot) -> Option<JobName> {
        let app = self.jobs.at(slot)?.kind.app_name.clone();
        Some(JobName { app, job: self.jobs.name(slot).into() })
    }

    /// What is told of the job at a slot.
    pub(super) fn known_job(&self, slot: Slot) -> Option<KnownJob> {
        let entry = self.jobs.at(slot)?;
        Some(KnownJob {
            id: entry.id,
            app: entry.kind.app,
            name: self.name_of(slot)?,
            spec: entry.kind.spec.clone(),
            revision: entry.revision.into(),
            state: entry.state,
            fault: entry.kind.fault.clone(),
        })
    }

    /// Puts a job in place of its older self; its runs, cursor and last end stay.
    pub(super) fn put_job(&mut self, job: &Job) {
        let kind = self.kinds.of(job);
        match self.jobs.get_mut(job.id) {
            Some(entry) => {
                entry.put(job, kind);
                // What was stored meanwhile may be of the job as it was.
                entry.shown = Moment::NONE;
            }
            None => self.jobs.add(JobEntry::new(job, kind), &job.name),
        }
    }

    /// From when on a job as it was just loaded may have fire times without a row: what was served
    /// since it changed was the job as it is remembered.
    pub(super) fn unplanned_from(&self, job: &Job) -> DateTime<Utc> {
        let row = self.partitions.get(&job.partition);
        let planned = row.map_or(job.effective_from, |row| row.planned_until);
        let changed_at = match self.jobs.get(job.id) {
            Some(old) if old.effective_from != job.effective_from.into() => job.effective_from,
            // Schedules change with the revision alone.
            Some(old) if old.revision != narrow(job.revision) => job.updated_at,
            Some(_) => planned,
            None => job.effective_from,
        };
        planned.min(changed_at)
    }

    /// Finds the job's first unplanned fire time, from its partition's `planned_until` on.
    pub(super) fn queue_next_fire(&mut self, id: JobId) {
        if let Some(row) = self.partitions.get(&id.partition()) {
            self.queue_fire_from(id, row.planned_until);
        }
    }

    /// The same for a changed job, from `from` on: its partition is planned up to what is found only.
    /// A fire time that has a row is met in the store.
    pub(super) fn queue_changed(&mut self, id: JobId, from: DateTime<Utc>) {
        self.queue_fire_from(id, from);
        let next = self.jobs.get(id).and_then(|entry| entry.next.get());
        if let (Some(row), Some(next)) = (self.partitions.get_mut(&id.partition()), next)
            && next < row.planned_until
        {
            self.fresh.goes_back(row.id, row.planned_until);
            row.planned_until = next;
        }
    }

    fn queue_fire_from(&mut self, id: JobId, from: DateTime<Utc>) {
        let Some(slot) = self.jobs.slot(id) else { return };
        let Some(entry) = self.jobs.at_mut(slot) else { return };
        entry.next = Moment::NONE;
        if !entry.fires() {
            return;
        }
        let mut next = entry.next_after(from - TimeDelta::milliseconds(1));
        if entry.work().planned == 0
            && let Some(delayed) = entry.next_delayed()
        {
            next = Some(next.map_or(delayed, |next| next.min(delayed)));
        }
        self.set_next(slot, next);
    }

    /// The job at the slot fires next then, or never.
    pub(super) fn set_next(&mut self, slot: Slot, next: Option<DateTime<Utc>>) {
        let Some(entry) = self.jobs.at_mut(slot) else { return };
        entry.next = next.into();
        if next.is_some() {
            self.fires.push(entry.next, slot);
        }
    }
}
