//! A server in memory: its state, its start, and IdentityService.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use clawjob_proto::v1::{
    self as pb, alarm_service_server::AlarmServiceServer,
    calendar_service_server::CalendarServiceServer, fleet_service_server::FleetServiceServer,
    identity_service_server::IdentityServiceServer, job_service_server::JobServiceServer,
    run_service_server::RunServiceServer,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code, Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig},
};
use tonic_types::{ErrorDetails, StatusExt as _};

/// What the server holds, and what tests script and look at.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) jobs: BTreeMap<String, pb::Job>,
    /// Every version of every job, in order.
    pub(crate) revisions: Vec<pb::Job>,
    pub(crate) calendars: BTreeMap<String, pb::Calendar>,
    pub(crate) backfills: Vec<pb::BackfillJobRequest>,
    /// What ForecastRuns answers.
    pub(crate) fires: Vec<pb::forecast_runs_response::Fire>,
    /// Apps that have had a job.
    pub(crate) apps: BTreeSet<String>,
    pub(crate) runs: BTreeMap<String, pb::Run>,
    /// Answered instead, one per call, before the call does anything.
    pub(crate) failures: VecDeque<Status>,
    /// After so many calls, so many are UNAVAILABLE.
    pub(crate) failures_after: Option<(u32, u32)>,
    /// Name of each call, in order.
    pub(crate) calls: Vec<&'static str>,
    /// One script per WatchRuns stream, and the resume tokens they were opened with.
    pub(crate) watches: VecDeque<Vec<Result<pb::WatchRunsResponse, Status>>>,
    pub(crate) watch_tokens: Vec<String>,
    /// The same for TailRunLogs: (attempt, after_seq).
    pub(crate) tails: VecDeque<Vec<Result<pb::TailRunLogsResponse, Status>>>,
    pub(crate) tail_places: Vec<(u32, u64)>,
    /// States that WaitRun and GetRun bring a run to, one per call.
    pub(crate) next_states: VecDeque<(pb::RunState, u32)>,
    /// Largest page, whatever is asked for; 0 means no bound.
    pub(crate) page_max: usize,
    pub(crate) writes: u32,
    /// So many updates meet another's change.
    pub(crate) conflicts: u32,
    pub(crate) filters: Vec<String>,
    /// Handlers on offer, by app; without any the call is none that it knows.
    pub(crate) handlers: Option<BTreeMap<String, Vec<&'static str>>>,
    /// Alarm rules as they were made, and the masks of their updates.
    pub(crate) rules: BTreeMap<String, pb::AlarmRule>,
    pub(crate) masks: Vec<Vec<String>>,
}

/// A handle on the server.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Starts a server and returns it with its URL.
    pub(crate) async fn start() -> (Fake, String) {
        Fake::start_with(Server::builder(), "http").await
    }

    /// The same over TLS, with a certificate for localhost.
    pub(crate) async fn start_tls(identity: Identity) -> (Fake, String) {
        let tls = ServerTlsConfig::new().identity(identity);
        Fake::start_with(Server::builder().tls_config(tls).unwrap(), "https").await
    }

    async fn start_with(mut server: Server, scheme: &str) -> (Fake, String) {
        let fake = Fake::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let server = server
            .add_service(JobServiceServer::new(fake.clone()))
            .add_service(CalendarServiceServer::new(fake.clone()))
            .add_service(RunServiceServer::new(fake.clone()))
            .add_service(FleetServiceServer::new(fake.clone()))
            .add_service(IdentityServiceServer::new(fake.clone()))
            .add_service(AlarmServiceServer::new(fake.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        // It ends with the test's runtime.
        tokio::spawn(server);
        (fake, url)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Notes a call, checks the token, and answers a scripted failure.
    pub(crate) fn enter<T>(
        &self,
        call: &'static str,
        request: Request<T>,
    ) -> Result<(MutexGuard<'_, State>, T), Status> {
        let mut state = self.state();
        state.calls.push(call);
        let token = request.metadata().get("authorization").and_then(|v| v.to_str().ok());
        if token != Some("Bearer secret") {
            let mut details = ErrorDetails::new();
            details.set_error_info("TOKEN_INVALID", "clawjob.dev", []).set_request_info("r-1", "");
            let code = Code::Unauthenticated;
            return Err(Status::with_error_details(code, "no valid token", details));
        }
        match state.failures_after {
            Some((0, 0)) | None => {}
            Some((0, count)) => {
                state.failures_after = Some((0, count - 1));
                return Err(Status::unavailable("away"));
            }
            Some((calls, count)) => state.failures_after = Some((calls - 1, count)),
        }
        match state.failures.pop_front() {
            Some(failure) => Err(failure),
            None => Ok((state, request.into_inner())),
        }
    }
}

pub(crate) fn not_found(kind: &str, name: &str) -> Status {
    let mut details = ErrorDetails::new();
    details
        .set_error_info(format!("{kind}_NOT_FOUND"), "clawjob.dev", [])
        .set_resource_info(kind.to_lowercase(), name, "", "")
        .set_request_info("r-2", "");
    Status::with_error_details(Code::NotFound, format!("{name} does not exist"), details)
}

pub(crate) type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl pb::fleet_service_server::FleetService for Fake {
    async fn list_handlers(
        &self,
        rq: Request<pb::ListHandlersRequest>,
    ) -> Answer<pb::ListHandlersResponse> {
        let Some(handlers) = self.state().handlers.clone() else {
            return Err(Status::unimplemented("list_handlers"));
        };
        let app = rq.get_ref().parent.trim_start_matches("apps/");
        let entry = |name: &&str| pb::list_handlers_response::Entry {
            handler: Some(pb::Handler { name: (*name).to_owned(), ..pb::Handler::default() }),
            ..Default::default()
        };
        let handlers = handlers.get(app).map(|names| names.iter().map(entry).collect());
        let handlers = handlers.unwrap_or_default();
        Ok(Response::new(pb::ListHandlersResponse { handlers, ..Default::default() }))
    }

    async fn get_executor(&self, _: Request<pb::GetExecutorRequest>) -> Answer<pb::Executor> {
        Err(Status::unimplemented("get_executor"))
    }

    async fn list_executors(
        &self,
        _: Request<pb::ListExecutorsRequest>,
    ) -> Answer<pb::ListExecutorsResponse> {
        Err(Status::unimplemented("list_executors"))
    }

    async fn cordon_executor(&self, _: Request<pb::CordonExecutorRequest>) -> Answer<pb::Executor> {
        Err(Status::unimplemented("cordon_executor"))
    }

    async fn uncordon_executor(
        &self,
        _: Request<pb::UncordonExecutorRequest>,
    ) -> Answer<pb::Executor> {
        Err(Status::unimplemented("uncordon_executor"))
    }

    async fn disconnect_executor(
        &self,
        _: Request<pb::DisconnectExecutorRequest>,
    ) -> Answer<pb::Executor> {
        Err(Status::unimplemented("disconnect_executor"))
    }

    async fn delete_executor(&self, _: Request<pb::DeleteExecutorRequest>) -> Answer<()> {
        Err(Status::unimplemented("delete_executor"))
    }
}

#[tonic::async_trait]
impl pb::identity_service_server::IdentityService for Fake {
    async fn who_am_i(&self, rq: Request<pb::WhoAmIRequest>) -> Answer<pb::WhoAmIResponse> {
        let _state = self.enter("who_am_i", rq)?;
        let grants = vec![pb::Grant { app: "*".into(), role: pb::Role::Admin.into() }];
        let principal = "tokens/admin".into();
        Ok(Response::new(pb::WhoAmIResponse { principal, grants, ..Default::default() }))
    }

    async fn create_token(
        &self,
        rq: Request<pb::CreateTokenRequest>,
    ) -> Answer<pb::CreateTokenResponse> {
        let (_state, rq) = self.enter("create_token", rq)?;
        let token = pb::Token { name: "tokens/t1".into(), ..rq.token.unwrap_or_default() };
        let secret = "cj_secret".into();
        Ok(Response::new(pb::CreateTokenResponse { token: Some(token), secret }))
    }

    async fn login(&self, _: Request<pb::LoginRequest>) -> Answer<pb::LoginResponse> {
        Err(Status::unimplemented("login"))
    }

    async fn logout(&self, _: Request<pb::LogoutRequest>) -> Answer<()> {
        Err(Status::unimplemented("logout"))
    }

    async fn create_user(&self, _: Request<pb::CreateUserRequest>) -> Answer<pb::User> {
        Err(Status::unimplemented("create_user"))
    }

    async fn get_user(&self, _: Request<pb::GetUserRequest>) -> Answer<pb::User> {
        Err(Status::unimplemented("get_user"))
    }

    async fn list_users(&self, _: Request<pb::ListUsersRequest>) -> Answer<pb::ListUsersResponse> {
        Err(Status::unimplemented("list_users"))
    }

    async fn update_user(&self, _: Request<pb::UpdateUserRequest>) -> Answer<pb::User> {
        Err(Status::unimplemented("update_user"))
    }

    async fn delete_user(&self, _: Request<pb::DeleteUserRequest>) -> Answer<()> {
        Err(Status::unimplemented("delete_user"))
    }

    async fn list_tokens(
        &self,
        _: Request<pb::ListTokensRequest>,
    ) -> Answer<pb::ListTokensResponse> {
        Err(Status::unimplemented("list_tokens"))
    }

    async fn revoke_token(&self, _: Request<pb::RevokeTokenRequest>) -> Answer<pb::Token> {
        Err(Status::unimplemented("revoke_token"))
    }
}
