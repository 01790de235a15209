//! The demo does what it shows, what it prints works as printed, and Ctrl-C ends all of it.

#[path = "support/lines.rs"]
mod lines;

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use lines::{Process, clawjob};
use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
};
use serde_json::Value;

/// The demo's slowest story, a third attempt after 30 s, with a margin for a busy machine.
const STORY: Duration = Duration::from_secs(120);
/// Ctrl-C must have ended all within this time.
const END: Duration = Duration::from_secs(60);

#[test]
fn the_demo_tells_the_truth_and_ends_cleanly() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut demo = start(dir.path(), &data);
    let url = demo.line_with("listening on http://", STORY);
    let url = url.rsplit(' ').next().expect("a URL").to_owned();

    let hello = line_of(&mut demo, "hello", "SUCCEEDED", "1");
    assert!(hello.ends_with("Hello, Jacky!\"") || hello.ends_with("Hello, Jacky!"), "{hello}");
    let curl = demo.line_where("a curl line", STORY, |line| line.trim().starts_with("curl "));
    let list = demo.line_where("a list", STORY, |line| {
        line.trim().ends_with(" runs list") || line.contains(" runs list --")
    });
    line_of(&mut demo, "sleepy", "TIMED_OUT", "1");
    line_of(&mut demo, "risky", "RETRY_WAIT", "1");
    line_of(&mut demo, "risky", "RETRY_WAIT", "2");
    line_of(&mut demo, "risky", "SUCCEEDED", "3");

    let jobs: Value = serde_json::from_str(&sh(dir.path(), &curl)).expect("JSON");
    let names: Vec<&str> =
        jobs["jobs"].as_array().expect("jobs").iter().filter_map(|j| j["name"].as_str()).collect();
    for id in ["hello", "report", "risky", "sleepy"] {
        assert!(names.contains(&format!("apps/demo/jobs/{id}").as_str()), "{id} in {names:?}");
    }
    let table = sh(dir.path(), &list);
    assert!(table.contains("risky"), "{table}");
    same_states(&mut demo, &url, &data);

    let group = demo.pid();
    demo.signal(Signal::SIGINT);
    assert!(demo.wait(END).success(), "{:?}", demo.said());
    assert_eq!(killpg(group, None), Err(Errno::ESRCH), "nothing of it is left");
}

#[test]
fn a_demo_that_was_killed_starts_again_with_an_executor_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut demo = start(dir.path(), &data);
    line_of(&mut demo, "hello", "SUCCEEDED", "1");
    demo.signal(Signal::SIGKILL);
    demo.wait(END);
    let mut demo = start(dir.path(), &data);
    let url = demo.line_with("listening on http://", STORY);
    line_of(&mut demo, "hello", "SUCCEEDED", "1");
    let token = std::fs::read_to_string(data.join("admin.token")).expect("a token");
    let shown = clawjob()
        .args(["executors", "list", "--app", "demo", "-o", "json"])
        .env("CLAWJOB_ENDPOINTS", url.rsplit(' ').next().expect("a URL"))
        .env("CLAWJOB_TOKEN", token.trim())
        .output()
        .expect("it runs");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let executors = shown["executors"].as_array().expect("executors");
    assert_eq!(executors.len(), 2, "the killed one's name is not asked for again: {shown}");
    demo.signal(Signal::SIGINT);
    assert!(demo.wait(END).success(), "{:?}", demo.said());
}

fn start(dir: &Path, data: &Path) -> Process {
    let mut command = clawjob();
    command
        .arg("dev")
        .arg("--data-dir")
        .arg(data)
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(dir)
        .process_group(0);
    Process::start(command, Stdio::inherit())
}

/// The first line that the demo printed of such a run.
fn line_of(demo: &mut Process, job: &str, state: &str, attempt: &str) -> String {
    let what = format!("{job} {state} {attempt}");
    demo.line_where(&what, STORY, |line| words(line) == Some((job, state, attempt)))
}

/// Job, state and attempt of a line about a run.
fn words(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.split_whitespace().skip(1);
    Some((words.next()?, words.next()?, words.next()?))
}

/// Runs a line as printed.
fn sh(dir: &Path, line: &str) -> String {
    let output = Command::new("sh").arg("-c").arg(line).current_dir(dir).output();
    let output = output.expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// What the command line says of the runs.
fn runs(url: &str, data: &Path) -> Vec<Value> {
    let listed = clawjob()
        .args(["runs", "list", "-o", "json"])
        .env("CLAWJOB_ENDPOINTS", url)
        .env("CLAWJOB_TOKEN_FILE", data.join("admin.token"))
        .output()
        .expect("it starts");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    listed["runs"].as_array().expect("runs").clone()
}

/// Each ended run of the list comes to the terminal with the same state, and each that was there before
/// is in the list.
fn same_states(demo: &mut Process, url: &str, data: &Path) {
    let said = demo.said().to_vec();
    let runs = runs(url, data);
    for (job, state, attempt) in
        [("hello", "SUCCEEDED", "1"), ("sleepy", "TIMED_OUT", "1"), ("risky", "SUCCEEDED", "3")]
    {
        let name = format!("apps/demo/jobs/{job}");
        // On a busy machine a run may come too late, and is skipped.
        let ended: Vec<&Value> = runs
            .iter()
            .filter(|run| run["job"] == name && !run["endTime"].is_null())
            .filter(|run| run["state"] != "RUN_STATE_SKIPPED")
            .collect();
        assert!(!ended.is_empty(), "{job} in {runs:?}");
        for run in &ended {
            assert_eq!(run["state"], format!("RUN_STATE_{state}"), "{run}");
            assert_eq!(run["attempt"].to_string(), attempt, "{run}");
            let at = end_of(run);
            demo.line_where(&format!("{at} {job} {state}"), STORY, |line| {
                line.starts_with(&at) && words(line) == Some((job, state, attempt))
            });
        }
        for line in &said {
            let Some((of, as_what, _)) = words(line) else { continue };
            if of == job && !["RETRY_WAIT", "SKIPPED"].contains(&as_what) {
                let is_listed = ended.iter().any(|run| line.starts_with(&end_of(run)));
                assert!(is_listed && as_what == state, "{line:?} in {ended:?}");
            }
        }
    }
}

/// When a run ended, as the demo shows it.
fn end_of(run: &Value) -> String {
    let end = run["endTime"].as_str().expect("it has ended");
    let end = chrono::DateTime::parse_from_rfc3339(end).expect("a time");
    end.with_timezone(&chrono::Local).format("%H:%M:%S").to_string()
}
