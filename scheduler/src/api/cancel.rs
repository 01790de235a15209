//! Ending runs by hand: what waits ends at once, what is with an executor is asked to stop, and a
//! parent's shards are ended by its owner.

use std::{sync::Arc, time::Duration};

use super::{Api, status::ApiResult};
use crate::{
    model::{
        ids::{JobId, PartitionId, RunId},
        job::JobSpec,
        run::{KillReason, OpenRun, RunState},
        transition::{self, Verdict},
    },
    store::{
        RESULT_BATCH_MAX,
        ops::{EndAnswer, EndRun, MarkCanceling, StateSet},
    },
};

/// Tries to end runs that change while they are being ended.
pub const TRIES_MAX: usize = 8;

/// Why runs are ended.
#[derive(Clone, Debug)]
pub struct Order {
    /// Who asks.
    pub reason: KillReason,
    /// How long a handler has; `None` means its job's kill grace.
    pub grace: Option<Duration>,
    /// In one line.
    pub message: String,
}

/// Ends the runs, or asks their executors to stop them. Returns those that went on changing and
/// were left alone; normally none.
///
/// # Errors
/// The store's.
pub async fn cancel(api: &Api, mut runs: Vec<OpenRun>, order: &Order) -> ApiResult<Vec<RunId>> {
    for _ in 0..TRIES_MAX {
        let mut again = Vec::new();
        for chunk in runs.chunks(RESULT_BATCH_MAX) {
            again.extend(step(api, chunk, order).await?);
        }
        if again.is_empty() {
            return Ok(again);
        }
        // One that is not open any more has ended meanwhile.
        runs = api.store.open_runs(&again).await?;
    }
    Ok(runs.iter().map(|run| run.id).collect())
}

/// One guarded try for a batch; returns the runs that had moved on.
async fn step(api: &Api, runs: &[OpenRun], order: &Order) -> ApiResult<Vec<RunId>> {
    let now = api.clock.now();
    let (mut ends, mut kills) = (Vec::new(), Vec::new());
    for run in runs {
        match transition::cancel(run, order.reason) {
            Verdict::End(to) => ends.push(EndRun::unheard(run, to, order.message.clone())),
            Verdict::Canceling(reason) => kills.push(MarkCanceling {
                attempt: run.attempt_ref(),
                from: StateSet::only(run.state),
                reason,
                grace: order.grace,
                message: order.message.clone(),
            }),
            _ => {}
        }
    }
    let mut again = Vec::new();
    if !ends.is_empty() {
        let mut ended = Vec::new();
        for (end, answer) in ends.iter().zip(api.store.end_runs(&ends, now).await?) {
            match answer {
                EndAnswer::Ended(job) => ended.push((end.attempt.run, Some(job.partition()))),
                EndAnswer::Stale => again.push(end.attempt.run),
                EndAnswer::Duplicate => {}
            }
        }
        tell_owners(api, &ended).await;
    }
    if !kills.is_empty() {
        let marked = api.store.mark_canceling(&kills, now).await?;
        let marked: Vec<RunId> = marked.iter().map(|attempt| attempt.run).collect();
        again.extend(kills.iter().map(|kill| kill.attempt.run).filter(|id| !marked.contains(id)));
        kill_here(api, &marked).await?;
    }
    Ok(again)
}

/// Whatever waited for the ended runs may go on. Should their owners not be told, they find out when
/// they verify what is under way.
async fn tell_owners(api: &Api, ended: &[(RunId, Option<PartitionId>)]) {
    if ended.is_empty() {
        return;
    }
    if let Err(fault) = api.store.tell_owners(ended).await {
        tracing::warn!(%fault, runs = ended.len(), "owners were not told of runs that were canceled");
    }
}

/// Tells the executors that are connected to this node at once; the owner tells the others.
async fn kill_here(api: &Api, marked: &[RunId]) -> ApiResult<()> {
    for run in api.store.open_runs(marked).await? {
        if run.state == RunState::Canceling {
            let spec = revision_spec(api, run.job, run.revision).await?;
            api.hub.kill_run(&run, spec.as_deref());
        }
    }
    Ok(())
}

/// The content of one revision of a job, if it is still kept.
///
/// # Errors
/// The store's.
pub async fn revision_spec(
    api: &Api,
    job: JobId,
    revision: u64,
) -> ApiResult<Option<Arc<JobSpec>>> {
    let found = api.store.list_revisions(job, revision.saturating_add(1), 1).await?;
    Ok(found.into_iter().find(|job| job.revision == revision).map(|job| job.spec))
}
