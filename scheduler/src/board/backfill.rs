//! Runs of backfills: each keeps to its own number at once, and none gets in the way of the job's
//! schedule.
//!
//! Unless the job allows overlap, a run of a backfill begins only while no other run of the job is
//! under way or waits; one of the schedule that falls due meanwhile waits for those under way, is
//! never skipped for them, and goes before the next.

use std::collections::{HashMap, VecDeque};

use super::{
    Inner,
    jobs::Work,
    runs::{Live, Stage},
};
use crate::model::{
    backfill::BackfillGroup,
    ids::{JobId, RunId},
    job::{JobSpec, OverlapPolicy},
};

/// A job's runs of backfills that are due.
#[derive(Default)]
pub(super) struct Backfills {
    /// Let in and not ended, with the first run of their backfill.
    active: Vec<(RunId, RunId)>,
    /// Not let in yet, the oldest fire time first.
    waiting: VecDeque<RunId>,
}

impl Backfills {
    /// Of a job without any.
    pub(super) const NONE: Self = Self { active: Vec::new(), waiting: VecDeque::new() };

    pub(super) fn is_nothing(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty()
    }

    /// Whether a run of the job's schedule must wait for them.
    pub(super) fn in_the_way(&self, spec: &JobSpec) -> bool {
        spec.overlap != OverlapPolicy::Allow && !self.active.is_empty()
    }

    /// A run that is with an executor already, or was.
    pub(super) fn resume(&mut self, run: RunId, group: BackfillGroup) {
        if !self.is_active(run) {
            self.active.push((run, group.first));
        }
    }

    /// Forgets a run that waits.
    pub(super) fn stop_waiting(&mut self, run: RunId) {
        self.waiting.retain(|waiting| *waiting != run);
    }

    /// Forgets a run that was let in.
    pub(super) fn remove(&mut self, run: RunId) {
        self.active.retain(|(active, _)| *active != run);
    }

    fn is_active(&self, run: RunId) -> bool {
        self.active.iter().any(|(active, _)| *active == run)
    }

    fn has_room(&self, group: BackfillGroup) -> bool {
        let active = self.active.iter().filter(|(_, first)| *first == group.first).count();
        active < group.at_once.max(1) as usize
    }
}

impl Live {
    /// The backfill that made the run.
    pub(super) fn backfill(&self) -> Option<BackfillGroup> {
        self.run.extra.as_ref()?.backfill
    }
}

impl Inner {
    /// Lets a due run of a backfill in, or keeps it back.
    pub(super) fn admit_backfill(&mut self, id: RunId, job: JobId) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        let backfills = &mut entry.work_mut().backfills;
        if backfills.is_active(id) {
            self.let_into_lane(id);
            return;
        }
        if !backfills.waiting.contains(&id) {
            backfills.waiting.push_back(id);
        }
        if let Some(live) = self.runs.get_mut(&id) {
            live.stage = Stage::Pending;
        }
        self.let_backfills_in(job);
    }

    /// Lets in as many waiting runs of backfills as may be; true when there are any.
    pub(super) fn let_backfills_in(&mut self, job: JobId) -> bool {
        let Some(entry) = self.jobs.get_mut(job) else { return false };
        if entry.work().backfills.is_nothing() {
            return false;
        }
        let let_in = next_backfills(entry.work_mut(), &self.runs);
        let any = !let_in.is_empty();
        for id in let_in {
            self.let_into_lane(id);
        }
        any
    }
}

/// Waiting runs that may go on; they count as let in.
fn next_backfills(work: &mut Work, runs: &HashMap<RunId, Live>) -> Vec<RunId> {
    let mut let_in = Vec::new();
    let quiet = work.admitted.is_empty() && work.pending.is_empty();
    let backfills = &mut work.backfills;
    let mut kept = VecDeque::with_capacity(backfills.waiting.len());
    while let Some(id) = backfills.waiting.pop_front() {
        let Some(live) = runs.get(&id) else { continue };
        let Some(group) = live.backfill() else { continue };
        let free = quiet || live.spec.overlap == OverlapPolicy::Allow;
        if free && backfills.has_room(group) {
            backfills.active.push((id, group.first));
            let_in.push(id);
        } else {
            kept.push_back(id);
        }
    }
    backfills.waiting = kept;
    let_in
}
