//! Jobs that change by themselves: their pause ends, their schedules are used up or shut out.
//!
//! Nothing of it is an owner's alone: each change names the version it is of, as anybody's does. So it is
//! done beside the owner's loop, whose fire times must not wait for very many of them.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::{
    board::{AtVersion, Board},
    model::{job::JobState, plan},
    store::{
        OWNER_BATCH_MAX, Result, SharedStore, StoreError,
        ops::{JobChange, Replan, ReplanInput},
    },
};

/// Jobs of each kind that one step changes.
const SELF_CHANGES_MAX: usize = 64;

/// Changes the jobs of the partitions held that change by themselves.
pub struct Upkeep {
    store: SharedStore,
    board: Arc<Board>,
}

impl Upkeep {
    /// For the jobs that the board holds.
    pub fn new(store: SharedStore, board: Arc<Board>) -> Self {
        Self { store, board }
    }

    /// Ends pauses whose time is over, marks jobs whose schedules are used up or shut out by their
    /// calendars, and refreshes the next fire times that lists show; a bounded number of each.
    ///
    /// # Errors
    /// The store's, other than a change that somebody else made first.
    pub async fn step(&self, now: DateTime<Utc>) -> Result<()> {
        let due = self.board.jobs_to_change(now, SELF_CHANGES_MAX);
        self.resume_all(due.resume, now).await?;
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

    /// Resumes jobs whose pause has ended. Returns whether there were any.
    ///
    /// # Errors
    /// The store's, other than a change that somebody else made first.
    pub(super) async fn resume(&self, now: DateTime<Utc>) -> Result<bool> {
        let due = self.board.jobs_to_change(now, SELF_CHANGES_MAX).resume;
        let any = !due.is_empty();
        self.resume_all(due, now).await?;
        Ok(any)
    }

    /// Their fire times count from the end of the pause, not from now.
    async fn resume_all(&self, jobs: Vec<AtVersion>, now: DateTime<Utc>) -> Result<()> {
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
