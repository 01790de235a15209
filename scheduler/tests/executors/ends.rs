//! What is left when a process ends: the server's, an executor's, all executors' in turn.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use clawjob_executor::{Ctx, Executor, Failure, Reconnect};
use clawjob_proto::v1::{
    Heartbeat, ListRunLogsRequest, Outcome, Payload, Run, RunResult, RunState, executor::State,
    result_ack, session_request::Frame as Up, session_response::Frame as Down,
};
use clawjob_scheduler::store::log_chunk::SEAM;
use nix::sys::signal::{Signal, kill};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    fleet::{APP, Fleet, STEP, eventually, start_agent},
    lines::{Process, clawjob},
    postgres,
    raw::{self, Raw},
};

#[tokio::test(flavor = "multi_thread")]
async fn x22_an_acknowledged_result_survives_kill9_on_sqlite() {
    acknowledged_then_killed(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x22_an_acknowledged_result_survives_kill9_on_postgres() {
    let schema = postgres::Schema::create().await;
    acknowledged_then_killed(&["--database", &schema.url]).await;
}

async fn acknowledged_then_killed(args: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    // An executor by hand sends no heartbeats.
    let calm = ["--set", "timings.heartbeat_timeout=50s"];
    let mut fleet = Fleet::start(dir.path(), &[&calm, args].concat()).await;
    let mut executor = fleet.raw("e1").await;
    let job = fleet.job("job", "work", "1").await;
    for round in 0..3 {
        let run = fleet.trigger(&job).await;
        let command = executor
            .expect(|frame| match frame {
                Down::Run(command) => Some(command),
                _ => None,
            })
            .await;
        let output = format!("\"round {round}\"");
        executor.send(Up::Result(RunResult {
            r#ref: command.r#ref,
            outcome: Outcome::Succeeded.into(),
            output: Some(Payload {
                content_type: "application/json".to_owned(),
                data: output.clone().into(),
            }),
            ..RunResult::default()
        }));
        let ack = executor
            .expect(|frame| match frame {
                Down::ResultAck(ack) => Some(ack),
                _ => None,
            })
            .await;
        fleet.node.kill9();
        assert_eq!(ack.status(), result_ack::Status::Committed);
        fleet = fleet.restart().await;
        let ended = fleet.run(&run).await;
        assert_eq!(ended.state(), RunState::Succeeded, "{ended:?}");
        assert_eq!(ended.output.expect("kept").data, output);
        executor = fleet.raw(&format!("e{}", round + 2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn x23_a_killed_agent_that_comes_back_at_once_leaves_no_run_running() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = Fleet::start(dir.path(), &[]).await;
    let mark = dir.path().join("first.pid");
    // The first attempt goes on for ever, the second ends.
    let script = format!("test -e {0} && exit 0; echo $$ > {0}; exec sleep 1000", mark.display());
    let commands = format!("    once: {{program: sh, args: ['-c', '{script}']}}\n");
    let url = fleet.node.url();
    let mut agent = fleet.agent(dir.path(), "host", &url, &commands).await;
    let job = fleet.job("job", "shell", r#"{"command":"once"}"#).await;
    let run = fleet.trigger(&job).await;
    eventually("the first attempt", || pid_in(&mark).is_some()).await;
    fleet.until(&run, RunState::Running).await;
    agent.signal(Signal::SIGKILL);
    agent.wait(STEP);
    let killed = Instant::now();
    let _agent = start_agent(&dir.path().join("host.yaml"));
    let ended = fleet.until(&run, RunState::Succeeded).await;
    println!("settled {:?} after the kill", killed.elapsed());
    assert_eq!(ended.attempt, 2);
    let first = ended.attempts.iter().find(|attempt| attempt.number == 1).expect("kept");
    assert_eq!(first.outcome(), Outcome::Lost, "{first:?}");
    let orphan = pid_in(&mark).expect("written");
    let _ = kill(nix::unistd::Pid::from_raw(orphan), Signal::SIGKILL);
}

/// The messages of a run's log.
async fn lines_of(fleet: &mut Fleet, run: &str) -> Vec<String> {
    let request = ListRunLogsRequest { name: run.to_owned(), ..ListRunLogsRequest::default() };
    let page = fleet.runs.list_run_logs(request).await.expect("listed").into_inner();
    page.records.into_iter().filter_map(|stored| stored.record).map(|it| it.message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_executor_is_stopped_tells_of_both_that_ran_it_on_sqlite() {
    stopped_and_gone_on(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_executor_is_stopped_tells_of_both_that_ran_it_on_postgres() {
    let schema = postgres::Schema::create().await;
    stopped_and_gone_on(&["--database", &schema.url]).await;
}

async fn stopped_and_gone_on(args: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = Fleet::start(dir.path(), args).await;
    let mark = dir.path().join("begun");
    // Where it begins first it goes on for ever; where it begins next it writes less.
    let script = format!(
        "if test -e {0}; then echo there 1; echo there 2; exit 0; fi; touch {0}; \
         for i in 1 2 3; do echo here $i; done; exec sleep 1000",
        mark.display()
    );
    let commands = format!("    steps: {{program: sh, args: ['-c', '{script}']}}\n");
    let url = fleet.node.url();
    let first = fleet.agent(dir.path(), "first", &url, &commands).await;
    fleet.until_executor("first", State::Online).await;
    let job = fleet.job("job", "shell", r#"{"command":"steps"}"#).await;
    let run = fleet.trigger(&job).await;
    let begun = fleet.until(&run, RunState::Running).await;
    let end = Instant::now() + STEP;
    while lines_of(&mut fleet, &run).await.len() < 3 {
        assert!(Instant::now() < end, "its lines never came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _second = fleet.agent(dir.path(), "second", &url, &commands).await;
    fleet.until_executor("second", State::Online).await;
    first.signal(Signal::SIGTERM);
    fleet.until_executor("first", State::Draining).await;
    first.signal(Signal::SIGTERM);
    let ended = fleet.until(&run, RunState::Succeeded).await;
    let told: Vec<_> = ended
        .attempts
        .iter()
        .map(|one| (one.number, one.executor.rsplit('/').next().unwrap_or(""), one.outcome()))
        .collect();
    let expected = [(1, "first", Outcome::Canceled), (1, "second", Outcome::Succeeded)];
    assert_eq!((ended.attempt, told.as_slice()), (1, expected.as_slice()));
    let why = ended.attempts[0].failure.as_ref().expect("why it stopped there");
    assert_eq!(why.code, "SHUTDOWN");
    assert_eq!(ended.start_time, begun.start_time, "the run began once");
    let lines = ["here 1", "here 2", "here 3", SEAM, "there 1", "there 2"];
    assert_eq!(lines_of(&mut fleet, &run).await, lines);
}

fn pid_in(file: &std::path::Path) -> Option<i32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// What the executors of a rolling restart counted.
#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// An executor of the SDK in this process.
struct Member {
    counts: Arc<Counts>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), clawjob_executor::Error>>,
}

impl Member {
    async fn start(fleet: &Fleet, id: &str, takes: Duration) -> Self {
        let counts: Arc<Counts> = Arc::default();
        let quick = Duration::from_millis(100);
        let reconnect =
            Reconnect { first: quick, base: quick, cap: quick * 5, ..Reconnect::default() };
        let counting = counts.clone();
        let executor = Executor::builder()
            .endpoints([fleet.node.url()])
            .token(fleet.node.executor_token(APP).await)
            .app(APP)
            .executor_id(id)
            .slots(50)
            .reconnect(reconnect)
            .handler("work", move |_: serde_json::Value, _: Ctx| {
                let counts = counting.clone();
                async move {
                    counts.begun.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(takes).await;
                    counts.ended.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Failure>(())
                }
            });
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(executor.run_until(async {
            let _ = stopped.await;
        }));
        Self { counts, stop, running }
    }

    /// Drains it, and waits for its end: all that it began has ended by then.
    async fn leave(self) {
        self.stop.send(()).expect("it runs");
        self.running.await.expect("no panic").expect("a clean end");
        let begun = self.counts.begun.load(Ordering::SeqCst);
        assert_eq!(self.counts.ended.load(Ordering::SeqCst), begun, "none was cut short");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn x27_s06_rolling_restarts_of_executors_and_server_under_load_fail_no_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fleet = Fleet::start(dir.path(), &[]).await;
    let takes = Duration::from_millis(1_500);
    let mut members = Vec::new();
    for id in ["a", "b", "c"] {
        members.push(Member::start(&fleet, id, takes).await);
    }
    for n in 0..5 {
        fleet.each_second(&format!("job-{n}"), "work", "1").await;
    }
    let began = |members: &[Member]| -> usize {
        members.iter().map(|member| member.counts.begun.load(Ordering::SeqCst)).sum()
    };
    let each = |members: &[Member]| {
        members.iter().all(|member| member.counts.begun.load(Ordering::SeqCst) > 0)
    };
    eventually("a share for each", || each(&members)).await;
    for id in ["a", "b", "c"] {
        let member = members.remove(0);
        member.leave().await;
        let row = fleet.until_executor(id, State::Offline).await;
        assert_eq!(row.running, [""; 0]);
        members.push(Member::start(&fleet, id, takes).await);
        let before = began(&members);
        eventually("runs under way", || began(&members) >= before + 10).await;
    }
    // The server's turn: executors keep their runs and come back with them.
    assert!(fleet.node.terminate().success());
    fleet = fleet.restart().await;
    let before = began(&members);
    eventually("runs after the restart", || began(&members) >= before + 10).await;
    let mut runs = fleet.all_runs().await;
    runs.retain(|run| run.end_time.is_some());
    let bad = |run: &Run| run.state() != RunState::Succeeded || run.attempt != 1;
    // A restart that took longer than the misfire threshold is recorded, and is no failure.
    let (skipped, runs): (Vec<_>, Vec<_>) =
        runs.into_iter().partition(|run| run.state() == RunState::Skipped);
    let failed: Vec<_> = runs.iter().filter(|run| bad(run)).collect();
    println!("{} runs, {} skipped", runs.len(), skipped.len());
    assert!(runs.len() >= 40 && failed.is_empty(), "{failed:?}");
    for member in members {
        member.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r37_an_executor_that_never_reads_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = clawjob();
    command.arg("server").arg("--data-dir").arg(dir.path());
    command.args(["--listen", "127.0.0.1:0", "--set", "timings.shutdown_grace=30s"]);
    let mut server = Process::start(command, std::process::Stdio::piped());
    let url = server.line_with("listening on ", STEP).rsplit(' ').next().expect("a URL").to_owned();
    let address = url.trim_start_matches("http://").to_owned();
    let token = std::fs::read_to_string(dir.path().join("admin.token")).expect("written");
    let deaf = deaf_executor(&url, token.trim()).await;
    assert_eq!(readiness(&address), Some(200));

    // Looked at from before the signal on: the server may be gone soon after it.
    let unready = tokio::spawn(async move {
        eventually("not ready", || readiness(&address) == Some(503)).await;
        Instant::now()
    });
    let began = Instant::now();
    server.signal(Signal::SIGTERM);
    let unready = unready.await.expect("it is not ready for a while") - began;
    let status = server.wait(STEP);
    let took = began.elapsed();
    let said = server.all().join("\n");
    println!("not ready after {unready:?}, ended after {took:?}");
    assert!(status.success(), "{said}");
    assert!(took < Duration::from_secs(30) && !said.contains("cut short"), "{took:?}\n{said}");
    drop(deaf);
}

/// An executor that asks for answers by the thousand and reads none.
async fn deaf_executor(url: &str, admin: &str) -> Raw {
    let token = raw::executor_token(url, admin, APP).await;
    let raw = Raw::dial(url, &token, "deaf").await;
    for seq in 0..10_000 {
        raw.send(Up::Heartbeat(Heartbeat { seq, free_slots: 4, ..Heartbeat::default() }));
    }
    raw
}

/// The HTTP status of `/readyz`; None without an answer.
fn readiness(address: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(STEP)).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
    let mut head = [0_u8; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}
