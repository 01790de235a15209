//! Due runs → an executor: write, then send.

mod command;
mod explain;
pub mod handed;
mod permits;
mod place;
mod replace;
mod split;
mod turns;
mod write;

use std::{collections::HashMap, sync::Arc};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::RunCommand;

use crate::{
    board::{Board, DueStep, Sent},
    fleet::Reach,
    model::{
        Payload,
        ids::{AttemptRef, RunId},
        run::{OpenRun, RunState},
    },
    store::{
        OWNER_BATCH_MAX, Result, SharedStore,
        ops::{EndRun, InboxBatch, OpenRuns},
    },
};
use parking_lot::Mutex;
use permits::Permits;
use place::PLACED_MAX;

/// Placements of one tick.
const DISPATCH_STEPS_MAX: usize = 4;
/// Fire times that one tick takes, which as many placements can send.
const FIRES_MAX: usize = DISPATCH_STEPS_MAX * PLACED_MAX;
/// Fire times that one tick takes however much waits: some may be of jobs whose executors are idle.
const FIRES_MIN: usize = OWNER_BATCH_MAX;

/// Sends what is due.
pub struct Dispatcher {
    store: SharedStore,
    board: Arc<Board>,
    reach: Arc<Reach>,
    permits: Mutex<Permits>,
}

/// What commands carry from earlier executions.
#[derive(Default)]
struct Given {
    /// Of the same run's earlier attempt.
    checkpoints: HashMap<RunId, Payload>,
    /// Of the run whose end started it.
    outputs: HashMap<RunId, Payload>,
}

/// What a tick did.
#[derive(Clone, Copy, Debug)]
pub struct Ticked {
    /// More can be done at once.
    pub more: bool,
    /// Runs that were sent as they came due. None where some had to wait for a slot: what comes then says
    /// nothing of what came due.
    pub fresh: usize,
}

impl Dispatcher {
    /// A dispatcher for what the board holds, to executors within reach.
    pub fn new(store: SharedStore, board: Arc<Board>, reach: Arc<Reach>) -> Self {
        Self { store, board, reach, permits: Mutex::default() }
    }

    /// Collects what others left in the inbox; kills go out at once.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn collect(&self, now: DateTime<Utc>) -> Result<()> {
        let partitions: Vec<_> = self.board.partitions().iter().map(|row| row.id).collect();
        let batch = self.store.take_inbox(&partitions).await?;
        if batch.ids.is_empty() {
            return Ok(());
        }
        self.note_freed(&batch, now);
        let canceling: Vec<OpenRun> = batch
            .open
            .runs
            .iter()
            .filter(|run| run.state == RunState::Canceling)
            .cloned()
            .collect();
        self.board.merge(&batch.ids, batch.open, now);
        for run in canceling {
            self.reach.kill_run(&run, self.board.spec_of(run.id).as_deref());
        }
        self.reach.hand_over(&self.store).await;
        Ok(())
    }

    /// Slots of executors elsewhere that runs of this owner have left.
    fn note_freed(&self, batch: &InboxBatch, now: DateTime<Utc>) {
        let after: HashMap<RunId, &OpenRun> =
            batch.open.runs.iter().map(|run| (run.id, run)).collect();
        let before = batch.ids.iter().filter_map(|id| self.board.run(*id));
        for run in before.filter(|run| run.state.is_sent()) {
            let now_is = after.get(&run.id);
            let same = now_is.is_some_and(|row| row.attempt_ref() == run.attempt_ref());
            if same && now_is.is_some_and(|row| row.state.is_sent()) {
                continue;
            }
            if let Some(spec) = self.board.spec_of(run.id) {
                let returned = same && now_is.is_some_and(|row| row.state == RunState::Queued);
                self.reach.freed(&run, &spec.handler, !returned, now);
            }
        }
    }

    /// Takes the fire times that have come and the due runs in hand, and sends as many as there are
    /// free slots for.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn tick(&self, now: DateTime<Utc>) -> Result<Ticked> {
        self.return_permits().await;
        // What waits already goes first. A fire time is left where it is until it can be sent in this
        // tick: written as waiting it would cost a second statement, and so would all that come after.
        let waiting = place::sendable(&self.board, &self.reach, now);
        let fires = FIRES_MAX.saturating_sub(waiting).max(FIRES_MIN);
        let mut more = self.board.fall_due(now, fires);
        let crowded = self.take_due(now).await?;
        more |= self.replace(now).await?;
        self.split(now).await?;
        let mut fresh = 0;
        for step in 0..DISPATCH_STEPS_MAX {
            let placement = self.place(now).await?;
            if placement.runs.is_empty() {
                break;
            }
            more |= step + 1 == DISPATCH_STEPS_MAX;
            fresh += placement.runs.len();
            self.send(placement, now).await?;
        }
        self.insert(self.board.unwritten(), now).await?;
        self.board.all_written(now);
        more |= self.settle_crowded(crowded, more, now).await?;
        Ok(Ticked { more, fresh: if more || waiting > 0 { 0 } else { fresh } })
    }

    /// Takes all that is due in hand. Returns runs for which as many wait already as may, with how
    /// many that is.
    async fn take_due(&self, now: DateTime<Utc>) -> Result<Vec<(RunId, u32)>> {
        let mut crowded = Vec::new();
        loop {
            let mut step = self.board.take_due(now, OWNER_BATCH_MAX);
            let more = step.more;
            self.insert(self.board.unwritten_judged(&step), now).await?;
            crowded.append(&mut step.crowded);
            crowded.extend(self.settle(step, now).await?);
            if !more {
                self.board.set_served(now);
                return Ok(crowded);
            }
        }
    }

    /// Only what waits is counted by `max_queued`: a run is skipped once nothing more of its job
    /// can be sent. Returns whether some were let in after all.
    async fn settle_crowded(
        &self,
        crowded: Vec<(RunId, u32)>,
        sending: bool,
        now: DateTime<Utc>,
    ) -> Result<bool> {
        if sending {
            let runs: Vec<RunId> = crowded.into_iter().map(|(run, _)| run).collect();
            self.board.due_again(&runs);
            return Ok(false);
        }
        let (before, mut skips) = (crowded.len(), Vec::new());
        for (run, _) in crowded {
            let again = self.board.retry_admission(run).crowded;
            skips.extend(again.into_iter().map(|(run, max)| {
                (run, format!("{max} runs of the job wait already, as many as may (max_queued)"))
            }));
        }
        let let_in = skips.len() < before;
        self.skip(skips, now).await?;
        Ok(let_in)
    }

    /// Wakes retries, verifies conflicts, records skips. Returns those that the verified let in, but
    /// for which as many wait as may.
    async fn settle(&self, step: DueStep, now: DateTime<Utc>) -> Result<Vec<(RunId, u32)>> {
        if !step.retries.is_empty() {
            let woken = self.store.wake_retries(&step.retries, now).await?;
            self.board.woken(&woken);
            let failed = step.retries.iter().filter(|old| !woken.iter().any(|w| w.run == old.run));
            self.reread(failed.map(|old| old.run).collect(), now).await?;
        }
        let mut skips: Vec<(RunId, String)> = Vec::new();
        let mut crowded = Vec::new();
        if !step.conflicts.is_empty() {
            let in_the_way: Vec<RunId> =
                step.conflicts.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
            let open = self.store.still_open(&in_the_way).await?;
            for gone in in_the_way.iter().filter(|id| !open.contains(id)) {
                self.board.ended(*gone, now);
            }
            for (run, _) in &step.conflicts {
                let again = self.board.retry_admission(*run);
                crowded.extend(again.crowded);
                skips
                    .extend(again.conflicts.into_iter().map(|(id, others)| (id, overlap(&others))));
            }
        }
        self.skip(skips, now).await?;
        Ok(crowded)
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

    /// A guard did not hold: the rows are read again and taken as they stand.
    async fn reread(&self, ids: Vec<RunId>, now: DateTime<Utc>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let runs = self.store.open_runs(&ids).await?;
        self.board.merge(&ids, OpenRuns { runs, specs: Vec::new() }, now);
        Ok(())
    }
}

impl Given {
    /// Reads what commands of later attempts and of chained runs carry; `runs` are attempts, each
    /// with the run that started it.
    async fn load(
        store: &SharedStore,
        runs: impl Iterator<Item = (AttemptRef, Option<RunId>)>,
    ) -> Result<Self> {
        let (mut later, mut causes) = (Vec::new(), Vec::new());
        for (attempt, caused_by) in runs {
            later.extend((attempt.attempt > 1).then_some(attempt.run));
            causes.extend(caused_by);
        }
        let mut given = Self::default();
        if !later.is_empty() {
            given.checkpoints = store.load_checkpoints(&later).await?.into_iter().collect();
        }
        if !causes.is_empty() {
            given.outputs = store.load_outputs(&causes).await?.into_iter().collect();
        }
        Ok(given)
    }

    fn command(&self, sent: &Sent, now: DateTime<Utc>) -> RunCommand {
        let cause = sent.run.extra.as_ref().and_then(|extra| extra.caused_by);
        let output = cause.and_then(|cause| self.outputs.get(&cause));
        command::build(sent, self.checkpoints.get(&sent.run.id), output, now)
    }
}

fn overlap(others: &[RunId]) -> String {
    match others.first() {
        Some(other) => format!("run {other} of the job had not ended (overlap policy SKIP)"),
        None => "another run of the job had not ended (overlap policy SKIP)".to_owned(),
    }
}
