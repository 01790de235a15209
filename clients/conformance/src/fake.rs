//! The server side of a scenario.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clawjob_proto::v1::session_response::Frame as Down;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::transport::{Server, ServerTlsConfig};

use crate::frames::welcome;
use crate::session::Session;
use crate::soon;
use crate::wire::Sessions;

/// Sessions that may wait for the scenario to look at them.
const SESSIONS_MAX: usize = 16;

/// A scheduler on a port of its own that does what the scenario says.
pub struct Fake {
    addr: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    sessions: mpsc::Receiver<Session>,
    server: JoinHandle<()>,
}

/// What the server's calls share with the scenario.
pub(crate) struct Shared {
    pub(crate) sessions: mpsc::Sender<Session>,
    pub(crate) refusals: Mutex<Refusals>,
    pub(crate) dials: Mutex<Vec<Instant>>,
    /// Headers are held back until the Hello has come.
    pub(crate) late_headers: AtomicBool,
    connections: watch::Sender<usize>,
    complaints: Mutex<Vec<String>>,
}

/// How the next dials are refused: some in turn, then all by one if there is one.
#[derive(Default)]
pub(crate) struct Refusals {
    some: VecDeque<Status>,
    all: Option<Status>,
}

impl Refusals {
    pub(crate) fn next(&mut self) -> Option<Status> {
        self.some.pop_front().or_else(|| self.all.clone())
    }
}

impl Shared {
    /// Notes a breach of the contract; the next wait for a session tells it.
    pub(crate) fn complain(&self, fault: String) {
        self.complaints.lock().push(fault);
    }
}

impl Fake {
    /// On a free port of the loopback.
    pub async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), None)
    }

    /// As [`Fake::start`], with TLS; dial it by the name `localhost`.
    pub async fn start_tls(tls: ServerTlsConfig) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), Some(tls))
    }

    /// On the same port as one that is gone.
    pub async fn start_at(addr: SocketAddr) -> Self {
        Self::on(TcpListener::bind(addr).await.unwrap(), None)
    }

    fn on(listener: TcpListener, tls: Option<ServerTlsConfig>) -> Self {
        let addr = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (sessions_tx, sessions) = mpsc::channel(SESSIONS_MAX);
        let shared = Arc::new(Shared {
            sessions: sessions_tx,
            refusals: Mutex::default(),
            dials: Mutex::default(),
            late_headers: AtomicBool::new(false),
            connections: watch::Sender::new(0),
            complaints: Mutex::default(),
        });
        let mut builder = Server::builder();
        if let Some(tls) = tls {
            builder = builder.tls_config(tls).unwrap();
        }
        let service = Sessions(shared.clone());
        let counted = shared.clone();
        let incoming = TcpListenerStream::new(listener).map(move |connection| {
            counted.connections.send_modify(|n| *n += 1);
            connection
        });
        let server = tokio::spawn(async move {
            builder.add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { addr, scheme, shared, sessions, server }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What to dial.
    #[must_use]
    pub fn url(&self) -> String {
        match self.scheme {
            "https" => format!("https://localhost:{}", self.addr.port()),
            scheme => format!("{scheme}://{}", self.addr),
        }
    }

    /// The next dials are answered with these, one each.
    pub fn refuse(&self, statuses: impl IntoIterator<Item = Status>) {
        self.shared.refusals.lock().some.extend(statuses);
    }

    /// Every dial is answered with this from now on; with `None` they are let in again.
    pub fn refuse_all(&self, status: Option<Status>) {
        self.shared.refusals.lock().all = status;
    }

    /// Sends the answer's headers only when the Hello has come.
    pub fn hold_headers_until_hello(&self) {
        self.shared.late_headers.store(true, Ordering::SeqCst);
    }

    /// Waits until so many connections have come, whatever became of them.
    pub async fn connections(&self, count: usize) {
        let mut connections = self.shared.connections.subscribe();
        soon("connections", connections.wait_for(|n| *n >= count)).await.unwrap();
    }

    /// When each dial came that got as far as the session's call.
    #[must_use]
    pub fn dial_times(&self) -> Vec<Instant> {
        self.shared.dials.lock().clone()
    }

    /// How many dials got as far as the session's call.
    #[must_use]
    pub fn dials(&self) -> usize {
        self.shared.dials.lock().len()
    }

    /// The next session, its Hello read, without a Welcome yet.
    pub async fn accept(&mut self) -> Session {
        let shared = self.shared.clone();
        let session = tokio::time::timeout(crate::PATIENCE, self.sessions.recv()).await;
        let complaints = shared.complaints.lock().join("; ");
        assert!(complaints.is_empty(), "{complaints}");
        session.unwrap_or_else(|_| panic!("waited {:?} for a session", crate::PATIENCE)).unwrap()
    }

    /// The next session, welcomed with [`welcome`].
    pub async fn open(&mut self) -> Session {
        let session = self.accept().await;
        session.send(Down::Welcome(welcome())).await;
        session
    }

    /// No further session has come so far.
    pub fn has_no_session(&mut self) -> bool {
        self.sessions.try_recv().is_err()
    }

    /// Goes away; sessions end when the scenario drops them. Returns where it listened.
    pub async fn crash(mut self) -> SocketAddr {
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
