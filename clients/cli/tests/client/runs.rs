//! `runs`: waiting, watching and logs over lost connections.

use clawjob_proto::v1::{
    Attempt, LogRecord, Run, RunState, StoredLogRecord, TailRunLogsResponse, WatchRunsResponse,
    watch_runs_response::Type,
};
use tonic::Status;

use crate::{
    fake::Fake,
    harness::{Session, nobody},
};

const RUN: &str = "apps/demo/runs/R1";

async fn with_run() -> (Fake, Session) {
    let (fake, url) = Fake::start().await;
    fake.state().runs.insert(RUN.into(), run());
    (fake, Session::new(url))
}

fn run() -> Run {
    Run { name: RUN.into(), job: "apps/demo/jobs/hello".into(), ..Run::default() }
}

#[tokio::test]
async fn wait_goes_on_until_the_run_has_ended() {
    let (fake, session) = with_run().await;
    let running = (RunState::Running, 1);
    fake.state().next_states.extend([running, running, (RunState::Succeeded, 1)]);
    let out = session.ok(&["runs", "wait", "demo/R1"]).await;
    assert!(out.contains("SUCCEEDED") && out.contains("demo/hello"), "{out}");
    assert_eq!(fake.state().calls, ["wait_run"; 3]);
}

#[tokio::test]
async fn a_run_that_did_not_succeed_exits_1_and_a_wait_too_long_7() {
    let (fake, session) = with_run().await;
    fake.state().next_states.push_back((RunState::TimedOut, 1));
    let done = session.run(&["-o", "json", "runs", "wait", "demo/R1"]).await;
    assert_eq!(done.exit, 1);
    assert!(done.out.contains("RUN_STATE_TIMED_OUT"), "{}", done.out);
    assert!(done.err.contains("demo/R1 ended TIMED_OUT"), "{}", done.err);
    fake.state().next_states.push_back((RunState::Running, 1));
    let done = session.run(&["runs", "wait", "demo/R1", "--timeout", "1ms"]).await;
    assert_eq!(done.exit, 7);
}

#[tokio::test]
async fn trigger_can_wait_for_the_run() {
    let (fake, session) = with_run().await;
    session.ok(&["jobs", "create", "demo/hello", "--handler", "h"]).await;
    fake.state().next_states.push_back((RunState::Failed, 1));
    let done = session.run(&["jobs", "trigger", "demo/hello", "--wait"]).await;
    assert_eq!(done.exit, 1, "{done:?}");
}

#[tokio::test]
async fn lists_are_over_all_apps_unless_one_is_named() {
    let (fake, session) = with_run().await;
    let args = ["runs", "list", "--job", "demo/hello", "--state", "failed", "--state", "lost"];
    let out = session.ok(&args).await;
    assert!(out.contains("demo/R1"), "{out}");
    assert_eq!(
        fake.state().filters,
        ["job = \"apps/demo/jobs/hello\" AND (state = RUN_STATE_FAILED OR state = RUN_STATE_LOST)"]
    );
}

fn event(kind: Type, run: &str, state: RunState, token: &str) -> WatchRunsResponse {
    let run = (!run.is_empty()).then(|| Run {
        name: format!("apps/demo/runs/{run}"),
        job: "apps/demo/jobs/hello".into(),
        state: state.into(),
        ..Run::default()
    });
    WatchRunsResponse { r#type: kind.into(), run, resume_token: token.into() }
}

#[tokio::test]
async fn watch_goes_on_from_its_token_after_a_loss_and_after_an_end() {
    let (fake, session) = with_run().await;
    fake.state().watches.extend([
        vec![
            Ok(event(Type::Current, "OLD", RunState::Succeeded, "")),
            Ok(event(Type::Current, "A", RunState::Running, "t1")),
            Ok(event(Type::Bookmark, "", RunState::Unspecified, "t2")),
            Err(Status::unavailable("draining")),
        ],
        vec![Ok(event(Type::Changed, "A", RunState::Succeeded, "t3"))],
        vec![Ok(event(Type::Changed, "B", RunState::Queued, "t4"))],
    ]);
    let done = session.run(&["runs", "watch", "--count", "3"]).await;
    assert_eq!(done.exit, 0, "{done:?}");
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", done.out);
    assert!(lines[0].contains("RUNNING") && lines[1].contains("SUCCEEDED"), "{}", done.out);
    assert_eq!(fake.state().watch_tokens, ["", "t2", "t3"]);
    assert!(done.err.contains("connection lost"), "{}", done.err);
}

#[tokio::test]
async fn watch_in_json_is_one_event_per_line() {
    let (fake, session) = with_run().await;
    fake.state().watches.push_back(vec![
        Ok(event(Type::Reset, "", RunState::Unspecified, "t0")),
        Ok(event(Type::Current, "A", RunState::Running, "t1")),
    ]);
    let out = session.ok(&["-o", "json", "runs", "watch", "--count", "2"]).await;
    let events: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "TYPE_RESET");
    assert_eq!(events[1]["run"]["state"], "RUN_STATE_RUNNING");
}

#[tokio::test]
async fn a_refused_watch_ends_at_once() {
    let (fake, session) = with_run().await;
    fake.state().watches.push_back(vec![Err(Status::permission_denied("no"))]);
    assert_eq!(session.run(&["runs", "watch"]).await.exit, 4);
}

fn batch(attempt: u32, seqs: &[u64], complete: bool) -> Result<TailRunLogsResponse, Status> {
    let record = |seq: &u64| StoredLogRecord {
        seq: *seq,
        attempt,
        record: Some(LogRecord {
            message: format!("line {attempt}.{seq}"),
            ..LogRecord::default()
        }),
    };
    Ok(TailRunLogsResponse {
        records: seqs.iter().map(record).collect(),
        through_seq: seqs.last().copied().unwrap_or_default(),
        dropped: 0,
        complete,
    })
}

#[tokio::test]
async fn following_logs_survives_a_loss_and_goes_on_with_the_next_attempt() {
    let (fake, session) = with_run().await;
    fake.state().tails.extend([
        vec![batch(1, &[1, 2], false), Err(Status::unavailable("gone"))],
        vec![batch(1, &[3], true)],
        vec![batch(2, &[1], true)],
    ]);
    fake.state().next_states.extend([(RunState::Running, 2), (RunState::Succeeded, 2)]);
    let out = session.ok(&["runs", "logs", "-f", "demo/R1"]).await;
    let messages: Vec<&str> = out.lines().map(|l| l.split("line ").nth(1).unwrap()).collect();
    assert_eq!(messages, ["1.1", "1.2", "1.3", "2.1"]);
    assert_eq!(fake.state().tail_places, [(0, 0), (1, 2), (2, 0)]);
}

#[tokio::test]
async fn stored_logs_are_printed_and_are_the_contracts_list_in_json() {
    let (fake, session) = with_run().await;
    fake.state().tails.push_back(vec![batch(1, &[1, 2], true)]);
    assert_eq!(session.ok(&["runs", "logs", "demo/R1"]).await.lines().count(), 2);
    fake.state().tails.push_back(vec![batch(1, &[1, 2], true)]);
    let json = session.run(&["runs", "logs", "demo/R1", "-o", "json"]).await.json();
    assert_eq!(json["records"][1]["seq"], "2");
}

#[tokio::test]
async fn records_that_were_dropped_are_told_of_with_those_that_were_kept() {
    let (fake, session) = with_run().await;
    let attempt = |number, log_records, log_records_dropped| Attempt {
        number,
        log_records,
        log_records_dropped,
        ..Attempt::default()
    };
    let run = Run { attempt: 2, attempts: vec![attempt(1, 2, 9), attempt(2, 2, 0)], ..run() };
    fake.state().runs.insert(RUN.into(), run);
    let shown = session.ok(&["runs", "get", "demo/R1"]).await;
    assert!(shown.contains("2 (9 dropped)"), "{shown}");
    let mut told = Vec::new();
    for attempt in ["1", "2"] {
        fake.state().tails.push_back(vec![batch(1, &[1, 2], true)]);
        told.push(session.run(&["runs", "logs", "--attempt", attempt, "demo/R1"]).await.err);
    }
    assert!(told[0].contains("attempt 1 dropped 9 records"), "{told:?}");
    assert!(!told[1].contains("dropped"), "{told:?}");
}

#[tokio::test]
async fn a_watch_that_never_began_exits_5() {
    let (_socket, url) = nobody();
    assert_eq!(Session::new(url).run(&["runs", "watch"]).await.exit, 5);
}

#[tokio::test]
async fn waiting_outlives_a_server_that_dies_under_the_first_wait() {
    let (fake, session) = with_run().await;
    fake.state().next_states.push_back((RunState::Succeeded, 1));
    fake.state().failures_after = Some((0, 4));
    let done = session.run(&["runs", "wait", "demo/R1"]).await;
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.err.contains("connection lost"), "{}", done.err);
}

#[tokio::test]
async fn waiting_outlives_a_server_that_is_away_for_a_while() {
    let (fake, session) = with_run().await;
    fake.state().next_states.extend([(RunState::Running, 1), (RunState::Succeeded, 1)]);
    // The second WaitRun fails in all its rounds; the wait goes on all the same.
    fake.state().failures_after = Some((1, 4));
    let done = session.run(&["runs", "wait", "demo/R1"]).await;
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.err.contains("connection lost"), "{}", done.err);
    assert_eq!(fake.state().calls.len(), 6);
}

#[tokio::test]
async fn a_run_that_was_split_is_shown_with_its_shards() {
    let (fake, session) = with_run().await;
    if let Some(run) = fake.state().runs.get_mut(RUN) {
        run.shard_total = 3;
    }
    let out = session.ok(&["runs", "get", "demo/R1"]).await;
    assert!(out.contains("3 in all") && out.contains("SHARD"), "{out}");
    session.ok(&["runs", "list", "--parent", "demo/R1"]).await;
    assert_eq!(fake.state().filters, ["parent = \"apps/demo/runs/R1\""; 2]);
    let out = session.ok(&["-o", "json", "runs", "get", "demo/R1"]).await;
    assert!(out.starts_with('{') && out.trim_end().ends_with('}'), "{out}");
}
