//! Canceling runs, and running them again.

use std::time::Duration;

use clawjob_proto::v1 as pb;

use super::{
    RunsService,
    read::{made_before, show},
    run_name,
};
use crate::{
    api::{
        caller::Caller,
        cancel,
        convert::{self, names, time},
        jobs::REASON_MAX,
        request_id,
        status::{ApiError, ApiResult, Violations},
        validate,
    },
    model::{
        follow::Follow,
        ids::RunId,
        job::Job,
        run::{KillReason, NewRun, RunExtra, RunRecord, RunState, TriggerKind},
        shards::{Part, SHARDS_MAX},
    },
    store::{
        StoreError,
        ops::{Condition, RunQuery, Scheduled},
    },
};

/// Longest grace of a cancel.
const GRACE_MAX: Duration = Duration::from_secs(3600);

impl RunsService {
    pub(super) async fn cancel(
        &self,
        caller: &Caller,
        request: pb::CancelRunRequest,
    ) -> ApiResult<pb::Run> {
        let mut bad = Violations::new();
        validate::text("reason", &request.reason, REASON_MAX, &mut bad);
        let bounds = Duration::ZERO..=GRACE_MAX;
        let grace = request.grace.as_ref();
        let grace = grace.and_then(|grace| time::duration("grace", grace, bounds, &mut bad));
        let name = run_name(&request.name, bad)?;
        self.find(&name).await?;
        let order = cancel::Order {
            reason: KillReason::User,
            grace,
            message: match request.reason.as_str() {
                "" => format!("canceled by {}", caller.in_words()),
                reason => format!("canceled by {}: {reason}", caller.in_words()),
            },
        };
        let open = self.api.store.open_runs(&[name.run]).await?;
        let left = cancel::cancel(&self.api, open, &order).await?;
        if !left.is_empty() {
            let text = format!("{} is changing all the time; repeat the call", request.name);
            return Err(ApiError::aborted("CONFLICT", text));
        }
        let record = self.find(&name).await?;
        let now = self.api.clock.now();
        let mut runs = show(&self.api, vec![record], true, now).await?;
        Ok(runs.pop().unwrap_or_default())
    }

    pub(super) async fn rerun(
        &self,
        caller: &Caller,
        request: pb::RerunRunRequest,
    ) -> ApiResult<pb::Run> {
        let mut bad = Violations::new();
        let key = request_id::key(
            &caller.principal(),
            "RerunRun",
            &request.request_id,
            &request,
            &mut bad,
        )?;
        let max = self.api.settings.params_bytes_max;
        let params = request.params.as_ref();
        let params = params.map(|params| convert::params("params", params, max, &mut bad));
        let name = run_name(&request.name, bad)?;
        let answer = request_id::answered(&self.api, key.as_ref(), &request.request_id).await?;
        if let Some(id) = answer {
            return made_before(&self.api, &name.app, &id).await;
        }
        let before = self.find(&name).await?;
        if !before.run.state.is_final() {
            let why = "it has not ended; wait for its end or cancel it before you run it again";
            return Err(ApiError::precondition("RUN_NOT_ENDED", "RUN_STATE", &request.name, why));
        }
        let job = self.job_of(&before).await?;
        let params = match params {
            Some(params) => Some(params),
            None => self.params_of(&before, job.revision).await?,
        };
        let now = self.api.clock.now();
        let extra = before.run.extra.as_deref();
        let (shard_total, shards) = self.parts_to_repeat(&before).await?;
        let mut follow = job.spec.follow();
        if !shards.is_empty() {
            follow = follow.with(Follow::PARENT);
        }
        let run = NewRun {
            id: RunId::by_hand(now, rand::random()),
            job: job.id,
            app: job.app,
            revision: job.revision,
            trigger: TriggerKind::Rerun,
            fire_at: before.run.fire_at,
            due_at: now,
            extra: Some(Box::new(RunExtra {
                params,
                labels: extra.map(|extra| extra.labels.clone()).unwrap_or_default(),
                triggered_by: caller.principal(),
                rerun_of: Some(before.run.id),
                follow,
                shard_total,
                shards,
                ..RunExtra::default()
            })),
        };
        let created = self.api.store.create_run(&run, key.as_ref(), now).await;
        let id = created.map_err(|error| match error {
            StoreError::Conflict(_) => request_id::reused(&request.request_id),
            StoreError::NotFound(_) => gone(&before),
            error => error.into(),
        })?;
        let record = self.api.store.get_run(id).await?;
        let mut runs = show(&self.api, vec![record], true, now).await?;
        Ok(runs.pop().unwrap_or_default())
    }

    /// The job of a run, which must not have been deleted since.
    async fn job_of(&self, run: &RunRecord) -> ApiResult<Job> {
        match self.api.store.get_job(&run.app_name, &run.job_name).await {
            Ok(job) if job.id == run.run.job => Ok(job),
            Ok(_) => Err(deleted(run, "its job was deleted; another one has its name now")),
            Err(StoreError::NotFound(_)) => Err(gone(run)),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Of a shard just itself; of a parent that did not succeed its shards that did not. None of
    /// them means the run as a whole.
    async fn parts_to_repeat(&self, before: &RunRecord) -> ApiResult<(u32, Vec<Part>)> {
        let run = &before.run;
        let part = |record: &RunRecord| {
            let extra = record.run.extra.as_deref().cloned().unwrap_or_default();
            Part { index: extra.shard_index, target: extra.target_executor }
        };
        let total = run.extra.as_ref().map_or(0, |extra| extra.shard_total);
        if run.parent().is_some() {
            return Ok((total, vec![part(before)]));
        }
        if !run.is_split() || run.state == RunState::Succeeded {
            return Ok((0, Vec::new()));
        }
        let succeeded = vec![RunState::Succeeded.as_str().to_owned()];
        let query = RunQuery {
            apps: None,
            jobs: None,
            conditions: vec![
                Condition::ShardOf(Some(run.id)),
                Condition::OneOf { field: "state", values: succeeded, negated: true },
            ],
            scheduled: Scheduled::Without,
            ascending: true,
            after: None,
            limit: SHARDS_MAX,
            full: false,
            now: self.api.clock.now(),
        };
        let shards = self.api.store.list_runs(&query).await?;
        Ok((total, shards.iter().map(part).collect()))
    }

    /// What the ended run was given: its own params, or its job's at that time, kept with the new
    /// run when the job has another revision by now.
    async fn params_of(
        &self,
        before: &RunRecord,
        revision: u64,
    ) -> ApiResult<Option<crate::model::Payload>> {
        let own = before.run.extra.as_ref().and_then(|extra| extra.params.clone());
        if own.is_some() || before.run.revision == revision {
            return Ok(own);
        }
        let spec = cancel::revision_spec(&self.api, before.run.job, before.run.revision).await?;
        Ok(spec.and_then(|spec| spec.params.clone()))
    }
}

fn deleted(run: &RunRecord, why: &'static str) -> ApiError {
    let job = names::job(&run.app_name, &run.job_name);
    ApiError::precondition("JOB_DELETED", "JOB", job, why)
}

fn gone(run: &RunRecord) -> ApiError {
    deleted(run, "its job was deleted, and its runs can't be run again")
}
