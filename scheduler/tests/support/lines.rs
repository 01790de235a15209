//! A process whose output a test reads line by line.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Pause between two looks at a process that should end.
const LOOK: Duration = Duration::from_millis(20);
/// The output of an ended process is read to its end within this time.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A running process; it is killed when this is dropped.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    /// Starts it. Its standard output is read; its standard error goes to `errors`, and is read
    /// too when that is a pipe.
    pub fn start(mut command: Command, errors: Stdio) -> Self {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        let mut child = spawned.expect("the program starts");
        let (sender, lines) = channel();
        read(child.stdout.take().expect("it is piped"), sender.clone());
        if let Some(errors) = child.stderr.take() {
            read(errors, sender);
        }
        Self { child, lines, seen: Vec::new() }
    }

    /// The first line with `part` in it, said already or to come within `wait`.
    pub fn line_with(&mut self, part: &str, wait: Duration) -> String {
        self.line_where(part, wait, |line| line.contains(part))
    }

    /// The first line that `is` so, said already or to come within `wait`.
    pub fn line_where(&mut self, what: &str, wait: Duration, is: impl Fn(&str) -> bool) -> String {
        if let Some(line) = self.seen.iter().find(|line| is(line)) {
            return line.clone();
        }
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("{what:?} was not said within {wait:?}, but\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if is(&line) {
                return line;
            }
        }
    }

    /// What it says from now on for as long as `span`.
    pub fn said_during(&mut self, span: Duration) -> Vec<String> {
        self.said();
        let (before, until) = (self.seen.len(), Instant::now() + span);
        while let Ok(line) =
            self.lines.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.seen.push(line);
        }
        assert!(Instant::now() >= until, "it ended:\n{}", self.seen.join("\n"));
        self.seen[before..].to_vec()
    }

    /// Every line said until now.
    pub fn said(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// Every line it ever said; to be asked for after its end.
    pub fn all(&mut self) -> &[String] {
        while let Ok(line) = self.lines.recv_timeout(LAST_WORDS) {
            self.seen.push(line);
        }
        &self.seen
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it runs");
    }

    /// Its id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Its end, which must come within `wait`.
    pub fn wait(&mut self, wait: Duration) -> ExitStatus {
        let until = Instant::now() + wait;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            if Instant::now() >= until {
                panic!("it has not ended after {wait:?}:\n{}", self.said().join("\n"));
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

/// A command of the binary under test, without the settings of whoever runs the tests.
pub fn clawjob() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clawjob"));
    command.env_clear().envs(std::env::vars().filter(|(name, _)| !name.starts_with("CLAWJOB_")));
    command
}
