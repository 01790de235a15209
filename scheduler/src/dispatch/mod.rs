//! Due runs → an executor: write, then send.

mod command;
mod split;

use std::{collections::HashMap, sync::Arc};

use chrono::{DateTime, Utc};

use crate::{
    board::{Board, DueStep, LaneKey, Pick, Sent},
    hub::{Candidate, Hub},
    model::{
        Payload,
        ids::{AppId, AttemptRef, JobId, RunId},
        job::RouteStrategy,
        run::{OpenRun, RunState, TriggerKind},
    },
    route::{self, Choice, RouteState},
    store::{
        OWNER_BATCH_MAX, Result, SharedStore,
        ops::{Dispatch as DispatchBatch, DispatchRow, EndRun, OpenRuns},
    },
    telemetry::{metrics, runs},
};

/// Statements of one tick before planning has its turn again.
const DISPATCH_STEPS_MAX: usize = 8;

/// Sends what is due.
pub struct Dispatcher {
    store: SharedStore,
    board: Arc<Board>,
    hub: Arc<Hub>,
}

/// A run with the executor it is to go to.
struct Placed {
    app: AppId,
    handler: String,
    pick: Pick,
    executor: Arc<str>,
    epoch: u64,
    cursor: Option<u64>,
}

/// What commands carry from earlier executions.
#[derive(Default)]
struct Given {
    /// Of the same run's earlier attempt.
    checkpoints: HashMap<RunId, Payload>,
    /// Of the run whose end started it.
    outputs: HashMap<RunId, Payload>,
}

impl Dispatcher {
    /// A dispatcher for what the board holds and the hub reaches.
    pub fn new(store: SharedStore, board: Arc<Board>, hub: Arc<Hub>) -> Self {
        Self { store, board, hub }
    }

    /// Collects what others left in the inbox; kills go out at once.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn collect(&self) -> Result<()> {
        let partitions: Vec<_> = self.board.partitions().iter().map(|row| row.id).collect();
        let batch = self.store.take_inbox(&partitions).await?;
        if batch.ids.is_empty() {
            return Ok(());
        }
        let canceling: Vec<OpenRun> = batch
            .open
            .runs
            .iter()
            .filter(|run| run.state == RunState::Canceling)
            .cloned()
            .collect();
        self.board.merge(&batch.ids, batch.open);
        for run in canceling {
            self.hub.kill_run(&run, self.board.spec_of(run.id).as_deref());
        }
        Ok(())
    }

    /// Takes the due runs in hand and sends as many as there are free slots for. Returns whether
    /// more can be done at once.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn tick(&self, now: DateTime<Utc>) -> Result<bool> {
        let mut more = self.take_due(now).await?;
        self.split(now).await?;
        for step in 0..DISPATCH_STEPS_MAX {
            let placed = self.place();
            if placed.is_empty() {
                return Ok(more);
            }
            more |= step + 1 == DISPATCH_STEPS_MAX;
            self.send(placed, now).await?;
        }
        Ok(more)
    }

    async fn take_due(&self, now: DateTime<Utc>) -> Result<bool> {
        loop {
            let step = self.board.take_due(now, OWNER_BATCH_MAX);
            let more = step.more;
            self.settle(step, now).await?;
            if !more {
                self.board.set_served(now);
                return Ok(false);
            }
        }
    }

    /// Wakes retries, verifies conflicts, records skips.
    async fn settle(&self, step: DueStep, now: DateTime<Utc>) -> Result<()> {
        if !step.retries.is_empty() {
            let woken = self.store.wake_retries(&step.retries, now).await?;
            self.board.woken(&woken);
            let failed = step.retries.iter().filter(|old| !woken.iter().any(|w| w.run == old.run));
            self.reread(failed.map(|old| old.run).collect()).await?;
        }
        let mut skips: Vec<(RunId, String)> = Vec::new();
        for run in &step.full {
            skips.push((*run, "as many runs of the job wait already as may".to_owned()));
        }
        if !step.conflicts.is_empty() {
            let in_the_way: Vec<RunId> =
                step.conflicts.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
            let open = self.store.still_open(&in_the_way).await?;
            for gone in in_the_way.iter().filter(|id| !open.contains(id)) {
                self.board.ended(*gone, now);
            }
            for (run, _) in &step.conflicts {
                let again = self.board.retry_admission(*run);
                skips
                    .extend(again.conflicts.into_iter().map(|(id, others)| (id, overlap(&others))));
            }
        }
        self.skip(skips, now).await
    }

    async fn skip(&self, skips: Vec<(RunId, String)>, now: DateTime<Utc>) -> Result<()> {
        let ends: Vec<_> = skips
            .into_iter()
            .filter_map(|(id, why)| Some(EndRun::skip(self.board.run(id)?.attempt_ref(), why)))
            .collect();
        for chunk in ends.chunks(OWNER_BATCH_MAX) {
            self.store.end_runs(chunk, now).await?;
            for end in chunk {
                self.board.ended(end.attempt.run, now);
            }
        }
        Ok(())
    }

    /// Finds executors for the heads of all lanes, up to one batch, and reserves their slots.
    fn place(&self) -> Vec<Placed> {
        let mut placed = Vec::new();
        for lane in self.board.waiting_lanes() {
            let room = OWNER_BATCH_MAX - placed.len();
            if room == 0 {
                break;
            }
            let mut candidates = self.hub.candidates(lane.app, &lane.handler, &lane.labels);
            if !lane.target.is_empty() {
                candidates.retain(|candidate| *candidate.name == *lane.target);
            }
            let free: u32 = candidates.iter().map(|candidate| candidate.free).sum();
            let heads = self.board.head(&lane, room.min(free as usize));
            placed.extend(assign(&lane, &candidates, heads));
        }
        self.reserve(placed)
    }

    /// Keeps those whose executor still has the slots; takes them.
    fn reserve(&self, placed: Vec<Placed>) -> Vec<Placed> {
        let mut wanted: HashMap<(AppId, Arc<str>, u64, String), u32> = HashMap::new();
        for run in &placed {
            *wanted.entry(slot_of(run)).or_default() += 1;
        }
        wanted.retain(|(app, executor, epoch, handler), n| {
            self.hub.reserve(*app, executor, *epoch, handler, *n)
        });
        placed.into_iter().filter(|run| wanted.contains_key(&slot_of(run))).collect()
    }

    /// Writes the dispatch, then sends what was written.
    async fn send(&self, placed: Vec<Placed>, now: DateTime<Utc>) -> Result<()> {
        let mut rows: Vec<DispatchRow> = placed
            .iter()
            .map(|run| DispatchRow {
                attempt: run.pick.attempt,
                executor: run.executor.clone(),
                session_epoch: run.epoch,
            })
            .collect();
        rows.sort_unstable_by_key(|row| row.attempt.run);
        let cursors: HashMap<JobId, u64> =
            placed.iter().filter_map(|run| Some((run.pick.job, run.cursor?))).collect();
        let batch = DispatchBatch { rows, cursors: cursors.into_iter().collect() };
        metrics().batch("dispatch", batch.rows.len());
        let causes: Vec<RunId> = placed.iter().filter_map(|run| run.pick.caused_by).collect();
        let (given, written) = match self.write(&batch, causes, now).await {
            Ok(both) => both,
            Err(fault) => {
                placed.iter().for_each(|run| self.unreserve(run));
                return Err(fault);
            }
        };
        let mut refused = Vec::new();
        for run in placed {
            let Some(attempt) = written.get(&run.pick.attempt.run) else {
                self.unreserve(&run);
                refused.push(run.pick.attempt.run);
                continue;
            };
            let sent = self.board.sent(*attempt, &run.executor, run.epoch, run.cursor, now);
            let Some(sent) = sent else {
                self.unreserve(&run);
                continue;
            };
            tell(&sent, now);
            let checkpoint = given.checkpoints.get(&attempt.run);
            let output = run.pick.caused_by.and_then(|cause| given.outputs.get(&cause));
            let command = command::build(&sent, checkpoint, output, now);
            // False means that the session is gone: the hub then reports the run as not held.
            self.hub.send_run(run.app, &run.executor, run.epoch, command);
        }
        self.reread(refused).await
    }

    fn unreserve(&self, run: &Placed) {
        self.hub.unreserve(run.app, &run.executor, run.epoch, &run.handler, 1);
    }

    /// A guard did not hold: the rows are read again and taken as they stand.
    async fn reread(&self, ids: Vec<RunId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let runs = self.store.open_runs(&ids).await?;
        self.board.merge(&ids, OpenRuns { runs, specs: Vec::new() });
        Ok(())
    }

    /// Reads what commands of later attempts and of chained runs carry, then writes the dispatch:
    /// nothing may come between its commit and the sending.
    async fn write(
        &self,
        batch: &DispatchBatch,
        causes: Vec<RunId>,
        now: DateTime<Utc>,
    ) -> Result<(Given, HashMap<RunId, AttemptRef>)> {
        let attempts = batch.rows.iter().map(|row| row.attempt);
        let later: Vec<RunId> = attempts.filter(|a| a.attempt > 1).map(|a| a.run).collect();
        let mut given = Given::default();
        if !later.is_empty() {
            given.checkpoints = self.store.load_checkpoints(&later).await?.into_iter().collect();
        }
        if !causes.is_empty() {
            given.outputs = self.store.load_outputs(&causes).await?.into_iter().collect();
        }
        let written = self.store.dispatch(batch, now).await?;
        Ok((given, written.into_iter().map(|attempt| (attempt.run, attempt)).collect()))
    }
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

fn slot_of(run: &Placed) -> (AppId, Arc<str>, u64, String) {
    (run.app, run.executor.clone(), run.epoch, run.handler.clone())
}

fn overlap(others: &[RunId]) -> String {
    match others.first() {
        Some(other) => format!("run {other} of the job had not ended (overlap policy SKIP)"),
        None => "another run of the job had not ended (overlap policy SKIP)".to_owned(),
    }
}

/// Gives each run of a lane an executor by its route, as long as there are free slots.
fn assign(lane: &LaneKey, candidates: &[Candidate], heads: Vec<Pick>) -> Vec<Placed> {
    let mut choices: Vec<Choice> = candidates
        .iter()
        .map(|candidate| Choice {
            row: candidate.row,
            free: candidate.free,
            slots: candidate.slots,
        })
        .collect();
    let mut cursors: HashMap<JobId, u64> = HashMap::new();
    let mut placed = Vec::with_capacity(heads.len());
    for pick in heads {
        let cursor = cursors.get(&pick.job).copied().unwrap_or(pick.cursor);
        let state = RouteState { cursor, random: rand::random() };
        let Some(index) = route::pick(pick.route, &choices, state) else { break };
        choices[index].free -= 1;
        let chosen = &candidates[index];
        let moved = (pick.route == RouteStrategy::RoundRobin).then(|| chosen.row.unsigned_abs());
        if let Some(cursor) = moved {
            cursors.insert(pick.job, cursor);
        }
        placed.push(Placed {
            app: lane.app,
            handler: lane.handler.clone(),
            executor: chosen.name.clone(),
            epoch: chosen.epoch,
            cursor: moved,
            pick,
        });
    }
    placed
}
