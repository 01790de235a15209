//! Kills, processes that were replaced, logs, and attempts that one side does not know.

use std::{sync::Arc, time::Duration};

use clawjob_proto::v1::{
    self, Outcome, RunCommand, RunResult, result_ack, session_response::Frame as Down,
};

use super::{Bench, COMMITTED, failed, outcome, result_acks};
use crate::{
    clock::Clock as _,
    hub::{Hub, HubSettings, Kill, event::Origin, local::LocalExecutor, session::Opening, wire},
    model::{
        executor::ExecutorSpec,
        ids::{AttemptRef, RunId},
        retry::RetryPolicy,
        run::{KillReason, RunState},
    },
    results::testing::noon,
    store::{
        Store as _,
        ops::{MarkCanceling, StateSet},
    },
};

/// Who asks for an end, and why.
const WHY: &str = "canceled by users/ann: no longer needed";
const STALE: result_ack::Status = result_ack::Status::Stale;

/// The truth table of a kill against a finish.
#[tokio::test]
async fn f8_a_kill_and_a_finish_make_one_end() {
    let cases = [
        (outcome(Outcome::Succeeded), RunState::Succeeded),
        (failed("HANDLER_ERROR"), RunState::Failed),
        (outcome(Outcome::Canceled), RunState::Canceled),
        (outcome(Outcome::TimedOut), RunState::Canceled),
    ];
    for (result, state) in cases {
        let retry = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
        let mut bench = Bench::new(retry).await;
        let mut executor = bench.executor("a").await;
        let attempt = bench.start(1, &mut executor).await;
        bench.settle().await;
        cancel(&bench, attempt).await;
        executor.finish(attempt, result);
        bench.settle().await;
        let record = bench.store.get_run(attempt.run).await.expect("reads");
        assert_eq!(record.run.state, state);
        assert_eq!(record.run.kill_reason, Some(KillReason::User), "the reason is kept");
        let words = if state == RunState::Canceled { WHY } else { "" };
        assert_eq!(record.run.message, words, "who asked is told of where it was done");
        assert_eq!(result_acks(&mut executor), [COMMITTED]);
    }
}

async fn cancel(bench: &Bench, attempt: AttemptRef) {
    let kill = MarkCanceling {
        attempt,
        from: StateSet::OPEN,
        reason: KillReason::User,
        grace: None,
        message: WHY.to_owned(),
    };
    let changed = bench.store.mark_canceling(&[kill], bench.clock.now()).await.expect("marks");
    assert_eq!(changed, [attempt]);
    let (reason, grace) = (KillReason::User, Duration::from_secs(10));
    let kill = Kill { attempt, reason, grace, message: String::new() };
    bench.hub.kill(bench.app, "a", kill);
}

#[tokio::test]
async fn ack_r7_a_kill_that_finds_nothing_cancels_the_run() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    bench.settle().await;
    cancel(&bench, attempt).await;
    executor.kill_ack(attempt, v1::kill_ack::Status::NotFound);
    bench.settle().await;
    let record = bench.store.get_run(attempt.run).await.expect("reads");
    assert_eq!(record.run.state, RunState::Canceled);
    assert_eq!(record.failure.map(|f| f.code), Some("NOT_FOUND_ON_EXECUTOR".to_owned()));
    assert_eq!(record.run.message, WHY);
}

#[tokio::test]
async fn r45_a_report_that_comes_after_the_stop_changes_nothing() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let run = bench.run(1).await;
    let command = bench.send(run, &mut executor).await;
    let attempt = wire::attempt_ref(command.r#ref.as_ref()).expect("an attempt");
    cancel(&bench, attempt).await;
    executor.receive();
    executor.kill_ack(attempt, v1::kill_ack::Status::NotFound);
    bench.settle().await;
    assert_eq!(bench.state(run).await, RunState::Canceled);
    // It had begun after all: its answer, its list and its progress come late.
    executor.accept(&command).expect("an attempt");
    let progress = v1::Progress { r#ref: Some(wire::to_ref(attempt)), ..v1::Progress::default() };
    executor.send(v1::session_request::Frame::Progress(progress));
    executor.heartbeat();
    bench.settle().await;
    assert_eq!(bench.state(run).await, RunState::Canceled);
    assert_eq!(bench.open(run).await, None);
    let frames = executor.receive();
    let kills = frames.iter().filter_map(|frame| match frame {
        Down::Kill(kill) => Some((wire::attempt_ref(kill.r#ref.as_ref()), kill.reason())),
        _ => None,
    });
    let stale = v1::KillReason::StaleAttempt;
    assert_eq!(kills.collect::<Vec<_>>(), [(Some(attempt), stale)], "it is told to stop");
    executor.finish(attempt, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(bench.state(run).await, RunState::Canceled, "the end never changes");
}

#[tokio::test]
async fn s10_a_crash_between_write_and_ack_is_answered_when_the_result_comes_again() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    executor.finish(attempt, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(bench.state(attempt.run).await, RunState::Succeeded);
    // The process that wrote it ends before the executor has read the ack.
    let (hub, events) = Hub::new(HubSettings::default(), bench.clock.clone());
    bench.hub = hub.clone();
    bench.events = events;
    bench.results.hub = hub;
    let origin = Origin { epoch: 2, ..(**executor.link().origin()).clone() };
    let spec = ExecutorSpec { slots: 8, ..ExecutorSpec::default() };
    let mut again = LocalExecutor::open(&bench.hub, unknowing(origin, spec), "app").expect("opens");
    again.receive();
    again.finish(attempt, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(result_acks(&mut again), [super::DUPLICATE]);
    let record = bench.store.get_run(attempt.run).await.expect("reads");
    assert_eq!((record.run.state, record.run.attempt), (RunState::Succeeded, 1));
}

#[tokio::test]
async fn r56_a_run_that_logs_nothing_leaves_neither_row_nor_file() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let before = files(&bench);
    let quiet = bench.start(1, &mut executor).await;
    executor.finish(quiet, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(bench.state(quiet.run).await, RunState::Succeeded);
    assert_eq!(log_rows(&bench), 0);
    assert_eq!(files(&bench), before);
    // The same look finds the log of one that speaks.
    let loud = bench.start(2, &mut executor).await;
    executor.send(v1::session_request::Frame::LogChunk(v1::LogChunk {
        r#ref: Some(wire::to_ref(loud)),
        first_seq: 1,
        records: vec![v1::LogRecord::default()],
        dropped: 0,
    }));
    bench.settle().await;
    assert_eq!(log_rows(&bench), 1);
}

fn files(bench: &Bench) -> std::collections::BTreeSet<std::ffi::OsString> {
    let listed = std::fs::read_dir(bench._dir.path()).expect("a directory");
    listed.map(|file| file.expect("a file").file_name()).collect()
}

fn log_rows(bench: &Bench) -> i64 {
    let database = rusqlite::Connection::open(bench._dir.path().join("clawjob.db")).expect("opens");
    let count = database.query_row("SELECT count(*) FROM log_chunk", [], |row| row.get(0));
    count.expect("a number")
}

#[tokio::test]
async fn x23_a_process_that_was_replaced_loses_its_run_which_is_tried_again() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    bench.settle().await;
    executor.break_off();
    let origin = executor.link().origin().clone();
    let now = bench.clock.now();
    bench.store.end_session(origin.row, origin.epoch, false, now).await.expect("ends");
    let spec = ExecutorSpec { slots: 1, ..ExecutorSpec::default() };
    let again = LocalExecutor::connect(&bench.hub, &*bench.store, "app", "a", "other", spec).await;
    let mut again = again.expect("connects");
    again.receive();
    bench.settle().await;
    let row = bench.open(attempt.run).await.expect("open");
    assert_eq!((row.state, row.lost), (RunState::RetryWait, 1));
    // The first process was alive after all: what it says comes too late, and is kept.
    executor.finish(attempt, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(result_acks(&mut again), [STALE]);
    let record = bench.store.get_run(attempt.run).await.expect("reads");
    let late = record.attempts.iter().find(|past| past.number == 1).and_then(|p| p.late_outcome);
    assert_eq!(late, Some(crate::model::run::Outcome::Succeeded));
}

#[tokio::test]
async fn ack_r8_logs_are_acknowledged_once_stored_and_come_before_the_result() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    let record = v1::LogRecord { message: "nul \0 in it".to_owned(), ..v1::LogRecord::default() };
    executor.send(v1::session_request::Frame::LogChunk(v1::LogChunk {
        r#ref: Some(wire::to_ref(attempt)),
        first_seq: 1,
        records: vec![record.clone(), record],
        dropped: 0,
    }));
    executor.finish(attempt, RunResult { last_log_seq: 2, ..outcome(Outcome::Succeeded) });
    bench.settle().await;
    let frames = executor.receive();
    let [Down::LogAck(logs), Down::ResultAck(_)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(logs.through_seq, 2);
    let query = crate::store::ops::LogQuery {
        run: attempt.run,
        attempt: 0,
        after_seq: 0,
        min_level: crate::model::log::LogLevel::Trace,
        contains: String::new(),
        limit: 10,
    };
    let page = bench.store.list_logs(&query).await.expect("reads");
    assert!(page.complete);
    assert_eq!(page.records.len(), 2);
    assert_eq!(page.records[0].message, "nul \u{FFFD} in it");
}

#[tokio::test]
async fn an_attempt_nobody_wants_is_stopped_and_a_forgotten_one_is_taken_in() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    bench.settle().await;
    // A session that knows nothing of it, as after a restart.
    let (hub, events) = Hub::new(HubSettings::default(), bench.clock.clone());
    bench.hub = hub.clone();
    bench.events = events;
    bench.results.hub = hub;
    let origin = Origin { epoch: 2, ..(**executor.link().origin()).clone() };
    let spec = ExecutorSpec { slots: 8, ..ExecutorSpec::default() };
    let mut executor =
        LocalExecutor::open(&bench.hub, unknowing(origin, spec), "app").expect("opens");
    executor.receive();
    let foreign = AttemptRef { run: RunId::by_hand(noon(), 99), attempt: 1, fence: 1 };
    for attempt in [attempt, foreign] {
        let command = RunCommand { r#ref: Some(wire::to_ref(attempt)), ..RunCommand::default() };
        executor.accept(&command);
    }
    executor.heartbeat();
    bench.settle().await;
    let frames = executor.receive();
    let kills: Vec<AttemptRef> = frames
        .iter()
        .filter_map(|frame| match frame {
            Down::Kill(kill) => wire::attempt_ref(kill.r#ref.as_ref()),
            _ => None,
        })
        .collect();
    assert_eq!(kills, [foreign]);
    let live = bench.hub.snapshot(bench.app, "a").expect("live");
    assert_eq!(live.running, [attempt]);
}

/// A session that begins without a look at the rows.
fn unknowing(origin: Origin, spec: ExecutorSpec) -> Opening {
    Opening {
        origin: Arc::new(origin),
        app_name: "app".to_owned(),
        instance_id: "a".to_owned(),
        session_id: String::new(),
        spec,
        cordoned: false,
        protocol_minor: 0,
        features: Vec::new(),
        resume_token: String::new(),
        resumed: true,
        replaced: false,
        claimed: Vec::new(),
        listed: Vec::new(),
        last_command_seq: 0,
        unwanted: Vec::new(),
        known_results: Vec::new(),
        auth_expires_at: None,
    }
}
