//! Write, then send: runs that have no row yet are inserted as sent, rows that waited are updated.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use futures::{FutureExt as _, StreamExt as _, stream};

use super::{
    Dispatcher, Given,
    place::{Placed, Placement},
};
use crate::{
    board::Sent,
    model::{
        ids::{AttemptRef, JobId, PartitionId, RunId},
        route::Uses,
        run::{NewRun, TriggerKind},
    },
    store::{
        OWNER_BATCH_MAX, Result,
        ops::{Addressee, Dispatch, DispatchRow, Plan, PlanRow},
    },
    telemetry::{metrics, runs},
};

/// Statements of one placement that are under way at once: so the database need not wait for what was
/// written before to be sent. What uses the routes count goes with each of them, all of it.
const WRITES_MAX: usize = 2;

type Written = HashMap<RunId, AttemptRef>;

impl Dispatcher {
    /// Inserts runs that are not sent now.
    pub(super) async fn insert(&self, runs: Vec<NewRun>, now: DateTime<Utc>) -> Result<()> {
        for chunk in runs.chunks(OWNER_BATCH_MAX) {
            let rows = chunk.iter().cloned().map(PlanRow::from).collect();
            self.plan(rows, Vec::new(), now).await?;
        }
        Ok(())
    }

    /// Writes what was placed, and sends each batch once it is written, while the next one is being
    /// written.
    pub(super) async fn send(&self, placement: Placement, now: DateTime<Utc>) -> Result<()> {
        let uses = placement.uses();
        let Placement { runs, cursors, .. } = placement;
        let (new, old): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.pick.unwritten);
        self.board.turned(cursors);
        let new = batches(new).into_iter().map(|batch| self.send_new(batch, &uses, now).boxed());
        let old = batches(old).into_iter().map(|batch| self.send_old(batch, &uses, now).boxed());
        let batches: Vec<_> = new.chain(old).collect();
        // Each comes to its end whatever became of the others: there the slots of what was not sent are
        // given back.
        let sent: Vec<Result<()>> = stream::iter(batches).buffered(WRITES_MAX).collect().await;
        sent.into_iter().collect()
    }

    async fn send_new(
        &self,
        placed: Vec<Placed>,
        uses: &[(JobId, Uses)],
        now: DateTime<Utc>,
    ) -> Result<()> {
        let runs = self.board.new_runs(placed.iter().map(|run| run.pick.attempt.run));
        let rows = runs.into_iter().zip(&placed);
        let rows =
            rows.filter_map(|(run, placed)| Some(PlanRow { run: run?, to: Some(to(placed)) }));
        let first = |run: RunId| (run, AttemptRef { run, attempt: 1, fence: 1 });
        let written = self.plan(rows.collect(), uses.to_vec(), now).await;
        // A fire time carries nothing from an earlier run.
        let written = written
            .map(|runs| (Given::default(), runs.into_iter().map(first).collect::<Written>()));
        self.deliver(placed, written).await.map(|_| ())
    }

    async fn send_old(
        &self,
        placed: Vec<Placed>,
        uses: &[(JobId, Uses)],
        now: DateTime<Utc>,
    ) -> Result<()> {
        let row = |run: &Placed| DispatchRow { attempt: run.pick.attempt, to: to(run) };
        let mut rows: Vec<DispatchRow> = placed.iter().map(row).collect();
        rows.sort_unstable_by_key(|row| row.attempt.run);
        metrics().batch("dispatch", rows.len());
        let here = placed.iter().filter(|run| run.slot.node.is_none());
        let here = here.map(|run| (run.pick.attempt, run.pick.caused_by));
        // What the commands carry is read first: nothing may come between commit and sending.
        let written = async {
            let given = Given::load(&self.store, here).await?;
            let dispatch = Dispatch { rows, uses: uses.to_vec() };
            let written = self.store.dispatch(&dispatch, now).await?;
            let written = written.into_iter().map(|attempt| (attempt.run, attempt));
            Result::Ok((given, written.collect()))
        };
        let written = written.await;
        let refused = self.deliver(placed, written).await?;
        self.reread(refused, now).await
    }

    /// Inserts runs with what the routes of their jobs have counted. Returns those that were inserted;
    /// the others are forgotten, or taken as they stand in the store.
    async fn plan(
        &self,
        mut rows: Vec<PlanRow>,
        uses: Vec<(JobId, Uses)>,
        now: DateTime<Utc>,
    ) -> Result<Vec<RunId>> {
        rows.sort_unstable_by_key(|row| row.run.id);
        let ids: Vec<RunId> = rows.iter().map(|row| row.run.id).collect();
        let mut partitions: Vec<PartitionId> =
            rows.iter().map(|row| row.run.job.partition()).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let advances = self.board.standing(&partitions);
        let fresh = self.board.are_fresh(&ids);
        let plan = Plan { advances, runs: rows, fresh, uses, ..Plan::default() };
        let planned = self.store.plan(&plan, now).await?;
        metrics().batch("plan", ids.len());
        metrics().fires.inc_by(planned.inserted.len() as u64);
        let there = self.board.written(&ids, &planned);
        self.reread(there, now).await?;
        if runs::exporting() {
            for run in planned.inserted.iter().filter_map(|id| self.board.run(*id)) {
                let job = self.board.job(run.job).map(|job| job.name.resource_name());
                runs::planned(run.id, &job.unwrap_or_default(), now, run.trigger.as_str());
            }
        }
        Ok(planned.inserted)
    }

    /// Sends what was written, and gives the slots of the others back. Returns these.
    async fn deliver(
        &self,
        placed: Vec<Placed>,
        written: Result<(Given, Written)>,
    ) -> Result<Vec<RunId>> {
        let (given, written) = match written {
            Ok(both) => both,
            Err(fault) => {
                placed.iter().for_each(|run| self.reach.unreserve(&run.slot, 1));
                return Err(fault);
            }
        };
        let mut refused = Vec::new();
        // Not the time at which they were judged: writing may have taken long, and timeouts count.
        let now = self.reach.hub().now();
        for Placed { pick, slot } in placed {
            let Some(attempt) = written.get(&pick.attempt.run) else {
                self.reach.unreserve(&slot, 1);
                refused.push(pick.attempt.run);
                continue;
            };
            let sent = self.board.sent(*attempt, &slot.executor, slot.epoch, now);
            let Some(sent) = sent else {
                self.reach.unreserve(&slot, 1);
                continue;
            };
            tell(&sent, now);
            if let Some(node) = slot.node {
                self.reach.hand(node, *attempt, false);
                continue;
            }
            let command = given.command(&sent, now);
            // False means that the session is gone: the hub then reports the run as not held.
            self.reach.hub().send_run(slot.app, &slot.executor, slot.epoch, command);
        }
        self.reach.hand_over(&self.store).await;
        Ok(refused)
    }
}

/// Each as many as one statement writes.
fn batches(runs: Vec<Placed>) -> Vec<Vec<Placed>> {
    let mut runs = runs.into_iter();
    let batch = || Some(runs.by_ref().take(OWNER_BATCH_MAX).collect::<Vec<_>>());
    std::iter::from_fn(batch).take_while(|batch| !batch.is_empty()).collect()
}

fn to(placed: &Placed) -> Addressee {
    Addressee { executor: placed.slot.executor.clone(), session_epoch: placed.slot.epoch }
}

/// Counts and traces a dispatch.
fn tell(sent: &Sent, now: DateTime<Utc>) {
    let run = &sent.run;
    metrics().dispatches.inc();
    if run.attempt == 1 && run.trigger == TriggerKind::Schedule {
        metrics().late(run.due_at, now);
    }
    if runs::exporting() {
        let job = sent.job.resource_name();
        if run.fence == 1 && !run.trigger.is_planned() {
            runs::planned(run.id, &job, run.created_at, run.trigger.as_str());
        }
        let executor = run.executor.as_deref().unwrap_or_default();
        runs::dispatched(run.attempt_ref(), &job, executor, run.due_at, now);
    }
}
