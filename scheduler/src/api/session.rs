//! ExecutorService: the gRPC edge of executors' sessions. What a session does is the hub's; here
//! its stream is opened, read, and ended.

mod claim;
mod hello;
pub(super) mod room;

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use clawjob_proto::v1::{
    SessionRequest, SessionResponse, executor_service_server::ExecutorService,
    session_request::Frame as Up,
};
use futures::Stream;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{
    Api,
    caller::{Caller, Peer},
    status::{ApiError, ApiResult},
    strangers::Claimed,
    tls,
};
use crate::hub::{
    Hub, Link, Refused,
    event::SessionEvent,
    outbox::{Outbox, OutboxStream},
    session::End,
};
pub(super) use claim::FEATURES;

/// How long a session that ended is still read for results that are on their way.
const LINGER_MAX: Duration = Duration::from_secs(10);
/// When an executor that met a full or leaving node should try again.
const ELSEWHERE_AFTER: Duration = Duration::from_secs(1);
/// Tries to write the end of a session; afterwards its last sign of life tells it.
const END_TRIES_MAX: u32 = 5;
/// Wait between these tries.
const END_RETRY_WAIT: Duration = Duration::from_millis(500);

/// Serves executors.
pub struct SessionService {
    api: Arc<Api>,
    hub: Arc<Hub>,
}

impl SessionService {
    /// For the executors of `hub`.
    pub fn new(api: Arc<Api>, hub: Arc<Hub>) -> Arc<Self> {
        Arc::new(Self { api, hub })
    }
}

/// What the stream ends with.
#[derive(Default)]
struct Fate {
    error: Mutex<Option<ApiError>>,
    link: OnceLock<Arc<Link>>,
}

impl Fate {
    fn take(&self) -> Option<ApiError> {
        let error = self.error.lock().take();
        error.or_else(|| self.link.get().and_then(|link| link.end()).and_then(|end| of_end(&end)))
    }
}

/// The frames for one executor, and the status after the last of them.
pub struct Outgoing {
    frames: OutboxStream,
    fate: Arc<Fate>,
    over: bool,
}

impl Stream for Outgoing {
    type Item = Result<SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.frames).poll_next(cx) {
            Poll::Ready(None) => {
                self.over = true;
                Poll::Ready(self.fate.take().map(|error| Err(error.into())))
            }
            Poll::Ready(Some(frame)) => Poll::Ready(Some(Ok(frame))),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[tonic::async_trait]
impl ExecutorService for SessionService {
    type SessionStream = Outgoing;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Outgoing>, Status> {
        let caller = Caller::of(&request)?;
        let turn = self.hub.admit().map_err(of_refusal)?;
        let peer = request.extensions().get::<Peer>().cloned();
        let outbox = Arc::new(Outbox::new(self.hub.capacity_changed()));
        let fate = Arc::new(Fate::default());
        let driver = Driver {
            api: self.api.clone(),
            hub: self.hub.clone(),
            caller,
            peer: peer.as_ref().map(|peer| peer.address),
            certificate: peer.and_then(|peer| peer.certificate),
            outbox: outbox.clone(),
            fate: fate.clone(),
        };
        let frames = OutboxStream(outbox);
        // The answer's headers leave at once: an executor may wait for them before it says Hello.
        tokio::spawn(driver.drive(turn, request.into_inner()));
        Ok(Response::new(Outgoing { frames, fate, over: false }))
    }
}

/// One session's task.
struct Driver {
    api: Arc<Api>,
    hub: Arc<Hub>,
    caller: Caller,
    peer: Option<SocketAddr>,
    /// The client's own, when the server asks for one.
    certificate: Option<Arc<CertificateDer<'static>>>,
    outbox: Arc<Outbox>,
    fate: Arc<Fate>,
}

/// Ends the stream whatever happens to its task.
struct LastWord(Arc<Outbox>);

impl Drop for LastWord {
    fn drop(&mut self) {
        self.0.finish(None);
    }
}

impl Driver {
    async fn drive(self, turn: Duration, mut frames: Streaming<SessionRequest>) {
        let _last = LastWord(self.outbox.clone());
        let mut claimed = Claimed::default();
        // What begins and ends a session is on the heap while it lasts: in between, its task is small.
        let (link, events) = match Box::pin(self.begin(turn, &mut frames, &mut claimed)).await {
            Ok(begun) => begun,
            Err(error) => {
                let (by, elapsed) = (self.caller.principal(), self.api.clock.elapsed());
                self.api.strangers.tell(self.peer, &claimed, &by, &error, elapsed);
                *self.fate.error.lock() = Some(error);
                return;
            }
        };
        // Set once: this task alone does it.
        let _ = self.fate.link.set(link.clone());
        let (app, executor, epoch) =
            (link.app_name(), &link.origin().executor, link.origin().epoch);
        let (peer, by) = (self.peer_address(), self.caller.principal());
        tracing::info!(app, %executor, epoch, peer, by, "session began");
        self.forward(&link, events).await;
        self.read(&link, &mut frames).await;
        let end = link.end().unwrap_or(End::Broken);
        tracing::info!(app, %executor, epoch, ?end, "session ended");
        let linger = self.linger(&link, &mut frames);
        Box::pin(async { tokio::join!(linger, self.write_end(&link, &end)) }).await;
    }

    fn peer_address(&self) -> String {
        self.peer.map(|peer| peer.to_string()).unwrap_or_default()
    }

    fn oversized(&self) -> String {
        format!("a frame is larger than {} bytes", self.hub.settings().max_frame_bytes)
    }

    /// Waits for its turn, reads Hello and claims the executor; `claimed` is what Hello says it is.
    async fn begin(
        &self,
        turn: Duration,
        frames: &mut Streaming<SessionRequest>,
        claimed: &mut Claimed,
    ) -> ApiResult<(Arc<Link>, Vec<SessionEvent>)> {
        tokio::select! {
            biased;
            () = self.outbox.over() => return Err(abandoned()),
            () = self.api.clock.wait(turn) => {}
        }
        let within = self.hub.settings().hello_timeout;
        let first = tokio::select! {
            first = frames.message() => first,
            () = self.api.clock.wait(within) => {
                let text = format!("the first frame, Hello, did not come within {within:?}");
                return Err(ApiError::unavailable("HELLO_TIMEOUT", text, ELSEWHERE_AFTER));
            }
        };
        if let Err(status) = &first
            && is_oversized(status)
        {
            return Err(ApiError::invalid("hello", "HELLO_INVALID", self.oversized()));
        }
        let frame = first.ok().flatten().and_then(|request| request.frame);
        let Some(Up::Hello(hello)) = frame else {
            return Err(ApiError::invalid(
                "hello",
                "HELLO_INVALID",
                "the first frame must be Hello",
            ));
        };
        *claimed = Claimed::by(&hello);
        let hello = hello::check(hello, &self.caller)?;
        if let Some(certificate) = &self.certificate
            && !tls::is_made_out_to(certificate, &hello.executor)
        {
            let text = "the client's certificate is not made out to the executor id as a DNS name";
            return Err(ApiError::wrong_certificate(text));
        }
        // Whoever gave the call up dials again: this one must not take that session's place.
        let opening = tokio::select! {
            biased;
            () = self.outbox.over() => Err(abandoned()),
            opening = self.claim(hello) => opening,
        }?;
        if self.outbox.is_over() {
            return Err(abandoned());
        }
        let origin = opening.origin.clone();
        self.hub.open(opening, &self.caller.principal(), self.outbox.clone()).map_err(|end| {
            tracing::debug!(executor = %origin.executor, "a newer session was faster");
            of_end(&end).unwrap_or_else(|| ApiError::internal("a session ended before it began"))
        })
    }

    /// Feeds the session until it ends.
    async fn read(&self, link: &Arc<Link>, frames: &mut Streaming<SessionRequest>) {
        let ended = link.ended();
        let gone = self.outbox.over();
        tokio::pin!(ended, gone);
        loop {
            // What has come before the connection went is taken first: nobody sends it again.
            let frame = tokio::select! {
                biased;
                _ = &mut ended => return,
                frame = frames.message() => frame,
                () = &mut gone => Ok(None),
            };
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Err(status) if is_oversized(&status) => {
                    self.hub.finish(link, End::Protocol(self.oversized()));
                    return;
                }
                Ok(None) | Err(_) => {
                    self.hub.finish(link, End::Broken);
                    return;
                }
            };
            let events = self.hub.receive(link, frame);
            self.forward(link, events).await;
            if self.outbox.full_since().is_some() {
                // It does not read, so it is not read either; the hub ends it if that lasts.
                tokio::select! {
                    _ = &mut ended => return,
                    () = self.outbox.has_room() => {}
                }
            }
        }
    }

    /// Hands events on; while there is no room the session is not read.
    async fn forward(&self, link: &Arc<Link>, events: Vec<SessionEvent>) {
        let mut stalled = false;
        for event in events {
            let Err(event) = self.hub.events().try_send(event) else { continue };
            if !stalled {
                stalled = true;
                self.hub.stall(link, true);
            }
            if !self.hub.events().send(event).await {
                break;
            }
        }
        if stalled {
            self.hub.stall(link, false);
        }
    }

    /// Takes results that were on their way when the session ended.
    async fn linger(&self, link: &Arc<Link>, frames: &mut Streaming<SessionRequest>) {
        let late = self.api.clock.wait(LINGER_MAX);
        let gone = self.outbox.over();
        tokio::pin!(late, gone);
        loop {
            let frame = tokio::select! {
                biased;
                () = &mut late => break,
                frame = frames.message() => frame,
                () = &mut gone => break,
            };
            match frame {
                Ok(Some(SessionRequest { frame: Some(Up::Goodbye(_)) })) | Ok(None) | Err(_) => {
                    break;
                }
                Ok(Some(frame)) => {
                    let events = self.hub.receive(link, frame);
                    self.forward(link, events).await;
                }
            }
        }
        self.hub.close(link);
    }

    /// Writes that the session ended. One that gave way to another is over in the store already.
    async fn write_end(&self, link: &Arc<Link>, end: &End) {
        if matches!(end, End::Superseded | End::Moved) {
            return;
        }
        let origin = link.origin();
        let left = *end == End::Goodbye && !link.was_asked_to_move();
        let at = match end {
            End::Unresponsive(_) => link.heard_at(),
            _ => self.api.clock.now(),
        };
        for _ in 0..END_TRIES_MAX {
            match self.api.store.end_session(origin.row, origin.epoch, left, at).await {
                Ok(()) => break,
                Err(fault) => tracing::debug!(%fault, "the end of a session was not written"),
            }
            self.api.clock.wait(END_RETRY_WAIT).await;
        }
        if left {
            self.settle_farewell(link).await;
        }
    }

    /// A process that said Goodbye for good leaves nothing behind, unless another session of it
    /// lives on some node.
    async fn settle_farewell(&self, link: &Arc<Link>) {
        let origin = link.origin();
        let row = self.api.store.get_executor(origin.app, &origin.executor).await;
        if row.is_ok_and(|row| row.session_epoch == origin.epoch && row.left) {
            let events = self.hub.forsake(origin);
            for event in events {
                if !self.hub.events().send(event).await {
                    return;
                }
            }
        }
    }
}

fn abandoned() -> ApiError {
    let text = "the call was given up before the session began";
    ApiError::unavailable("SESSION_ABANDONED", text, ELSEWHERE_AFTER)
}

/// Whether the frame that could not be read was too large, as it came or unpacked.
fn is_oversized(status: &Status) -> bool {
    matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted)
}

fn of_refusal(refused: Refused) -> Status {
    let text = refused.to_string();
    match refused {
        Refused::Rate(wait) => ApiError::exhausted("SESSION_RATE", "sessions", text, wait),
        Refused::Full => ApiError::exhausted("SESSIONS_FULL", "sessions", text, ELSEWHERE_AFTER),
        Refused::Draining => ApiError::unavailable("NODE_DRAINING", text, ELSEWHERE_AFTER),
        Refused::Unseen => ApiError::unavailable("STORAGE_DOWN", text, ELSEWHERE_AFTER),
    }
    .into()
}

/// The status after a session's last frame; None for one that the executor ended.
fn of_end(end: &End) -> Option<ApiError> {
    Some(match end {
        End::Superseded | End::Moved => {
            let text = "a newer session of this executor took over";
            ApiError::aborted("SESSION_SUPERSEDED", text)
        }
        End::Unresponsive(text) => {
            ApiError::unavailable("SESSION_UNRESPONSIVE", text.clone(), ELSEWHERE_AFTER)
        }
        End::Revoked(text) => ApiError::unauthenticated("TOKEN_REVOKED", text.clone()),
        End::Protocol(text) => ApiError::invalid("frame", "PROTOCOL", text.clone()),
        End::Disconnected(text) => {
            ApiError::unavailable("SESSION_DISCONNECTED", text.clone(), ELSEWHERE_AFTER)
        }
        End::Drained => {
            let text = "this node is going away; open the session elsewhere";
            ApiError::unavailable("NODE_DRAINING", text, ELSEWHERE_AFTER)
        }
        End::Goodbye | End::Broken => return None,
    })
}
