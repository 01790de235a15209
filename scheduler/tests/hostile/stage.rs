//! A whole scheduler in this process, with an app that the attacker administers and one of which it
//! must never hear a word.

use std::{
    collections::BTreeMap,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use clawjob_scheduler::{
    config::{Config, Log},
    runtime,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::wire::{BytesCodec, bearing};

/// No answer takes this long unless it hangs.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What is everywhere in the other app, and must be in no answer.
pub(crate) const SECRET: &str = "TOPSECRET";

/// Panics of any thread, the scheduler's and its handlers' too.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// The one scheduler of all tests.
pub(crate) static STAGE: LazyLock<Stage> = LazyLock::new(Stage::set);

pub(crate) struct Stage {
    pub(crate) runtime: Runtime,
    pub(crate) url: String,
    pub(crate) channel: Channel,
    /// Administers the app `mine`.
    pub(crate) attacker: String,
    /// An executor's of the app `mine`.
    pub(crate) executor: String,
    /// Names of things of the other app that exist.
    pub(crate) hidden: Vec<String>,
    http: reqwest::Client,
    _server: runtime::Server,
    _dir: tempfile::TempDir,
}

/// Kept inputs of one kind.
pub(crate) fn corpus(kind: &str) -> Vec<Value> {
    let lines = include_str!("../data/hostile.jsonl").lines().filter(|line| !line.is_empty());
    let all = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    all.filter(|kept| kept["kind"] == kind).collect()
}

impl Stage {
    fn set() -> Self {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let of_test = std::thread::current().name().is_some_and(|name| name.contains("::"));
            if !of_test {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            usual(panic);
        }));
        // The client in these tests wants one even for plain text; who comes second finds it set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Runtime::new().expect("a runtime");
        let dir = tempfile::tempdir().expect("a directory");
        let config = Config {
            listen: "127.0.0.1:0".to_owned(),
            data_dir: dir.path().to_owned(),
            log: Log { level: "off".to_owned(), ..Config::default().log },
            ..Config::default()
        };
        let server = runtime.block_on(runtime::start(&config)).expect("starts");
        let url = server.url();
        let channel = Endpoint::from_shared(url.clone()).expect("an address");
        let mut stage = Self {
            channel: runtime.block_on(async { channel.connect_lazy() }),
            attacker: server.admin_token().expect("the first start makes one").to_owned(),
            executor: String::new(),
            hidden: Vec::new(),
            http: reqwest::Client::new(),
            url,
            runtime,
            _server: server,
            _dir: dir,
        };
        stage.furnish();
        stage
    }

    /// Both apps with jobs, runs, a log and an executor; then the admin's token is put away.
    fn furnish(&mut self) {
        let token = |app: &str, role: &str| {
            let grants = json!([{ "app": app, "role": role }]);
            let made =
                self.must("IdentityService/CreateToken", json!({"token": {"grants": grants}}));
            made["secret"].as_str().expect("a secret").to_owned()
        };
        let (attacker, executor) = (token("mine", "ROLE_ADMIN"), token("mine", "ROLE_EXECUTOR"));
        let of_secret = token("secret", "ROLE_EXECUTOR");
        for (app, word) in [("mine", "plain"), ("secret", SECRET)] {
            let job = json!({
                "parent": format!("apps/{app}"),
                "jobId": "known",
                "job": {
                    "handler": "h", "displayName": word, "owner": word, "labels": {"of": word},
                    "params": {"contentType": "application/json", "data": "InBsYWluIg=="},
                    "schedules": [{"interval": "3600s"}],
                },
            });
            self.must("JobService/CreateJob", job);
        }
        let work = async |_: Value, _: clawjob_executor::Ctx| {
            tracing::info!("{SECRET}");
            Ok::<_, clawjob_executor::Failure>(SECRET.to_owned())
        };
        let hidden = clawjob_executor::Executor::builder()
            .endpoints([self.url.clone()])
            .token(of_secret)
            .app("secret")
            .executor_id("e")
            .handler("h", work);
        self.runtime.spawn(hidden.run());
        let trigger = json!({ "name": "apps/secret/jobs/known", "labels": {"of": SECRET} });
        let run = self.must("JobService/TriggerJob", trigger);
        let name = run["name"].as_str().expect("a name").to_owned();
        let ended = self.must("RunService/WaitRun", json!({ "name": name }));
        assert_eq!(ended["state"], "RUN_STATE_SUCCEEDED", "{ended}");
        self.must("JobService/TriggerJob", json!({ "name": "apps/mine/jobs/known" }));
        self.hidden = vec![
            name,
            "apps/secret/jobs/known".to_owned(),
            "apps/secret/executors/e".to_owned(),
            "apps/secret".to_owned(),
        ];
        (self.attacker, self.executor) = (attacker, executor);
    }

    fn must(&self, path: &str, body: Value) -> Value {
        let (status, text) = self.post(path, body.to_string().into_bytes());
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Posts a body to a method's JSON form; a stream is read for as long as it speaks at once.
    pub(crate) fn post(&self, path: &str, body: Vec<u8>) -> (u16, String) {
        let request = self.http.post(format!("{}/clawjob.v1.{path}", self.url));
        let request =
            request.header("content-type", "application/json").bearer_auth(&self.attacker);
        self.runtime.block_on(async {
            let answer = tokio::time::timeout(ANSWER_MAX, request.body(body).send()).await;
            let mut answer = answer.expect("hangs").expect("the server lives");
            let status = answer.status().as_u16();
            let streams = ["WatchRuns", "TailRunLogs"].iter().any(|name| path.ends_with(name));
            let quiet = if streams { Duration::from_millis(50) } else { ANSWER_MAX };
            let mut text = Vec::new();
            loop {
                match tokio::time::timeout(quiet, answer.chunk()).await {
                    Ok(Ok(Some(chunk))) => text.extend_from_slice(&chunk),
                    Ok(_) => break,
                    Err(_) if streams => break,
                    Err(_) => panic!("{path} hangs"),
                }
            }
            (status, String::from_utf8_lossy(&text).into_owned())
        })
    }

    /// Calls a unary method with these bytes as its message.
    pub(crate) fn call(&self, path: &str, message: Vec<u8>) -> Result<Bytes, Status> {
        let path = format!("/clawjob.v1.{path}").parse().expect("a path");
        self.runtime.block_on(async {
            let mut grpc = tonic::client::Grpc::new(self.channel.clone());
            grpc.ready().await.expect("the server lives");
            let call = grpc.unary(bearing(&self.attacker, Bytes::from(message)), path, BytesCodec);
            let answer = tokio::time::timeout(ANSWER_MAX, call).await.expect("hangs");
            answer.map(tonic::Response::into_inner)
        })
    }

    /// What must hold after each input, whatever came back.
    pub(crate) fn check(&self, what: &dyn std::fmt::Debug, said: &str) {
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a panic after {what:?}");
        assert!(!said.contains(SECRET), "{what:?} was answered with another app's {said}");
    }
}

/// Whether an error is one that a caller can be blamed for, or is told to wait by.
pub(crate) fn is_clear(code: Code) -> bool {
    !matches!(code, Code::Internal | Code::Unknown | Code::DataLoss)
}

/// Types of values by their full name, for messages that have a form of their own in JSON.
pub(crate) static WELL_KNOWN: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
    BTreeMap::from([
        ("google.protobuf.Timestamp", json!("2026-11-29T20:00:00Z")),
        ("google.protobuf.Duration", json!("60s")),
        ("google.protobuf.FieldMask", json!("displayName,schedules")),
        ("google.protobuf.Empty", json!({})),
        ("google.protobuf.Struct", json!({"a": 1})),
    ])
});
