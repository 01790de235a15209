//! JobService.

mod backfill;
mod chains;
mod change;
mod delete;
mod forecast;
mod read;
mod state;
mod trigger;
mod write;

pub(in crate::api) use change::replan_each;
pub(in crate::api) use delete::delete_some;
pub(in crate::api) use state::REASON_MAX;

use std::sync::Arc;

use clawjob_proto::v1::{self as pb, job_service_server::JobService};
use tonic::{Request, Response, Status};

use super::{
    Api,
    caller::Caller,
    convert::names::{self, JobName},
    status::{ApiError, ApiResult, Kind, Violations},
};
use crate::model::job::Job;
use forecast::Forecaster;

/// Serves jobs.
pub struct JobsService {
    api: Arc<Api>,
    forecaster: Forecaster,
}

impl JobsService {
    /// Over the store and hub of `api`.
    pub fn new(api: Arc<Api>) -> Self {
        Self { api, forecaster: Forecaster::default() }
    }

    /// The job of that name.
    async fn find(&self, name: &JobName) -> ApiResult<Job> {
        let found = self.api.store.get_job(&name.app, &name.job).await;
        found.map_err(|e| ApiError::of_store(Kind::Job, names::job(&name.app, &name.job), e))
    }

    /// The job that the field names.
    async fn find_named(&self, field: &str, text: &str) -> ApiResult<Job> {
        let mut bad = Violations::new();
        let name = names::parse_job(field, text, &mut bad);
        bad.finish()?;
        match name {
            Some(name) => self.find(&name).await,
            None => Err(ApiError::internal("a name without a fault was not read")),
        }
    }
}

#[tonic::async_trait]
impl JobService for JobsService {
    async fn create_job(
        &self,
        request: Request<pb::CreateJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.create(&caller, request.into_inner()).await?))
    }

    async fn get_job(
        &self,
        request: Request<pb::GetJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        Ok(Response::new(self.get(request.into_inner()).await?))
    }

    async fn list_jobs(
        &self,
        request: Request<pb::ListJobsRequest>,
    ) -> Result<Response<pb::ListJobsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.list(&caller, request.into_inner()).await?))
    }

    async fn update_job(
        &self,
        request: Request<pb::UpdateJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.update(&caller, request.into_inner()).await?))
    }

    async fn delete_job(
        &self,
        request: Request<pb::DeleteJobRequest>,
    ) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request)?;
        self.delete(&caller, request.into_inner()).await?;
        Ok(Response::new(()))
    }

    async fn pause_job(
        &self,
        request: Request<pb::PauseJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.pause(&caller, request.into_inner()).await?))
    }

    async fn resume_job(
        &self,
        request: Request<pb::ResumeJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.resume(&caller, request.into_inner()).await?))
    }

    async fn trigger_job(
        &self,
        request: Request<pb::TriggerJobRequest>,
    ) -> Result<Response<pb::Run>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.trigger(&caller, request.into_inner()).await?))
    }

    async fn preview_schedule(
        &self,
        request: Request<pb::PreviewScheduleRequest>,
    ) -> Result<Response<pb::PreviewScheduleResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.preview(&caller, &request.into_inner()).await?))
    }

    async fn list_job_revisions(
        &self,
        request: Request<pb::ListJobRevisionsRequest>,
    ) -> Result<Response<pb::ListJobRevisionsResponse>, Status> {
        Ok(Response::new(self.revisions(request.into_inner()).await?))
    }

    async fn rollback_job(
        &self,
        request: Request<pb::RollbackJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.rollback(&caller, request.into_inner()).await?))
    }

    async fn backfill_job(
        &self,
        request: Request<pb::BackfillJobRequest>,
    ) -> Result<Response<pb::BackfillJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.backfill(&caller, request.into_inner()).await?))
    }

    async fn forecast_runs(
        &self,
        request: Request<pb::ForecastRunsRequest>,
    ) -> Result<Response<pb::ForecastRunsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.forecast(&caller, request.into_inner()).await?))
    }
}
