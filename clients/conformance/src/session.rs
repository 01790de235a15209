//! One session as the scheduler sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use clawjob_proto::v1::{
    self, Hello, RunCommand, RunResult, close, kill_ack, result_ack, run_ack,
    session_request::Frame as Up, session_response::Frame as Down,
};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::frames::{encoded, kill};
use crate::soon;
use crate::wire::Frames;

/// One session as the scheduler sees it. Heartbeats are acknowledged unless told otherwise; the
/// stream ends when this is dropped.
pub struct Session {
    /// The first frame.
    pub hello: Hello,
    /// What the call was made with.
    pub metadata: MetadataMap,
    link: Link,
}

/// Both directions of a stream.
pub(crate) struct Link {
    pub(crate) answers: Arc<AtomicBool>,
    down: Frames,
    up: mpsc::Receiver<Up>,
}

impl Link {
    pub(crate) fn new(down: Frames, up: mpsc::Receiver<Up>) -> Self {
        Self { answers: Arc::new(AtomicBool::new(true)), down, up }
    }
}

impl Session {
    pub(crate) fn new(hello: Hello, metadata: MetadataMap, link: Link) -> Self {
        Self { hello, metadata, link }
    }

    /// Sends a frame.
    pub async fn send(&self, frame: Down) {
        self.send_bytes(encoded(frame)).await;
    }

    /// Sends what is meant to be a frame.
    pub async fn send_bytes(&self, frame: Bytes) {
        soon("space on the stream", self.link.down.send(Ok(frame))).await.unwrap();
    }

    /// Sends a command.
    pub async fn run(&self, command: RunCommand) {
        self.send(Down::Run(command)).await;
    }

    /// Tells attempt 1 of a run to stop, for the user's sake.
    pub async fn kill(&self, run_id: &str, fence: u64, grace_ms: u64) {
        self.send(Down::Kill(kill(run_id, fence, grace_ms))).await;
    }

    /// Answers a result.
    pub async fn ack(&self, result: &RunResult, status: result_ack::Status) {
        let ack = v1::ResultAck { r#ref: result.r#ref.clone(), status: status.into() };
        self.send(Down::ResultAck(ack)).await;
    }

    /// Answers a result: it is stored.
    pub async fn commit(&self, result: &RunResult) {
        self.ack(result, result_ack::Status::Committed).await;
    }

    /// Sends a Close; the stream goes on until the session is dropped or ended.
    pub async fn close(&self, reason: close::Reason, reconnect: bool) {
        let message = "by the scenario".to_owned();
        let close = v1::Close { reason: reason.into(), message, reconnect };
        self.send(Down::Close(close)).await;
    }

    /// Ends the stream with a status.
    pub async fn end(&self, status: Status) {
        soon("space on the stream", self.link.down.send(Err(status))).await.unwrap();
    }

    /// Leaves heartbeats unanswered from now on.
    pub fn fall_silent(&self) {
        self.link.answers.store(false, Ordering::SeqCst);
    }

    /// The next frame; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Up> {
        soon("a frame", self.link.up.recv()).await
    }

    /// The next frame that `pick` wants; others are passed over.
    ///
    /// # Panics
    /// When the stream ends before it, or it does not come.
    pub async fn expect<T>(&mut self, what: &str, pick: impl Fn(Up) -> Option<T>) -> T {
        let wanted = async {
            loop {
                let frame = self.link.up.recv().await;
                let Some(frame) = frame else { panic!("the stream ended before {what}") };
                if let Some(found) = pick(frame) {
                    return found;
                }
            }
        };
        soon(what, wanted).await
    }

    /// The next RunAck.
    pub async fn run_ack(&mut self) -> v1::RunAck {
        self.expect("a RunAck", |frame| match frame {
            Up::RunAck(ack) => Some(ack),
            _ => None,
        })
        .await
    }

    /// What the next KillAck says.
    pub async fn kill_ack(&mut self) -> kill_ack::Status {
        self.expect("a KillAck", |frame| match frame {
            Up::KillAck(ack) => Some(ack.status()),
            _ => None,
        })
        .await
    }

    /// The next result.
    pub async fn result(&mut self) -> RunResult {
        self.expect("a RunResult", |frame| match frame {
            Up::Result(result) => Some(result),
            _ => None,
        })
        .await
    }

    /// The next Heartbeat.
    pub async fn heartbeat(&mut self) -> v1::Heartbeat {
        self.expect("a Heartbeat", |frame| match frame {
            Up::Heartbeat(heartbeat) => Some(heartbeat),
            _ => None,
        })
        .await
    }

    /// The next Progress.
    pub async fn progress(&mut self) -> v1::Progress {
        self.expect("a Progress", |frame| match frame {
            Up::Progress(progress) => Some(progress),
            _ => None,
        })
        .await
    }

    /// Waits for the Goodbye.
    pub async fn goodbye(&mut self) {
        self.expect("a Goodbye", |frame| matches!(frame, Up::Goodbye(_)).then_some(())).await;
    }

    /// Waits for the first Heartbeat that is as wanted.
    pub async fn heartbeat_where(
        &mut self,
        what: &str,
        is: impl Fn(&v1::Heartbeat) -> bool,
    ) -> v1::Heartbeat {
        self.expect(what, |frame| match frame {
            Up::Heartbeat(heartbeat) => is(&heartbeat).then_some(heartbeat),
            _ => None,
        })
        .await
    }

    /// Starts a run and waits until it was accepted.
    pub async fn begin(&mut self, command: RunCommand) {
        self.run(command).await;
        let ack = self.run_ack().await;
        assert_eq!(ack.status(), run_ack::Status::Accepted, "{ack:?}");
    }
}
