//! A scheduler process for tests: the real binary, started, killed and started again.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use clawjob_proto::v1::{
    CreateTokenRequest, Grant, Role, Token, identity_service_client::IdentityServiceClient,
};
use tokio::net::TcpSocket;
use tonic::{Request, service::Interceptor, transport::Channel};

/// A scheduler must be up within this time, on a busy machine too.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A scheduler process.
pub struct Node {
    child: Child,
    port: u16,
    /// Keeps the port, also while the process is away.
    _reserved: TcpSocket,
    dir: PathBuf,
    args: Vec<String>,
}

/// Adds the bearer token to each call.
#[derive(Clone)]
pub struct Bearer(pub String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
        let value = format!("Bearer {}", self.0).parse().expect("a token is plain text");
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

/// A channel that adds the token.
pub type Authorized = tonic::service::interceptor::InterceptedService<Channel, Bearer>;

impl Node {
    /// Starts a scheduler with its data in `dir`; `args` go after `clawjob server`.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        let (reserved, port) = reserve();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = spawn(dir, port, &args);
        Self { child, port, _reserved: reserved, dir: dir.to_path_buf(), args }
    }

    /// Kills it as the kernel would, without a word.
    pub fn kill9(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        self.child.wait().expect("it ends")
    }

    /// Starts it again on the same port with the same data.
    pub fn restart(&mut self) {
        self.child = spawn(&self.dir, self.port, &self.args);
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The admin token.
    pub fn admin_token(&self) -> String {
        let path = self.dir.join("admin.token");
        std::fs::read_to_string(path).expect("the first start wrote it").trim().to_owned()
    }

    /// A channel to it.
    pub async fn channel(&self) -> Channel {
        Channel::from_shared(self.url()).expect("a URL").connect().await.expect("it listens")
    }

    /// The channel with the admin's token.
    pub async fn admin(&self) -> (Channel, Bearer) {
        (self.channel().await, Bearer(self.admin_token()))
    }

    /// A new token for executors of the app.
    pub async fn executor_token(&self, app: &str) -> String {
        let (channel, bearer) = self.admin().await;
        let mut client = IdentityServiceClient::with_interceptor(channel, bearer);
        let grant = Grant { app: app.to_owned(), role: Role::Executor.into() };
        let token = Token { grants: vec![grant], ..Token::default() };
        let request = CreateTokenRequest { token: Some(token), ..CreateTokenRequest::default() };
        client.create_token(request).await.expect("created").into_inner().secret
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &Path, port: u16, args: &[String]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clawjob"))
        .arg("server")
        .arg("--data-dir")
        .arg(dir)
        .arg("--listen")
        .arg(format!("127.0.0.1:{port}"))
        .args(args)
        .env_clear()
        .envs(std::env::vars().filter(|(name, _)| !name.starts_with("CLAWJOB_")))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let out = child.stdout.take().expect("it is piped");
    let (ready, up) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if line.starts_with("listening on ") {
                let _ = ready.send(());
            }
        }
    });
    up.recv_timeout(START_TIMEOUT).expect("the scheduler says that it listens");
    child
}

/// A free port that nobody is given as long as the socket lives. Who asks for just this one may listen
/// on it, since both allow the address to be used again and the socket itself never listens.
fn reserve() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("set");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let port = socket.local_addr().expect("it is bound").port();
    (socket, port)
}
