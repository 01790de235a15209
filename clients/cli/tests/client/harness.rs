//! Runs a command as the binary would, with captured streams.

use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use clap::Parser;
use clawjob_cli::{ClientArgs, ClientCommand, Terminal, run_in};
use tokio::net::TcpSocket;

/// The binary's parser, as far as the client commands go.
#[derive(Parser)]
#[command(name = "clawjob")]
pub(crate) struct Cli {
    #[command(flatten)]
    args: ClientArgs,
    #[command(subcommand)]
    command: ClientCommand,
}

/// A URL at which nobody listens, nor can as long as the socket lives.
pub(crate) fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    (socket, url)
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) exit: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.exit, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Surroundings of a command in a test.
pub(crate) struct Session {
    pub(crate) endpoints: String,
    pub(crate) token: Option<&'static str>,
    pub(crate) input: &'static str,
    pub(crate) interactive: bool,
    pub(crate) directory: tempfile::TempDir,
}

impl Session {
    pub(crate) fn new(endpoints: impl Into<String>) -> Session {
        Session {
            endpoints: endpoints.into(),
            token: Some("secret"),
            input: "",
            interactive: false,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Runs `clawjob --endpoint … ARGS`.
    pub(crate) async fn run(&self, args: &[&str]) -> Done {
        let base = ["clawjob", "--endpoint", &self.endpoints];
        let cli = match Cli::try_parse_from(base.iter().chain(args)) {
            Ok(cli) => cli,
            Err(e) => {
                let exit = u8::try_from(e.exit_code()).unwrap();
                return Done { exit, out: String::new(), err: e.to_string() };
            }
        };
        let (out, err) = (Buffer::default(), Buffer::default());
        let mut term = terminal(self.directory.path());
        term.out = Box::new(out.clone());
        term.err = Box::new(err.clone());
        term.input = Box::new(self.input.as_bytes());
        term.interactive = self.interactive;
        term.env.extend(self.token.map(|token| ("CLAWJOB_TOKEN".into(), token.into())));
        let command = <Cli as clap::CommandFactory>::command();
        let exit = run_in(cli.command, cli.args, command, &mut term).await;
        Done { exit, out: out.text(), err: err.text() }
    }

    /// The same, and it must succeed.
    pub(crate) async fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args).await;
        assert_eq!(done.exit, 0, "{done:?}");
        done.out
    }
}

fn terminal(directory: &Path) -> Terminal {
    let mut term = Terminal::of_process();
    term.colour = false;
    term.env.clear();
    term.directory = directory.into();
    term.zone = jiff::tz::TimeZone::get("Asia/Shanghai").unwrap();
    term
}
