//! Parents and their shards: which parents are to be split, have begun, are asked to stop.
//!
//! A parent counts as one run of its job, for overlap and limits; its shards count where slots do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};

use super::{
    Board, Inner,
    runs::{Live, Stage},
};
use crate::model::{
    ids::RunId,
    job::JobSpec,
    run::{OpenRun, RunState},
    shards::Split,
};

/// What is to be done about parents.
#[derive(Default)]
pub(super) struct Parents {
    /// Let in, not split yet.
    to_split: BTreeSet<RunId>,
    /// A shard has begun, and the row may still say QUEUED.
    begun: BTreeMap<RunId, DateTime<Utc>>,
    /// Asked to stop; some shards may not know yet.
    killed: BTreeSet<RunId>,
}

impl Parents {
    pub(super) fn forget(&mut self, parent: RunId) {
        self.to_split.remove(&parent);
        self.begun.remove(&parent);
        self.killed.remove(&parent);
    }
}

/// A parent that was let in.
pub struct ToSplit {
    /// Its row.
    pub run: OpenRun,
    /// The spec of its revision.
    pub spec: Arc<JobSpec>,
}

impl Board {
    /// Ids of the parents that were let in and are to be split.
    pub fn parents_to_split(&self) -> Vec<RunId> {
        self.inner.lock().parents.to_split.iter().copied().collect()
    }

    /// One of them, if it still is.
    pub fn parent_to_split(&self, id: RunId) -> Option<ToSplit> {
        let inner = self.inner.lock();
        let live = inner.runs.get(&id).filter(|live| live.stage == Stage::ToSplit)?;
        Some(ToSplit { run: live.run.clone(), spec: live.spec.clone() })
    }

    /// The store has split the parent: its shards are due.
    pub fn split(&self, parent: RunId, split: Split, now: DateTime<Utc>) {
        let mut inner = self.inner.lock();
        inner.parents.to_split.remove(&parent);
        let Some(live) = inner.runs.get_mut(&parent) else { return };
        live.stage = Stage::Split;
        live.run.fence += 1;
        live.run.dispatched_at = Some(now);
        live.run.message.clear();
        live.run.extra.get_or_insert_default().shard_total = split.total;
        let spec = live.spec.clone();
        for shard in split.shards {
            inner.put_shard(OpenRun::queued(shard, now), spec.clone());
        }
    }

    /// Notes why a run waits; true when it showed something else before.
    pub fn explain(&self, run: RunId, why: &str) -> bool {
        let mut inner = self.inner.lock();
        let live = inner.runs.get_mut(&run).filter(|live| live.run.message != why);
        live.map(|live| why.clone_into(&mut live.run.message)).is_some()
    }

    /// Parents whose row still says QUEUED though a shard has begun; from now on they count as
    /// running here.
    pub fn take_begun_parents(&self) -> Vec<(RunId, DateTime<Utc>)> {
        let mut inner = self.inner.lock();
        let begun = std::mem::take(&mut inner.parents.begun);
        let mut parents = Vec::with_capacity(begun.len());
        for (id, at) in begun {
            let live = inner.runs.get_mut(&id);
            if let Some(live) = live.filter(|live| live.run.state == RunState::Queued) {
                live.run.state = RunState::Running;
                live.run.started_at = Some(at);
                parents.push((id, at));
            }
        }
        parents
    }

    /// Parents that were asked to stop, with those of their shards that are open.
    pub fn killed_parents(&self) -> Vec<(OpenRun, Vec<RunId>)> {
        let inner = self.inner.lock();
        let killed = inner.parents.killed.iter().filter_map(|id| inner.runs.get(id));
        killed.map(|live| (live.run.clone(), inner.shards_of(&live.run))).collect()
    }

    /// Every shard of the parent has been asked to stop.
    pub fn parent_is_settled(&self, parent: RunId) {
        self.inner.lock().parents.killed.remove(&parent);
    }
}

impl Inner {
    /// A parent's place once overlap and limits have let it in.
    pub(super) fn let_parent_in(&mut self, id: RunId) {
        let Some(live) = self.runs.get_mut(&id) else { return };
        if live.run.is_split() {
            live.stage = Stage::Split;
        } else {
            live.stage = Stage::ToSplit;
            self.parents.to_split.insert(id);
        }
    }

    /// Looks at a row that was merged for what concerns parents.
    pub(super) fn note_parent(&mut self, run: &OpenRun) {
        if run.is_split() && run.kill_reason.is_some() {
            self.parents.killed.insert(run.id);
        }
        if let (Some(parent), Some(at)) = (run.parent(), run.started_at) {
            self.shard_began(parent, at);
        }
    }

    /// A shard has begun; true when its parent is not known to run.
    pub(super) fn shard_began(&mut self, parent: RunId, at: DateTime<Utc>) -> bool {
        // A parent that is not here yet may come: it is looked at again then.
        let waits = |live: &Live| live.run.state == RunState::Queued;
        if !self.runs.get(&parent).is_none_or(waits) || self.parents.begun.contains_key(&parent) {
            return false;
        }
        self.parents.begun.insert(parent, at);
        true
    }

    fn put_shard(&mut self, run: OpenRun, spec: Arc<JobSpec>) {
        let id = run.id;
        self.put_queued(run, spec);
        self.let_into_lane(id);
    }

    fn shards_of(&self, parent: &OpenRun) -> Vec<RunId> {
        let total = parent.extra.as_ref().map_or(0, |extra| extra.shard_total);
        let total = u16::try_from(total).unwrap_or(u16::MAX);
        let ids = (0..total).map(|index| RunId::shard(parent.id, index));
        ids.filter(|id| self.runs.contains_key(id)).collect()
    }
}
