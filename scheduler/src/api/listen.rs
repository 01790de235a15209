//! The one port: accepts connections and serves HTTP/1.1 and HTTP/2 on each, with or without TLS.
//!
//! The loop is our own because of what the ready-made ones do: one caps a connection at 200 streams
//! and then hangs, another burns a core when file descriptors run out.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::body::Body;
use http::Request;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpConnectInfo;

use super::{
    caller::Peer,
    edge::Edge,
    tls::{Certificates, TlsError, TlsFiles},
};
use crate::clock::Clock;

/// Connections at once when the operator says nothing else.
pub const CONNECTIONS_MAX_DEFAULT: usize = 50_000;
/// A connection must say its first word, and end its TLS handshake, within this time.
pub const HELLO_MAX: Duration = Duration::from_secs(10);
/// The head of an HTTP/1.1 request must be whole within this time.
pub const HEAD_READ_MAX: Duration = Duration::from_secs(30);
/// HTTP/2 keepalive: how often, and how long an answer may take.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// See [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a stream that may lie unread.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// Bytes of a whole connection that may lie unread; above the streams' so that a few unread
/// streams don't stop the others.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// Streams of a connection at once. Each costs memory before it has a caller, so there is an end to
/// them; an executor has one open, a client or console a few dozen, and a proxy that gathers many
/// clients on a connection opens the next one when this one is full.
pub const STREAMS_MAX: u32 = 1_000;
/// Bytes of the head of an HTTP/1.1 request, and of its body that may lie unread.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Wait after a failed accept, doubled up to the second value while it goes on failing.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Where and how to listen.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Port 0 takes a free one.
    pub address: SocketAddr,
    /// Certificate and key; without them, plain text.
    pub tls: Option<TlsFiles>,
    /// A proxy in front does the encryption, so plain text on a public address is meant.
    pub behind_proxy: bool,
    /// Connections at once; further ones wait to be accepted.
    pub connections_max: usize,
}

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Tokens would cross the network in the clear.
    #[error(
        "refusing to listen on {0} without TLS: give a certificate (tls.cert_file, tls.key_file), \
         listen on a loopback address, or set behind_proxy if a proxy in front does the encryption"
    )]
    PlainText(SocketAddr),
    /// The address is taken or not ours.
    #[error("can't listen on {address}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound port that nobody serves yet.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Certificates>,
    connections: Arc<Semaphore>,
}

impl Port {
    /// Binds the port.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub async fn bind(settings: &ListenSettings) -> Result<Self, ListenError> {
        let address = settings.address;
        if settings.tls.is_none() && !settings.behind_proxy && !address.ip().is_loopback() {
            return Err(ListenError::PlainText(address));
        }
        let tls = settings.tls.as_ref().map(Certificates::load).transpose()?;
        let bind = |source| ListenError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        Ok(Self {
            address: listener.local_addr().map_err(bind)?,
            listener,
            tls,
            connections: Arc::new(Semaphore::new(settings.connections_max)),
        })
    }

    /// The address as bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Serves until `stop`; then lets what is under way end, for `grace` at most, and cuts
    /// the rest.
    pub async fn serve(
        self,
        edge: Arc<Edge>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
        grace: Duration,
    ) {
        let shared = Arc::new(Shared {
            edge,
            http: http_builder(),
            tls: self.tls,
            local: self.address,
            clock: clock.clone(),
            stop: stop.clone(),
        });
        let renewal = shared.clone().follow_files();
        tokio::pin!(renewal);
        let mut running = JoinSet::new();
        let mut backoff = ACCEPT_BACKOFF.0;
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                () = &mut renewal => break,
                Some(_) = running.join_next(), if !running.is_empty() => continue,
                accepted = accept(&self.listener, &self.connections) => accepted,
            };
            match accepted {
                Ok((stream, address, permit)) => {
                    backoff = ACCEPT_BACKOFF.0;
                    running.spawn(shared.clone().connection(stream, address, permit));
                }
                Err(error) if of_one_connection(&error) => {}
                Err(error) => {
                    // File descriptors or memory ran out: trying at once would only burn a core.
                    tracing::warn!(%error, wait = ?backoff, "can't accept connections");
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = clock.wait(backoff) => {}
                    }
                    backoff = (backoff * 2).min(ACCEPT_BACKOFF.1);
                }
            }
        }
        drop(self.listener);
        shared.edge.close_streams();
        tokio::select! {
            () = async { while running.join_next().await.is_some() {} } => {}
            () = clock.wait(grace) => {
                tracing::warn!(connections = running.len(), "cutting connections that stay open");
            }
        }
        running.shutdown().await;
    }
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = connections.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    Ok((stream, address, permit))
}

/// Errors of accept that say something of the peer only.
fn of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn http_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_READ_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(Some(STREAMS_MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

/// What all connections of a port share.
struct Shared {
    edge: Arc<Edge>,
    http: Builder<TokioExecutor>,
    tls: Option<Certificates>,
    local: SocketAddr,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

impl Shared {
    /// Goes on for ever, with or without files to follow.
    async fn follow_files(self: Arc<Self>) {
        match &self.tls {
            Some(certificates) => certificates.follow(&*self.clock).await,
            None => std::future::pending().await,
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        _permit: OwnedSemaphorePermit,
    ) {
        // Without it opening a session takes 35 ms instead of 2.
        let _ = stream.set_nodelay(true);
        // A peer that says nothing must hold neither a connection nor the shutdown.
        let mut first = [0_u8];
        let spoke = tokio::select! {
            peeked = stream.peek(&mut first) => peeked.is_ok_and(|bytes| bytes > 0),
            () = self.clock.wait(HELLO_MAX) => false,
            () = self.stop.cancelled() => false,
        };
        if !spoke {
            return;
        }
        // Either way on the heap: a connection takes the memory of the way it goes.
        let Some(certificates) = &self.tls else {
            let peer = Peer { address, tls: false, certificate: None };
            return Box::pin(self.http(stream, peer)).await;
        };
        let encrypted = tokio::select! {
            encrypted = certificates.acceptor().accept(stream) => encrypted,
            () = self.clock.wait(HELLO_MAX) => Err(io::ErrorKind::TimedOut.into()),
        };
        match encrypted {
            Ok(stream) => {
                let chain = stream.get_ref().1.peer_certificates();
                let certificate = chain.and_then(|chain| chain.first());
                let certificate = certificate.map(|leaf| Arc::new(leaf.clone().into_owned()));
                Box::pin(self.http(stream, Peer { address, tls: true, certificate })).await;
            }
            Err(error) => tracing::debug!(%error, %address, "TLS handshake failed"),
        }
    }

    async fn http<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let info = TcpConnectInfo { local_addr: Some(self.local), remote_addr: Some(peer.address) };
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(info.clone());
            let edge = self.edge.clone();
            // On the heap, so that a stream keeps none of it once it is answered.
            Box::pin(async move { Ok::<_, Infallible>(edge.handle(request.map(Body::new)).await) })
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            // A peer that breaks off is no event.
            tracing::trace!(error, address = %peer.address, "connection ended");
        }
    }
}
