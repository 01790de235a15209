//! A client of the contract with the admin's token.

use std::time::Duration;

use anyhow::Result;
use clawjob_proto::v1::{
    CreateJobRequest, CreateTokenRequest, DeleteJobRequest, Grant, Job, ListRunsRequest, Role, Run,
    RunView, Token, TriggerJobRequest, identity_service_client::IdentityServiceClient,
    job_service_client::JobServiceClient, run_service_client::RunServiceClient,
};
use futures::StreamExt as _;
use tonic::{
    Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

/// Calls under way at once when many jobs are made or deleted.
const CALLS_MAX: usize = 32;
/// A node that is there is reached within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A call is answered within this time.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Runs of one page.
const PAGE: i32 = 1_000;

/// Adds the bearer token to each call.
#[derive(Clone, Debug)]
pub struct Bearer(pub String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = format!("Bearer {}", self.0).parse();
        let value = value.map_err(|_| Status::unauthenticated("the token is not plain text"))?;
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

/// A channel that adds the token.
pub type Authorized = InterceptedService<Channel, Bearer>;

/// The admin of one node.
#[derive(Clone)]
pub struct Admin {
    channel: Channel,
    /// Without a bound on how long an answer takes.
    patient: Channel,
    bearer: Bearer,
}

impl Admin {
    /// Dials when first used, and again after a break.
    ///
    /// # Errors
    /// The URL is none.
    pub fn new(url: &str, token: &str) -> Result<Self> {
        let endpoint = Channel::from_shared(url.to_owned())?.connect_timeout(CONNECT_TIMEOUT);
        let channel = endpoint.clone().timeout(CALL_TIMEOUT).connect_lazy();
        let patient = endpoint.connect_lazy();
        Ok(Self { channel, patient, bearer: Bearer(token.to_owned()) })
    }

    /// Jobs.
    #[must_use]
    pub fn jobs(&self) -> JobServiceClient<Authorized> {
        JobServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }

    /// Runs.
    #[must_use]
    pub fn runs(&self) -> RunServiceClient<Authorized> {
        RunServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(64 << 20)
    }

    /// Runs, for calls that go on and on.
    #[must_use]
    pub fn streams(&self) -> RunServiceClient<Authorized> {
        RunServiceClient::with_interceptor(self.patient.clone(), self.bearer.clone())
    }

    /// A new token for executors of the app.
    ///
    /// # Errors
    /// The call's.
    pub async fn executor_token(&self, app: &str) -> Result<String> {
        let (channel, bearer) = (self.channel.clone(), self.bearer.clone());
        let mut client = IdentityServiceClient::with_interceptor(channel, bearer);
        let grant = Grant { app: app.to_owned(), role: Role::Executor.into() };
        let token = Token { grants: vec![grant], ..Token::default() };
        let request = CreateTokenRequest { token: Some(token), ..CreateTokenRequest::default() };
        Ok(client.create_token(request).await?.into_inner().secret)
    }

    /// Makes jobs of an app, many at once.
    ///
    /// # Errors
    /// The first call's that failed.
    pub async fn create_jobs(
        &self,
        app: &str,
        jobs: impl IntoIterator<Item = (String, Job)>,
    ) -> Result<()> {
        let parent = format!("apps/{app}");
        let calls = jobs.into_iter().map(|(job_id, job)| {
            let (mut client, parent) = (self.jobs(), parent.clone());
            async move {
                let job = Some(job);
                let request =
                    CreateJobRequest { parent, job_id, job, ..CreateJobRequest::default() };
                client.create_job(request).await.map(drop)
            }
        });
        let mut calls = futures::stream::iter(calls).buffer_unordered(CALLS_MAX);
        while let Some(answer) = calls.next().await {
            answer?;
        }
        Ok(())
    }

    /// Deletes jobs of an app with what runs of them, many at once.
    ///
    /// # Errors
    /// The first call's that failed.
    pub async fn delete_jobs(
        &self,
        app: &str,
        ids: impl IntoIterator<Item = String>,
    ) -> Result<()> {
        let calls = ids.into_iter().map(|id| {
            let (mut client, name) = (self.jobs(), format!("apps/{app}/jobs/{id}"));
            async move {
                let request = DeleteJobRequest { name, force: true, ..DeleteJobRequest::default() };
                client.delete_job(request).await.map(drop)
            }
        });
        let mut calls = futures::stream::iter(calls).buffer_unordered(CALLS_MAX);
        while let Some(answer) = calls.next().await {
            answer?;
        }
        Ok(())
    }

    /// One run now; asking again with the same id makes no second one. Returns its name.
    ///
    /// # Errors
    /// The call's.
    pub async fn trigger(&self, job: &str, request_id: &str) -> Result<String, Status> {
        let request = TriggerJobRequest {
            name: job.to_owned(),
            request_id: request_id.to_owned(),
            ..TriggerJobRequest::default()
        };
        Ok(self.jobs().trigger_job(request).await?.into_inner().name)
    }

    /// All runs of an app with their attempts, newest first.
    ///
    /// # Errors
    /// The call's.
    pub async fn all_runs(&self, app: &str, filter: &str) -> Result<Vec<Run>> {
        let (mut all, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = ListRunsRequest {
                parent: format!("apps/{app}"),
                page_size: PAGE,
                page_token,
                filter: filter.to_owned(),
                view: RunView::Full.into(),
                ..ListRunsRequest::default()
            };
            let page = self.runs().list_runs(request).await?.into_inner();
            all.extend(page.runs);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(all);
            }
        }
    }
}
