//! The session call, written by hand so that frames go down as bytes: what a later release might
//! say is no message of this one.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use clawjob_proto::v1::{
    self, SessionRequest, session_request::Frame as Up, session_response::Frame as Down,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use crate::codec::FrameCodec;
use crate::fake::Shared;
use crate::frames::encoded;
use crate::session::{Link, Session};

/// Frames that may wait in either direction of a session.
const FRAMES_MAX: usize = 65_536;

/// Frames on their way down, or how the stream ends.
pub(crate) type Frames = mpsc::Sender<Result<Bytes, Status>>;

type Answer = Result<Response<ReceiverStream<Result<Bytes, Status>>>, Status>;

/// The executor service.
#[derive(Clone)]
pub(crate) struct Sessions(pub(crate) Arc<Shared>);

impl NamedService for Sessions {
    const NAME: &'static str = "clawjob.v1.ExecutorService";
}

impl Service<http::Request<tonic::body::Body>> for Sessions {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let sessions = self.clone();
        Box::pin(
            async move { Ok(Grpc::new(FrameCodec::default()).streaming(sessions, request).await) },
        )
    }
}

impl StreamingService<SessionRequest> for Sessions {
    type Response = Bytes;
    type ResponseStream = ReceiverStream<Result<Bytes, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<SessionRequest>>) -> Self::Future {
        Box::pin(open(self.0.clone(), request))
    }
}

async fn open(shared: Arc<Shared>, request: Request<Streaming<SessionRequest>>) -> Answer {
    shared.dials.lock().push(Instant::now());
    if let Some(status) = shared.refusals.lock().next() {
        return Err(status);
    }
    let metadata = request.metadata().clone();
    let (down, frames) = mpsc::channel(FRAMES_MAX);
    let serve = serve(request.into_inner(), metadata, down, shared.clone());
    if shared.late_headers.load(Ordering::SeqCst) {
        serve.await;
    } else {
        tokio::spawn(serve);
    }
    Ok(Response::new(ReceiverStream::new(frames)))
}

/// Reads the Hello, hands the session to the scenario, then reads on.
async fn serve(
    mut inbound: Streaming<SessionRequest>,
    metadata: MetadataMap,
    down: Frames,
    shared: Arc<Shared>,
) {
    let hello = match inbound.message().await {
        Ok(Some(SessionRequest { frame: Some(Up::Hello(hello)) })) => hello,
        // A dial that was given up before it said a word.
        Ok(None) | Err(_) => return,
        Ok(Some(other)) => {
            shared.complain(format!("the first frame is no Hello: {other:?}"));
            return;
        }
    };
    let (up, frames) = mpsc::channel(FRAMES_MAX);
    // Weak, so that a scenario that drops its session ends the stream.
    let weak = down.downgrade();
    let link = Link::new(down, frames);
    let answers = link.answers.clone();
    if shared.sessions.send(Session::new(hello, metadata, link)).await.is_err() {
        return;
    }
    tokio::spawn(async move {
        while let Ok(Some(request)) = inbound.message().await {
            let Some(frame) = request.frame else { continue };
            if let (Up::Heartbeat(beat), true) = (&frame, answers.load(Ordering::SeqCst)) {
                let ack = v1::HeartbeatAck { seq: beat.seq, server_time: None };
                if let Some(down) = weak.upgrade() {
                    let _ = down.send(Ok(encoded(Down::HeartbeatAck(ack)))).await;
                }
            }
            if up.send(frame).await.is_err() {
                break;
            }
        }
    });
}
