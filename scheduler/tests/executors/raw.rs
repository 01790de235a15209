//! An executor that does just what a test says, frame by frame.

use clawjob_proto::v1::{
    CreateTokenRequest, Grant, Handler, Hello, Role, SessionRequest, SessionResponse, Token,
    executor_service_client::ExecutorServiceClient, identity_service_client::IdentityServiceClient,
    session_request::Frame as Up, session_response::Frame as Down,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming, transport::Channel};

use crate::{
    fleet::{APP, Fleet, STEP},
    node::Bearer,
};

/// Frames that may wait to be sent.
const FRAMES_MAX: usize = 16_384;

/// A session that is open.
pub(crate) struct Raw {
    frames: mpsc::Sender<SessionRequest>,
    answers: Streaming<SessionResponse>,
}

impl Raw {
    /// Opens a session of an executor with the handler `work`, and is welcome.
    pub(crate) async fn dial(url: &str, token: &str, id: &str) -> Self {
        let (frames, queue) = mpsc::channel(FRAMES_MAX);
        let mut request = Request::new(ReceiverStream::new(queue));
        let bearer = format!("Bearer {token}").parse().expect("plain text");
        request.metadata_mut().insert("authorization", bearer);
        let mut client = ExecutorServiceClient::new(channel(url).await);
        let answers = client.session(request).await.expect("opened").into_inner();
        let mut raw = Self { frames, answers };
        raw.send(Up::Hello(Hello {
            protocol_major: 1,
            app: APP.to_owned(),
            executor_id: id.to_owned(),
            instance_id: format!("{id}-process"),
            handlers: vec![Handler { name: "work".to_owned(), ..Handler::default() }],
            slots: 4,
            ..Hello::default()
        }));
        match raw.next().await {
            Some(Down::Welcome(_)) => raw,
            other => panic!("wanted Welcome, got {other:?}"),
        }
    }

    /// Queues a frame.
    pub(crate) fn send(&self, frame: Up) {
        self.frames.try_send(SessionRequest { frame: Some(frame) }).expect("room");
    }

    async fn next(&mut self) -> Option<Down> {
        let next = tokio::time::timeout(STEP, self.answers.message()).await;
        next.expect("a frame in time").expect("the stream goes on").and_then(|r| r.frame)
    }

    /// The next frame that `pick` wants.
    pub(crate) async fn expect<T>(&mut self, pick: impl Fn(Down) -> Option<T>) -> T {
        loop {
            let frame = self.next().await.expect("the stream goes on");
            if let Some(found) = pick(frame) {
                return found;
            }
        }
    }
}

impl Fleet {
    /// See [`Raw::dial`].
    pub(crate) async fn raw(&self, id: &str) -> Raw {
        Raw::dial(&self.node.url(), &self.node.executor_token(APP).await, id).await
    }
}

/// A new token for executors.
pub(crate) async fn executor_token(url: &str, admin: &str, app: &str) -> String {
    let bearer = Bearer(admin.to_owned());
    let mut client = IdentityServiceClient::with_interceptor(channel(url).await, bearer);
    let grant = Grant { app: app.to_owned(), role: Role::Executor.into() };
    let token = Token { grants: vec![grant], ..Token::default() };
    let request = CreateTokenRequest { token: Some(token), ..CreateTokenRequest::default() };
    client.create_token(request).await.expect("created").into_inner().secret
}

async fn channel(url: &str) -> Channel {
    Channel::from_shared(url.to_owned()).expect("a URL").connect().await.expect("it listens")
}
