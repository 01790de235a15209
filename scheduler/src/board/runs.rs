//! Open runs: when they are due, what overlap and limits say, where they are.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};

use super::{Board, Inner, LaneKey, Specs};
use crate::model::{
    ids::{AppId, AttemptRef, JobId, RunId},
    job::{JobName, JobSpec, MisfirePolicy},
    route::RouteCursor,
    run::{KillReason, OpenRun, RunState, TriggerKind},
};

/// An open run in memory.
pub struct Live {
    /// The row as last seen or written.
    pub run: OpenRun,
    /// The spec of the revision it was planned with.
    pub spec: Arc<JobSpec>,
    pub(super) stage: Stage,
    /// The lane in which it waits.
    pub(super) lane: Option<Arc<LaneKey>>,
    /// Since when the attempt has been waiting for an executor: its first due time, whoever sent it
    /// back meanwhile.
    queued_at: DateTime<Utc>,
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
    pub(super) fn counts_as_planned(&self) -> bool {
        self.run.trigger.is_planned() && self.run.parent().is_none()
    }

    /// One of several fire times that were missed and are all made up for: they go one after the
    /// other, whatever the overlap policy makes of runs of one time.
    pub(super) fn waits_its_turn(&self) -> bool {
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

    pub(super) fn push(&mut self, due_at: DateTime<Utc>, run: RunId) {
        self.0.push(Reverse((due_at, run)));
    }
}

/// Asked to stop for good: one that is stopped by its timeout may come back as another attempt. A
/// split parent only notes it.
pub(super) fn is_stopping(run: &OpenRun) -> bool {
    if run.is_split() {
        return run.kill_reason.is_some();
    }
    run.state == RunState::Canceling && run.kill_reason != Some(KillReason::Timeout)
}

/// What became of the runs that fell due.
#[derive(Default)]
pub struct DueStep {
    /// Their backoff is over: to be woken in the store.
    pub retries: Vec<AttemptRef>,
    /// Not let in under the overlap policy SKIP: beside each, the runs that are in its way.
    pub conflicts: Vec<(RunId, Vec<RunId>)>,
    /// Not let in because as many runs of the job wait as may, beside each how many that is: some
    /// of those may be sent yet.
    pub crowded: Vec<(RunId, u32)>,
    /// Kept back, or to be split.
    pub(super) apart: Vec<RunId>,
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
    pub job: JobName,
}

impl Board {
    /// Takes in hand the runs that are due at `now`, at most `max`.
    pub fn take_due(&self, now: DateTime<Utc>, max: usize) -> DueStep {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
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
                // It may wait from now on: a later owner is to know that it was in hand.
                if live.run.trigger.is_planned() {
                    inner.behind.insert(live.run.partition);
                }
                inner.admit(id, &mut step);
            }
        }
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
            live.queued_at = live.run.due_at;
            let backfill = live.run.trigger == TriggerKind::Backfill;
            if let Some(timeout) = live.spec.queue_timeout.filter(|_| !backfill) {
                let at = live.queued_at + timeout;
                inner.deadlines.push(Reverse((at, woken.run, woken.fence)));
            }
            inner.let_into_lane(woken.run);
        }
    }

    /// The store wrote the dispatch: the run leaves its lane. `attempt` has the new fence.
    pub fn sent(
        &self,
        attempt: AttemptRef,
        executor: &Arc<str>,
        epoch: u64,
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
        let job = inner.name_of(inner.jobs.slot(run.job)?)?;
        Some(Sent { run, spec, job })
    }

    /// Runs were dispatched: so the routes of these jobs stand.
    pub fn turned(&self, cursors: Vec<(JobId, RouteCursor)>) {
        let mut inner = self.inner.lock();
        for (job, cursor) in cursors {
            if let Some(entry) = inner.jobs.get_mut(job) {
                entry.set_cursor(cursor);
            }
        }
    }

    /// Jobs that fire up to `until` by turns that have not been read, at most `max`.
    pub fn unread_turns(&self, until: DateTime<Utc>, max: usize) -> Vec<JobId> {
        let inner = self.inner.lock();
        let soon = inner.fires.soon(until.into()).filter_map(|slot| inner.jobs.at(slot));
        soon.filter(|entry| entry.asks_for_turn()).map(|entry| entry.id).take(max).collect()
    }

    /// Whose turn round robin was, as the newest dispatches tell; 0 for jobs that had none.
    pub fn turns_read(&self, turns: &[(JobId, u64)]) {
        let mut inner = self.inner.lock();
        for (job, turn) in turns {
            if let Some(entry) = inner.jobs.get_mut(*job) {
                entry.turn_read(*turn);
            }
        }
    }

    /// Since when the run's attempt has been waiting for an executor.
    pub fn queued_at(&self, run: RunId) -> Option<DateTime<Utc>> {
        self.inner.lock().runs.get(&run).map(|live| live.queued_at)
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
                let job = inner.name_of(inner.jobs.slot(live.run.job)?)?;
                Some(Sent { run: live.run.clone(), spec: live.spec.clone(), job })
            })
            .collect()
    }

    /// Runs that were to stop before `before` and still go on.
    pub fn killed(&self, before: DateTime<Utc>) -> Vec<(OpenRun, Arc<JobSpec>)> {
        let inner = self.inner.lock();
        let live = inner.sent.values().flatten().filter_map(|id| inner.runs.get(id));
        let killed = live.filter(|live| {
            live.run.state == RunState::Canceling && live.run.kill_at.is_some_and(|at| at < before)
        });
        killed.map(|live| (live.run.clone(), live.spec.clone())).collect()
    }

    /// Runs that keep others waiting since before `before`, with an executor or not: to be verified
    /// now and then, since others may have written their end.
    pub fn under_way(&self, before: DateTime<Utc>) -> Vec<RunId> {
        let inner = self.inner.lock();
        let old = |live: &&Live| live.run.dispatched_at.unwrap_or(live.run.due_at) < before;
        let sent = inner.sent.values().flatten().copied();
        let waiting = inner.held.iter().filter_map(|job| inner.jobs.get(*job));
        let waiting = waiting.flat_map(|entry| entry.work().admitted.iter().copied());
        let all: HashSet<RunId> = sent.chain(waiting).collect();
        all.into_iter().filter(|id| inner.runs.get(id).as_ref().is_some_and(old)).collect()
    }
}

impl Inner {
    /// Puts a row in place of what is remembered of the run.
    pub(super) fn merge_run(&mut self, mut run: OpenRun, specs: &Specs) {
        let id = run.id;
        if !self.partitions.contains_key(&run.partition) {
            return;
        }
        let known = self.runs.get(&id);
        if let Some(Live { run: known, .. }) = known
            && known.fence == run.fence
            && run.state.is_sent()
        {
            // The row has when it was to be sent, and its ack once that is written.
            run.dispatched_at = run.dispatched_at.max(known.dispatched_at);
            run.acked_at = run.acked_at.or(known.acked_at);
        }
        if known.is_some_and(|live| live.run.fence > run.fence || live.run == run) {
            return;
        }
        let spec = specs
            .get(&(run.job, run.revision))
            .cloned()
            .or_else(|| known.map(|live| live.spec.clone()))
            .or_else(|| self.jobs.get(run.job).map(|entry| entry.kind.spec.clone()));
        let Some(spec) = spec else { return };
        let queued_at = known.filter(|live| waits_on(&live.run, &run)).map(|live| live.queued_at);
        let queued_at = queued_at.unwrap_or(run.waits_since());
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
            .map(|timeout| queued_at + timeout);
        let backfill = run.extra.as_ref().and_then(|extra| extra.backfill);
        if let Some(entry) = self.jobs.get_mut(run.job)
            && (sent || run.state == RunState::RetryWait || run.fence > 0)
            && run.parent().is_none()
            && !entry.work().admitted.contains(&id)
        {
            match backfill {
                Some(group) => entry.work_mut().backfills.resume(id, group),
                None => entry.work_mut().admitted.push(id),
            }
        }
        if sent {
            self.track_sent(&run, &spec);
        } else if stage == Stage::Future {
            self.due.push(run.due_at, id);
            if let Some(at) = queue_ends.filter(|_| run.state == RunState::Queued) {
                self.deadlines.push(Reverse((at, id, run.fence)));
            }
        }
        self.note_parent(&run);
        self.insert_live(Live { run, spec, stage, lane: None, queued_at, made_up: false });
    }

    /// A run that was just made.
    pub(super) fn put_queued(&mut self, run: OpenRun, spec: Arc<JobSpec>) {
        if let Some(timeout) = spec.queue_timeout {
            self.deadlines.push(Reverse((run.due_at + timeout, run.id, 0)));
        }
        let (stage, queued_at) = (Stage::Future, run.waits_since());
        self.insert_live(Live { run, spec, stage, lane: None, queued_at, made_up: false });
    }

    fn insert_live(&mut self, live: Live) {
        let job = live.run.job;
        let planned = live.counts_as_planned();
        let known = self.runs.insert(live.run.id, live).is_some();
        if let Some(entry) = self.jobs.get_mut(job).filter(|_| planned && !known) {
            entry.work_mut().planned += 1;
        }
    }

    fn track_sent(&mut self, run: &OpenRun, spec: &JobSpec) {
        self.count_sent(run.app, &spec.handler, true);
        if let Some(executor) = &run.executor {
            self.sent.entry((run.app, executor.clone())).or_default().insert(run.id);
        }
        if let (Some(timeout), Some(at)) = (spec.timeout, run.acked_at.or(run.dispatched_at)) {
            self.deadlines.push(Reverse((at + timeout, run.id, run.fence)));
        }
    }

    /// Takes the run out of every list but its job's admitted ones.
    pub(super) fn unlink(&mut self, id: RunId) {
        let Some(live) = self.runs.get(&id) else { return };
        match live.stage {
            Stage::Waiting => self.leave_lane(id),
            Stage::Sent => {
                let (app, executor) = (live.run.app, live.run.executor.clone());
                let spec = live.spec.clone();
                self.count_sent(app, &spec.handler, false);
                let Some(executor) = executor else { return };
                let key = (app, executor);
                if let Some(runs) = self.sent.get_mut(&key) {
                    runs.remove(&id);
                    if runs.is_empty() {
                        self.sent.remove(&key);
                    }
                }
            }
            Stage::Pending => {
                let job = live.run.job;
                if let Some(entry) = self.jobs.get_mut(job) {
                    let work = entry.work_mut();
                    work.pending.retain(|pending| *pending != id);
                    work.backfills.stop_waiting(id);
                    entry.rest();
                }
            }
            Stage::ToSplit | Stage::Split => self.parents.forget(id),
            Stage::Future => {}
        }
    }
}

/// Whether a run that was sent and waits again is still on the same wait: no executor took it.
fn waits_on(before: &OpenRun, after: &OpenRun) -> bool {
    before.attempt == after.attempt && before.acked_at.is_none() && after.acked_at.is_none()
}
