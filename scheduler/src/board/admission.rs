//! Whether a due run may go on: what overlap, `max_concurrency` and `max_queued` of its job say.

use std::{collections::HashMap, sync::Arc};

use chrono::{DateTime, Utc};

use super::{
    Board, DueStep, Inner, Live,
    jobs::Work,
    runs::{Stage, is_stopping},
};
use crate::model::{
    ids::RunId,
    job::{JobSpec, OverlapPolicy},
    run::RunState,
};

/// A run that waits for earlier ones to make room (overlap policy REPLACE).
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// The run that comes.
    pub by: RunId,
    /// Active runs of its job that nobody has asked to stop yet.
    pub earlier: Vec<RunId>,
}

impl Board {
    /// A run that was not let in is looked at again: those in its way were verified, or what could
    /// be sent was sent.
    pub fn retry_admission(&self, run: RunId) -> DueStep {
        let mut step = DueStep::default();
        self.inner.lock().admit(run, &mut step);
        step
    }

    /// Puts runs back that were found due: more can be sent at once before anything is decided.
    pub fn due_again(&self, runs: &[RunId]) {
        let mut inner = self.inner.lock();
        for run in runs {
            if let Some(due_at) = inner.runs.get(run).map(|live| live.run.due_at) {
                inner.due.push(due_at, *run);
            }
        }
    }

    /// Runs that wait for earlier ones of their job which are still to be asked to stop.
    pub fn to_replace(&self) -> Vec<Replacement> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut found = Vec::new();
        inner.replacing.retain(|job, by| {
            let work = inner.jobs.get(*job).map(|entry| entry.work());
            let Some(work) = work.filter(|work| work.pending.contains(by)) else {
                return false;
            };
            let before = work.pending.iter().take_while(|run| *run != by);
            let active = work.admitted.iter().chain(before);
            let earlier: Vec<RunId> = active
                .filter(|run| inner.runs.get(run).is_some_and(|live| !is_stopping(&live.run)))
                .copied()
                .collect();
            if !earlier.is_empty() {
                found.push(Replacement { by: *by, earlier });
            }
            true
        });
        found
    }

    /// Runs that their job's overlap policy or limit keeps back and that don't show it yet, with
    /// the reason: at most `max`. They are taken to show it from now on.
    pub fn held_back(&self, max: usize) -> Vec<(RunId, String)> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut found = Vec::new();
        inner.held.retain(|job| {
            let Some(work) = inner.jobs.get(*job).map(|entry| entry.work()) else { return false };
            let mut known: Option<(Arc<JobSpec>, String)> = None;
            for id in &work.pending {
                if found.len() == max {
                    break;
                }
                let Some(live) = inner.runs.get_mut(id) else { continue };
                let spec = &live.spec;
                let (_, why) = match known.take().filter(|(of, _)| Arc::ptr_eq(of, spec)) {
                    Some(same) => known.insert(same),
                    None => known.insert((spec.clone(), why_held_back(spec))),
                };
                if live.run.message != *why {
                    live.run.message.clone_from(why);
                    found.push((*id, why.clone()));
                }
            }
            !work.pending.is_empty()
        });
        found
    }
}

/// The same for all runs that a job keeps back, so that it need not be written anew at each end.
fn why_held_back(spec: &JobSpec) -> String {
    match spec.overlap {
        OverlapPolicy::Replace => "waits for the run that it replaces to stop".to_owned(),
        OverlapPolicy::Queue if spec.max_concurrency <= 1 => {
            "waits for an earlier run of the job to end (overlap policy QUEUE)".to_owned()
        }
        OverlapPolicy::Skip => {
            "waits for a backfill's or missed fire time's run of the job to end".to_owned()
        }
        _ => format!(
            "the job has as many runs under way as it may: {} (its max_concurrency)",
            concurrency_limit(spec)
        ),
    }
}

impl Inner {
    /// Lets a due run in, keeps it back, or reports why it may not run.
    pub(super) fn admit(&mut self, id: RunId, step: &mut DueStep) {
        let Some(live) = self.runs.get(&id) else { return };
        if live.run.parent().is_some() {
            // Its parent was let in for all of them.
            self.let_into_lane(id);
            return;
        }
        let (spec, is_parent) = (live.spec.clone(), live.run.is_parent());
        let (job, in_turn) = (live.run.job, live.waits_its_turn());
        if live.backfill().is_some() {
            self.admit_backfill(id, job);
            return;
        }
        if is_parent {
            step.apart.push(id);
        }
        let Some(work) = self.jobs.get(job).map(|entry| entry.work()) else { return };
        if work.admitted.contains(&id) {
            self.let_into_lane(id);
            return;
        }
        if work.pending.contains(&id) {
            return;
        }
        let mut waiting = work.waiting + work.pending.len();
        if is_parent {
            // A parent waits as long as none of its shards has begun.
            let admitted = work.admitted.iter().filter_map(|id| self.runs.get(id));
            let waits = |live: &&Live| live.run.is_parent() && live.run.state == RunState::Queued;
            waiting += admitted.filter(waits).count();
        }
        let crowded = waiting >= spec.max_queued() as usize;
        let free = work.admitted.len() < concurrency_limit(&spec) && work.pending.is_empty();
        let backfilled = work.backfills.in_the_way(&spec);
        if (free && backfilled) || (!free && in_turn) {
            self.hold_back(id, step);
            return;
        }
        match spec.overlap {
            OverlapPolicy::Skip if !free => step.conflicts.push((id, work.admitted.clone())),
            // The runs that wait make room for this one, so they are never too many.
            OverlapPolicy::Replace if !free => {
                self.replacing.insert(job, id);
                self.hold_back(id, step);
            }
            _ if crowded && !in_turn => step.crowded.push((id, spec.max_queued())),
            _ if free => {
                if let Some(entry) = self.jobs.get_mut(job) {
                    entry.work_mut().admitted.push(id);
                }
                self.let_into_lane(id);
            }
            _ => self.hold_back(id, step),
        }
    }

    fn hold_back(&mut self, id: RunId, step: &mut DueStep) {
        step.apart.push(id);
        let Some(live) = self.runs.get_mut(&id) else { return };
        live.stage = Stage::Pending;
        let job = live.run.job;
        if let Some(entry) = self.jobs.get_mut(job) {
            entry.work_mut().pending.push_back(id);
            self.held.insert(job);
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

    /// Forgets a run and lets in those that waited for it; true when that gave the owner something
    /// to do. `ended` counts for `delay`.
    pub(super) fn drop_run(&mut self, id: RunId, ended: Option<DateTime<Utc>>) -> bool {
        self.unlink(id);
        self.unwritten.remove(&id);
        let Some(live) = self.runs.remove(&id) else { return false };
        let job = live.run.job;
        let Some(entry) = self.jobs.get_mut(job) else { return false };
        let work = entry.work_mut();
        work.admitted.retain(|admitted| *admitted != id);
        work.backfills.remove(id);
        if live.counts_as_planned() {
            work.planned = work.planned.saturating_sub(1);
        }
        let let_in = next_pending(work, &self.runs);
        ended.into_iter().for_each(|at| entry.run_ended(at));
        entry.rest();
        let waits_for_end = entry.kind.is_delayed();
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
fn next_pending(work: &mut Work, runs: &HashMap<RunId, Live>) -> Vec<RunId> {
    let mut let_in = Vec::new();
    while let Some(id) = work.pending.front().copied() {
        let Some(live) = runs.get(&id) else {
            work.pending.pop_front();
            continue;
        };
        if work.admitted.len() >= concurrency_limit(&live.spec)
            || work.backfills.in_the_way(&live.spec)
        {
            break;
        }
        work.pending.pop_front();
        work.admitted.push(id);
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
