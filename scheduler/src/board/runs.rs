//! Open runs: when they are due, what overlap and limits say, where they are.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use chrono::{DateTime, Utc};

use super::{Board, Inner, JobEntry, Specs};
use crate::model::{
    ids::{AppId, AttemptRef, RunId},
    job::{Job, JobSpec, MisfirePolicy, OverlapPolicy},
    run::{NewRun, OpenRun, RunState, TriggerKind},
};

/// An open run in memory.
pub struct Live {
    /// The row as last seen or written.
    pub run: OpenRun,
    /// The spec of the revision it was planned with.
    pub spec: Arc<JobSpec>,
    pub(super) stage: Stage,
    /// Was missed, and the misfire policy decided for it.
    made_up: bool,
}

/// Where a run is in the owner's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the due queue.
    Future,
    /// Due, kept back by overlap or a limit.
    Pending,
    /// Due, in its lane.
    Waiting,
    /// With an executor.
    Sent,
    /// A parent that was let in and is to be split.
    ToSplit,
    /// A parent whose shards are out.
    Split,
}

impl Live {
    /// Made by its job's schedule, for which shards stand behind their parent.
    fn counts_as_planned(&self) -> bool {
        self.run.trigger.is_planned() && self.run.parent().is_none()
    }

    /// One of several fire times that were missed and are all made up for: they go one after the
    /// other, whatever the overlap policy makes of runs of one time.
    fn waits_its_turn(&self) -> bool {
        let made_up = self.made_up || self.run.trigger == TriggerKind::Misfire;
        made_up && self.spec.misfire == MisfirePolicy::FireAll
    }

    /// Made by a schedule, queued since before `now`, and due when nobody dispatched.
    pub(super) fn was_due_unserved(&self, from: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        self.run.state == RunState::Queued
            && self.run.fence == 0
            && self.run.trigger.is_planned()
            && self.stage == Stage::Future
            && !self.made_up
            && self.run.trigger != TriggerKind::Misfire
            && self.run.parent().is_none()
            && self.run.due_at >= from
            && self.run.due_at < now
    }
}

/// Times at which runs fall due. Entries that no longer match fall through.
#[derive(Default)]
pub(super) struct DueQueue(BinaryHeap<Reverse<(DateTime<Utc>, RunId)>>);

impl DueQueue {
    pub(super) fn next(&self) -> Option<DateTime<Utc>> {
        self.0.peek().map(|entry| entry.0.0)
    }
}

/// What became of the runs that fell due.
#[derive(Default)]
pub struct DueStep {
    /// Their backoff is over: to be woken in the store.
    pub retries: Vec<AttemptRef>,
    /// Not let in under the overlap policy SKIP: beside each, the runs that are in its way.
    pub conflicts: Vec<(RunId, Vec<RunId>)>,
    /// Not let in because as many wait already as may.
    pub full: Vec<RunId>,
    /// More are due.
    pub more: bool,
}

/// A run that was written as dispatched, with what its command needs.
pub struct Sent {
    /// The row.
    pub run: OpenRun,
    /// Its spec.
    pub spec: Arc<JobSpec>,
    /// Its job.
    pub job: Arc<Job>,
}

impl Board {
    /// Takes in hand the runs that are due at `now`, at most `max`.
    pub fn take_due(&self, now: DateTime<Utc>, max: usize) -> DueStep {
        let mut inner = self.inner.lock();
        let mut step = DueStep::default();
        let mut taken = 0;
        while let Some(Reverse((due, id))) = inner.due.0.peek().copied() {
            if due > now {
                break;
            }
            if taken == max {
                step.more = true;
                break;
            }
            inner.due.0.pop();
            let Some(live) = inner.runs.get(&id) else { continue };
            if live.stage != Stage::Future || live.run.due_at != due {
                continue;
            }
            taken += 1;
            if live.run.state == RunState::RetryWait {
                step.retries.push(live.run.attempt_ref());
            } else {
                inner.admit(id, &mut step);
            }
        }
        step
    }

    /// The run that was in conflict is looked at again, after those in its way were verified.
    pub fn retry_admission(&self, run: RunId) -> DueStep {
        let mut step = DueStep::default();
        self.inner.lock().admit(run, &mut step);
        step
    }

    /// A missed run is made up for: it is no longer looked at as missed.
    pub fn take_late(&self, run: RunId) {
        if let Some(live) = self.inner.lock().runs.get_mut(&run) {
            live.made_up = true;
        }
    }

    /// The store woke these: QUEUED with the next attempt.
    pub fn woken(&self, retries: &[AttemptRef]) {
        let mut inner = self.inner.lock();
        for woken in retries {
            let Some(live) = inner.runs.get_mut(&woken.run) else { continue };
            live.run.state = RunState::Queued;
            live.run.attempt = woken.attempt;
            live.run.fence = woken.fence;
            live.run.message.clear();
            inner.let_into_lane(woken.run);
        }
    }

    /// The store wrote the dispatch: the run leaves its lane. `attempt` has the new fence.
    pub fn sent(
        &self,
        attempt: AttemptRef,
        executor: &Arc<str>,
        epoch: u64,
        cursor: Option<u64>,
        now: DateTime<Utc>,
    ) -> Option<Sent> {
        let mut inner = self.inner.lock();
        inner.leave_lane(attempt.run);
        let live = inner.runs.get_mut(&attempt.run)?;
        live.stage = Stage::Sent;
        let run = &mut live.run;
        run.state = RunState::Dispatched;
        run.attempt = attempt.attempt;
        run.fence = attempt.fence;
        run.executor = Some(executor.clone());
        run.session_epoch = epoch;
        run.dispatched_at = Some(now);
        run.acked_at = None;
        run.message.clear();
        let (run, spec) = (run.clone(), live.spec.clone());
        inner.track_sent(&run, &spec);
        let entry = inner.jobs.get_mut(&run.job)?;
        if let Some(cursor) = cursor {
            entry.cursor = cursor;
        }
        Some(Sent { run, spec, job: entry.job.clone() })
    }

    /// The executor has the attempt: its timeout counts from here.
    pub fn acked(&self, attempt: AttemptRef, at: DateTime<Utc>) {
        let mut inner = self.inner.lock();
        let Some(live) = inner.runs.get_mut(&attempt.run) else { return };
        if live.run.fence != attempt.fence {
            return;
        }
        live.run.acked_at = Some(at);
        if live.run.state == RunState::Dispatched {
            live.run.state = RunState::Running;
        }
        let parent = live.run.parent();
        if parent.is_some_and(|parent| inner.shard_began(parent, at)) {
            self.changed.notify_one();
        }
    }

    /// Runs whose deadline passed, with the fence they had when it was set; at most `max`.
    pub fn take_deadlines(&self, now: DateTime<Utc>, max: usize) -> Vec<(RunId, u64)> {
        let mut inner = self.inner.lock();
        let mut found = Vec::new();
        while found.len() < max
            && let Some(Reverse((at, id, fence))) = inner.deadlines.peek().copied()
            && at <= now
        {
            inner.deadlines.pop();
            if inner.runs.get(&id).is_some_and(|live| live.run.fence == fence) {
                found.push((id, fence));
            }
        }
        found
    }

    /// Looks at the run again at `at`, if its fence is still the same.
    pub fn set_deadline(&self, run: RunId, fence: u64, at: DateTime<Utc>) {
        self.inner.lock().deadlines.push(Reverse((at, run, fence)));
    }

    /// Executors that hold runs of this owner.
    pub fn executors_in_use(&self) -> Vec<(AppId, Arc<str>)> {
        self.inner.lock().sent.keys().cloned().collect()
    }

    /// The runs that an executor holds.
    pub fn runs_on(&self, app: AppId, executor: &Arc<str>) -> Vec<Sent> {
        let inner = self.inner.lock();
        let Some(ids) = inner.sent.get(&(app, executor.clone())) else { return Vec::new() };
        ids.iter()
            .filter_map(|id| {
                let live = inner.runs.get(id)?;
                let job = inner.jobs.get(&live.run.job)?.job.clone();
                Some(Sent { run: live.run.clone(), spec: live.spec.clone(), job })
            })
            .collect()
    }

    /// Sent runs dispatched before `before`, at most `max`: to be verified now and then, since
    /// their end may have been written by another node.
    pub fn long_sent(&self, before: DateTime<Utc>, max: usize) -> Vec<RunId> {
        let inner = self.inner.lock();
        inner
            .sent
            .values()
            .flatten()
            .filter(|id| {
                let live = inner.runs.get(*id);
                live.is_some_and(|live| live.run.dispatched_at.is_some_and(|at| at < before))
            })
            .take(max)
            .copied()
            .collect()
    }
}

impl Inner {
    /// Puts a row in place of what is remembered of the run.
    pub(super) fn merge_run(&mut self, run: OpenRun, specs: &Specs) {
        let id = run.id;
        if !self.partitions.contains_key(&run.partition) {
            return;
        }
        let known = self.runs.get(&id);
        if known.is_some_and(|live| live.run.fence > run.fence || live.run == run) {
            return;
        }
        let spec = specs
            .get(&(run.job, run.revision))
            .cloned()
            .or_else(|| known.map(|live| live.spec.clone()))
            .or_else(|| self.jobs.get(&run.job).map(|entry| entry.job.spec.clone()));
        let Some(spec) = spec else { return };
        self.unlink(id);
        let sent = !run.is_parent()
            && matches!(run.state, RunState::Dispatched | RunState::Running | RunState::Canceling);
        let stage = match (run.is_split(), sent) {
            (true, _) => Stage::Split,
            (false, true) => Stage::Sent,
            (false, false) => Stage::Future,
        };
        let queue_ends = spec
            .queue_timeout
            .filter(|_| run.trigger != TriggerKind::Backfill)
            .map(|timeout| run.waits_since() + timeout);
        let backfill = run.extra.as_ref().and_then(|extra| extra.backfill);
        if let Some(entry) = self.jobs.get_mut(&run.job)
            && (sent || run.state == RunState::RetryWait || run.fence > 0)
            && run.parent().is_none()
            && !entry.admitted.contains(&id)
        {
            match backfill {
                Some(group) => entry.backfills.resume(id, group),
                None => entry.admitted.push(id),
            }
        }
        if sent {
            self.track_sent(&run, &spec);
        } else if stage == Stage::Future {
            self.due.0.push(Reverse((run.due_at, id)));
            if let Some(at) = queue_ends.filter(|_| run.state == RunState::Queued) {
                self.deadlines.push(Reverse((at, id, run.fence)));
            }
        }
        self.note_parent(&run);
        self.insert_live(Live { run, spec, stage, made_up: false });
    }

    /// A run that this owner has just planned.
    pub(super) fn put_planned(&mut self, new: NewRun) {
        let Some(entry) = self.jobs.get(&new.job) else { return };
        let spec = entry.job.spec.clone();
        let created_at = new.due_at;
        let run = OpenRun::queued(new, created_at);
        self.due.0.push(Reverse((run.due_at, run.id)));
        self.put_queued(run, spec);
    }

    /// A run that was just made.
    pub(super) fn put_queued(&mut self, run: OpenRun, spec: Arc<JobSpec>) {
        if let Some(timeout) = spec.queue_timeout {
            self.deadlines.push(Reverse((run.due_at + timeout, run.id, 0)));
        }
        self.insert_live(Live { run, spec, stage: Stage::Future, made_up: false });
    }

    fn insert_live(&mut self, live: Live) {
        let job = live.run.job;
        let planned = live.counts_as_planned();
        let known = self.runs.insert(live.run.id, live).is_some();
        if let Some(entry) = self.jobs.get_mut(&job).filter(|_| planned && !known) {
            entry.planned += 1;
        }
    }

    /// Lets a due run in, keeps it back, or reports why it may not run.
    fn admit(&mut self, id: RunId, step: &mut DueStep) {
        let Some(live) = self.runs.get(&id) else { return };
        if live.run.parent().is_some() {
            // Its parent was let in for all of them.
            self.let_into_lane(id);
            return;
        }
        let spec = live.spec.clone();
        let (job, in_turn) = (live.run.job, live.waits_its_turn());
        if live.backfill().is_some() {
            self.admit_backfill(id, job);
            return;
        }
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        if entry.admitted.contains(&id) {
            self.let_into_lane(id);
            return;
        }
        if entry.pending.contains(&id) {
            return;
        }
        let limit = concurrency_limit(&spec);
        let free = entry.admitted.len() < limit && entry.pending.is_empty();
        let backfilled = entry.backfills.in_the_way(&spec);
        if free && !backfilled {
            entry.admitted.push(id);
            self.let_into_lane(id);
        } else if (free && backfilled) || in_turn {
            entry.pending.push_back(id);
            if let Some(live) = self.runs.get_mut(&id) {
                live.stage = Stage::Pending;
            }
        } else if spec.overlap == OverlapPolicy::Skip {
            step.conflicts.push((id, entry.admitted.clone()));
        } else if entry.pending.len() >= spec.max_queued() as usize {
            step.full.push(id);
        } else {
            entry.pending.push_back(id);
            if let Some(live) = self.runs.get_mut(&id) {
                live.stage = Stage::Pending;
            }
        }
    }

    pub(super) fn let_into_lane(&mut self, id: RunId) {
        let Some(live) = self.runs.get_mut(&id) else { return };
        if live.run.is_parent() {
            self.let_parent_in(id);
        } else {
            live.stage = Stage::Waiting;
            self.enter_lane(id);
        }
    }

    fn track_sent(&mut self, run: &OpenRun, spec: &JobSpec) {
        if let Some(executor) = &run.executor {
            self.sent.entry((run.app, executor.clone())).or_default().insert(run.id);
        }
        if let (Some(timeout), Some(at)) = (spec.timeout, run.acked_at.or(run.dispatched_at)) {
            self.deadlines.push(Reverse((at + timeout, run.id, run.fence)));
        }
    }

    /// Takes the run out of every list but its job's admitted ones.
    fn unlink(&mut self, id: RunId) {
        let Some(live) = self.runs.get(&id) else { return };
        match live.stage {
            Stage::Waiting => self.leave_lane(id),
            Stage::Sent => {
                if let Some(executor) = live.run.executor.clone() {
                    let key = (live.run.app, executor);
                    if let Some(runs) = self.sent.get_mut(&key) {
                        runs.remove(&id);
                        if runs.is_empty() {
                            self.sent.remove(&key);
                        }
                    }
                }
            }
            Stage::Pending => {
                let job = live.run.job;
                if let Some(entry) = self.jobs.get_mut(&job) {
                    entry.pending.retain(|pending| *pending != id);
                    entry.backfills.stop_waiting(id);
                }
            }
            Stage::ToSplit | Stage::Split => self.parents.forget(id),
            Stage::Future => {}
        }
    }

    /// Forgets a run and lets in those that waited for it; true when that gave the owner something
    /// to do. `ended` counts for `delay`.
    pub(super) fn drop_run(&mut self, id: RunId, ended: Option<DateTime<Utc>>) -> bool {
        self.unlink(id);
        let Some(live) = self.runs.remove(&id) else { return false };
        let job = live.run.job;
        let Some(entry) = self.jobs.get_mut(&job) else { return false };
        entry.admitted.retain(|admitted| *admitted != id);
        entry.backfills.remove(id);
        if live.counts_as_planned() {
            entry.planned = entry.planned.saturating_sub(1);
        }
        if let Some(at) = ended {
            entry.last_end = Some(entry.last_end.map_or(at, |last| last.max(at)));
        }
        let let_in = next_pending(entry, &self.runs);
        let waits_for_end = entry.compiled.iter().any(|c| c.is_delay());
        let mut more = !let_in.is_empty() || waits_for_end;
        for id in let_in {
            self.let_into_lane(id);
        }
        more |= self.let_backfills_in(job);
        if waits_for_end {
            self.queue_next_fire(job);
        }
        more
    }
}

/// Pending runs that the job's limit now lets in; they count as admitted.
fn next_pending(entry: &mut JobEntry, runs: &std::collections::HashMap<RunId, Live>) -> Vec<RunId> {
    let mut let_in = Vec::new();
    while let Some(id) = entry.pending.front().copied() {
        let Some(live) = runs.get(&id) else {
            entry.pending.pop_front();
            continue;
        };
        if entry.admitted.len() >= concurrency_limit(&live.spec)
            || entry.backfills.in_the_way(&live.spec)
        {
            break;
        }
        entry.pending.pop_front();
        entry.admitted.push(id);
        let_in.push(id);
    }
    let_in
}

/// How many runs of a job may be under way at once.
fn concurrency_limit(spec: &JobSpec) -> usize {
    match (spec.overlap, spec.max_concurrency) {
        (OverlapPolicy::Allow, 0) => usize::MAX,
        (OverlapPolicy::Allow | OverlapPolicy::Queue, limit) => limit.max(1) as usize,
        (OverlapPolicy::Skip | OverlapPolicy::Replace, _) => 1,
    }
}
