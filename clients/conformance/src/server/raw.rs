//! An executor that does just what a scenario says, frame by frame.

use bytes::Bytes;
use clawjob_conformance::frames::json;
use clawjob_conformance::{FrameCodec, soon};
use clawjob_proto::v1::{
    AttemptRef, Handler, Heartbeat, Hello, Outcome, ResultAck, RunAck, RunCommand, RunResult,
    SessionRequest, SessionResponse, Welcome, result_ack, run_ack, session_request::Frame as Up,
    session_response::Frame as Down,
};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use super::admin::APP;

/// Frames that may wait to be sent.
const FRAMES_MAX: usize = 65_536;
/// Bytes that the scheduler may send ahead of a reader: so few that one who does not read is felt.
const WINDOW_BYTES: u32 = 65_535;
const SESSION: &str = "/clawjob.v1.ExecutorService/Session";

/// A session that is open.
pub(crate) struct Raw {
    pub(crate) welcome: Welcome,
    frames: mpsc::Sender<Bytes>,
    answers: Streaming<SessionResponse>,
}

/// A Hello of the handler `work` with four slots.
pub(crate) fn hello(executor: &str, process: &str) -> Hello {
    Hello {
        protocol_major: 1,
        app: APP.to_owned(),
        executor_id: executor.to_owned(),
        instance_id: process.to_owned(),
        handlers: vec![Handler { name: "work".to_owned(), ..Handler::default() }],
        slots: 4,
        ..Hello::default()
    }
}

/// A connection of its own.
pub(crate) async fn channel(url: &str) -> Channel {
    let endpoint = Channel::from_shared(url.to_owned()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(WINDOW_BYTES);
    endpoint.connect().await.unwrap()
}

/// A frame as bytes.
pub(crate) fn encoded(frame: Up) -> Bytes {
    SessionRequest { frame: Some(frame) }.encode_to_vec().into()
}

impl Raw {
    /// Opens a session on a connection of its own, which must be welcome.
    pub(crate) async fn open(url: &str, token: &str, hello: Hello) -> Self {
        Self::dial(channel(url).await, token, encoded(Up::Hello(hello))).await.unwrap()
    }

    /// Opens a session; the refusal when it is not welcome.
    pub(crate) async fn dial(channel: Channel, token: &str, hello: Bytes) -> Result<Self, Status> {
        let (frames, queue) = mpsc::channel(FRAMES_MAX);
        frames.try_send(hello).unwrap();
        let mut request = Request::new(ReceiverStream::new(queue));
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = FrameCodec::<SessionResponse>::default();
        let path = PathAndQuery::from_static(SESSION);
        let answers = soon("headers", grpc.streaming(request, path, codec)).await?;
        let mut answers = answers.into_inner();
        match soon("a Welcome", answers.message()).await? {
            Some(SessionResponse { frame: Some(Down::Welcome(welcome)) }) => {
                Ok(Self { welcome, frames, answers })
            }
            other => panic!("wanted a Welcome, got {other:?}"),
        }
    }

    /// Queues a frame.
    pub(crate) fn send(&self, frame: Up) {
        self.send_bytes(encoded(frame));
    }

    /// Queues what is meant to be a frame. When the stream has ended, its answers tell so.
    pub(crate) fn send_bytes(&self, frame: Bytes) {
        let sent = self.frames.try_send(frame);
        assert!(!matches!(sent, Err(TrySendError::Full(_))), "{FRAMES_MAX} frames wait");
    }

    /// Queues a Heartbeat that holds no attempts.
    pub(crate) fn beat(&self, seq: u64) {
        self.send(Up::Heartbeat(Heartbeat { seq, free_slots: 4, ..Heartbeat::default() }));
    }

    /// The next frame; an unknown one is passed over. `None` at a clean end.
    pub(crate) async fn next(&mut self) -> Result<Option<Down>, Status> {
        loop {
            match soon("a frame", self.answers.message()).await? {
                None => return Ok(None),
                Some(SessionResponse { frame: Some(frame) }) => return Ok(Some(frame)),
                Some(_) => {}
            }
        }
    }

    /// The next frame that `pick` wants; others are passed over.
    pub(crate) async fn expect<T>(&mut self, what: &str, pick: impl Fn(Down) -> Option<T>) -> T {
        let wanted = async {
            loop {
                match self.next().await {
                    Ok(Some(frame)) => {
                        if let Some(found) = pick(frame) {
                            return found;
                        }
                    }
                    end => panic!("the stream ended before {what}: {end:?}"),
                }
            }
        };
        soon(what, wanted).await
    }

    /// The next command.
    pub(crate) async fn command(&mut self) -> RunCommand {
        self.expect("a RunCommand", |frame| match frame {
            Down::Run(command) => Some(command),
            _ => None,
        })
        .await
    }

    /// The next command, accepted.
    pub(crate) async fn accept(&mut self) -> RunCommand {
        let command = self.command().await;
        self.send(accepted(&command));
        command
    }

    /// Sends a result and waits for what becomes of it.
    pub(crate) async fn report(&mut self, result: RunResult) -> result_ack::Status {
        let of = result.r#ref.clone();
        self.send(Up::Result(result));
        self.result_ack(of.as_ref()).await.status()
    }

    /// The answer to a result of this attempt.
    pub(crate) async fn result_ack(&mut self, of: Option<&AttemptRef>) -> ResultAck {
        let id = |r#ref: Option<&AttemptRef>| r#ref.map(|r#ref| r#ref.run_id.clone());
        let wanted = id(of);
        self.expect("a ResultAck", |frame| match frame {
            Down::ResultAck(ack) => (id(ack.r#ref.as_ref()) == wanted).then_some(ack),
            _ => None,
        })
        .await
    }
}

/// The answer ACCEPTED.
pub(crate) fn accepted(command: &RunCommand) -> Up {
    let status = run_ack::Status::Accepted.into();
    Up::RunAck(RunAck { r#ref: command.r#ref.clone(), status, ..RunAck::default() })
}

/// A success with an output.
pub(crate) fn succeeded(r#ref: Option<AttemptRef>, output: &str) -> RunResult {
    let outcome = Outcome::Succeeded.into();
    RunResult { r#ref, outcome, output: Some(json(output)), ..RunResult::default() }
}
