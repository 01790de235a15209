//! Executors' sessions over a real port: the SDK, and a client that speaks the contract by hand.

#![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

use std::{sync::Arc, time::Duration};

use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::{
    AttemptStatus, Close, Goodbye, Handler, Heartbeat, Hello, LogChunk, LogRecord, Outcome,
    Progress, ResultAck, RunAck, RunCommand, RunResult, SessionRequest, SessionResponse, Welcome,
    close, executor_service_client::ExecutorServiceClient, result_ack, run_ack,
    session_request::Frame as Up, session_response::Frame as Down,
};
use clawjob_scheduler::{
    api::{
        self, Api, ApiSettings,
        auth::{Auth, FreshSecret, SignInTimes},
        health::Health,
        listen::{ListenSettings, Port},
    },
    clock::{Clock, ManualClock, SystemClock},
    fleet::Reach,
    hub::{
        Hub, HubSettings,
        settings::{HANDLERS_BYTES_MAX, PARAMS_SCHEMA_BYTES_MAX},
        wire,
    },
    model::{
        ids::{AppId, AttemptRef, JobId, PARTITION_COUNT, PartitionId, RunId},
        job::{JobSpec, JobState},
        principal::{Grant, Role, Token},
        run::{OpenRun, RunState, TriggerKind},
    },
    results::{Results, RunListener, Specs},
    store::{
        SharedStore, Store,
        identity::IdentityStore,
        ops::{Addressee, Dispatch, DispatchRow, NewJob, NewRun},
        sqlite::SqliteStore,
    },
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request, Status, Streaming,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

struct Deaf;

impl RunListener for Deaf {
    fn ended(&self, _: RunId, _: JobId, _: RunState, _: chrono::DateTime<chrono::Utc>) {}
    fn put_back(&self, _: OpenRun) {}
    fn acked(&self, _: AttemptRef, _: chrono::DateTime<chrono::Utc>) {}
}

impl Specs for Deaf {
    fn spec(&self, _: &OpenRun) -> Option<Arc<JobSpec>> {
        None
    }
}

/// A scheduler without its owner's loops: sessions and results, and runs sent by hand.
struct Server {
    clock: Arc<SystemClock>,
    store: Arc<SqliteStore>,
    hub: Arc<Hub>,
    url: String,
    app: AppId,
    job: JobId,
    stop: CancellationToken,
    _dir: TempDir,
}

impl Server {
    async fn start(settings: HubSettings) -> Self {
        Self::start_by(settings, SystemClock::new()).await
    }

    /// The same with a clock of the sessions' own.
    async fn start_by(settings: HubSettings, sessions: Arc<dyn Clock>) -> Self {
        let dir = TempDir::new().unwrap();
        let clock = SystemClock::new();
        let store = SqliteStore::open(dir.path()).unwrap();
        let (hub, events) = Hub::new(settings, sessions);
        let stop = CancellationToken::new();
        let now = clock.now();
        let app = store.ensure_app("app", now).await.unwrap().id;
        let job = NewJob {
            app,
            name: "job".to_owned(),
            state: JobState::Active,
            spec: JobSpec { handler: "hello".to_owned(), ..JobSpec::default() },
            updated_by: "test".to_owned(),
            request: None,
        };
        let job = store.create_job(&job, Box::new(|_| Vec::new()), now).await.unwrap().id;
        let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
        store.take_partitions("node", &all, now).await.unwrap();

        let results = Results::new(
            store.clone(),
            Reach::alone(hub.clone()),
            Arc::new(Deaf),
            Arc::new(Deaf),
            clock.clone(),
            stop.clone(),
        );
        tokio::spawn(results.run(events));
        tokio::spawn(hub.clone().upkeep(store.clone(), stop.clone()));
        let made = Api::new(store.clone(), hub.clone(), clock.clone(), ApiSettings::default());
        let auth = Auth::new(store.clone(), clock.clone(), SignInTimes::default());
        let edge = api::edge(made.await.unwrap(), auth, &Health::new().await).unwrap();
        let listen = ListenSettings {
            address: "127.0.0.1:0".parse().unwrap(),
            tls: None,
            behind_proxy: false,
            connections_max: 100,
        };
        let port = Port::bind(&listen).await.unwrap();
        let url = format!("http://{}", port.address());
        tokio::spawn(port.serve(edge, clock.clone(), stop.clone(), Duration::from_secs(1)));
        Self { clock, store, hub, url, app, job, stop, _dir: dir }
    }

    /// An executor's token for the app.
    async fn token(&self, executors: &[&str], handlers: &[&str]) -> (String, String) {
        self.token_until("app", executors, handlers, None).await
    }

    /// The same for any app, which ends by itself after so long.
    async fn token_until(
        &self,
        app: &str,
        executors: &[&str],
        handlers: &[&str],
        life: Option<Duration>,
    ) -> (String, String) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let secret = FreshSecret::new(self.clock.now());
        let token = Token {
            id: secret.id.clone(),
            secret_hash: secret.hash,
            display_name: "test".to_owned(),
            grants: vec![Grant { app: app.to_owned(), role: Role::Executor }],
            executor_id_patterns: owned(executors),
            handler_patterns: owned(handlers),
            owner: "test".to_owned(),
            created_at: self.clock.now(),
            expires_at: life.map(|life| self.clock.now() + life),
            revoked_at: None,
            last_used_at: None,
        };
        self.store.create_token(&token, None).await.unwrap();
        (secret.id, secret.text)
    }

    /// Makes a run and sends it to the executor as soon as that has a free slot.
    async fn send(&self, executor: &str, params: &str) -> RunId {
        let now = self.clock.now();
        let run = NewRun {
            id: RunId::by_hand(now, rand::random::<u128>() >> 48),
            job: self.job,
            app: self.app,
            revision: 1,
            trigger: TriggerKind::Api,
            fire_at: now,
            due_at: now,
            extra: None,
        };
        let run = self.store.create_run(&run, None, now).await.unwrap();
        let mut epoch = 0;
        self.until("a free slot", async || {
            let candidates = self.hub.candidates(self.app, "hello", &Default::default());
            let found = candidates.into_iter().find(|c| &*c.name == executor && c.free > 0);
            epoch = found.as_ref().map_or(0, |c| c.epoch);
            epoch > 0 && self.hub.reserve(self.app, executor, epoch, "hello", 1)
        })
        .await;
        let row = DispatchRow {
            attempt: AttemptRef { run, attempt: 1, fence: 0 },
            to: Addressee { executor: executor.into(), session_epoch: epoch },
        };
        let batch = Dispatch { rows: vec![row], uses: Vec::new() };
        let sent = self.store.dispatch(&batch, now).await.unwrap();
        let command = RunCommand {
            r#ref: Some(wire::to_ref(sent[0])),
            handler: "hello".to_owned(),
            params: Some(clawjob_proto::v1::Payload {
                content_type: "application/json".to_owned(),
                data: params.to_owned().into(),
            }),
            ..RunCommand::default()
        };
        assert!(self.hub.send_run(self.app, executor, epoch, command));
        run
    }

    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let end = self.clock.elapsed() + PATIENCE;
        while !holds().await {
            assert!(self.clock.elapsed() < end, "waited in vain for {what}");
            self.clock.wait(Duration::from_millis(10)).await;
        }
    }

    async fn until_state(&self, run: RunId, state: RunState) {
        self.until(state.as_str(), async || {
            self.store.get_run(run).await.unwrap().run.state == state
        })
        .await;
    }

    async fn dial(&self) -> ExecutorServiceClient<Channel> {
        let channel = Endpoint::from_shared(self.url.clone()).unwrap().connect().await.unwrap();
        ExecutorServiceClient::new(channel)
    }

    /// Opens a stream and says Hello.
    async fn session(&self, token: &str, hello: Hello) -> Result<Client, Status> {
        let (frames, queue) = mpsc::channel(16);
        let mut request = Request::new(ReceiverStream::new(queue));
        let bearer: MetadataValue<_> = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        let answers = self.dial().await.session(request).await?.into_inner();
        let client = Client { frames, answers };
        client.send(Up::Hello(hello)).await;
        Ok(client)
    }

    /// Opens a session that is welcome.
    async fn welcome(&self, token: &str, hello: Hello) -> (Client, Welcome) {
        let mut client = self.session(token, hello).await.unwrap();
        match client.next().await {
            Ok(Some(Down::Welcome(welcome))) => (client, welcome),
            other => panic!("wanted Welcome, got {other:?}"),
        }
    }

    /// Why a session is refused.
    async fn refusal(&self, token: &str, hello: Hello) -> Status {
        match self.session(token, hello).await {
            Err(status) => status,
            Ok(mut client) => client.next().await.expect_err("refused"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Client {
    frames: mpsc::Sender<SessionRequest>,
    answers: Streaming<SessionResponse>,
}

impl Client {
    async fn send(&self, frame: Up) {
        // A server that has refused already does not take it.
        let _ = self.frames.send(SessionRequest { frame: Some(frame) }).await;
    }

    async fn next(&mut self) -> Result<Option<Down>, Status> {
        let next = tokio::time::timeout(PATIENCE, self.answers.message());
        Ok(next.await.expect("an answer in time")?.and_then(|answer| answer.frame))
    }

    async fn result_ack(&mut self) -> ResultAck {
        loop {
            match self.next().await.unwrap() {
                Some(Down::ResultAck(ack)) => return ack,
                Some(_) => {}
                None => panic!("the stream ended without a ResultAck"),
            }
        }
    }

    /// The Close frame and the status after it.
    async fn last_words(&mut self) -> (Close, Status) {
        loop {
            match self.next().await.unwrap() {
                Some(Down::Close(close)) => {
                    return (close, self.next().await.expect_err("a status after Close"));
                }
                Some(_) => {}
                None => panic!("the stream ended without Close"),
            }
        }
    }
}

fn hello(executor: &str, process: &str) -> Hello {
    Hello {
        protocol_major: 1,
        app: "app".to_owned(),
        executor_id: executor.to_owned(),
        instance_id: process.to_owned(),
        handlers: vec![Handler { name: "hello".to_owned(), ..Handler::default() }],
        slots: 2,
        ..Hello::default()
    }
}

/// Nobody is silent by these timings: the client by hand sends no heartbeats.
fn calm() -> HubSettings {
    HubSettings {
        node_id: "node".to_owned(),
        heartbeat_interval: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(150),
        ..HubSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_reaches_an_executor_of_the_sdk_and_its_result_comes_back() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let executor = Executor::builder()
        .endpoints([server.url.clone()])
        .token(token)
        .app("app")
        .executor_id("worker")
        .slots(2)
        .handler("hello", |name: String, _ctx: Ctx| async move {
            match name.as_str() {
                "nobody" => Err(Failure::new("NOBODY", "there is nobody to greet")),
                name => Ok(format!("hello {name}")),
            }
        });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(executor.run_until(async {
        let _ = stopped.await;
    }));
    let good = server.send("worker", r#""Jacky""#).await;
    server.until_state(good, RunState::Succeeded).await;
    let record = server.store.get_run(good).await.unwrap();
    assert_eq!(record.output.unwrap().data, r#""hello Jacky""#);
    let bad = server.send("worker", r#""nobody""#).await;
    server.until_state(bad, RunState::Failed).await;
    assert_eq!(server.store.get_run(bad).await.unwrap().failure.unwrap().code, "NOBODY");

    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    server
        .until("the farewell", async || {
            let row = server.store.get_executor(server.app, "worker").await.unwrap();
            row.left && row.disconnected_at.is_some()
        })
        .await;
    assert_eq!(server.hub.sessions(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_sent_before_hello_is_read() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let (frames, queue) = mpsc::channel(16);
    let mut request = Request::new(ReceiverStream::new(queue));
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let mut client = server.dial().await;
    let opened = tokio::time::timeout(PATIENCE, client.session(request));
    let answers = opened.await.expect("headers in time").unwrap().into_inner();
    let mut client = Client { frames, answers };
    client.send(Up::Hello(hello("a", "process-1"))).await;
    let Some(Down::Welcome(welcome)) = client.next().await.unwrap() else { panic!("no Welcome") };
    assert_eq!((welcome.session_epoch, welcome.resumed), (1, false));
    assert_eq!(welcome.node_id, "node");
    assert!(!welcome.resume_token.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_that_has_all_its_executors_takes_no_new_one_but_each_it_knows() {
    let server = Server::start(HubSettings { app_executors_max: 2, ..calm() }).await;
    let (_, token) = server.token(&[], &[]).await;
    let (_first, _) = server.welcome(&token, hello("one", "p1")).await;
    let (second, _) = server.welcome(&token, hello("two", "p2")).await;
    for _ in 0..2 {
        let status = server.refusal(&token, hello("three", "p3")).await;
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "APP_QUOTA");
        assert_eq!(details.quota_failure().unwrap().violations[0].subject, "apps/app/executors");
        assert!(details.retry_info().is_some());
    }
    drop(second);
    server.welcome(&token, hello("two", "p2")).await;
    let known = server.store.get_executor(server.app, "three").await;
    assert!(known.is_err(), "nothing is kept of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_is_refused_with_all_its_faults_and_the_right_code() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&["a-*"], &["hel*"]).await;

    let last_command_seq = u64::MAX;
    let bad = Hello { slots: 0, app: "Bad App".to_owned(), last_command_seq, ..hello("", "") };
    let status = server.refusal(&token, bad).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let fields: Vec<&str> =
        details.bad_request().unwrap().field_violations.iter().map(|v| v.field.as_str()).collect();
    let wanted = ["app", "executor_id", "instance_id", "slots", "last_command_seq"];
    assert_eq!(fields, wanted.map(|field| format!("hello.{field}")));
    assert_eq!(details.error_info().unwrap().reason, "HELLO_INVALID");

    let old = Hello { protocol_major: 2, ..hello("a-1", "p") };
    let status = server.refusal(&token, old).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    let info = status.get_error_details().error_info().unwrap().clone();
    assert_eq!(info.reason, "PROTOCOL_VERSION_UNSUPPORTED");
    assert_eq!((info.metadata["min"].as_str(), info.metadata["max"].as_str()), ("1", "1"));

    let foreign = Handler { name: "other".to_owned(), ..Handler::default() };
    let cases = [
        ("x49 another app", Hello { app: "other".to_owned(), ..hello("a-1", "p") }),
        ("another executor id", hello("b-1", "p")),
        ("another handler", Hello { handlers: vec![foreign], ..hello("a-1", "p") }),
    ];
    for (what, hello) in cases {
        let status = server.refusal(&token, hello).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status:?}");
    }
    let status = server.refusal("clawjob_nobody_secret", hello("a-1", "p")).await;
    assert_eq!(status.code(), Code::Unauthenticated);

    let mut client = server.session(&token, hello("a-1", "p")).await.unwrap();
    assert!(matches!(client.next().await, Ok(Some(Down::Welcome(_)))), "a good one is welcome");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s01_s02_a_name_is_taken_while_its_process_lives() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let (first, _) = server.welcome(&token, hello("a", "process-1")).await;
    let status = server.refusal(&token, hello("a", "process-2")).await;
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    assert_eq!(status.get_error_details().error_info().unwrap().reason, "EXECUTOR_ID_IN_USE");
    drop(first);
    server.until("the end", async || server.hub.sessions() == 0).await;
    server
        .until("the name", async || {
            let row = server.store.get_executor(server.app, "a").await.unwrap();
            row.disconnected_at.is_some()
        })
        .await;
    let (_second, welcome) = server.welcome(&token, hello("a", "process-2")).await;
    assert_eq!((welcome.session_epoch, welcome.resumed), (2, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_resumes_and_its_older_stream_is_told_so() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let (mut old, first) = server.welcome(&token, hello("a", "process-1")).await;
    let resume_token = first.resume_token.clone();
    let again = Hello { resume_token, ..hello("a", "process-1") };
    let (_new, second) = server.welcome(&token, again).await;
    assert!(second.resumed);
    assert_eq!(second.session_epoch, 2);
    assert_eq!(second.resume_token, first.resume_token, "one per process");
    let (close, status) = old.last_words().await;
    assert_eq!((close.reason(), close.reconnect), (close::Reason::Superseded, true));
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(status.get_error_details().error_info().unwrap().reason, "SESSION_SUPERSEDED");
    assert_eq!(server.hub.sessions(), 1);
    let row = server.store.get_executor(server.app, "a").await.unwrap();
    assert_eq!((row.session_epoch, row.disconnected_at), (2, None));
}

/// The ids of scheduled runs can be worked out: knowing one must not be enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x49_an_executor_of_another_app_neither_ends_a_run_nor_takes_it_over() {
    let server = Server::start(calm()).await;
    let (_, own) = server.token(&[], &[]).await;
    let (_, foreign) = server.token_until("other", &[], &[], None).await;
    let (mut worker, _) = server.welcome(&own, hello("same", "p")).await;
    let run = server.send("same", "1").await;
    let command = loop {
        match worker.next().await.unwrap() {
            Some(Down::Run(command)) => break command,
            Some(_) => {}
            None => panic!("the stream ended without a RunCommand"),
        }
    };
    let accepted = run_ack::Status::Accepted.into();
    let ack = RunAck { r#ref: command.r#ref.clone(), status: accepted, ..RunAck::default() };
    worker.send(Up::RunAck(ack)).await;
    server.until_state(run, RunState::Running).await;

    let unknown = AttemptRef { run: RunId::by_hand(server.clock.now(), 7), attempt: 1, fence: 1 };
    let both = [command.r#ref.clone(), Some(wire::to_ref(unknown))];
    let listed = |finished| {
        let status = move |r#ref| AttemptStatus { r#ref, finished, ..AttemptStatus::default() };
        both.clone().map(status).to_vec()
    };
    let hello = |finished| Hello {
        app: "other".to_owned(),
        attempts: listed(finished),
        ..hello("same", "q")
    };
    // Hello: what runs elsewhere is as unknown as what does not exist.
    let (mut stranger, welcome) = server.welcome(&foreign, hello(false)).await;
    assert_eq!(welcome.kills.len(), 2);
    // Heartbeat, log, progress.
    let attempts = listed(false);
    stranger.send(Up::Heartbeat(Heartbeat { seq: 1, attempts, ..Heartbeat::default() })).await;
    let records = vec![LogRecord { message: "lie".to_owned(), ..LogRecord::default() }];
    let r#ref = command.r#ref.clone();
    let chunk = LogChunk { r#ref, first_seq: 1, records, ..LogChunk::default() };
    stranger.send(Up::LogChunk(chunk)).await;
    let r#ref = command.r#ref.clone();
    let progress = Progress { r#ref, fraction: Some(0.9), ..Progress::default() };
    stranger.send(Up::Progress(progress)).await;
    // Results.
    for outcome in [Outcome::Succeeded, Outcome::Failed] {
        for r#ref in both.clone() {
            let result = RunResult { r#ref, outcome: outcome.into(), ..RunResult::default() };
            stranger.send(Up::Result(result)).await;
            assert_eq!(stranger.result_ack().await.status(), result_ack::Status::Stale);
        }
    }
    let record = server.store.get_run(run).await.unwrap();
    assert_eq!((record.run.state, record.progress.is_none()), (RunState::Running, true));
    let other = server.store.ensure_app("other", server.clock.now()).await.unwrap().id;
    assert_eq!(server.hub.snapshot(other, "same").unwrap().running, []);

    let outcome = Outcome::Succeeded.into();
    let result = RunResult { r#ref: command.r#ref.clone(), outcome, ..RunResult::default() };
    worker.send(Up::Result(result)).await;
    assert_eq!(worker.result_ack().await.status(), result_ack::Status::Committed);
    let record = server.store.get_run(run).await.unwrap();
    assert_eq!(record.run.state, RunState::Succeeded);
    assert_eq!(record.attempts[0].late_outcome, None);
    drop(stranger);
    server.until("the end", async || server.hub.sessions() == 1).await;
    // The ended run is not told of either.
    let (_stranger, welcome) = server.welcome(&foreign, hello(true)).await;
    assert_eq!(welcome.known_results, []);
}

/// A token that is renewed while a handler runs costs the run nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c57_an_executor_whose_token_is_renewed_keeps_its_run() {
    let began = SystemClock::new().now();
    let sessions = ManualClock::new(began);
    let server = Server::start_by(calm(), sessions.clone()).await;
    let life = Duration::from_secs(600);
    let (_, first) = server.token_until("app", &[], &[], Some(life)).await;
    let (second_id, second) = server.token(&[], &[]).await;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, &first).unwrap();
    let (go, gone) = tokio::sync::watch::channel(false);
    let executor = Executor::builder()
        .endpoints([server.url.clone()])
        .token_file(&file)
        .app("app")
        .executor_id("worker")
        .slots(2)
        .handler("hello", move |name: String, _ctx: Ctx| {
            let mut gone = gone.clone();
            async move {
                let _ = gone.wait_for(|gone| *gone).await;
                Ok::<_, Failure>(name)
            }
        });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(executor.run_until(async {
        let _ = stopped.await;
    }));
    let run = server.send("worker", r#""x""#).await;
    server.until_state(run, RunState::Running).await;
    // From now on Welcome says that the first token ends in seconds, though it has minutes left: the
    // executor comes with a new one before that, and as often as it takes.
    sessions.step_to(began + life - Duration::from_secs(4));
    let before = server.hub.snapshot(server.app, "worker").unwrap().epoch;
    assert!(server.hub.disconnect(server.app, "worker", "by a test"));
    server
        .until("its return", async || {
            server.hub.snapshot(server.app, "worker").is_some_and(|live| live.epoch > before)
        })
        .await;
    std::fs::write(&file, &second).unwrap();
    let second_id = format!("tokens/{second_id}");
    server
        .until("the session with the second token", async || {
            let row = server.store.get_executor(server.app, "worker").await.unwrap();
            row.principal == second_id && row.disconnected_at.is_none()
        })
        .await;
    // The row is written before the session is among the hub's.
    server.until("the session alone", async || server.hub.sessions() == 1).await;
    // Past the end of the first token, by which its own session would have ended.
    let ended = server.clock.now() + life;
    let store: SharedStore = server.store.clone();
    server.hub.check_tokens(&store, ended).await;
    assert_eq!(server.hub.sessions(), 1);
    assert_eq!(server.store.get_run(run).await.unwrap().run.state, RunState::Running);
    go.send(true).unwrap();
    server.until_state(run, RunState::Succeeded).await;
    assert_eq!(server.store.get_run(run).await.unwrap().run.attempt, 1);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_credential_without_the_resume_token_is_another_process() {
    let server = Server::start(calm()).await;
    let (_, first) = server.token(&[], &[]).await;
    let (_, second) = server.token(&[], &[]).await;
    let (_living, welcome) = server.welcome(&first, hello("a", "process-1")).await;
    let status = server.refusal(&second, hello("a", "process-1")).await;
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    let forged = Hello { resume_token: "0".repeat(64), ..hello("a", "process-1") };
    assert_eq!(server.refusal(&second, forged).await.code(), Code::AlreadyExists);
    let proven = Hello { resume_token: welcome.resume_token, ..hello("a", "process-1") };
    let (_again, welcome) = server.welcome(&second, proven).await;
    assert!(welcome.resumed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x48_r49_a_megabyte_of_odd_words_is_stored_cut_and_acknowledged_once() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let (mut client, _) = server.welcome(&token, hello("a", "process-1")).await;
    let run = server.send("a", "1").await;
    let command = match client.next().await.unwrap() {
        Some(Down::Run(command)) => command,
        other => panic!("wanted a RunCommand, got {other:?}"),
    };
    let odd = "\0\u{1}\u{1b}[31m\r\u{7f}\u{85}\u{202e}\u{1f980}\u{fffd}é";
    // Half of what a frame may have, twice.
    let message = odd.repeat(500 * 1024 / odd.len());
    let failure = clawjob_proto::v1::Failure {
        code: odd.to_owned(),
        message: message.clone(),
        r#type: message.clone(),
        ..Default::default()
    };
    let result = RunResult {
        r#ref: command.r#ref,
        outcome: Outcome::Failed.into(),
        failure: Some(failure),
        ..RunResult::default()
    };
    client.send(Up::Result(result.clone())).await;
    let ack = client.result_ack().await;
    assert_eq!(ack.status(), result_ack::Status::Committed);
    let record = server.store.get_run(run).await.unwrap();
    assert_eq!(record.run.state, RunState::Failed);
    let stored = record.failure.unwrap();
    assert!(stored.message.len() <= 16 * 1024, "{}", stored.message.len());
    assert!(stored.message.contains(" … ") && !stored.message.contains('\0'));
    assert!(stored.message.starts_with("\u{fffd}\u{1}\u{1b}") && stored.message.ends_with('é'));
    assert_eq!(stored.code, odd.replace('\0', "\u{fffd}"));
    // One that is sent again all the same is answered, so that no loop comes of it.
    client.send(Up::Result(result)).await;
    assert_eq!(client.result_ack().await.status(), result_ack::Status::Duplicate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_larger_than_welcome_allows_ends_its_session_with_a_word() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let (mut client, welcome) = server.welcome(&token, hello("a", "process-1")).await;
    let max = usize::try_from(welcome.max_frame_bytes).unwrap();
    let progress = |bytes| {
        let message = "x".repeat(bytes);
        Up::Progress(Progress { message, ..Default::default() })
    };
    client.send(progress(max - 64)).await;
    client.send(progress(max + 1)).await;
    let (close, status) = client.last_words().await;
    assert_eq!(close.reason(), close::Reason::Protocol);
    assert!(close.message.contains("larger than 1048576 bytes"), "{close:?}");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");

    let large = Hello { resume_token: "x".repeat(max), ..hello("b", "process-1") };
    let status = server.refusal(&token, large).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("larger than 1048576 bytes"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_with_more_of_handlers_than_is_kept_of_an_executor_is_refused() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let offering = |count: usize| Hello {
        handlers: (0..count)
            .map(|n| Handler {
                name: format!("h{n}"),
                params_schema: "x".repeat(PARAMS_SCHEMA_BYTES_MAX),
                ..Default::default()
            })
            .collect(),
        ..hello("a", "process-1")
    };
    let fitting = HANDLERS_BYTES_MAX / (PARAMS_SCHEMA_BYTES_MAX + 8);
    let status = server.refusal(&token, offering(fitting + 1)).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("hello.handlers: has"), "{status:?}");
    server.welcome(&token, offering(fitting)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s13_a_revoked_token_closes_its_session() {
    let token_check_interval = Duration::from_secs(1);
    let server = Server::start(HubSettings { token_check_interval, ..calm() }).await;
    let (id, token) = server.token(&[], &[]).await;
    let (mut client, _) = server.welcome(&token, hello("a", "process-1")).await;
    client.send(Up::Heartbeat(Heartbeat { seq: 1, free_slots: 2, ..Heartbeat::default() })).await;
    let Some(Down::HeartbeatAck(ack)) = client.next().await.unwrap() else { panic!("no ack") };
    assert_eq!(ack.seq, 1);
    server.store.revoke_token(&id, server.clock.now()).await.unwrap();
    let (close, status) = client.last_words().await;
    assert_eq!(close.reason(), close::Reason::Revoked);
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_more_new_sessions_than_the_rate_are_told_when_to_come_back() {
    // Time stands still: each second, one more would be welcome.
    let clock = ManualClock::new(SystemClock::new().now());
    let settings = HubSettings { admit_per_second: 1, ..calm() };
    let server = Server::start_by(settings, clock.clone()).await;
    let (_, token) = server.token(&[], &[]).await;
    let _first = server.welcome(&token, hello("a", "process-1")).await;
    let mut waiting = Vec::new();
    for id in ["c", "d", "e", "f"] {
        waiting.push(server.session(&token, hello(id, "process-3")).await.unwrap());
    }
    let status = server.refusal(&token, hello("b", "process-2")).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "SESSION_RATE");
    assert!(details.retry_info().unwrap().retry_delay.unwrap() <= Duration::from_secs(1));
    // The others have waited for their turn, one after the other.
    for mut client in waiting {
        clock.advance(Duration::from_secs(1));
        assert!(matches!(client.next().await, Ok(Some(Down::Welcome(_)))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r34_silence_ends_a_session_with_a_frame_and_goodbye_ends_it_cleanly() {
    let settings = HubSettings {
        heartbeat_interval: Duration::from_secs(1),
        heartbeat_timeout: Duration::from_secs(3),
        ..calm()
    };
    let server = Server::start(settings).await;
    let (_, token) = server.token(&[], &[]).await;
    let (mut silent, _) = server.welcome(&token, hello("silent", "process-1")).await;
    let (mut polite, _) = server.welcome(&token, hello("polite", "process-2")).await;
    polite.send(Up::Goodbye(Goodbye::default())).await;
    assert!(matches!(polite.next().await, Ok(None)), "OK after Goodbye");
    let (close, status) = silent.last_words().await;
    assert_eq!(close.reason(), close::Reason::Unresponsive);
    assert!(close.reconnect);
    assert_eq!(status.code(), Code::Unavailable);
    server
        .until("both ends", async || {
            let row = |name: &'static str| server.store.get_executor(server.app, name);
            let (polite, silent) = (row("polite").await.unwrap(), row("silent").await.unwrap());
            polite.left && silent.disconnected_at.is_some() && !silent.left
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r36_an_executor_that_reconnects_keeps_its_run_and_its_result_counts_once() {
    let server = Server::start(calm()).await;
    let (_, token) = server.token(&[], &[]).await;
    let (go, gone) = tokio::sync::watch::channel(false);
    let executor = Executor::builder()
        .endpoints([server.url.clone()])
        .token(token)
        .app("app")
        .executor_id("worker")
        .slots(2)
        .handler("hello", move |name: String, _ctx: Ctx| {
            let mut gone = gone.clone();
            async move {
                let _ = gone.wait_for(|gone| *gone).await;
                Ok::<_, Failure>(name)
            }
        });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(executor.run_until(async {
        let _ = stopped.await;
    }));
    let run = server.send("worker", r#""x""#).await;
    server.until_state(run, RunState::Running).await;
    let before = server.hub.snapshot(server.app, "worker").unwrap().epoch;
    assert!(server.hub.disconnect(server.app, "worker", "by a test"));
    server
        .until("its return", async || {
            server.hub.snapshot(server.app, "worker").is_some_and(|live| live.epoch > before)
        })
        .await;
    assert_eq!(server.store.get_run(run).await.unwrap().run.state, RunState::Running);
    go.send(true).unwrap();
    server.until_state(run, RunState::Succeeded).await;
    assert_eq!(server.store.get_run(run).await.unwrap().run.attempt, 1);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
