//! A scheduler process.

use std::process::{ExitStatus, Stdio};

use clawjob_conformance::soon;
use clawjob_proto::v1::{
    CreateTokenRequest, Grant, Role, Token, identity_service_client::IdentityServiceClient,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::Binary;
use super::admin::{APP, Admin, connect};
use crate::judge::Words;
use crate::program::read;

/// Times for scenarios in which nobody is silent on purpose.
const CALM: [&str; 4] =
    ["--set", "timings.heartbeat_interval=5s", "--set", "timings.heartbeat_timeout=50s"];

/// A scheduler process with its data in a directory of its own; killed when this is dropped.
pub(crate) struct Node {
    binary: Binary,
    child: Child,
    dir: TempDir,
    url: String,
    args: Vec<String>,
}

impl Binary {
    /// A scheduler on the embedded store that waits long for its executors.
    pub(crate) async fn node(self) -> Node {
        self.node_with(&CALM).await
    }

    /// A scheduler with arguments of the scenario's after `clawjob server`.
    pub(crate) async fn node_with(self, args: &[&str]) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (child, url) = spawn(&self, &dir, "127.0.0.1:0", &args).await;
        Node { binary: self, child, dir, url, args }
    }

    /// The same binary, for one more node of the scenario.
    pub(crate) fn another(&self) -> Self {
        Self { path: self.path.clone(), words: self.words.clone() }
    }
}

impl Node {
    /// What to dial.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What the first start wrote for its admin.
    pub(crate) fn admin_token(&self) -> String {
        let path = self.dir.path().join("admin.token");
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// The admin's calls.
    pub(crate) async fn admin(&self) -> Admin {
        Admin::connect(&self.url, self.admin_token()).await
    }

    /// A new token for executors, and its name.
    pub(crate) async fn executor_token(&self) -> (String, String) {
        let (channel, bearer) = connect(&self.url, self.admin_token()).await;
        let mut client = IdentityServiceClient::with_interceptor(channel, bearer);
        let grant = Grant { app: APP.to_owned(), role: Role::Executor.into() };
        let token = Token { grants: vec![grant], ..Token::default() };
        let request = CreateTokenRequest { token: Some(token), ..CreateTokenRequest::default() };
        let made = client.create_token(request).await.unwrap().into_inner();
        (made.secret, made.token.unwrap().name)
    }

    /// Kills it as the kernel would, without a word.
    pub(crate) async fn kill9(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().expect("it runs").cast_signed();
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    }

    /// Its end, which must come soon.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        soon("the end of the scheduler", self.child.wait()).await.unwrap()
    }

    /// Starts it again, at the same address with the same data.
    pub(crate) async fn restart(&mut self) {
        let listen = self.url.trim_start_matches("http://");
        (self.child, _) = spawn(&self.binary, &self.dir, listen, &self.args).await;
    }
}

async fn spawn(binary: &Binary, dir: &TempDir, listen: &str, args: &[String]) -> (Child, String) {
    let mut child = Command::new(&binary.path)
        .args(["server", "--listen", listen, "--data-dir"])
        .arg(dir.path())
        .args(args)
        .env_clear()
        .envs(std::env::vars().filter(|(name, _)| !name.starts_with("CLAWJOB_")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the scheduler starts");
    read(child.stderr.take(), &binary.words);
    let url = listening(&mut child, &binary.words).await;
    (child, url)
}

/// The address that it says it listens on; the rest of what it says is kept.
async fn listening(child: &mut Child, words: &Words) -> String {
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let said = async {
        while let Ok(Some(line)) = lines.next_line().await {
            let url = line.split_once("listening on ").map(|(_, url)| url.trim().to_owned());
            words.add(line);
            if url.is_some() {
                return url;
            }
        }
        None
    };
    let url = soon("the scheduler's address", said).await.expect("it ended before it listened");
    read(Some(lines.into_inner()), words);
    url
}
