//! Missed fire times: after an outage, a takeover, a suspended machine, each becomes a run or part
//! of a recorded decision.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use super::Trigger;
use crate::{
    board::Late,
    model::{
        ids::JobId,
        misfire::{self, Decided},
        run::{NewRun, OpenRun, Skip, TriggerKind},
    },
    store::{
        OWNER_BATCH_MAX, Result,
        ops::{Advance, EndRun, Plan, PlanRow, RunScope},
    },
    telemetry::metrics,
};

/// Nobody took due runs in hand for this long: fire times may have been missed.
const GAP_MIN: Duration = Duration::from_secs(1);
/// Jobs whose missed fire times are looked at in one round.
const LATE_JOBS_MAX: usize = 64;
/// Runs of one plan, which carries the SKIPPED row of the gap besides.
const MADE_UP_STEP: usize = OWNER_BATCH_MAX - 1;

impl Trigger {
    /// Applies the misfire policies when nobody dispatched for a while.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn settle_missed(&self, now: DateTime<Utc>) -> Result<()> {
        let Some(served) = self.board.served_until() else { return Ok(()) };
        if now - served < TimeDelta::from_std(GAP_MIN).unwrap_or_default() {
            return Ok(());
        }
        // A pause that ended meanwhile ended then: what came after it was missed too.
        if self.upkeep.resume(now).await? {
            self.reload().await?;
        }
        loop {
            let mut late = self.board.late(now, LATE_JOBS_MAX);
            if late.is_empty() {
                return Ok(());
            }
            self.leave_out_decided(&mut late).await?;
            for job in late {
                if !self.settle_job(&job, now).await? {
                    self.reload().await?;
                }
            }
        }
    }

    /// A scheduler may have died while it settled the same gap: what it wrote stands.
    async fn leave_out_decided(&self, late: &mut [Late]) -> Result<()> {
        let spans = late.iter().filter_map(|late| {
            let (first, last) = late.unplanned.span()?;
            Some((late.job.id, first, last))
        });
        let spans: Vec<_> = spans.collect();
        if spans.is_empty() {
            return Ok(());
        }
        let mut decided: HashMap<JobId, Decided> =
            self.store.load_decided(&spans).await?.into_iter().collect();
        for late in late {
            let Some(decided) = decided.remove(&late.job.id) else { continue };
            decided.take_out(&mut late.unplanned, |at| self.board.fire_after(late.job.id, at));
        }
        Ok(())
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
        let skip = gap.map(|gap| misfire::skip(job.id, job.app, (job.revision, spec), &gap));
        if !self.write_late(late, &made_up, skip, now).await? {
            return Ok(false);
        }
        self.skip_rows(late, &queued, &made_up, now).await?;
        self.board.settle_late(job.id, now - spec.misfire_threshold());
        metrics().missed_fires.inc_by(missed.len() as u64);
        if !missed.is_empty() {
            tracing::warn!(
                job = %job.name.resource_name(),
                missed = missed.len(),
                made_up = made_up.len(),
                "fire times were not served in time"
            );
        }
        Ok(true)
    }

    /// Writes the runs of unplanned fire times that are made up for or still spread, and the
    /// decision about the others; false when the job's partition has newer jobs.
    async fn write_late(
        &self,
        late: &Late,
        made_up: &[DateTime<Utc>],
        skip: Option<Skip>,
        now: DateTime<Utc>,
    ) -> Result<bool> {
        let job = late.job.id;
        let run = |at: &DateTime<Utc>, trigger| self.board.late_run(job, *at, trigger);
        let made_up = late.unplanned.newest.iter().filter(|at| made_up.contains(at));
        let made_up = made_up.filter_map(|at| run(at, TriggerKind::Misfire));
        let spread = late.spread.iter().filter_map(|at| run(at, TriggerKind::Schedule));
        let runs: Vec<_> = made_up.chain(spread).collect();
        let Some(row) = self.board.partition(late.job.id.partition()) else { return Ok(false) };
        let advance = Advance {
            partition: row.id,
            epoch: row.epoch,
            jobs_version: row.jobs_version,
            planned_until: row.planned_until,
            served_until: row.served_until,
        };
        let mut steps: Vec<Vec<NewRun>> =
            runs.chunks(MADE_UP_STEP).map(<[NewRun]>::to_vec).collect();
        if steps.is_empty() && skip.is_some() {
            steps.push(Vec::new());
        }
        for runs in steps {
            let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
            let plan = Plan {
                advances: vec![advance],
                runs: runs.into_iter().map(PlanRow::from).collect(),
                skips: skip.iter().cloned().collect(),
                ..Plan::default()
            };
            let planned = self.store.plan(&plan, now).await?;
            if planned.advanced.is_empty() {
                return Ok(false);
            }
            let rows = self.store.load_open_runs(&RunScope::Jobs(vec![job])).await?;
            self.board.merge(&ids, rows, now);
        }
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
                let why = misfire::explain(&late.job.spec, &gap);
                EndRun { missed: true, ..EndRun::skip(run.attempt_ref(), why) }
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
}
