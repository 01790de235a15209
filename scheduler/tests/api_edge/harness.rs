//! A scheduler's edge on a free port over a store in a temporary directory, and clients for it.

#![allow(unreachable_pub, reason = "the crate of a test has no outside")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use clawjob_proto::json::pool;
use clawjob_scheduler::{
    api::{
        self, Api, ApiSettings,
        auth::{Auth, FreshSecret, SignInTimes, bootstrap_admin_token},
        edge::Edge,
        health::{Health, Phase},
        listen::{ListenSettings, Port},
    },
    clock::{Clock, ManualClock},
    hub::{Hub, HubSettings, event::EventReceiver},
    model::{
        executor::{Executor, ExecutorSpec, Handler},
        ids::AppId,
        principal::{Grant, Holder, Role, SignIn, Token, User},
    },
    store::{SharedStore, ops::Claim, sqlite::SqliteStore},
};
use prost::Message as _;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::wire::{BytesCodec, bearing};

/// Longest wait for anything that should happen.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Server {
    pub url: String,
    pub admin: String,
    pub store: SharedStore,
    pub clock: Arc<ManualClock>,
    pub health: Arc<Health>,
    pub edge: Arc<Edge>,
    pub http: reqwest::Client,
    pub channel: Channel,
    pub stop: CancellationToken,
    pub serving: tokio::task::JoinHandle<()>,
    pub dir: tempfile::TempDir,
    _events: EventReceiver,
}

pub fn start_time() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).expect("in range")
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(ApiSettings { node_id: "n1".into(), ..ApiSettings::default() }).await
    }

    pub async fn start_with(settings: ApiSettings) -> Self {
        // The client in these tests wants one even for plain text; the second try finds it set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a directory");
        let store: SharedStore = SqliteStore::open(dir.path()).expect("a store");
        let clock = ManualClock::new(start_time());
        let any_clock: Arc<dyn Clock> = clock.clone();
        let (hub, events) = Hub::new(HubSettings::default(), any_clock.clone());
        let admin = bootstrap_admin_token(&store, dir.path(), clock.now()).await.expect("a token");
        let api = Api::new(store.clone(), hub, any_clock.clone(), settings).await.expect("keys");
        let auth = Auth::new(store.clone(), any_clock.clone(), SignInTimes::default());
        let health = Health::new().await;
        let edge = api::edge(api, auth.clone(), &health).expect("an edge");
        health.set(Phase::Serving).await;
        let stop = CancellationToken::new();
        let (address, serving) = listen(edge.clone(), any_clock, &stop).await;
        tokio::spawn({
            let stop = stop.clone();
            async move { auth.upkeep(stop).await }
        });
        let url = format!("http://{address}");
        let channel = Endpoint::from_shared(url.clone()).expect("an address");
        Self {
            channel: channel.connect_lazy(),
            http: reqwest::Client::new(),
            admin: admin.expect("the first start makes one"),
            url,
            store,
            clock,
            health,
            edge,
            stop,
            serving,
            dir,
            _events: events,
        }
    }

    /// A token with the grants, put into the store.
    pub async fn token(&self, grants: &[(&str, Role)]) -> String {
        self.token_with(grants, |_| {}).await
    }

    pub async fn token_with(&self, grants: &[(&str, Role)], shape: fn(&mut Token)) -> String {
        let secret = FreshSecret::new(self.clock.now());
        let grants = grants.iter().map(|(app, role)| Grant { app: (*app).to_owned(), role: *role });
        let mut token = Token {
            id: secret.id,
            secret_hash: secret.hash,
            display_name: String::new(),
            grants: grants.collect(),
            executor_id_patterns: Vec::new(),
            handler_patterns: Vec::new(),
            owner: "test".into(),
            created_at: self.clock.now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        shape(&mut token);
        self.store.create_token(&token, None).await.expect("stored");
        secret.text
    }

    /// A user of the grants, signed in: the sign-in's bearer.
    pub async fn signed_in(&self, grants: &[(&str, Role)]) -> String {
        let now = self.clock.now();
        let secret = FreshSecret::sign_in(now);
        let user = User {
            id: format!("u-{}", secret.id),
            email: String::new(),
            display_name: String::new(),
            grants: grants
                .iter()
                .map(|(app, role)| Grant { app: (*app).into(), role: *role })
                .collect(),
            disabled: false,
            password_hash: String::new(),
            password_expired: false,
            version: 1,
            created_at: now,
            last_login_at: None,
        };
        self.store.create_user(&user, None).await.expect("stored");
        let sign_in = SignIn {
            id: secret.id,
            secret_hash: secret.hash,
            holder: Holder::User(user.id),
            created_at: now,
            last_used_at: now,
            expires_at: now + chrono::TimeDelta::hours(1),
        };
        self.store.create_sign_in(&sign_in, None).await.expect("signed in");
        secret.text
    }

    /// An executor's row, as a session on another node would leave it.
    pub async fn executor(&self, app: &str, name: &str, handlers: &[&str]) -> Executor {
        let app = self.store.ensure_app(app, self.clock.now()).await.expect("an app");
        let handler = |name: &&str| Handler {
            name: (*name).to_owned(),
            max_concurrency: 0,
            params_schema: String::new(),
            description: String::new(),
        };
        let claim = Claim {
            app: app.id,
            name: name.into(),
            spec: ExecutorSpec {
                handlers: handlers.iter().map(handler).collect(),
                labels: [("zone".to_owned(), name.to_owned())].into(),
                slots: 4,
                ..ExecutorSpec::default()
            },
            instance_id: "i1".into(),
            resume_hash: Vec::new(),
            fresh_resume_hash: vec![1],
            principal: "tokens/x".into(),
            node: "n2".into(),
            peer_address: "127.0.0.1:1".into(),
            alive_since: start_time(),
            may_hold: None,
        };
        self.store.claim_executor(&claim, self.clock.now()).await.expect("claimed").executor
    }

    pub async fn app(&self, name: &str) -> AppId {
        self.store.ensure_app(name, self.clock.now()).await.expect("an app").id
    }

    /// Calls a method over gRPC with a message given as JSON: its first answer.
    pub async fn call(&self, token: &str, path: &str, json: Value) -> Result<Value, Status> {
        let (service, name) = path.split_once('/').expect("Service/Method");
        let service = pool()
            .get_service_by_name(&format!("clawjob.v1.{service}"))
            .unwrap_or_else(|| panic!("no service {service}"));
        let method = service.methods().find(|method| method.name() == name);
        let method = method.unwrap_or_else(|| panic!("no method {path}"));
        let message = DynamicMessage::deserialize(method.input(), json).expect("fits the message");
        let bytes = Bytes::from(message.encode_to_vec());
        let path = format!("/clawjob.v1.{path}").parse().expect("a path");

        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.expect("connects");
        let streaming = method.is_server_streaming();
        let answer = if method.is_client_streaming() {
            let frames = tokio_stream::once(bytes);
            let stream = grpc.streaming(bearing(token, frames), path, BytesCodec).await?;
            // A session says at once whether it is welcome.
            let mut answers = stream.into_inner();
            let answer = tokio::time::timeout(SOON, answers.message()).await;
            return answer.expect("answers in time").map(|_| Value::Null);
        } else if streaming {
            let stream = grpc.server_streaming(bearing(token, bytes), path, BytesCodec).await?;
            match first(stream.into_inner()).await? {
                Some(answer) => answer,
                None => return Ok(Value::Null),
            }
        } else {
            grpc.unary(bearing(token, bytes), path, BytesCodec).await?.into_inner()
        };
        let message = DynamicMessage::decode(method.output(), answer).expect("decodes");
        let options = SerializeOptions::new().stringify_64_bit_integers(true);
        let json = message.serialize_with_options(serde_json::value::Serializer, &options);
        Ok(json.expect("has a JSON form"))
    }

    /// Posts JSON to a method: HTTP status and body.
    pub async fn post(&self, token: &str, path: &str, json: &Value) -> (u16, Value) {
        let url = format!("{}/clawjob.v1.{path}", self.url);
        let request = self.http.post(url).header("content-type", "application/json");
        let request = match token {
            "" => request,
            token => request.bearer_auth(token),
        };
        let response = request.body(json.to_string()).send().await.expect("answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("has a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

/// The first message of a stream that may rightly say nothing for now, which is `None`; or the error
/// in its place.
async fn first(mut stream: tonic::Streaming<Bytes>) -> Result<Option<Bytes>, Status> {
    const QUIET: Duration = Duration::from_millis(300);
    tokio::time::timeout(QUIET, stream.message()).await.unwrap_or(Ok(None))
}

pub async fn listen(
    edge: Arc<Edge>,
    clock: Arc<dyn Clock>,
    stop: &CancellationToken,
) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let settings = ListenSettings {
        address: "127.0.0.1:0".parse().expect("an address"),
        tls: None,
        behind_proxy: false,
        connections_max: 100,
    };
    let port = Port::bind(&settings).await.expect("a port");
    let address = port.address();
    let grace = Duration::from_secs(5);
    (address, tokio::spawn(port.serve(edge, clock, stop.clone(), grace)))
}

/// The reason in an error's ErrorInfo.
pub fn reason(status: &Status) -> String {
    use tonic_types::StatusExt as _;
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

/// The code of an outcome.
pub fn code(outcome: &Result<Value, Status>) -> Code {
    outcome.as_ref().err().map_or(Code::Ok, Status::code)
}
