//! The agent behind a way that leads only outwards, cut off and back, and flooding its log.

use std::path::Path;

use clawjob_proto::v1::{
    CancelRunRequest, KillReason, ListRunLogsRequest, RunState, StoredLogRecord,
    TailRunLogsRequest, TailRunLogsResponse, executor::State,
};
use nix::unistd::Pid;
use tonic::Streaming;

use crate::{
    fleet::{Fleet, STEP, eventually},
    relay::Relay,
};

/// A command that starts processes of its own, one in another session, and lives until it is killed.
const FAMILY: &str = r#"
    family:
      program: sh
      args:
        - "-c"
        - "sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; echo pid $$; wait"
      stop_grace_s: 1
"#;

/// The next batch of a live view.
async fn batch(tail: &mut Streaming<TailRunLogsResponse>) -> TailRunLogsResponse {
    let next = tokio::time::timeout(STEP, tail.message()).await.expect("a batch in time");
    next.expect("no error").expect("it goes on")
}

async fn tail(fleet: &mut Fleet, run: &str) -> Streaming<TailRunLogsResponse> {
    let request = TailRunLogsRequest { name: run.to_owned(), ..TailRunLogsRequest::default() };
    fleet.runs.tail_run_logs(request).await.expect("tailed").into_inner()
}

fn message(stored: &StoredLogRecord) -> &str {
    stored.record.as_ref().map_or("", |record| &record.message)
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Sockets of a process on which anybody could reach it.
fn listening(pid: Pid) -> Vec<String> {
    const LISTEN: &str = "0A";
    let process = Path::new("/proc").join(pid.to_string());
    let open = std::fs::read_dir(process.join("fd")).expect("it runs").flatten();
    let open: Vec<String> = open
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let mut found = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        let Ok(table) = std::fs::read_to_string(process.join(table)) else { continue };
        for line in table.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let own = format!("socket:[{}]", words[9]);
            if words[3] == LISTEN && open.contains(&own) {
                found.push(words[1].to_owned());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn x29_r41_an_agent_without_an_open_port_registers_runs_shows_its_log_and_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = Fleet::start(dir.path(), &[]).await;
    let relay = Relay::to(&fleet.node.url()).await;
    let agent = fleet.agent(dir.path(), "nat", &relay.url(), FAMILY).await;
    let seen = fleet.until_executor("nat", State::Online).await;
    assert_eq!(listening(agent.pid()), [""; 0]);
    let own = Pid::from_raw(fleet.node.pid().cast_signed());
    assert_eq!(listening(own).len(), 1, "the look finds the server's port");
    assert!(seen.peer_address.starts_with("127.0.0.1:"), "{seen:?}");

    let job = fleet.job("job", "shell", r#"{"command":"family"}"#).await;
    let run = fleet.trigger(&job).await;
    let mut view = tail(&mut fleet, &run).await;
    let mut pids: Vec<i32> = Vec::new();
    while pids.len() < 3 {
        let records = batch(&mut view).await.records;
        let said = records.iter().filter_map(|record| message(record).strip_prefix("pid "));
        pids.extend(said.map(|pid| pid.parse::<i32>().expect("a number")));
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    let cancel = CancelRunRequest { name: run.clone(), ..CancelRunRequest::default() };
    fleet.runs.cancel_run(cancel).await.expect("asked to stop");
    let ended = fleet.until(&run, RunState::Canceled).await;
    assert_eq!(ended.kill_reason(), KillReason::User, "{ended:?}");
    eventually("the end of all its processes", || !pids.iter().any(|pid| is_alive(*pid))).await;
    while !batch(&mut view).await.complete {}
}

#[tokio::test(flavor = "multi_thread")]
async fn r34_r36_an_agent_that_is_cut_off_is_seen_and_comes_back_with_its_run() {
    let dir = tempfile::tempdir().expect("a directory");
    // It is suspect for as long as this before it is offline: long enough to be seen.
    let timeout = ["--set", "timings.heartbeat_timeout=5s"];
    let mut fleet = Fleet::start(dir.path(), &timeout).await;
    let relay = Relay::to(&fleet.node.url()).await;
    let (count, go) = (dir.path().join("count"), dir.path().join("go"));
    let script = format!(
        "echo begun >> {}; while ! test -e {}; do sleep 0.1; done",
        count.display(),
        go.display()
    );
    let commands = format!("    wait: {{program: sh, args: ['-c', '{script}']}}\n");
    let _agent = fleet.agent(dir.path(), "far", &relay.url(), &commands).await;
    let job = fleet.job("job", "shell", r#"{"command":"wait"}"#).await;
    let run = fleet.trigger(&job).await;
    fleet.until(&run, RunState::Running).await;
    relay.cut();
    // Neither end is told.
    fleet.until_executor("far", State::Suspect).await;
    fleet.until_executor("far", State::Offline).await;
    assert_eq!(fleet.run(&run).await.state(), RunState::Running, "a lost contact is no end");
    relay.heal();
    fleet.until_executor("far", State::Online).await;
    let running = fleet.run(&run).await;
    assert_eq!((running.state(), running.attempt), (RunState::Running, 1));
    std::fs::write(&go, "").expect("written");
    let ended = fleet.until(&run, RunState::Succeeded).await;
    assert_eq!(ended.attempt, 1, "{ended:?}");
    assert_eq!(std::fs::read_to_string(&count).expect("written"), "begun\n", "it ran once");
}

/// Kilobytes of memory that a process holds.
fn memory_kb(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("told");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn x46_a_flood_of_log_leaves_memory_flat_and_other_runs_alone_and_is_accounted_for() {
    /// Lines of the flood, of 1,024 bytes each: 20 MiB.
    const LINES: u64 = 20_480;
    /// More than the bounds of its buffers, far less than the flood makes a process hold that keeps
    /// it all in its several forms.
    const GROWTH_KB_MAX: u64 = 64 * 1024;
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = Fleet::start(dir.path(), &[]).await;
    let go = dir.path().join("go");
    // The last word comes in a second of its own: each has its share of records.
    let flood = format!(
        "yes {} | head -n {LINES}; while ! test -e {}; do sleep 0.1; done; sleep 1.1; echo last",
        "x".repeat(1_023),
        go.display()
    );
    let commands = format!(
        "    flood: {{program: sh, args: ['-c', '{flood}']}}\n    quiet: {{program: 'true'}}\n"
    );
    let url = fleet.node.url();
    let agent = fleet.agent(dir.path(), "loud", &url, &commands).await;
    let (loud, quiet) = (r#"{"command":"flood"}"#, r#"{"command":"quiet"}"#);
    let (loud, quiet) = (fleet.job("l", "shell", loud).await, fleet.job("q", "shell", quiet).await);
    let first = fleet.trigger(&quiet).await;
    fleet.until(&first, RunState::Succeeded).await;
    let server = Pid::from_raw(fleet.node.pid().cast_signed());
    let before = (memory_kb(server), memory_kb(agent.pid()));

    let run = fleet.trigger(&loud).await;
    let mut view = tail(&mut fleet, &run).await;
    let mut records = 0_u64;
    while records == 0 {
        records += batch(&mut view).await.records.len() as u64;
    }
    let other = fleet.trigger(&quiet).await;
    fleet.until(&other, RunState::Succeeded).await;
    std::fs::write(&go, "").expect("written");
    let mut last = false;
    let dropped = loop {
        let batch = batch(&mut view).await;
        records += batch.records.len() as u64;
        last |= batch.records.iter().any(|record| message(record) == "last");
        if batch.complete {
            break batch.dropped;
        }
    };
    let after = (memory_kb(server), memory_kb(agent.pid()));
    println!("{records} records, {dropped} dropped; memory in kB {before:?}, then {after:?}");
    assert!(last, "the live view went on to the end");
    assert!(dropped > 0 && records > 0);
    assert_eq!(records + dropped, LINES + 1, "what was cut is counted");
    assert!(after.0 < before.0 + GROWTH_KB_MAX, "server: {before:?} {after:?}");
    assert!(after.1 < before.1 + GROWTH_KB_MAX, "agent: {before:?} {after:?}");
    fleet.until(&run, RunState::Succeeded).await;
    let page = ListRunLogsRequest { name: run, page_size: 10, ..ListRunLogsRequest::default() };
    let page = fleet.runs.list_run_logs(page).await.expect("listed").into_inner();
    assert_eq!(page.records.len(), 10);
    assert!(!page.next_page_token.is_empty());
}
