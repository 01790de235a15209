//! One run now, or at an instant.

use chrono::TimeDelta;
use clawjob_proto::v1 as pb;

use super::JobsService;
use crate::{
    api::{
        caller::Caller,
        convert::{self, names, time},
        request_id, runs,
        status::{ApiError, ApiResult, Kind, Violations},
        validate,
    },
    model::{
        ids::RunId,
        job::Job,
        run::{NewRun, RunExtra, TriggerKind},
    },
    store::StoreError,
};

/// How far ahead a run may be asked for.
const RUN_TIME_AHEAD_MAX: TimeDelta = TimeDelta::days(366);

impl JobsService {
    pub(super) async fn trigger(
        &self,
        caller: &Caller,
        request: pb::TriggerJobRequest,
    ) -> ApiResult<pb::Run> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let name = names::parse_job("name", &request.name, &mut bad);
        let key = request_id::key(
            &caller.principal(),
            "TriggerJob",
            &request.request_id,
            &request,
            &mut bad,
        )?;
        let app = name.as_ref().map(|name| name.app.clone()).unwrap_or_default();
        let answer = request_id::answered(&self.api, key.as_ref(), &request.request_id).await?;
        if let Some(id) = answer {
            return runs::made_before(&self.api, &app, &id).await;
        }
        let max = self.api.settings.params_bytes_max;
        let params = request.params.as_ref();
        let params = params.map(|params| convert::params("params", params, max, &mut bad));
        let at = request.run_time.as_ref().and_then(|at| time::instant("run_time", at, &mut bad));
        if at.is_some_and(|at| at > now + RUN_TIME_AHEAD_MAX) {
            bad.invalid("run_time", "lies more than 366 days ahead; use a schedule instead");
        }
        let labels = request.labels.into_iter().collect();
        validate::labels("labels", &labels, &mut bad);
        let target = match request.executor.as_str() {
            "" => None,
            executor => validate::target_executor("executor", executor, &app, &mut bad),
        };
        bad.finish()?;
        let job = self.ready(&request.name, &request.executor, target.as_deref()).await?;
        let fire_at = at.unwrap_or(now);
        let run = NewRun {
            id: RunId::by_hand(now, rand::random()),
            job: job.id,
            app: job.app,
            revision: job.revision,
            trigger: TriggerKind::Api,
            fire_at,
            due_at: fire_at.max(now),
            extra: Some(Box::new(RunExtra {
                params,
                labels,
                triggered_by: caller.principal(),
                target_executor: target.unwrap_or_default(),
                follow: job.spec.follow(),
                ..RunExtra::default()
            })),
        };
        let created = self.api.store.create_run(&run, key.as_ref(), now).await;
        let id = created.map_err(|error| match error {
            StoreError::Conflict(_) => request_id::reused(&request.request_id),
            error => ApiError::of_store(Kind::Job, &request.name, error),
        })?;
        let record = self.api.store.get_run(id).await?;
        let now = self.api.clock.now();
        Ok(convert::run::to_proto(&record, job.spec.params.as_ref(), true, now))
    }

    /// The job, if it can run, on an executor that exists.
    pub(super) async fn ready(
        &self,
        name: &str,
        executor: &str,
        target: Option<&str>,
    ) -> ApiResult<Job> {
        let job = self.find_named("name", name).await?;
        if job.spec.handler.is_empty() {
            let why = format!("its stored content can't be read: {}", job.problem);
            return Err(ApiError::precondition("JOB_UNREADABLE", "JOB", name, why));
        }
        if let Some(target) = target {
            let found = self.api.store.get_executor(job.app, target).await;
            found.map_err(|e| ApiError::of_store(Kind::Executor, executor, e))?;
        }
        Ok(job)
    }
}
