//! The small program of an SDK, as a process.

use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use clawjob_conformance::{Fake, soon};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use crate::judge::{self, Words};

/// A program under test and what it is called.
#[derive(Clone)]
pub(crate) struct Sdk {
    pub(crate) name: String,
    command: Arc<Vec<String>>,
}

impl Sdk {
    /// From `NAME=COMMAND`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("write NAME=COMMAND")?;
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if name.is_empty() || command.is_empty() {
            return Err("write NAME=COMMAND, neither of them empty".to_owned());
        }
        Ok(Self { name: name.to_owned(), command: Arc::new(command) })
    }

    /// It as the subject of one scenario.
    pub(crate) fn subject(&self) -> Subject {
        Subject { sdk: self.clone(), words: Words::default() }
    }

    /// A process of the app `demo` that is to dial these URLs, not started yet; it is named after
    /// the SDK.
    pub(crate) fn dialing(&self, urls: impl AsRef<OsStr>, token: &str, words: &Words) -> Launch {
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .env_clear()
            .envs(std::env::vars().filter(|(name, _)| !name.starts_with("CLAWJOB_")))
            .env("CLAWJOB_ENDPOINTS", urls)
            .env("CLAWJOB_TOKEN", token)
            .env("CLAWJOB_APP", "demo")
            .env("CLAWJOB_EXECUTOR_ID", &self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Launch { command, words: words.clone() }
    }
}

/// A program as the subject of one scenario.
pub(crate) struct Subject {
    sdk: Sdk,
    words: Words,
}

impl judge::Subject for Subject {
    fn words(&self) -> Words {
        self.words.clone()
    }
}

impl Subject {
    /// A process that serves this scheduler.
    pub(crate) fn start(&self, fake: &Fake) -> Program {
        self.dialing(fake.url()).start()
    }

    /// A process called `tester` that is to dial these URLs, not started yet.
    pub(crate) fn dialing(&self, urls: impl AsRef<OsStr>) -> Launch {
        self.sdk.dialing(urls, "secret", &self.words).env("CLAWJOB_EXECUTOR_ID", "tester")
    }
}

/// A process that is about to be started.
pub(crate) struct Launch {
    command: Command,
    words: Words,
}

impl Launch {
    /// With a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Without a variable that it would have.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Starts it.
    pub(crate) fn start(mut self) -> Program {
        let mut child = self.command.spawn().expect("the program starts");
        read(child.stdout.take(), &self.words);
        read(child.stderr.take(), &self.words);
        Program(child)
    }
}

/// A running process; it is killed when this is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.0.id().expect("it runs").cast_signed();
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    /// Its end, which must come soon.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        soon("the end of the program", self.0.wait()).await.unwrap()
    }
}

/// Keeps the last of what a process says.
pub(crate) fn read(from: Option<impl AsyncRead + Unpin + Send + 'static>, words: &Words) {
    let (from, words) = (from.expect("it is piped"), words.clone());
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            words.add(line);
        }
    });
}
