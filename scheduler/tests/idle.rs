//! A server that does nothing, one that must not start, and one that is asked to end.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/lines.rs"]
mod lines;

use std::{
    io::Write as _,
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lines::{Process, clawjob};
use nix::sys::signal::Signal;

/// No step takes this long unless it hangs.
const STEP: Duration = Duration::from_secs(60);
/// How long an idle server is listened to.
const LISTENED: Duration = Duration::from_secs(20);
/// What it may write meanwhile: its share of 1 KB a minute.
const IDLE_BYTES_MAX: usize = 1_024 * 20 / 60;

fn server(dir: &Path, args: &[&str]) -> Command {
    let mut command = clawjob();
    command.arg("server").arg("--data-dir").arg(dir).args(args);
    command
}

/// A server that is up, and its port.
fn start(dir: &Path, args: &[&str]) -> (Process, String) {
    let mut command = server(dir, args);
    command.args(["--listen", "127.0.0.1:0"]);
    let mut process = Process::start(command, Stdio::piped());
    let line = process.line_with("listening on http://", STEP);
    let address = line.rsplit('/').next().expect("an address").to_owned();
    (process, address)
}

/// What a server says that must end by itself, with an error.
fn refusal(command: Command) -> String {
    let mut process = Process::start(command, Stdio::piped());
    let status = process.wait(STEP);
    let said = process.all().join("\n");
    assert!(!status.success(), "{said}");
    said
}

#[test]
fn an_idle_server_writes_less_than_a_kilobyte_a_minute() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut process, _) = start(dir.path(), &[]);
    process.line_with("partitions taken", STEP);
    let said = process.said_during(LISTENED);
    let bytes: usize = said.iter().map(|line| line.len() + 1).sum();
    assert!(bytes < IDLE_BYTES_MAX, "{bytes} bytes:\n{}", said.join("\n"));
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut first, _) = start(dir.path(), &[]);
    let mut second = server(dir.path(), &[]);
    second.args(["--listen", "127.0.0.1:0"]);
    let said = refusal(second);
    let shown = dir.path().display();
    assert!(said.contains(&format!("data directory {shown} is in use by process")), "{said}");
    assert!(said.contains(&first.pid().to_string()), "{said}");
    first.signal(Signal::SIGTERM);
    assert!(first.wait(STEP).success(), "the first was not disturbed");
}

#[test]
fn plain_text_beyond_loopback_is_refused_unless_a_proxy_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || {
        let mut command = server(dir.path(), &[]);
        command.args(["--listen", "0.0.0.0:0"]);
        command
    };
    let said = refusal(open());
    assert!(said.contains("refusing to listen on 0.0.0.0:0 without TLS"), "{said}");
    assert!(said.contains("behind_proxy"), "the remedy is named: {said}");
    let mut behind = open();
    behind.args(["--set", "behind_proxy=true"]);
    Process::start(behind, Stdio::piped()).line_with("listening on http://", STEP);
}

#[test]
fn all_unknown_keys_are_told_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("clawjob.yaml");
    std::fs::write(&file, "listne: 127.0.0.1:0\nlog:\n  colour: red\n").expect("written");
    let mut command = server(dir.path(), &["--set", "threads=8"]);
    command.env("CLAWJOB_CONFIG", &file).env("CLAWJOB_LOG_LEVLE", "debug");
    let said = refusal(command);
    for key in ["listne", "log.colour", "log_levle", "threads"] {
        let told = said.lines().any(|line| line.trim_start().starts_with(key));
        assert!(told, "{key} is not told in\n{said}");
    }
    assert!(said.contains("4 fault(s)"), "{said}");
}

#[test]
fn a_file_named_in_the_environment_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("clawjob.yaml");
    std::fs::write(&file, "context_path: /from-the-file\n").expect("written");
    let mut command = server(dir.path(), &["--print-config"]);
    command.env("CLAWJOB_CONFIG", &file);
    let mut process = Process::start(command, Stdio::piped());
    process.line_with("context_path: /from-the-file", STEP);
    assert!(process.wait(STEP).success());
}

#[test]
fn s05_silent_connections_do_not_keep_a_server_from_ending() {
    let dir = tempfile::tempdir().expect("a directory");
    let grace = Duration::from_secs(30);
    let (mut process, address) = start(dir.path(), &["--set", "timings.shutdown_grace=30s"]);
    let _silent = TcpStream::connect(&address).expect("it listens");
    let mut halfway = TcpStream::connect(&address).expect("it listens");
    halfway.write_all(b"POST /clawjob.v1.JobService/ListJobs HTTP/1.1\r\n").expect("sent");
    // An answer on a third connection says that the first two were accepted.
    let mut asked = TcpStream::connect(&address).expect("it listens");
    asked.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
    asked.set_read_timeout(Some(STEP)).expect("set");
    let mut first = [0_u8; 12];
    std::io::Read::read_exact(&mut asked, &mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");

    let began = Instant::now();
    process.signal(Signal::SIGTERM);
    let status = process.wait(STEP);
    let took = began.elapsed();
    let said = process.all().join("\n");
    assert!(status.success(), "{said}");
    assert!(took < grace, "it took {took:?}:\n{said}");
    assert!(!said.contains("cut short"), "{said}");
}
