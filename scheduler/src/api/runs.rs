//! RunService.

mod read;
mod write;

use std::sync::Arc;

use clawjob_proto::v1::{self as pb, run_service_server::RunService};
use tonic::{Request, Response, Status};

use super::{
    Api,
    auth::Auth,
    caller::Caller,
    convert::names::{self, RunName},
    feed::RunFeed,
    logs,
    status::{ApiError, ApiResult, Kind, Violations},
    streams::{EventStream, Seats, Watchdog},
    watch,
};
use crate::model::run::RunRecord;

pub(in crate::api) use read::{FULL_ROWS, jobs, made_before, scheduled, show};

/// Serves runs.
pub struct RunsService {
    api: Arc<Api>,
    feed: Arc<RunFeed>,
    auth: Arc<Auth>,
    seats: Arc<Seats>,
}

impl RunsService {
    /// Over the store and hub of `api`, with a feed of its own for those who wait and watch.
    pub fn new(api: Arc<Api>, auth: Arc<Auth>) -> Self {
        let feed = RunFeed::new(api.store.clone(), api.clock.clone());
        Self { api, feed, auth, seats: Arc::default() }
    }

    /// Ends the caller's stream when its token does not hold any more.
    fn watchdog(&self, caller: Caller) -> ApiResult<Watchdog> {
        let seat = self.seats.take(caller.principal())?;
        Ok(Watchdog::new(self.auth.clone(), caller, seat, self.api.clock.elapsed()))
    }

    /// The run of that name; one of another app does not exist under it.
    async fn find(&self, name: &RunName) -> ApiResult<RunRecord> {
        let full_name = || names::run(&name.app, name.run);
        let found = self.api.store.get_run(name.run).await;
        let record = found.map_err(|e| ApiError::of_store(Kind::Run, full_name(), e))?;
        if *record.app_name != *name.app {
            return Err(ApiError::not_found(Kind::Run, full_name()));
        }
        Ok(record)
    }
}

/// Reads the run's name.
fn run_name(text: &str, mut bad: Violations) -> ApiResult<RunName> {
    let name = names::parse_run("name", text, &mut bad);
    bad.finish()?;
    name.ok_or_else(|| ApiError::internal("a name without a fault was not read"))
}

#[tonic::async_trait]
impl RunService for RunsService {
    type WatchRunsStream = EventStream<pb::WatchRunsResponse>;
    type TailRunLogsStream = EventStream<pb::TailRunLogsResponse>;

    async fn get_run(
        &self,
        request: Request<pb::GetRunRequest>,
    ) -> Result<Response<pb::Run>, Status> {
        Ok(Response::new(self.get(request.into_inner()).await?))
    }

    async fn list_runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.list(&caller, request.into_inner()).await?))
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::Run>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.cancel(&caller, request.into_inner()).await?))
    }

    async fn rerun_run(
        &self,
        request: Request<pb::RerunRunRequest>,
    ) -> Result<Response<pb::Run>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.rerun(&caller, request.into_inner()).await?))
    }

    async fn wait_run(
        &self,
        request: Request<pb::WaitRunRequest>,
    ) -> Result<Response<pb::Run>, Status> {
        Ok(Response::new(self.wait(request.into_inner()).await?))
    }

    async fn watch_runs(
        &self,
        request: Request<pb::WatchRunsRequest>,
    ) -> Result<Response<Self::WatchRunsStream>, Status> {
        let caller = Caller::of(&request)?;
        let feed = self.feed.clone();
        let guard = self.watchdog(caller.clone())?;
        let request = request.into_inner();
        Ok(Response::new(watch::start(&self.api, feed, &caller, guard, request).await?))
    }

    async fn list_run_logs(
        &self,
        request: Request<pb::ListRunLogsRequest>,
    ) -> Result<Response<pb::ListRunLogsResponse>, Status> {
        let request = request.into_inner();
        let run = self.find(&run_name(&request.name, Violations::new())?).await?;
        Ok(Response::new(logs::list(&self.api, run.run.id, &request).await?))
    }

    async fn tail_run_logs(
        &self,
        request: Request<pb::TailRunLogsRequest>,
    ) -> Result<Response<Self::TailRunLogsStream>, Status> {
        let guard = self.watchdog(Caller::of(&request)?)?;
        let request = request.into_inner();
        let run = self.find(&run_name(&request.name, Violations::new())?).await?;
        Ok(Response::new(logs::tail(&self.api, guard, run.run.id, &request)))
    }
}
