//! What the one binary does with its options, and what it says when it can't start.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/lines.rs"]
mod lines;
#[path = "support/node.rs"]
mod node;

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use lines::{Process, clawjob};
use node::Node;

/// No step takes this long unless it hangs.
const STEP: Duration = Duration::from_secs(60);

/// What a command says that ends by itself, and its exit code.
fn ended(command: std::process::Command) -> (String, Option<i32>) {
    let mut process = Process::start(command, Stdio::piped());
    let status = process.wait(STEP);
    (process.all().join("\n"), status.code())
}

fn token_file(dir: &Path, text: &str) -> std::path::PathBuf {
    let path = dir.join("given.token");
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn client_options_are_refused_where_they_would_mean_nothing() {
    for (command, option, value) in [
        ("server", "--endpoint", "http://127.0.0.1:1"),
        ("server", "--token-file", "t"),
        ("dev", "--app", "a"),
        ("agent", "--output", "json"),
    ] {
        let mut clawjob = clawjob();
        clawjob.args([command, option, value]);
        if command == "agent" {
            clawjob.args(["--config", "none.yaml"]);
        }
        let (said, code) = ended(clawjob);
        assert_eq!(code, Some(2), "{said}");
        let fault = format!("`clawjob {command}` takes no {option}");
        assert!(said.contains(&fault), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_heeds_the_client_options() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(&dir.path().join("data"), &[]);
    let token = token_file(dir.path(), &node.executor_token("ops").await);
    let config = dir.path().join("agent.yaml");
    let text = "app: another\nexecutor_id: agent-1\nendpoints: ['http://127.0.0.1:1']\n\
                shell:\n  commands:\n    ok: {program: /bin/true}\n";
    std::fs::write(&config, text).expect("written");
    let mut agent = clawjob();
    agent.args(["agent", "--endpoint", &node.url(), "--app", "ops", "--token-file"]);
    agent.arg(&token).arg("--config").arg(&config);
    let mut agent = Process::start(agent, Stdio::piped());
    let admin = token_file(&dir.path().join("data"), &node.admin_token());
    let listed = || {
        let mut list = clawjob();
        list.args(["executors", "list", "--endpoint", &node.url(), "--token-file"]).arg(&admin);
        ended(list).0
    };
    let until = Instant::now() + STEP;
    while !listed().contains("ops/agent-1") {
        assert!(Instant::now() < until, "{}\n{}", listed(), agent.all().join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoami_answers_an_executor_s_token_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(&dir.path().join("data"), &[]);
    let token = token_file(dir.path(), &node.executor_token("ops").await);
    let mut whoami = clawjob();
    whoami.args(["whoami", "--endpoint", &node.url(), "--token-file"]).arg(&token);
    let (said, code) = ended(whoami);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ops=executor"), "{said}");
}

#[test]
fn the_first_admin_token_is_not_printed_into_a_journal() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = clawjob();
    server.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
    let mut server = Process::start(server, Stdio::piped());
    server.line_with("listening on http://", STEP);
    let file = dir.path().join("admin.token");
    server.line_with(&format!("admin token: in {}", file.display()), STEP);
    let token = std::fs::read_to_string(file).expect("it is there");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait(STEP);
    assert!(!server.all().join("\n").contains(token.trim()), "the secret was printed");
}

#[test]
fn a_database_that_is_not_there_is_named_without_its_password() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut server = clawjob();
    server.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    server.args(["--database", "postgres://claw:s3cret@127.0.0.1:1/jobs"]);
    let (said, code) = ended(server);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("database postgres://claw:***@127.0.0.1:1/jobs"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    assert!(!data.exists(), "the embedded database's directory was made for nothing");
}
