//! What fire times need beside their runs: jobs that changed, fire times that were missed, how far all
//! is served, jobs that change by themselves.

mod missed;
mod upkeep;

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::{
    board::Board,
    model::ids::JobId,
    store::{
        Result, SharedStore, StoreError,
        ops::{Plan, RunScope},
    },
};

pub use upkeep::Upkeep;

/// Keeps the jobs of the partitions held.
pub struct Trigger {
    store: SharedStore,
    board: Arc<Board>,
    upkeep: Upkeep,
}

impl Trigger {
    /// A trigger for what the board holds.
    pub fn new(store: SharedStore, board: Arc<Board>) -> Self {
        let upkeep = Upkeep::new(store.clone(), board.clone());
        Self { store, board, upkeep }
    }

    /// Brings in the jobs that were changed since they were loaded.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn reload(&self) -> Result<()> {
        let held = self.board.partitions();
        let ids: Vec<_> = held.iter().map(|row| row.id).collect();
        let rows = self.store.check_partitions(&ids).await?;
        let mut changed = Vec::new();
        let mut versions = Vec::new();
        for row in rows {
            let Some(mine) = held.iter().find(|mine| mine.id == row.id) else { continue };
            if mine.epoch != row.epoch {
                return Err(StoreError::Conflict(format!(
                    "partition {} has another owner",
                    row.id.0
                )));
            }
            if row.jobs_version != mine.jobs_version {
                changed.push((row.id, mine.jobs_version));
                versions.push(row);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let jobs = self.store.load_jobs(&changed).await?;
        let scope = RunScope::Unsent(jobs.iter().map(|job| job.id).collect());
        let open = self.store.load_open_runs(&scope).await?;
        let delayed: Vec<JobId> =
            jobs.iter().filter(|job| job.spec.is_delayed()).map(|job| job.id).collect();
        let last_ends = match delayed.is_empty() {
            true => Vec::new(),
            false => self.store.last_ends(&delayed).await?,
        };
        self.board.replace_jobs(&versions, jobs, open, &last_ends);
        Ok(())
    }

    /// Writes how far partitions are planned and served that had runs since this was last written: a
    /// later owner goes on from there. Called about once a second, so that not each batch of runs writes
    /// the rows of its partitions.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn keep_standing(&self, now: DateTime<Utc>) -> Result<()> {
        let partitions = self.board.behind();
        if !partitions.is_empty() {
            let plan = Plan { advances: self.board.standing(&partitions), ..Plan::default() };
            let planned = self.store.plan(&plan, now).await?;
            self.board.stored(&planned.advanced);
        }
        Ok(())
    }
}
