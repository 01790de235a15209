//! What becomes of parents through their shards, and of shards whose executor does not come back.

use chrono::{DateTime, Utc};

use super::{Janitor, Verdicts};
use crate::{
    model::{
        ids::RunId,
        run::{CODE_EXECUTOR_LOST, Failure, KillReason, OpenRun, RunState},
        transition::{self, Verdict},
    },
    store::{
        Result,
        ops::{AttemptEnd, EndRun, MarkCanceling, StateSet},
    },
};

/// Shards of one executor that are given up per sweep.
const UNREACHABLE_MAX: usize = 256;

impl Janitor {
    /// Marks parents as running once a shard has begun, and asks the shards of those that were
    /// asked to stop to stop too: again each round, until all have been.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn parents(&self, now: DateTime<Utc>) -> Result<()> {
        let begun = self.board.take_begun_parents();
        if !begun.is_empty() {
            self.store.start_parents(&begun).await?;
        }
        for (parent, shards) in self.board.killed_parents() {
            let rows = self.store.open_runs(&shards).await?;
            let mut verdicts = Verdicts::default();
            rows.iter().for_each(|row| stop(row, &parent, &mut verdicts));
            if verdicts.ends.is_empty() && verdicts.kills.is_empty() {
                self.board.parent_is_settled(parent.id);
            }
            self.write(verdicts, now).await?;
        }
        Ok(())
    }

    /// Gives up shards that wait for an executor of their own which has been out of contact for too
    /// long: no other may take them.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn unreachable(&self, now: DateTime<Utc>, recovered_at: DateTime<Utc>) -> Result<()> {
        let mut verdicts = Verdicts::default();
        let grace_ends = recovered_at + self.rules.takeover_grace;
        for lane in self.board.waiting_lanes().into_iter().filter(|lane| !lane.target.is_empty()) {
            let since = self.away_since(lane.app, &lane.target, recovered_at, now);
            let Some(since) = since else { continue };
            let target = lane.target.clone();
            let heads = self.board.heads(&[(lane, UNREACHABLE_MAX)], UNREACHABLE_MAX);
            let ids: Vec<RunId> = heads.iter().map(|(_, pick)| pick.attempt.run).collect();
            for row in self.store.open_runs(&ids).await? {
                let Some(spec) = self.board.spec_of(row.id) else { continue };
                let patience = self.board.lost_after(&row, &spec).unwrap_or(self.rules.lost_after);
                let over = now >= (since + patience).max(grace_ends);
                if over && row.is_bound_shard() && row.state == RunState::Queued {
                    let why = format!(
                        "executor {target}, the only one it may go to, was out of contact for \
                         {patience:?}"
                    );
                    verdicts.ends.push(given_up(&row, why));
                }
            }
        }
        self.write(verdicts, now).await
    }
}

/// Asks a shard to stop as its parent was asked.
fn stop(shard: &OpenRun, parent: &OpenRun, verdicts: &mut Verdicts) {
    let message = parent.message.clone();
    match transition::cancel(shard, parent.kill_reason.unwrap_or(KillReason::User)) {
        Verdict::End(to) => verdicts.ends.push(EndRun::unheard(shard, to, message)),
        Verdict::Canceling(reason) => verdicts.kills.push(MarkCanceling {
            attempt: shard.attempt_ref(),
            from: StateSet::only(shard.state),
            reason,
            grace: parent.kill_grace,
            message,
        }),
        _ => {}
    }
}

fn given_up(shard: &OpenRun, why: String) -> EndRun {
    let failure =
        Failure { code: CODE_EXECUTOR_LOST.to_owned(), message: why.clone(), ..Failure::default() };
    EndRun {
        attempt: shard.attempt_ref(),
        from: StateSet::only(RunState::Queued),
        to: RunState::Lost,
        end: AttemptEnd { failure: Some(failure), ..AttemptEnd::default() },
        output: None,
        output_truncated: false,
        message: why,
        missed: false,
    }
}
