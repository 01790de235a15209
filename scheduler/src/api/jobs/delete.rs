//! Deleting one job, or all of an app.

use clawjob_proto::v1 as pb;

use super::{JobsService, change::replan, write::check_etag};
use crate::{
    api::{
        Api,
        caller::Caller,
        cancel,
        status::{ApiError, ApiResult, Kind},
    },
    model::{ids::AppId, job::Job, run::KillReason},
    store::{
        StoreError,
        ops::{JobChange, JobQuery, RunScope},
    },
};

/// Jobs of an app deleted in one step.
const STEP: u32 = 200;

impl JobsService {
    pub(super) async fn delete(
        &self,
        caller: &Caller,
        request: pb::DeleteJobRequest,
    ) -> ApiResult<()> {
        let job = self.find_named("name", &request.name).await?;
        check_etag(&job, &request.etag)?;
        let version = (!request.etag.is_empty()).then_some(job.version);
        delete(&self.api, caller, &job, version).await?;
        if request.force { stop_runs(&self.api, caller, &[job]).await } else { Ok(()) }
    }
}

/// Deletes all jobs of an app and stops their runs; returns how many there were.
///
/// # Errors
/// The store's.
pub(in crate::api) async fn delete_all(api: &Api, caller: &Caller, app: AppId) -> ApiResult<usize> {
    let mut count = 0;
    loop {
        let query = JobQuery { apps: Some(vec![app]), limit: STEP, ..JobQuery::default() };
        let jobs = api.store.list_jobs(&query).await?;
        if jobs.is_empty() {
            return Ok(count);
        }
        for job in &jobs {
            delete(api, caller, job, None).await?;
        }
        stop_runs(api, caller, &jobs).await?;
        count += jobs.len();
    }
}

async fn delete(api: &Api, caller: &Caller, job: &Job, version: Option<u64>) -> ApiResult<()> {
    let change =
        JobChange { version, delete: true, drop_due: true, ..JobChange::by(caller.principal()) };
    let now = api.clock.now();
    let deleted = api.store.change_job(job.id, &change, replan(Vec::new()), now).await;
    deleted.map_err(|error| match error {
        StoreError::Conflict(_) => ApiError::etag_mismatch(&job.resource_name()),
        error => ApiError::of_store(Kind::Job, job.resource_name(), error),
    })?;
    tracing::info!(job = job.resource_name(), "job deleted");
    Ok(())
}

async fn stop_runs(api: &Api, caller: &Caller, jobs: &[Job]) -> ApiResult<()> {
    let ids = jobs.iter().map(|job| job.id).collect();
    let open = api.store.load_open_runs(&RunScope::Jobs(ids)).await?;
    let order = cancel::Order {
        reason: KillReason::JobDeleted,
        grace: None,
        message: format!("its job was deleted by {}", caller.principal()),
    };
    cancel::cancel(api, open.runs, &order).await.map(drop)
}
