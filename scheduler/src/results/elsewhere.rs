//! Runs of owners on other nodes that ended or began at executors of this one: their owners find
//! them in their inbox.

use super::Results;
use crate::{
    model::ids::{JobId, PartitionId, RunId},
    store::RESULT_BATCH_MAX,
};

/// Runs whose owners are to be told.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(Vec<(RunId, Option<PartitionId>)>);

impl Results {
    /// The row of a run was changed here. Asked after the write: an owner that takes the run's
    /// partition later reads the row as it is by then.
    pub(super) fn changed(&mut self, run: RunId, job: Option<JobId>) {
        if self.listener.is_elsewhere(run, job) {
            self.elsewhere.0.push((run, job.map(JobId::partition)));
        }
    }

    /// Tells the other owners. What can't be told now they find out when they verify their runs.
    pub(super) async fn tell_owners(&mut self) {
        let runs = std::mem::take(&mut self.elsewhere.0);
        for chunk in runs.chunks(RESULT_BATCH_MAX) {
            if let Err(fault) = self.store.tell_owners(chunk).await {
                tracing::debug!(%fault, runs = chunk.len(), "owners elsewhere were not told of runs");
            }
        }
    }
}
