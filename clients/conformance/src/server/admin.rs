//! What an admin asks of the scheduler.

use std::time::Duration;

use clawjob_conformance::soon;
use clawjob_proto::v1::{
    CancelRunRequest, CreateJobRequest, GetExecutorRequest, GetRunRequest, Job, ListRunLogsRequest,
    ListRunsRequest, OverlapPolicy, RevokeTokenRequest, Run, RunState, RunView, StoredLogRecord,
    TriggerJobRequest, executor::State, fleet_service_client::FleetServiceClient,
    identity_service_client::IdentityServiceClient, job_service_client::JobServiceClient,
    run_service_client::RunServiceClient,
};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// The app that all is in.
pub(crate) const APP: &str = "demo";
/// Between two looks at something that will change.
const LOOK: Duration = Duration::from_millis(50);

/// Adds the bearer token to each call.
#[derive(Clone)]
pub(crate) struct Bearer(String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = format!("Bearer {}", self.0).parse().expect("a token is plain text");
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

/// A channel to the URL, and what adds the token.
pub(crate) async fn connect(url: &str, token: String) -> (Channel, Bearer) {
    let channel = Channel::from_shared(url.to_owned()).unwrap().connect().await.unwrap();
    (channel, Bearer(token))
}

type Authorized = InterceptedService<Channel, Bearer>;

/// The admin's calls; each must succeed unless it says otherwise.
pub(crate) struct Admin {
    jobs: JobServiceClient<Authorized>,
    runs: RunServiceClient<Authorized>,
    fleet: FleetServiceClient<Authorized>,
    identity: IdentityServiceClient<Authorized>,
}

impl Admin {
    pub(crate) async fn connect(url: &str, token: String) -> Self {
        let (channel, bearer) = connect(url, token).await;
        Self {
            jobs: JobServiceClient::with_interceptor(channel.clone(), bearer.clone()),
            runs: RunServiceClient::with_interceptor(channel.clone(), bearer.clone()),
            fleet: FleetServiceClient::with_interceptor(channel.clone(), bearer.clone()),
            identity: IdentityServiceClient::with_interceptor(channel, bearer),
        }
    }

    /// A job of the handler `work` that runs by hand, any number at once. Its name.
    pub(crate) async fn job(&mut self, id: &str, job: Job) -> String {
        let handler = if job.handler.is_empty() { "work".to_owned() } else { job.handler.clone() };
        let request = CreateJobRequest {
            parent: format!("apps/{APP}"),
            job_id: id.to_owned(),
            job: Some(Job { handler, overlap: OverlapPolicy::Allow.into(), ..job }),
            ..CreateJobRequest::default()
        };
        self.jobs.create_job(request).await.unwrap().into_inner().name
    }

    /// Runs a job once. The run's name.
    pub(crate) async fn trigger(&mut self, job: &str) -> String {
        let request = TriggerJobRequest { name: job.to_owned(), ..Default::default() };
        self.try_trigger(request).await.unwrap()
    }

    /// Runs a job as asked for, which may be refused. The run's name.
    pub(crate) async fn try_trigger(&mut self, run: TriggerJobRequest) -> Result<String, Status> {
        Ok(self.jobs.trigger_job(run).await?.into_inner().name)
    }

    /// The run as it is.
    pub(crate) async fn run(&mut self, name: &str) -> Run {
        let request = GetRunRequest { name: name.to_owned(), view: RunView::Full.into() };
        self.runs.get_run(request).await.unwrap().into_inner()
    }

    /// All runs that a filter finds.
    pub(crate) async fn runs(&mut self, filter: &str) -> Vec<Run> {
        let mut all = Vec::new();
        let mut request = ListRunsRequest {
            parent: format!("apps/{APP}"),
            page_size: 1_000,
            filter: filter.to_owned(),
            ..ListRunsRequest::default()
        };
        loop {
            let page = self.runs.list_runs(request.clone()).await.unwrap().into_inner();
            all.extend(page.runs);
            if page.next_page_token.is_empty() {
                return all;
            }
            request.page_token = page.next_page_token;
        }
    }

    /// The run once it is as wanted.
    pub(crate) async fn until(&mut self, name: &str, wanted: RunState) -> Run {
        let found = async {
            loop {
                let run = self.run(name).await;
                if run.state() == wanted {
                    return run;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        soon(&format!("{name} to be {wanted:?}"), found).await
    }

    /// Asks for the end of a run.
    pub(crate) async fn cancel(&mut self, name: &str) -> Result<Run, Status> {
        let request = CancelRunRequest { name: name.to_owned(), ..CancelRunRequest::default() };
        Ok(self.runs.cancel_run(request).await?.into_inner())
    }

    /// What is stored of a run's log.
    pub(crate) async fn logs(&mut self, name: &str) -> Vec<StoredLogRecord> {
        let request = ListRunLogsRequest { name: name.to_owned(), ..Default::default() };
        self.runs.list_run_logs(request).await.unwrap().into_inner().records
    }

    /// The executor's state; unspecified while nobody of that name has come.
    pub(crate) async fn executor(&mut self, id: &str) -> State {
        let name = format!("apps/{APP}/executors/{id}");
        match self.fleet.get_executor(GetExecutorRequest { name }).await {
            Ok(executor) => executor.into_inner().state(),
            Err(status) if status.code() == Code::NotFound => State::Unspecified,
            Err(status) => panic!("{status}"),
        }
    }

    /// Waits until the executor is in this state.
    pub(crate) async fn until_executor(&mut self, id: &str, wanted: State) {
        let found = async {
            while self.executor(id).await != wanted {
                tokio::time::sleep(LOOK).await;
            }
        };
        soon(&format!("{id} to be {wanted:?}"), found).await;
    }

    /// Takes a token's force.
    pub(crate) async fn revoke(&mut self, name: String) {
        self.identity.revoke_token(RevokeTokenRequest { name }).await.unwrap();
    }
}
