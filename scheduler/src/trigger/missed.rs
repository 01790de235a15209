//! Missed fire times: after an outage, a takeover, a suspended machine, each becomes a run or part
//! of a recorded decision.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::Trigger;
use crate::{
    board::Late,
    model::{
        ids::{JobId, PartitionId, RunId},
        misfire::{self, Decided},
        run::{NewRun, OpenRun, Skip, TriggerKind},
    },
    store::{
        OWNER_BATCH_MAX, Result,
        ops::{EndRun, OpenRuns, Plan, PlanRow},
    },
    telemetry::metrics,
};

/// Nobody took due runs in hand for this long: fire times may have been missed.
const GAP_MIN: Duration = Duration::from_secs(1);
/// Jobs whose missed fire times are settled together: what stood still for them all is not to stand still
/// for each of them again.
const LATE_JOBS_MAX: usize = OWNER_BATCH_MAX;

/// What becomes of a job's missed fire times.
struct Verdict<'a> {
    late: &'a Late,
    /// Rows that were planned and never sent.
    queued: Vec<OpenRun>,
    /// How many were missed, with and without a row.
    missed: usize,
    /// Those that are made up for.
    made_up: Vec<DateTime<Utc>>,
    /// Runs of those without a row that are made up for or still spread.
    runs: Vec<NewRun>,
    /// The decision about the others without a row.
    skip: Option<Skip>,
}

impl Verdict<'_> {
    fn job(&self) -> JobId {
        self.late.job.id
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let job = self.job();
        // First: a job of very many runs may be written in several steps.
        let skip = self.skip.iter().map(move |skip| (job, Decision::Skip(skip)));
        skip.chain(self.runs.iter().map(move |run| (job, Decision::Run(run))))
    }
}

type Row<'a> = (JobId, Decision<'a>);

#[derive(Clone, Copy)]
enum Decision<'a> {
    Run(&'a NewRun),
    Skip(&'a Skip),
}

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
            let mut verdicts: Vec<_> = late.iter().map(|late| self.judge(late, now)).collect();
            let refused = self.write(&verdicts, now).await?;
            verdicts.retain(|verdict| !refused.contains(&verdict.job()));
            self.settle_rows(&verdicts, now).await?;
            for Verdict { late, .. } in &verdicts {
                self.board.settle_late(late.job.id, now - late.job.spec.misfire_threshold());
            }
            tell(&verdicts);
            if !refused.is_empty() {
                self.reload().await?;
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

    fn judge<'a>(&self, late: &'a Late, now: DateTime<Utc>) -> Verdict<'a> {
        let job = &late.job;
        let spec = &job.spec;
        let queued: Vec<_> = late.queued.iter().filter_map(|id| self.board.run(*id)).collect();
        let mut missed: Vec<_> = queued.iter().map(|run| run.fire_at).collect();
        missed.extend(&late.unplanned.newest);
        missed.sort_unstable();
        let made_up = misfire::make_up(spec, &missed, now);
        let gap = misfire::gap(&late.unplanned, &made_up);
        let skip = gap.map(|gap| misfire::skip(job.id, job.app, (job.revision, spec), &gap));
        let run = |at: &DateTime<Utc>, trigger| self.board.late_run(job.id, *at, trigger);
        let without_row = late.unplanned.newest.iter().filter(|at| made_up.contains(at));
        let without_row = without_row.filter_map(|at| run(at, TriggerKind::Misfire));
        let spread = late.spread.iter().filter_map(|at| run(at, TriggerKind::Schedule));
        let runs = without_row.chain(spread).collect();
        Verdict { late, queued, missed: missed.len(), made_up, runs, skip }
    }

    /// Writes what is decided of fire times without a row. Returns the jobs of which not all could be
    /// written: they, or others of their partition, have changed.
    async fn write(&self, verdicts: &[Verdict<'_>], now: DateTime<Utc>) -> Result<HashSet<JobId>> {
        let rows: Vec<Row<'_>> = verdicts.iter().flat_map(Verdict::rows).collect();
        let mut refused = HashSet::new();
        for step in rows.chunks(OWNER_BATCH_MAX) {
            let jobs: BTreeSet<JobId> = step.iter().map(|(job, _)| *job).collect();
            let partitions: BTreeSet<PartitionId> =
                jobs.iter().map(|job| job.partition()).collect();
            let partitions: Vec<PartitionId> = partitions.into_iter().collect();
            let mut plan = Plan { advances: self.board.standing(&partitions), ..Plan::default() };
            for (_, decision) in step {
                match *decision {
                    Decision::Run(run) => plan.runs.push(PlanRow::from(run.clone())),
                    Decision::Skip(skip) => plan.skips.push(skip.clone()),
                }
            }
            let planned = self.store.plan(&plan, now).await?;
            let left_out = jobs.iter().filter(|job| !planned.advanced.contains(&job.partition()));
            refused.extend(left_out.chain(&planned.changed).copied());
            // What was refused comes with what it was refused for, when that is loaded.
            let taken = plan.runs.iter().filter(|row| !refused.contains(&row.run.job));
            let asked: Vec<RunId> = taken.map(|row| row.run.id).collect();
            if !asked.is_empty() {
                let runs = self.store.open_runs(&asked).await?;
                self.board.merge(&asked, OpenRuns { runs, specs: Vec::new() }, now);
            }
        }
        Ok(refused)
    }

    /// Rows that were planned, never sent, and are not made up for end as SKIPPED; those that are made up
    /// for are in hand from now on, late as they are.
    async fn settle_rows(&self, verdicts: &[Verdict<'_>], now: DateTime<Utc>) -> Result<()> {
        let mut ends = Vec::new();
        for Verdict { late, queued, made_up, .. } in verdicts {
            let skipped = queued.iter().filter(|run| !made_up.contains(&run.fire_at));
            ends.extend(skipped.map(|run| {
                let gap =
                    misfire::Gap { first: run.fire_at, last: run.fire_at, count: 1, more: false };
                let why = misfire::explain(&late.job.spec, &gap);
                EndRun { missed: true, ..EndRun::skip(run.attempt_ref(), why) }
            }));
        }
        for chunk in ends.chunks(OWNER_BATCH_MAX) {
            self.store.end_runs(chunk, now).await?;
            for end in chunk {
                self.board.ended(end.attempt.run, now);
            }
        }
        for Verdict { queued, made_up, .. } in verdicts {
            for run in queued.iter().filter(|run| made_up.contains(&run.fire_at)) {
                self.board.take_late(run.id);
            }
        }
        Ok(())
    }
}

/// One line for all of them: after an outage there may be very many.
fn tell(verdicts: &[Verdict<'_>]) {
    let late = verdicts.iter().filter(|verdict| verdict.missed > 0);
    let (mut jobs, mut missed, mut made_up) = (0, 0, 0);
    for verdict in late.clone() {
        jobs += 1;
        missed += verdict.missed;
        made_up += verdict.made_up.len();
    }
    metrics().missed_fires.inc_by(missed as u64);
    if let Some(first) = late.clone().map(|verdict| verdict.late.job.name.resource_name()).min() {
        tracing::warn!(jobs, first, missed, made_up, "fire times were not served in time");
    }
}
