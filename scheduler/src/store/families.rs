//! What runs and jobs have to do with each other: parents and shards, causes, chains.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::Result;
use crate::model::{
    Payload,
    ids::{AttemptRef, RunId},
    shards::Split,
};

/// Operations on families of runs and chains of jobs.
#[async_trait]
pub trait FamilyStore: Send + Sync {
    /// Owner: splits a parent that is still QUEUED with the given fence and not asked to stop: its
    /// fence grows, its `extra` gets the total, and its shards are made, in one statement. False
    /// when the guard did not hold.
    async fn split_run(
        &self,
        parent: AttemptRef,
        split: &Split,
        now: DateTime<Utc>,
    ) -> Result<bool>;

    /// Split parents of which a shard has begun, with when: QUEUED → RUNNING for those that still
    /// are.
    async fn start_parents(&self, parents: &[(RunId, DateTime<Utc>)]) -> Result<()>;

    /// What the ended runs returned, of those that are kept and returned something.
    async fn load_outputs(&self, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>>;

    /// Whether one of the jobs named in `from` (resource names) is `to`, or starts it by
    /// `on_success` or `on_failure`, directly or through others.
    async fn chain_leads_to(&self, from: &[String], to: &str) -> Result<bool>;
}
