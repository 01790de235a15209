//! What routes go by: how often executors got runs of a job, and which one got the last.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::Result;
use crate::model::{ids::JobId, route::Uses};

/// Ended runs of a job that are looked at for its newest dispatch, the newest first: so many, and so
/// many where none of those was sent.
pub const DISPATCHES_LOOKED_AT: [u32; 2] = [8, 1_000];

/// What an owner reads of its jobs' routes.
#[async_trait]
pub trait RouteStore: Send + Sync {
    /// What the jobs' routes have counted, for those that ever did. Uses that can't be read are
    /// counted anew: they must not keep the job from running.
    async fn load_uses(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Uses)>>;

    /// The registration row of the executor that each job's newest dispatch went to, if it had one:
    /// of executors that are still registered, and not of runs that named theirs. Looked at are open
    /// runs, and of ended ones as many as [`DISPATCHES_LOOKED_AT`] says.
    async fn last_dispatches(
        &self,
        jobs: &[JobId],
        now: DateTime<Utc>,
    ) -> Result<Vec<(JobId, u64)>>;
}
