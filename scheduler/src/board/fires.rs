//! Fire times that have come, and their runs until these have a row.
//!
//! A run is put on the board, judged and placed before the store has it, so that one statement writes
//! it as what it has become: sent, or waiting. Until then it is *unwritten*. The owner's tick that
//! takes a fire time writes its run too: between two ticks every run here has a row.

use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, Utc};

use super::{Board, DueStep, Inner, Live, moment::Moment};
use crate::{
    model::{
        ids::{JobId, PartitionId, RunId},
        run::{NewRun, OpenRun, TriggerKind},
    },
    store::ops::Planned,
};

impl Board {
    /// Takes the fire times that have come, at most `max`, the earliest first: each is a run that is
    /// due from now on, or once its spread is over. Returns whether there are more.
    pub fn fall_due(&self, now: DateTime<Utc>, max: usize) -> bool {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.fresh.note(inner.partitions.values(), now);
        let until = Moment::from(now);
        let mut taken = 0;
        while taken < max {
            let Some((fire, slot)) = inner.fires.pop(until, &inner.jobs) else { return false };
            let Some(entry) = inner.jobs.at(slot).filter(|entry| entry.next == fire) else {
                continue;
            };
            let fire = fire.at();
            let run = entry.new_run(inner.jobs.name(slot), fire, TriggerKind::Schedule);
            let next = entry.next_after(fire);
            inner.set_next(slot, next);
            inner.put_unwritten(run, now);
            taken += 1;
        }
        inner.fires.next().is_some_and(|next| next <= now)
    }

    /// All runs without a row.
    pub fn unwritten(&self) -> Vec<NewRun> {
        let inner = self.inner.lock();
        inner.unwritten.iter().filter_map(|id| inner.new_run(*id)).collect()
    }

    /// Runs without a row that were not let in by a step of [`Board::take_due`], and those that may be
    /// in the way of another one of their job: whoever judges them asks the store.
    pub fn unwritten_judged(&self, step: &DueStep) -> Vec<NewRun> {
        let inner = self.inner.lock();
        let refused = step.conflicts.iter().map(|(run, _)| *run);
        let refused = refused.chain(step.crowded.iter().map(|(run, _)| *run));
        let apart = step.apart.iter().copied();
        let mut judged: BTreeSet<RunId> = refused.chain(apart).collect();
        let jobs: HashSet<JobId> =
            judged.iter().filter_map(|run| Some(inner.runs.get(run)?.run.job)).collect();
        for work in jobs.into_iter().filter_map(|job| Some(inner.jobs.get(job)?.work())) {
            judged.extend(work.admitted.iter().chain(&work.pending));
        }
        let unwritten = judged.intersection(&inner.unwritten);
        unwritten.filter_map(|id| inner.new_run(*id)).collect()
    }

    /// The runs as they are to be made, in the given order; none for one that is not known.
    pub fn new_runs(&self, runs: impl Iterator<Item = RunId>) -> Vec<Option<NewRun>> {
        let inner = self.inner.lock();
        runs.map(|id| inner.new_run(id)).collect()
    }

    /// Whether nobody but this owner can have written any of the runs.
    pub fn are_fresh(&self, runs: &[RunId]) -> bool {
        let inner = self.inner.lock();
        runs.iter().all(|id| {
            let live = inner.runs.get(id);
            live.is_some_and(|Live { run, .. }| inner.fresh.is_fresh(run.job, run.fire_at))
        })
    }

    /// What the store made of runs that were to be written. Those of a partition or job that it refused
    /// are forgotten, and their fire times come again once what has changed was reloaded. Returns those
    /// that are in the store already, to be read.
    pub fn written(&self, runs: &[RunId], planned: &Planned) -> Vec<RunId> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let inserted: HashSet<RunId> = planned.inserted.iter().copied().collect();
        let changed: HashSet<JobId> = planned.changed.iter().copied().collect();
        inner.behind.extend(&planned.advanced);
        let mut there = Vec::new();
        for id in runs {
            inner.unwritten.remove(id);
            if inserted.contains(id) {
                continue;
            }
            let Some((job, fire)) = inner.runs.get(id).map(|live| (live.run.job, live.run.fire_at))
            else {
                continue;
            };
            if planned.advanced.contains(&job.partition()) && !changed.contains(&job) {
                there.push(*id);
            } else {
                inner.refused = true;
                // Of two fire times the later one may be written, and comes again with the earlier.
                inner.fresh.changed(job);
                inner.drop_run(*id, None);
                inner.fire_again(job, fire);
            }
        }
        there
    }

    /// What could be written at `now` is: so all fire times before the first that is left have rows.
    pub fn all_written(&self, now: DateTime<Utc>) {
        let mut inner = self.inner.lock();
        let left = inner.unwritten.first().map(|id| id.time());
        let reached = [left, inner.fires.next()].into_iter().flatten().fold(now, DateTime::min);
        for row in inner.partitions.values_mut() {
            row.planned_until = row.planned_until.max(reached);
        }
    }

    /// Partitions with runs that the stored `planned_until` or `served_until` does not tell of yet.
    pub fn behind(&self) -> Vec<PartitionId> {
        self.inner.lock().behind.iter().copied().collect()
    }

    /// The store has how far these partitions are planned and served.
    pub fn stored(&self, moved: &[PartitionId]) {
        self.inner.lock().behind.retain(|partition| !moved.contains(partition));
    }

    /// Whether the store refused a partition or a job since this was last asked: it is not as it is here.
    pub fn take_refused(&self) -> bool {
        std::mem::take(&mut self.inner.lock().refused)
    }
}

impl Inner {
    /// A run of a fire time that has come, unless it is known: whoever changed its job wrote it.
    fn put_unwritten(&mut self, new: NewRun, now: DateTime<Utc>) {
        let id = new.id;
        let Some(entry) = self.jobs.get(new.job).filter(|_| !self.runs.contains_key(&id)) else {
            return;
        };
        let spec = entry.kind.spec.clone();
        self.due.push(new.due_at, id);
        self.unwritten.insert(id);
        self.put_queued(OpenRun::queued(new, now), spec);
    }

    fn new_run(&self, id: RunId) -> Option<NewRun> {
        let run = &self.runs.get(&id)?.run;
        Some(NewRun {
            id,
            job: run.job,
            app: run.app,
            revision: run.revision,
            trigger: run.trigger,
            fire_at: run.fire_at,
            due_at: run.due_at,
            extra: run.extra.clone(),
        })
    }

    /// A fire time comes once more.
    fn fire_again(&mut self, job: JobId, fire: DateTime<Utc>) {
        let Some(slot) = self.jobs.slot(job) else { return };
        let next = self.jobs.at(slot).and_then(|entry| entry.next.get());
        if next.is_none_or(|next| fire < next) {
            self.set_next(slot, Some(fire));
        }
    }
}
