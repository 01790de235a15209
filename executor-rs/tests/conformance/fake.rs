//! A scheduler that does what the test says.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use clawjob_proto::v1::{
    self, AttemptRef, Hello, RunCommand, SessionRequest, SessionResponse, Welcome,
    executor_service_server::{ExecutorService, ExecutorServiceServer},
    session_request::Frame as Up,
    session_response::Frame as Down,
};
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::metadata::MetadataMap;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// Longest wait for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Awaits something that must happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} for {what}"),
    }
}

/// The contract's duration from milliseconds.
pub(crate) fn ms(millis: u64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: (millis / 1000) as i64,
        nanos: (millis % 1000) as i32 * 1_000_000,
    }
}

/// A server on a port of its own.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    sessions: mpsc::Receiver<Session>,
    server: JoinHandle<()>,
}

struct Shared {
    sessions: mpsc::Sender<Session>,
    refusals: Mutex<VecDeque<Status>>,
    connections: watch::Sender<usize>,
    dials: AtomicUsize,
    /// Headers are held back until the Hello has come.
    late_headers: AtomicBool,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), None)
    }

    pub(crate) async fn start_tls(tls: ServerTlsConfig) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), Some(tls))
    }

    /// On the same port as one that is gone.
    pub(crate) async fn start_at(addr: SocketAddr) -> Self {
        Self::on(TcpListener::bind(addr).await.unwrap(), None)
    }

    fn on(listener: TcpListener, tls: Option<ServerTlsConfig>) -> Self {
        let addr = listener.local_addr().unwrap();
        let (sessions_tx, sessions) = mpsc::channel(16);
        let shared = Arc::new(Shared {
            sessions: sessions_tx,
            refusals: Mutex::default(),
            connections: watch::Sender::new(0),
            dials: AtomicUsize::new(0),
            late_headers: AtomicBool::new(false),
        });
        let service = ExecutorServiceServer::new(Service(shared.clone()));
        let mut builder = Server::builder();
        if let Some(tls) = tls {
            builder = builder.tls_config(tls).unwrap();
        }
        let connections = shared.clone();
        let incoming = TcpListenerStream::new(listener)
            .inspect(move |_| connections.connections.send_modify(|n| *n += 1));
        let server = tokio::spawn(async move {
            builder.add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { addr, shared, sessions, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The next dials are answered with these.
    pub(crate) fn refuse(&self, statuses: impl IntoIterator<Item = Status>) {
        self.shared.refusals.lock().extend(statuses);
    }

    pub(crate) fn hold_headers_until_hello(&self) {
        self.shared.late_headers.store(true, Ordering::SeqCst);
    }

    /// Waits until so many connections have come, whatever became of them.
    pub(crate) async fn connections(&self, count: usize) {
        let mut connections = self.shared.connections.subscribe();
        soon("connections", connections.wait_for(|n| *n >= count)).await.unwrap();
    }

    pub(crate) fn dials(&self) -> usize {
        self.shared.dials.load(Ordering::SeqCst)
    }

    /// The next session, its Hello read, without a Welcome yet.
    pub(crate) async fn accept(&mut self) -> Session {
        soon("a session", self.sessions.recv()).await.unwrap()
    }

    /// The next session, welcomed.
    pub(crate) async fn open(&mut self) -> Session {
        let session = self.accept().await;
        session.send(Down::Welcome(welcome())).await;
        session
    }

    /// No further session has come so far.
    pub(crate) fn has_no_session(&mut self) -> bool {
        self.sessions.try_recv().is_err()
    }

    /// Goes away; sessions end when the test drops them.
    pub(crate) async fn crash(mut self) -> SocketAddr {
        self.server.abort();
        let _ = (&mut self.server).await;
        self.addr
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A Welcome with all times at a tenth.
pub(crate) fn welcome() -> Welcome {
    Welcome {
        session_id: "s".to_owned(),
        session_epoch: 1,
        resume_token: "resume".to_owned(),
        node_id: "node".to_owned(),
        heartbeat_interval: Some(ms(500)),
        heartbeat_timeout: Some(ms(1500)),
        lost_after: Some(ms(6000)),
        run_ack_timeout: Some(ms(500)),
        max_frame_bytes: 1024 * 1024,
        max_output_bytes: 256 * 1024,
        max_log_chunk_bytes: 64 * 1024,
        log_window_bytes: 256 * 1024,
        ..Welcome::default()
    }
}

/// A command for attempt 1 of a run.
pub(crate) fn command(run_id: &str, handler: &str, params: &str) -> RunCommand {
    RunCommand {
        r#ref: Some(attempt(run_id, 1, 1)),
        job: "apps/demo/jobs/j".to_owned(),
        run: format!("apps/demo/runs/{run_id}"),
        handler: handler.to_owned(),
        params: (!params.is_empty()).then(|| json(params)),
        fire_time: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
        kill_grace: Some(ms(1000)),
        max_attempts: 3,
        ..RunCommand::default()
    }
}

pub(crate) fn attempt(run_id: &str, attempt: u32, fence: u64) -> AttemptRef {
    AttemptRef { run_id: run_id.to_owned(), attempt, fence }
}

pub(crate) fn json(text: &str) -> v1::Payload {
    v1::Payload {
        content_type: "application/json".to_owned(),
        data: bytes::Bytes::copy_from_slice(text.as_bytes()),
    }
}

/// One session as the scheduler sees it. Heartbeats are acknowledged unless told otherwise.
pub(crate) struct Session {
    pub(crate) hello: Hello,
    pub(crate) metadata: MetadataMap,
    down: mpsc::Sender<Result<SessionResponse, Status>>,
    up: mpsc::Receiver<Up>,
    answers: Arc<AtomicBool>,
}

impl Session {
    pub(crate) async fn send(&self, frame: Down) {
        let response = SessionResponse { frame: Some(frame) };
        soon("space on the stream", self.down.send(Ok(response))).await.unwrap();
    }

    /// Sends a frame whose kind nobody knows.
    pub(crate) async fn send_unknown(&self) {
        soon("space on the stream", self.down.send(Ok(SessionResponse::default()))).await.unwrap();
    }

    pub(crate) async fn run(&self, command: RunCommand) {
        self.send(Down::Run(command)).await;
    }

    pub(crate) async fn kill(&self, run_id: &str, fence: u64, grace: u64) {
        self.send(Down::Kill(v1::KillCommand {
            r#ref: Some(attempt(run_id, 1, fence)),
            reason: v1::KillReason::User.into(),
            grace: Some(ms(grace)),
            ..v1::KillCommand::default()
        }))
        .await;
    }

    pub(crate) async fn ack(&self, result: &v1::RunResult, status: v1::result_ack::Status) {
        let ack = v1::ResultAck { r#ref: result.r#ref.clone(), status: status.into() };
        self.send(Down::ResultAck(ack)).await;
    }

    pub(crate) async fn commit(&self, result: &v1::RunResult) {
        self.ack(result, v1::result_ack::Status::Committed).await;
    }

    pub(crate) async fn close(&self, reason: v1::close::Reason, reconnect: bool) {
        let close =
            v1::Close { reason: reason.into(), message: "by the test".to_owned(), reconnect };
        self.send(Down::Close(close)).await;
    }

    /// Ends the stream with a status.
    pub(crate) async fn end(&self, status: Status) {
        soon("space on the stream", self.down.send(Err(status))).await.unwrap();
    }

    /// Leaves heartbeats unanswered from now on.
    pub(crate) fn fall_silent(&self) {
        self.answers.store(false, Ordering::SeqCst);
    }

    /// The next frame; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Up> {
        soon("a frame", self.up.recv()).await
    }

    /// The next frame that `pick` wants; others are passed over.
    pub(crate) async fn expect<T>(&mut self, what: &str, pick: impl Fn(Up) -> Option<T>) -> T {
        let wanted = async {
            loop {
                let frame = self.up.recv().await;
                let Some(frame) = frame else { panic!("the stream ended before {what}") };
                if let Some(found) = pick(frame) {
                    return found;
                }
            }
        };
        soon(what, wanted).await
    }

    pub(crate) async fn run_ack(&mut self) -> v1::RunAck {
        self.expect("a RunAck", |frame| match frame {
            Up::RunAck(ack) => Some(ack),
            _ => None,
        })
        .await
    }

    pub(crate) async fn kill_ack(&mut self) -> v1::kill_ack::Status {
        self.expect("a KillAck", |frame| match frame {
            Up::KillAck(ack) => Some(ack.status()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn result(&mut self) -> v1::RunResult {
        self.expect("a RunResult", |frame| match frame {
            Up::Result(result) => Some(result),
            _ => None,
        })
        .await
    }

    pub(crate) async fn heartbeat(&mut self) -> v1::Heartbeat {
        self.expect("a Heartbeat", |frame| match frame {
            Up::Heartbeat(heartbeat) => Some(heartbeat),
            _ => None,
        })
        .await
    }

    /// Starts a run and waits until it was accepted.
    pub(crate) async fn begin(&mut self, command: RunCommand) {
        self.run(command).await;
        assert_eq!(self.run_ack().await.status(), v1::run_ack::Status::Accepted);
    }
}

struct Service(Arc<Shared>);

type Frames = ReceiverStream<Result<SessionResponse, Status>>;

#[tonic::async_trait]
impl ExecutorService for Service {
    type SessionStream = Pin<Box<Frames>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.0.dials.fetch_add(1, Ordering::SeqCst);
        if let Some(status) = self.0.refusals.lock().pop_front() {
            return Err(status);
        }
        let metadata = request.metadata().clone();
        let inbound = request.into_inner();
        let (down, frames) = mpsc::channel(1024);
        let serve = serve(inbound, metadata, down, self.0.sessions.clone());
        if self.0.late_headers.load(Ordering::SeqCst) {
            serve.await;
        } else {
            tokio::spawn(serve);
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }
}

async fn serve(
    mut inbound: Streaming<SessionRequest>,
    metadata: MetadataMap,
    down: mpsc::Sender<Result<SessionResponse, Status>>,
    sessions: mpsc::Sender<Session>,
) {
    let hello = match inbound.message().await {
        Ok(Some(SessionRequest { frame: Some(Up::Hello(hello)) })) => hello,
        other => panic!("the first frame is no Hello: {other:?}"),
    };
    let (up_tx, up) = mpsc::channel(65_536);
    let answers = Arc::new(AtomicBool::new(true));
    let session = Session { hello, metadata, down: down.clone(), up, answers: answers.clone() };
    sessions.send(session).await.unwrap();
    // Weak, so that a test that drops its session ends the stream.
    let down = down.downgrade();
    tokio::spawn(async move {
        while let Ok(Some(request)) = inbound.message().await {
            let Some(frame) = request.frame else { continue };
            if let (Up::Heartbeat(beat), true) = (&frame, answers.load(Ordering::SeqCst)) {
                let ack = v1::HeartbeatAck { seq: beat.seq, server_time: None };
                if let Some(down) = down.upgrade() {
                    let frame = Some(Down::HeartbeatAck(ack));
                    let _ = down.send(Ok(SessionResponse { frame })).await;
                }
            }
            if up_tx.send(frame).await.is_err() {
                break;
            }
        }
    });
}
