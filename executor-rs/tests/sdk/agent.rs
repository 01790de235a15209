//! The ready-made agent.

use std::path::Path;

use clawjob_conformance::frames::command;
use clawjob_conformance::{Fake, Session, soon};
use clawjob_executor::agent;
use clawjob_proto::v1::{self, LogRecord, Outcome, session_request::Frame as Up};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::handlers::{Gate, Running};

async fn start(fake: &Fake, sections: &str) -> Running {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text = format!("app: demo\nexecutor_id: agent\nendpoints: ['{}']\n{sections}", fake.url());
    std::fs::write(file.path(), text).unwrap();
    let executor = agent::executor(agent::load(file.path()).unwrap()).unwrap();
    Running::of(executor, Gate::new())
}

const COMMANDS: &str = r#"
shell:
  commands:
    greet:
      program: sh
      args:
        - "-c"
        - "echo hello \"$0\"; echo attempt $CLAWJOB_ATTEMPT at $CLAWJOB_FIRE_TIME >&2"
        - "{who}"
      env: {LC_ALL: C}
    fail: {program: sh, args: ["-c", "echo no space >&2; exit 3"]}
    missing: {program: /no/such/program}
    secrets: {program: sh, args: ["-c", "test -z \"$CLAWJOB_TOKEN$CARGO\""]}
    family:
      program: sh
      args:
        - "-c"
        - |
          sleep 1000 & echo child $!
          trap '' TERM
          sleep 1000 & echo child $!
          sh -c 'sleep 1000 & echo child $!; wait' &
          setsid sh -c 'echo child $$; exec sleep 1000' &
          wait
      stop_grace_s: 1
    orphan: {program: sh, args: ["-c", "sleep 1000 & echo child $!"]}
"#;

fn shell(run: &str, params: &str) -> v1::RunCommand {
    let grace = Some(prost_types::Duration { seconds: 10, nanos: 0 });
    v1::RunCommand { kill_grace: grace, ..command(run, "shell", params) }
}

async fn log_and_result(session: &mut Session) -> (Vec<LogRecord>, v1::RunResult) {
    let mut log = Vec::new();
    loop {
        match session.next().await.expect("the stream goes on") {
            Up::LogChunk(chunk) => log.extend(chunk.records),
            Up::Result(result) => return (log, result),
            _ => {}
        }
    }
}

/// Waits until a process has ended; one that nobody has collected counts as ended.
async fn gone(pid: &str) {
    let ended = async {
        loop {
            let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
            let alive = stat.is_ok_and(|stat| !stat.contains(") Z "));
            if !alive {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the end of a process", ended).await;
}

fn child_of(record: &LogRecord) -> String {
    record.message.strip_prefix("child ").unwrap().to_owned()
}

#[tokio::test]
async fn a_command_runs_with_its_params_and_its_lines_land_in_the_log() {
    let mut fake = Fake::start().await;
    let _running = start(&fake, COMMANDS).await;
    let mut session = fake.open().await;
    let names: Vec<&str> = session.hello.handlers.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["shell"]);
    session.begin(shell("R1", r#"{"command":"greet","args":{"who":"a  b"}}"#)).await;
    let (log, result) = log_and_result(&mut session).await;
    assert_eq!(result.outcome(), Outcome::Succeeded, "{result:?}");
    let line = |stream: &str| log.iter().find(|r| r.fields["stream"] == stream).unwrap();
    assert_eq!(line("stdout").message, "hello a  b");
    assert_eq!(line("stderr").message, "attempt 1 at 2023-11-14T22:13:20+00:00");
}

#[tokio::test]
async fn failures_of_commands_have_codes() {
    let mut fake = Fake::start().await;
    let _running = start(&fake, COMMANDS).await;
    let mut session = fake.open().await;
    for (params, code, non_retryable) in [
        (r#"{"command":"fail"}"#, "EXIT_3", false),
        (r#"{"command":"missing"}"#, "COMMAND_NOT_STARTED", false),
        (r#"{"command":"rm"}"#, "COMMAND_NOT_ALLOWED", true),
        (r#"{"command":"greet"}"#, "INVALID_PARAMS", true),
    ] {
        session.begin(shell(code, params)).await;
        let failure = session.result().await.failure.unwrap();
        assert_eq!((failure.code.as_str(), failure.non_retryable), (code, non_retryable));
        if code == "EXIT_3" {
            assert!(failure.message.ends_with("no space"), "{}", failure.message);
        }
    }
    session.begin(shell("R1", r#"{"command":"secrets"}"#)).await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
}

#[tokio::test]
async fn x36_r48_a_kill_takes_all_that_the_command_has_started() {
    let mut fake = Fake::start().await;
    let _running = start(&fake, COMMANDS).await;
    let mut session = fake.open().await;
    // Processes of other tests have another run in their environment.
    session.begin(shell("FAMILY", r#"{"command":"family"}"#)).await;
    let mut children = Vec::new();
    // Two of its own, one of its child, and one that has left the group.
    while children.len() < 4 {
        if let Up::LogChunk(chunk) = session.next().await.unwrap() {
            children.extend(chunk.records.iter().map(child_of));
        }
    }
    session.kill("FAMILY", 1, 10_000).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().code, "STOPPED");
    for child in &children {
        gone(child).await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let mut fake = Fake::start().await;
    let _running = start(&fake, COMMANDS).await;
    let mut session = fake.open().await;
    session.begin(shell("R1", r#"{"command":"orphan"}"#)).await;
    let (log, result) = log_and_result(&mut session).await;
    assert_eq!(result.outcome(), Outcome::Succeeded);
    gone(&child_of(&log[0])).await;
}

/// Answers each request by its path and hands out what it was sent.
async fn web_server() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen_tx, seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, headers, body) = match path.as_str() {
                "/jobs/ok?a=b" => ("200 OK", "content-type: application/json", "{\"n\":1}".into()),
                "/jobs/big" => ("200 OK", "x: y", "z".repeat(100_000)),
                "/jobs/busy" => ("429 Too Many Requests", "retry-after: 7", "later".into()),
                "/jobs/away" => ("302 Found", "location: /admin", String::new()),
                "/jobs/slow" => {
                    // Held open until the caller gives up.
                    tokio::spawn(async move {
                        let _ = stream.read(&mut [0]).await;
                    });
                    continue;
                }
                _ => ("404 Not Found", "x: y", String::new()),
            };
            let _ = seen_tx.send(request);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, seen)
}

#[tokio::test]
async fn urls_of_the_list_are_called_and_their_status_decides() {
    let (url, mut seen) = web_server().await;
    let mut fake = Fake::start().await;
    let section = format!(
        "http:\n  targets:\n    web:\n      url: {url}/jobs/\n      methods: [GET, POST]\n      \
         headers: {{x-key: s3cret}}\n      timeout_s: 60\n    hasty:\n      url: {url}/jobs/\n      \
         methods: [GET]\n      timeout_s: 1\n"
    );
    let _running = start(&fake, &section).await;
    let mut session = fake.open().await;
    let ok = r#"{"target":"web","path":"ok","method":"POST","query":{"a":"b"},"body":{"q":1}}"#;
    session.begin(command("R1", "http", ok)).await;
    let output = session.result().await.output.unwrap();
    assert_eq!(output.data, r#"{"status":200,"body":{"n":1}}"#);
    let request = soon("the request", seen.recv()).await.unwrap();
    for part in ["POST /jobs/ok?a=b ", "x-key: s3cret", "clawjob-run-id: R1", "{\"q\":1}"] {
        assert!(request.contains(part), "{part} is missing in {request}");
    }
    session.begin(command("R2", "http", r#"{"target":"web","path":"big"}"#)).await;
    let output: serde_json::Value =
        serde_json::from_slice(&session.result().await.output.unwrap().data).unwrap();
    assert_eq!(output["body"].as_str().unwrap().len(), 64 * 1024);
    assert_eq!(output["body_truncated"], true);
    for (target, path, method, code) in [
        ("web", "busy", "GET", "HTTP_429"),
        ("web", "nowhere", "GET", "HTTP_404"),
        ("web", "away", "GET", "HTTP_302"),
        ("hasty", "slow", "GET", "HTTP_TIMEOUT"),
        ("web", "../admin", "GET", "URL_NOT_ALLOWED"),
        ("web", "ok", "DELETE", "METHOD_NOT_ALLOWED"),
    ] {
        let params = format!(r#"{{"target":"{target}","path":"{path}","method":"{method}"}}"#);
        session.begin(command(code, "http", &params)).await;
        let failure = session.result().await.failure.unwrap();
        assert_eq!(failure.code, code, "{}", failure.message);
        if code == "HTTP_429" {
            assert_eq!(failure.retry_after.unwrap().seconds, 7);
            assert_eq!(failure.stack, "later");
        }
    }
}
