//! Overlap policy REPLACE: the earlier active runs of a job are asked to stop for the one that
//! comes, which goes on once they have ended.
//!
//! What is still to be asked follows from the rows alone, so nothing is kept of it: after a crash
//! the next owner finds the same runs in each other's way.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::Dispatcher;
use crate::{
    model::{
        ids::RunId,
        run::{KillReason, OpenRun, RunState},
        transition::{self, Verdict},
    },
    store::{
        OWNER_BATCH_MAX, Result,
        ops::{EndRun, MarkCanceling, OpenRuns, StateSet},
    },
};

/// Tries to stop runs that change while they are being stopped; the next round goes on.
const TRIES_MAX: usize = 4;

impl Dispatcher {
    /// Asks those to stop that are to be replaced. Returns whether more can be done at once: some
    /// have ended, or shards are to be asked in their turn.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub(super) async fn replace(&self, now: DateTime<Utc>) -> Result<bool> {
        let mut more = false;
        for _ in 0..TRIES_MAX {
            let mut replaced: HashMap<RunId, RunId> = HashMap::new();
            for replacement in self.board.to_replace() {
                replaced.extend(replacement.earlier.iter().map(|run| (*run, replacement.by)));
            }
            if replaced.is_empty() {
                return Ok(more);
            }
            let mut ids: Vec<RunId> = replaced.keys().copied().collect();
            ids.sort_unstable();
            for chunk in ids.chunks(OWNER_BATCH_MAX) {
                more |= self.stop(chunk, &replaced, now).await?;
            }
        }
        Ok(more)
    }

    async fn stop(
        &self,
        ids: &[RunId],
        by: &HashMap<RunId, RunId>,
        now: DateTime<Utc>,
    ) -> Result<bool> {
        let rows = self.store.open_runs(ids).await?;
        let (mut ends, mut kills) = (Vec::new(), Vec::new());
        for row in &rows {
            let Some(by) = by.get(&row.id) else { continue };
            match transition::cancel(row, KillReason::Replaced) {
                Verdict::End(to) => ends.push(EndRun::unheard(row, to, why(*by))),
                Verdict::Canceling(reason) => kills.push(kill(row, reason, *by)),
                _ => {}
            }
        }
        if !ends.is_empty() {
            self.store.end_runs(&ends, now).await?;
        }
        if !kills.is_empty() {
            self.store.mark_canceling(&kills, now).await?;
        }
        let runs = self.store.open_runs(ids).await?;
        for run in runs.iter().filter(|run| run.state == RunState::Canceling) {
            self.reach.kill_run(run, self.board.spec_of(run.id).as_deref());
        }
        self.reach.hand_over(&self.store).await;
        let parents = runs.iter().any(|run| run.is_split() && run.kill_reason.is_some());
        let open: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        self.board.merge(&open, OpenRuns { runs, specs: Vec::new() }, now);
        let gone: Vec<&RunId> = ids.iter().filter(|id| !open.contains(id)).collect();
        for run in &gone {
            self.board.ended(**run, now);
        }
        Ok(parents || !gone.is_empty())
    }
}

fn kill(run: &OpenRun, reason: KillReason, by: RunId) -> MarkCanceling {
    MarkCanceling {
        attempt: run.attempt_ref(),
        from: StateSet::only(run.state),
        reason,
        grace: None,
        message: why(by),
    }
}

fn why(by: RunId) -> String {
    format!("replaced by run {by} of the job (overlap policy REPLACE)")
}
