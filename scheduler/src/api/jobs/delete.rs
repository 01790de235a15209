//! Deleting one job, or all of an app.

use clawjob_proto::v1 as pb;

use super::{JobsService, change::replan, write::check_etag};
use crate::{
    api::{
        APP_JOBS_DELETED_MAX, Api,
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

/// Jobs of an app whose runs are stopped together.
const STEP: usize = 200;

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

/// Deletes jobs of an app and stops their runs, at most [`APP_JOBS_DELETED_MAX`]. Returns how many
/// there were, and whether the app has none any more.
///
/// # Errors
/// The store's.
pub(in crate::api) async fn delete_some(
    api: &Api,
    caller: &Caller,
    app: AppId,
) -> ApiResult<(usize, bool)> {
    // One more than may go tells whether any is left.
    let limit = u32::try_from(APP_JOBS_DELETED_MAX + 1).unwrap_or(u32::MAX);
    let query = JobQuery { apps: Some(vec![app]), limit, ..JobQuery::default() };
    let mut jobs = api.store.list_jobs(&query).await?;
    let all = jobs.len() <= APP_JOBS_DELETED_MAX;
    jobs.truncate(APP_JOBS_DELETED_MAX);
    for jobs in jobs.chunks(STEP) {
        for job in jobs {
            delete(api, caller, job, None).await?;
        }
        stop_runs(api, caller, jobs).await?;
    }
    Ok((jobs.len(), all))
}

async fn delete(api: &Api, caller: &Caller, job: &Job, version: Option<u64>) -> ApiResult<()> {
    let change =
        JobChange { version, delete: true, drop_due: true, ..JobChange::by(caller.in_words()) };
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
        message: format!("its job was deleted by {}", caller.in_words()),
    };
    cancel::cancel(api, open.runs, &order).await.map(drop)
}
