//! What fire times need beside their runs: jobs that changed, fire times that were missed, how far all
//! is served, jobs that change by themselves.

mod missed;

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::{
    board::{AtVersion, Board},
    model::{ids::JobId, job::JobState, plan},
    store::{
        OWNER_BATCH_MAX, Result, SharedStore, StoreError,
        ops::{JobChange, Plan, Replan, ReplanInput, RunScope},
    },
};

/// Jobs that change their state by themselves, per sweep.
const SELF_CHANGES_MAX: usize = 64;

/// Keeps the jobs of the partitions held.
pub struct Trigger {
    store: SharedStore,
    board: Arc<Board>,
}

impl Trigger {
    /// A trigger for what the board holds.
    pub fn new(store: SharedStore, board: Arc<Board>) -> Self {
        Self { store, board }
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
        let scope = RunScope::Jobs(jobs.iter().map(|job| job.id).collect());
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

    /// Ends pauses whose time is over, marks jobs whose schedules are used up or shut out by their
    /// calendars, and refreshes the next fire times that lists show.
    ///
    /// # Errors
    /// The store's, other than a change that somebody else made first.
    pub async fn upkeep(&self, now: DateTime<Utc>) -> Result<()> {
        let due = self.board.jobs_to_change(now, SELF_CHANGES_MAX);
        self.resume(due.resume, now).await?;
        let expired = JobChange { state: Some((JobState::Expired, None, String::new())), ..own() };
        for job in due.expire {
            self.change(job, expired.clone(), Box::new(|_| Vec::new()), now).await?;
        }
        for (job, problem) in due.shut {
            let change = JobChange { problem: Some(problem), ..own() };
            self.change(job, change, Box::new(|_| Vec::new()), now).await?;
        }
        let next = self.board.next_fires_to_show(now, OWNER_BATCH_MAX);
        if !next.is_empty() {
            self.store.show_next_fires(&next).await?;
        }
        Ok(())
    }

    /// Resumes jobs whose pause has ended: their fire times count from the end of the pause, not
    /// from now.
    async fn resume(&self, jobs: Vec<AtVersion>, now: DateTime<Utc>) -> Result<()> {
        for job in jobs {
            let change = JobChange {
                state: Some((JobState::Active, None, String::new())),
                restart_schedule: true,
                ..own()
            };
            let replan = |input: &ReplanInput| {
                plan::resumed_fires(&input.job, input.partition.planned_until)
            };
            self.change(job, change, Box::new(replan), now).await?;
        }
        Ok(())
    }

    async fn change(
        &self,
        (job, version): AtVersion,
        change: JobChange,
        replan: Replan,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let change = JobChange { version: Some(version), ..change };
        match self.store.change_job(job, &change, replan, now).await {
            Ok(_) | Err(StoreError::Conflict(_) | StoreError::NotFound(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// A change by the scheduler itself that changes nothing yet.
fn own() -> JobChange {
    JobChange::by("")
}
