//! Due schedules → run rows, a few seconds ahead of their time.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    board::{Board, Late},
    model::{
        ids::RunId,
        job::JobState,
        misfire,
        run::{OpenRun, Skip},
    },
    store::{
        OWNER_BATCH_MAX, Result, SharedStore, StoreError,
        ops::{Advance, EndRun, JobChange, Plan, RunScope},
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
/// Nobody took due runs in hand for this long: fire times may have been missed.
const GAP_MIN: Duration = Duration::from_secs(1);
/// Jobs whose missed fire times are settled in one statement.
const LATE_JOBS_MAX: usize = 64;
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
        let waiting = self.board.oldest_waiting().is_some();
        let written = self.board.partitions().iter().map(|row| row.served_until).min();
        waiting && written.is_some_and(|at| at < now - SERVED_EVERY)
    }

    /// Applies the misfire policies when nobody dispatched for a while: after an outage, a
    /// takeover, a suspended machine.
    async fn settle_missed(&self, now: DateTime<Utc>) -> Result<()> {
        let Some(served) = self.board.served_until() else { return Ok(()) };
        if now - served < TimeDelta::from_std(GAP_MIN).unwrap_or_default() {
            return Ok(());
        }
        loop {
            let late = self.board.late(served, now, LATE_JOBS_MAX);
            if late.is_empty() {
                return Ok(());
            }
            for job in late {
                if !self.settle_job(&job, now).await? {
                    self.reload().await?;
                }
            }
        }
    }

    /// Settles one job's missed fire times; false when its partition has newer jobs.
    async fn settle_job(&self, late: &Late, now: DateTime<Utc>) -> Result<bool> {
        let job = &late.job;
        let spec = &job.spec;
        let queued: Vec<_> = late.queued.iter().filter_map(|id| self.board.run(*id)).collect();
        let mut missed: Vec<_> = queued.iter().map(|run| run.fire_at).collect();
        missed.extend(&late.unplanned.newest);
        missed.sort_unstable();
        let made_up = misfire::make_up(spec, &missed, now);

        let gap = misfire::gap(&late.unplanned, &made_up);
        let skips = gap.map(|gap| Skip {
            id: RunId::scheduled(job.id, gap.first),
            job: job.id,
            app: job.app,
            revision: job.revision,
            fire_at: gap.first,
            message: misfire::explain(spec, &gap),
            missed_count: gap.count,
            missed_until: gap.last,
        });
        let make_up: Vec<_> = late
            .unplanned
            .newest
            .iter()
            .filter(|at| made_up.contains(at))
            .filter_map(|at| self.board.misfire_run(job.id, *at))
            .collect();
        let Some(row) = self.board.partition(job.partition) else { return Ok(false) };
        let advance = Advance {
            partition: row.id,
            epoch: row.epoch,
            jobs_version: row.jobs_version,
            planned_until: row.planned_until,
            served_until: row.served_until,
        };
        let mut chunks: Vec<_> = make_up.chunks(OWNER_BATCH_MAX).map(<[_]>::to_vec).collect();
        if chunks.is_empty() && skips.is_some() {
            chunks.push(Vec::new());
        }
        for chunk in chunks {
            let plan = Plan {
                advances: vec![advance],
                runs: chunk,
                skips: skips.iter().cloned().collect(),
            };
            let planned = self.store.plan(&plan, now).await?;
            if planned.advanced.is_empty() {
                return Ok(false);
            }
            let ids: Vec<_> = plan.runs.iter().map(|run| run.id).collect();
            let rows = self.store.load_open_runs(&RunScope::Jobs(vec![job.id])).await?;
            self.board.merge(&ids, rows);
        }
        self.skip_rows(late, &queued, &made_up, now).await?;
        let limit = now - spec.misfire_threshold();
        self.board.settle_late(job.id, limit);
        metrics().missed_fires.inc_by(missed.len() as u64);
        tracing::warn!(
            job = %job.resource_name(),
            missed = missed.len(),
            made_up = made_up.len(),
            "fire times were missed while no scheduler was serving"
        );
        Ok(true)
    }

    /// Rows that were planned, never sent, and are not made up for end as SKIPPED.
    async fn skip_rows(
        &self,
        late: &Late,
        queued: &[OpenRun],
        made_up: &[DateTime<Utc>],
        now: DateTime<Utc>,
    ) -> Result<()> {
        let ends: Vec<EndRun> = queued
            .iter()
            .filter(|run| !made_up.contains(&run.fire_at))
            .map(|run| {
                let gap =
                    misfire::Gap { first: run.fire_at, last: run.fire_at, count: 1, more: false };
                EndRun::skip(run.attempt_ref(), misfire::explain(&late.job.spec, &gap))
            })
            .collect();
        for chunk in ends.chunks(OWNER_BATCH_MAX) {
            self.store.end_runs(chunk, now).await?;
            for end in chunk {
                self.board.ended(end.attempt.run, now);
            }
        }
        // Those made up for are in hand from now on, late as they are.
        for run in queued.iter().filter(|run| made_up.contains(&run.fire_at)) {
            self.board.take_late(run.id);
        }
        Ok(())
    }

    /// Ends pauses whose time is over, marks jobs whose schedules are used up, and refreshes the
    /// next fire times that lists show.
    ///
    /// # Errors
    /// The store's, other than a change that somebody else made first.
    pub async fn upkeep(&self, now: DateTime<Utc>) -> Result<()> {
        let (resume, expire) = self.board.jobs_to_change(now, SELF_CHANGES_MAX);
        let resume = resume.into_iter().map(|job| (job, JobState::Active));
        for (job, state) in resume.chain(expire.into_iter().map(|job| (job, JobState::Expired))) {
            let change = JobChange {
                version: Some(job.version),
                spec: None,
                state: Some((state, None, String::new())),
                delete: false,
                drop_due: false,
                restart_schedule: state == JobState::Active,
                updated_by: "scheduler".to_owned(),
            };
            match self.store.change_job(job.id, &change, Box::new(|_| Vec::new()), now).await {
                Ok(_) | Err(StoreError::Conflict(_) | StoreError::NotFound(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        let next = self.board.next_fires_to_show(now, OWNER_BATCH_MAX);
        if !next.is_empty() {
            self.store.show_next_fires(&next).await?;
        }
        Ok(())
    }
}
