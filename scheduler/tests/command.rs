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

/// A script whose variable is not set would talk to another server than it means.
#[test]
fn an_empty_endpoint_is_refused_and_an_empty_variable_counts_as_none() {
    for args in [&["jobs", "list"][..], &["agent", "--config", "none.yaml"]] {
        let mut clawjob = clawjob();
        clawjob.args(args).args(["--endpoint", ""]);
        let (said, code) = ended(clawjob);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--endpoint is empty"), "{said}");
    }
    let mut clawjob = clawjob();
    clawjob.args(["completions", "bash"]).env("CLAWJOB_ENDPOINTS", "");
    assert_eq!(ended(clawjob).1, Some(0));
}

/// Its file says otherwise in all; what else is said is said by flags, by the environment, or by both.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_heeds_flags_over_the_environment_over_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(&dir.path().join("data"), &[]);
    let token = token_file(dir.path(), &node.executor_token("ops").await);
    let admin = token_file(&dir.path().join("data"), &node.admin_token());
    let nowhere = "http://127.0.0.1:1".to_owned();
    let missing = dir.path().join("missing.token");
    let right = [node.url(), "ops".to_owned(), token.display().to_string()];
    let wrong = [nowhere.clone(), "another".to_owned(), missing.display().to_string()];
    for (n, flags, variables) in
        [(1, Some(&right), None), (2, None, Some(&right)), (3, Some(&right), Some(&wrong))]
    {
        let config = dir.path().join("agent.yaml");
        let text = format!(
            "app: another\nexecutor_id: agent-{n}\nendpoints: ['{nowhere}']\n\
             token_file: {}\nshell:\n  commands:\n    ok: {{program: /bin/true}}\n",
            missing.display()
        );
        std::fs::write(&config, text).expect("written");
        let mut agent = clawjob();
        agent.arg("agent").arg("--config").arg(&config);
        for (flag, value) in
            ["--endpoint", "--app", "--token-file"].iter().zip(flags.into_iter().flatten())
        {
            agent.args([flag, value.as_str()]);
        }
        let names = ["CLAWJOB_ENDPOINTS", "CLAWJOB_APP", "CLAWJOB_TOKEN_FILE"];
        agent.envs(names.iter().zip(variables.into_iter().flatten()));
        let mut agent = Process::start(agent, Stdio::piped());
        let listed = || {
            let mut list = clawjob();
            list.args(["executors", "list", "--endpoint", &node.url(), "--token-file"]).arg(&admin);
            ended(list).0
        };
        let until = Instant::now() + STEP;
        while !listed().contains(&format!("ops/agent-{n}")) {
            assert!(Instant::now() < until, "{}\n{}", listed(), agent.all().join("\n"));
        }
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

/// How `/readyz` answers.
fn readyz(node: &Node) -> String {
    use std::io::{Read as _, Write as _};
    let address = node.url().replace("http://", "");
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    stream.set_read_timeout(Some(STEP)).expect("set");
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_database_removed_under_the_server_is_noticed_and_its_next_start_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut node = Node::start(&data, &[]);
    let token = std::fs::read_to_string(data.join("admin.token")).expect("a token");
    let create = || {
        let mut create = clawjob();
        create.args(["jobs", "create", "j", "--app", "a", "--handler", "h", "--endpoint"]);
        create.arg(node.url()).arg("--token-file").arg(data.join("admin.token"));
        ended(create)
    };
    assert!(readyz(&node).starts_with("HTTP/1.1 200"));
    for file in ["clawjob.db", "clawjob.db-wal", "clawjob.db-shm"] {
        std::fs::remove_file(data.join(file)).expect("removed");
    }
    let (said, code) = create();
    assert!(code != Some(0) && said.contains("removed or replaced"), "{said}");
    let until = Instant::now() + STEP;
    while readyz(&node).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < until, "it stays ready");
        std::thread::sleep(Duration::from_millis(50));
    }
    node.terminate();

    let mut server = clawjob();
    server.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    let (said, code) = ended(server);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("holds admin.token but no database"), "{said}");
    let kept = std::fs::read_to_string(data.join("admin.token")).expect("a token");
    assert_eq!(kept, token, "the token is left alone");
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

#[test]
fn a_signal_to_a_server_that_is_still_starting_ends_it_in_order() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let database = format!("postgres://claw@{}/jobs", silent.local_addr().expect("it has one"));
    for command in ["server", "dev"] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = clawjob();
        server.args([command, "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
        server.args(["--database", &database]);
        let mut server = Process::start(server, Stdio::piped());
        let (_waiting, _) = silent.accept().expect("it asks the database");
        server.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(server.wait(STEP).code(), Some(0), "{}", server.all().join("\n"));
    }
}
