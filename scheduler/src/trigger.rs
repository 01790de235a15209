//! Due schedules → run rows, a few seconds ahead of their time.

mod missed;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use crate::{
    board::Board,
    model::{
        ids::RunId,
        job::{Job, JobState},
        plan,
    },
    store::{
        OWNER_BATCH_MAX, Result, SharedStore, StoreError,
        ops::{JobChange, Plan, Replan, ReplanInput, RunScope},
    },
    telemetry::{metrics, runs},
};

/// How far ahead runs are planned.
pub const PLAN_HORIZON: Duration = Duration::from_secs(5);
/// A fire time this far before the horizon starts a round of planning: so a round makes about one
/// second's runs in a few large statements.
const PLAN_SLACK: Duration = Duration::from_secs(1);
/// Statements of one round before dispatch has its turn again.
const PLAN_STEPS_MAX: usize = 4;
/// While runs wait, `served_until` is written at least this often.
const SERVED_EVERY: Duration = Duration::from_secs(5);
/// Jobs that change their state by themselves, per sweep.
const SELF_CHANGES_MAX: usize = 64;

/// Plans the runs of the partitions held.
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
        self.board.replace_jobs(&versions, jobs, open);
        Ok(())
    }

    /// Settles what was missed, then plans what comes. Returns when to be called again.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn tick(&self, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>> {
        self.settle_missed(now).await?;
        let horizon = now + PLAN_HORIZON;
        for _ in 0..PLAN_STEPS_MAX {
            if !self.plan_is_due(now) {
                break;
            }
            let step = self.board.plan_step(horizon, now, OWNER_BATCH_MAX);
            let plan = Plan {
                advances: step.advances.clone(),
                runs: step.runs.clone(),
                skips: Vec::new(),
            };
            let planned = self.store.plan(&plan, now).await?;
            let refused = planned.advanced.len() < step.advances.len();
            let more = step.more;
            let rows = step.runs.len();
            self.board.planned(step, &planned.advanced, &planned.inserted);
            self.tell(&planned.inserted, rows, now);
            if refused {
                self.reload().await?;
            }
            if !more && !refused {
                break;
            }
        }
        let next = self.board.next_fire().map(|fire| fire - (PLAN_HORIZON - PLAN_SLACK));
        Ok(next.map(|at| at.max(now)))
    }

    /// Counts and traces what was planned.
    fn tell(&self, inserted: &[RunId], rows: usize, now: DateTime<Utc>) {
        metrics().fires.inc_by(inserted.len() as u64);
        metrics().batch("plan", rows);
        if runs::exporting() {
            for run in inserted.iter().filter_map(|id| self.board.run(*id)) {
                let job = self.board.job(run.job).map(|job| job.resource_name());
                runs::planned(run.id, &job.unwrap_or_default(), now, run.trigger.as_str());
            }
        }
    }

    fn plan_is_due(&self, now: DateTime<Utc>) -> bool {
        let fire = self.board.next_fire();
        if fire.is_some_and(|fire| fire < now + (PLAN_HORIZON - PLAN_SLACK)) {
            return true;
        }
        let waiting = self.board.any_waiting();
        let written = self.board.partitions().iter().map(|row| row.served_until).min();
        waiting && written.is_some_and(|at| at < now - SERVED_EVERY)
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
            self.change(&job, expired.clone(), Box::new(|_| Vec::new()), now).await?;
        }
        for (job, problem) in due.shut {
            let change = JobChange { problem: Some(problem), ..own() };
            self.change(&job, change, Box::new(|_| Vec::new()), now).await?;
        }
        let next = self.board.next_fires_to_show(now, OWNER_BATCH_MAX);
        if !next.is_empty() {
            self.store.show_next_fires(&next).await?;
        }
        Ok(())
    }

    /// Resumes jobs whose pause has ended: their fire times count from the end of the pause, not
    /// from now.
    async fn resume(&self, jobs: Vec<Arc<Job>>, now: DateTime<Utc>) -> Result<()> {
        for job in jobs {
            let change = JobChange {
                state: Some((JobState::Active, None, String::new())),
                restart_schedule: true,
                ..own()
            };
            let replan = |input: &ReplanInput| {
                plan::resumed_fires(&input.job, input.partition.planned_until)
            };
            self.change(&job, change, Box::new(replan), now).await?;
        }
        Ok(())
    }

    async fn change(
        &self,
        job: &Job,
        change: JobChange,
        replan: Replan,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let change = JobChange { version: Some(job.version), ..change };
        match self.store.change_job(job.id, &change, replan, now).await {
            Ok(_) | Err(StoreError::Conflict(_) | StoreError::NotFound(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// A change by the scheduler itself that changes nothing yet.
fn own() -> JobChange {
    JobChange::by("")
}
