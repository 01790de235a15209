//! Runs for past fire times, by hand.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use clawjob_proto::v1 as pb;

use super::JobsService;
use crate::{
    api::{
        caller::Caller,
        convert::{names, time},
        request_id,
        status::{ApiError, ApiResult, Kind, Violations},
        validate::COUNT_MAX,
    },
    model::{
        backfill::BackfillGroup,
        ids::RunId,
        job::Job,
        plan,
        run::{NewRun, RunExtra, TriggerKind},
        schedule::Compiled,
    },
    store::{
        BACKFILL_RUNS_MAX, StoreError,
        schedules::{Backfill, Backfilled},
    },
};

/// Reason of a range with more fire times than one call makes runs for.
const TOO_MANY: &str = "TOO_MANY_FIRE_TIMES";

impl JobsService {
    pub(super) async fn backfill(
        &self,
        caller: &Caller,
        request: pb::BackfillJobRequest,
    ) -> ApiResult<pb::BackfillJobResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        names::parse_job("name", &request.name, &mut bad);
        let (principal, id) = (caller.principal(), &request.request_id);
        let key = request_id::key(&principal, "BackfillJob", id, &request, &mut bad)?;
        let key = key.filter(|_| !request.validate_only);
        if let Some(answer) = request_id::answered(&self.api, key.as_ref(), id).await? {
            let done = Backfilled::parse(&answer);
            let corrupt = || ApiError::internal(format!("{answer:?} is no answer to a backfill"));
            return Ok(to_proto(done.ok_or_else(corrupt)?));
        }
        if request.max_concurrency > COUNT_MAX {
            bad.invalid("max_concurrency", format!("must lie from 0 to {COUNT_MAX}; 0 means 1"));
        }
        let range = range(&request, now, &mut bad);
        bad.finish()?;
        let job = self.ready(&request.name, "", None).await?;
        let fires = fires(&job, range)?;
        let backfill = Backfill {
            job: job.id,
            runs: runs(&job, &fires, &principal, request.max_concurrency.max(1), now),
            request: key,
            dry_run: request.validate_only,
        };
        let done = self.api.store.backfill(&backfill, now).await;
        let done = done.map_err(|error| match error {
            StoreError::Conflict(_) => request_id::reused(id),
            error => ApiError::of_store(Kind::Job, &request.name, error),
        })?;
        if !request.validate_only {
            let (made, had_run) = (done.made, done.had_run);
            tracing::info!(job = request.name, by = principal, made, had_run, "job backfilled");
        }
        Ok(to_proto(done))
    }
}

fn to_proto(done: Backfilled) -> pb::BackfillJobResponse {
    pb::BackfillJobResponse { run_count: done.made, already_run_count: done.had_run }
}

type Range = (DateTime<Utc>, DateTime<Utc>);

/// The range, the start included and the end not; all of it past.
fn range(request: &pb::BackfillJobRequest, now: DateTime<Utc>, bad: &mut Violations) -> Range {
    let mut instant = |field: &str, value: &Option<prost_types::Timestamp>| match value {
        Some(value) => time::instant(field, value, bad),
        None => {
            bad.invalid(field, "is missing; give an instant");
            None
        }
    };
    let start = instant("start_time", &request.start_time);
    let end = instant("end_time", &request.end_time);
    let (Some(start), Some(end)) = (start, end) else { return (now, now) };
    if end <= start {
        bad.invalid("end_time", "is not after start_time; put it later");
    }
    if end > now {
        let text = format!("lies in the future; use at most {now}: the schedule serves what comes");
        bad.invalid("end_time", text);
    }
    (start, end)
}

/// The fire times of the job's schedules in the range, whatever its state is.
fn fires(job: &Job, (start, end): Range) -> ApiResult<Vec<DateTime<Utc>>> {
    let refused = |why: String| {
        Err(ApiError::precondition("JOB_HAS_NO_FIRE_TIMES", "JOB", job.resource_name(), why))
    };
    let compiled = match plan::compile_all(job) {
        Ok(compiled) => compiled,
        Err(faults) => return refused(plan::in_words(faults.iter().map(|(_, fault)| fault))),
    };
    let names_times = |c: &Arc<Compiled>| !c.is_delay() && !c.is_by_hand();
    if !compiled.iter().any(names_times) {
        return refused(
            "none of its schedules names fire times (a delay counts from the end of runs); \
             trigger it instead"
                .to_owned(),
        );
    }
    let mut found = plan::fire_times(job, &compiled, start, end, BACKFILL_RUNS_MAX + 1);
    if let Some(first_left) = found.get(BACKFILL_RUNS_MAX) {
        let text = format!(
            "the range has more than {BACKFILL_RUNS_MAX} fire times, as many as one call takes; \
             end it at {}, and go on from there with another call",
            first_left.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
        );
        return Err(ApiError::invalid("end_time", TOO_MANY, text));
    }
    found.truncate(BACKFILL_RUNS_MAX);
    Ok(found)
}

/// A run per fire time. Their ids carry the time of their making, so that they are kept and listed
/// as runs of today, and grow with the fire time, so that the oldest goes first.
fn runs(
    job: &Job,
    fires: &[DateTime<Utc>],
    principal: &str,
    at_once: u32,
    now: DateTime<Utc>,
) -> Vec<NewRun> {
    let mut group = None;
    let run = |(index, fire_at): (usize, &DateTime<Utc>)| {
        let random = (index as u128) << 64 | u128::from(rand::random::<u64>());
        let id = RunId::by_hand(now, random);
        let group = *group.get_or_insert(id);
        NewRun {
            id,
            job: job.id,
            app: job.app,
            revision: job.revision,
            trigger: TriggerKind::Backfill,
            fire_at: *fire_at,
            due_at: now,
            extra: Some(Box::new(RunExtra {
                triggered_by: principal.to_owned(),
                backfill: Some(BackfillGroup { first: group, at_once }),
                follow: job.spec.follow(),
                ..RunExtra::default()
            })),
        }
    };
    fires.iter().enumerate().map(run).collect()
}
