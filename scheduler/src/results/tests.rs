//! Events of sessions become states of runs, on a SQLite store.

mod contact;
mod strangers;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{
    self, Outcome, RunCommand, RunResult, result_ack, run_ack, session_response::Frame as Down,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Results, RunListener, Specs, testing::noon};
use crate::{
    clock::{Clock, ManualClock},
    fleet::Reach,
    hub::{Hub, HubSettings, event::EventReceiver, local::LocalExecutor, wire},
    model::{
        executor::{ExecutorSpec, Handler},
        ids::{AppId, AttemptRef, JobId, PARTITION_COUNT, PartitionId, RunId},
        job::{JobSpec, JobState},
        retry::RetryPolicy,
        run::{self, CODE_INVALID_PARAMS, CODE_UNKNOWN_HANDLER, OpenRun, RunState, TriggerKind},
    },
    store::{
        Store,
        ops::{Addressee, Dispatch, DispatchRow, NewJob, NewRun},
        sqlite::SqliteStore,
    },
};

/// Hears what a board would.
#[derive(Default)]
struct Heard {
    ended: Mutex<Vec<(RunId, RunState)>>,
    put_back: Mutex<Vec<(RunId, RunState, DateTime<Utc>)>>,
}

impl RunListener for Heard {
    fn ended(&self, run: RunId, _job: JobId, state: RunState, _at: DateTime<Utc>) {
        self.ended.lock().push((run, state));
    }

    fn put_back(&self, run: OpenRun) {
        self.put_back.lock().push((run.id, run.state, run.due_at));
    }

    fn acked(&self, _attempt: AttemptRef, _at: DateTime<Utc>) {}
}

/// Nothing is in memory: every spec comes from the store.
struct NoSpecs;

impl Specs for NoSpecs {
    fn spec(&self, _run: &OpenRun) -> Option<Arc<JobSpec>> {
        None
    }
}

/// A scheduler in small: store, hub and results, with time by hand.
struct Bench {
    clock: Arc<ManualClock>,
    store: Arc<SqliteStore>,
    hub: Arc<Hub>,
    events: EventReceiver,
    results: Results,
    heard: Arc<Heard>,
    stop: CancellationToken,
    app: AppId,
    job: JobId,
    _dir: TempDir,
}

impl Bench {
    async fn new(retry: RetryPolicy) -> Self {
        let dir = TempDir::new().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        let clock = ManualClock::new(noon());
        let (hub, events) = Hub::new(HubSettings::default(), clock.clone());
        let (heard, stop) = (Arc::new(Heard::default()), CancellationToken::new());
        let results = Results::new(
            store.clone(),
            Reach::alone(hub.clone()),
            Arc::new(NoSpecs),
            heard.clone(),
            clock.clone(),
            stop.clone(),
        );
        let app = store.ensure_app("app", noon()).await.expect("an app").id;
        let spec = JobSpec { handler: "hello".to_owned(), retry, ..JobSpec::default() };
        let new = NewJob {
            app,
            name: "job".to_owned(),
            state: JobState::Active,
            spec,
            updated_by: "test".to_owned(),
            request: None,
        };
        let job = store.create_job(&new, Box::new(|_| Vec::new()), noon()).await.expect("a job");
        let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
        store.take_partitions("node", &all, noon()).await.expect("taken");
        let job = job.id;
        Self { clock, store, hub, events, results, heard, stop, app, job, _dir: dir }
    }

    async fn executor(&self, name: &str) -> LocalExecutor {
        self.executor_of("app", name).await
    }

    async fn executor_of(&self, app: &str, name: &str) -> LocalExecutor {
        let handler = Handler {
            name: "hello".to_owned(),
            max_concurrency: 0,
            params_schema: String::new(),
            description: String::new(),
        };
        let spec = ExecutorSpec { handlers: vec![handler], slots: 8, ..ExecutorSpec::default() };
        let connected =
            LocalExecutor::connect(&self.hub, &*self.store, app, name, name, spec).await;
        let mut executor = connected.expect("connects");
        executor.receive();
        executor
    }

    /// Makes a run that is due.
    async fn run(&self, n: u128) -> RunId {
        let now = self.clock.now();
        let new = NewRun {
            id: RunId::by_hand(now, n),
            job: self.job,
            app: self.app,
            revision: 1,
            trigger: TriggerKind::Api,
            fire_at: now,
            due_at: now,
            extra: None,
        };
        self.store.create_run(&new, None, now).await.expect("a run")
    }

    /// Dispatches a queued run to the executor, which reads the command.
    async fn send(&self, run: RunId, executor: &mut LocalExecutor) -> RunCommand {
        let row = self.open(run).await.expect("open");
        let origin = executor.link().origin().clone();
        let epoch = origin.epoch;
        assert!(self.hub.reserve(self.app, &origin.executor, epoch, "hello", 1), "no credit");
        let row = DispatchRow {
            attempt: row.attempt_ref(),
            to: Addressee { executor: origin.executor.clone(), session_epoch: epoch },
        };
        let batch = Dispatch { rows: vec![row], uses: Vec::new() };
        let sent = self.store.dispatch(&batch, self.clock.now()).await.expect("dispatches");
        let command = RunCommand {
            r#ref: Some(wire::to_ref(sent[0])),
            handler: "hello".to_owned(),
            ..RunCommand::default()
        };
        assert!(self.hub.send_run(self.app, &origin.executor, epoch, command));
        let frames = executor.receive().into_iter();
        let mut runs = frames.filter_map(|frame| match frame {
            Down::Run(run) => Some(run),
            _ => None,
        });
        runs.next().expect("a RunCommand")
    }

    /// Dispatches a run that the executor accepts.
    async fn start(&self, n: u128, executor: &mut LocalExecutor) -> AttemptRef {
        let run = self.run(n).await;
        let command = self.send(run, executor).await;
        executor.accept(&command).expect("an attempt")
    }

    /// Writes all that was reported.
    async fn settle(&mut self) {
        while self.results.step(&mut self.events).await > 0 {}
        self.clock.advance(Duration::from_millis(60));
        self.results.step(&mut self.events).await;
    }

    async fn open(&self, run: RunId) -> Option<OpenRun> {
        self.store.open_runs(&[run]).await.expect("reads").pop()
    }

    async fn state(&self, run: RunId) -> RunState {
        self.store.get_run(run).await.expect("reads").run.state
    }
}

fn outcome(outcome: Outcome) -> RunResult {
    RunResult { outcome: outcome.into(), ..RunResult::default() }
}

fn failed(code: &str) -> RunResult {
    let failure = v1::Failure { code: code.to_owned(), ..v1::Failure::default() };
    RunResult { failure: Some(failure), ..outcome(Outcome::Failed) }
}

fn result_acks(executor: &mut LocalExecutor) -> Vec<result_ack::Status> {
    let frames = executor.receive().into_iter();
    let acks = frames.filter_map(|frame| match frame {
        Down::ResultAck(ack) => result_ack::Status::try_from(ack.status).ok(),
        _ => None,
    });
    acks.collect()
}

const COMMITTED: result_ack::Status = result_ack::Status::Committed;
const DUPLICATE: result_ack::Status = result_ack::Status::Duplicate;

#[tokio::test]
async fn an_acked_run_is_shown_running_after_a_while() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    bench.results.step(&mut bench.events).await;
    assert_eq!(bench.state(attempt.run).await, RunState::Dispatched, "the ack waits for company");
    let acked = bench.clock.now();
    bench.settle().await;
    let row = bench.open(attempt.run).await.expect("open");
    assert_eq!((row.state, row.acked_at), (RunState::Running, Some(acked)));
}

#[tokio::test]
async fn an_ack_that_just_came_is_not_written_with_one_that_is_due() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("e1").await;
    let mut acked = Vec::new();
    // The third comes when the first is due: the second has waited for half of that time.
    for (n, later) in [(1, 25), (2, 25), (3, 0)] {
        acked.push(bench.start(n, &mut executor).await);
        bench.results.step(&mut bench.events).await;
        bench.clock.advance(Duration::from_millis(later));
    }
    bench.results.step(&mut bench.events).await;
    let mut states = Vec::new();
    for attempt in &acked {
        states.push(bench.state(attempt.run).await);
    }
    assert_eq!(states, [RunState::Running, RunState::Running, RunState::Dispatched]);
    executor.finish(acked[2], outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(bench.state(acked[2].run).await, RunState::Succeeded);
}

#[tokio::test]
async fn s10_a_result_is_acknowledged_only_after_it_is_written() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    let started = bench.clock.now();
    bench.clock.advance(Duration::from_secs(2));
    let output = v1::Payload { content_type: "application/json".into(), data: "42".into() };
    let result = RunResult { output: Some(output), ..outcome(Outcome::Succeeded) };
    executor.finish(attempt, result);
    assert!(result_acks(&mut executor).is_empty());
    bench.settle().await;
    assert_eq!(result_acks(&mut executor), [COMMITTED]);
    let record = bench.store.get_run(attempt.run).await.expect("reads");
    assert_eq!(record.run.state, RunState::Succeeded);
    assert_eq!(record.output.map(|output| output.data), Some("42".into()));
    assert_eq!(record.run.acked_at, Some(started), "the ack came with the result");
    assert_eq!(*bench.heard.ended.lock(), [(attempt.run, RunState::Succeeded)]);
}

#[tokio::test]
async fn x21_a_result_delivered_twice_ends_the_run_once() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    executor.finish(attempt, outcome(Outcome::Succeeded));
    executor.finish(attempt, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(result_acks(&mut executor), [COMMITTED], "both were in one batch");
    executor.finish(attempt, outcome(Outcome::Failed));
    bench.settle().await;
    assert_eq!(result_acks(&mut executor), [DUPLICATE]);
    assert_eq!(bench.state(attempt.run).await, RunState::Succeeded);
    assert_eq!(bench.heard.ended.lock().len(), 1);
}

#[tokio::test]
async fn x41_a_failed_attempt_waits_for_its_backoff_and_the_last_one_fails_the_run() {
    let retry = RetryPolicy { max_attempts: 2, jitter: 0.0, ..RetryPolicy::default() };
    let mut bench = Bench::new(retry).await;
    let mut executor = bench.executor("a").await;
    let first = bench.start(1, &mut executor).await;
    executor.finish(first, failed("HANDLER_ERROR"));
    let now = bench.clock.now();
    bench.settle().await;
    assert_eq!(result_acks(&mut executor), [COMMITTED]);
    let waits = (first.run, RunState::RetryWait, now + Duration::from_secs(1));
    assert_eq!(*bench.heard.put_back.lock(), [waits]);
    executor.finish(first, failed("HANDLER_ERROR"));
    bench.settle().await;
    assert_eq!(result_acks(&mut executor), [DUPLICATE], "written before, the run waits");
    let row = bench.open(first.run).await.expect("open");
    bench.store.wake_retries(&[row.attempt_ref()], bench.clock.now()).await.expect("wakes");
    let command = bench.send(first.run, &mut executor).await;
    let second = executor.accept(&command).expect("an attempt");
    assert_eq!(second.attempt, 2);
    executor.finish(second, failed("HANDLER_ERROR"));
    bench.settle().await;
    let record = bench.store.get_run(first.run).await.expect("reads");
    assert_eq!(record.run.state, RunState::Failed);
    assert_eq!(record.failure.map(|failure| failure.code), Some("HANDLER_ERROR".to_owned()));
    assert_eq!(*bench.heard.ended.lock(), [(first.run, RunState::Failed)]);
}

#[tokio::test]
async fn a_handlers_own_wait_replaces_the_backoff() {
    let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
    let mut bench = Bench::new(retry).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    let mut result = failed("TOO_EARLY");
    if let Some(failure) = &mut result.failure {
        failure.retry_after = Some(wire::to_duration(Duration::from_secs(77)));
    }
    executor.finish(attempt, result);
    let due_at = bench.clock.now() + Duration::from_secs(77);
    bench.settle().await;
    let row = bench.open(attempt.run).await.expect("open");
    assert_eq!((row.state, row.due_at), (RunState::RetryWait, due_at));
}

#[tokio::test]
async fn shutdown_busy_and_draining_use_up_no_attempt() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    let shutdown = RunResult { outcome: Outcome::Canceled.into(), ..failed("SHUTDOWN") };
    for answer in [COMMITTED, DUPLICATE] {
        executor.finish(attempt, shutdown.clone());
        bench.settle().await;
        assert_eq!(result_acks(&mut executor), [answer]);
    }
    for (n, status) in [(2, run_ack::Status::Busy), (3, run_ack::Status::Draining)] {
        let row = bench.open(attempt.run).await.expect("open");
        assert_eq!((row.state, row.attempt, row.fence), (RunState::Queued, 1, n));
        bench.clock.advance(Duration::from_secs(1));
        bench.hub.tick(bench.clock.now(), bench.clock.elapsed());
        let command = bench.send(attempt.run, &mut executor).await;
        executor.ack(wire::attempt_ref(command.r#ref.as_ref()).expect("a ref"), status);
        bench.settle().await;
    }
    let row = bench.open(attempt.run).await.expect("open");
    assert_eq!((row.state, row.attempt, row.fence), (RunState::Queued, 1, 4));
    let begun = bench.store.get_run(attempt.run).await.expect("known").attempts;
    let begun: Vec<_> = begun.iter().map(|one| (one.number, one.fence, one.outcome)).collect();
    assert_eq!(begun, [(1, 1, Some(run::Outcome::Canceled))], "the others never took it");
}

#[tokio::test]
async fn params_that_the_handler_cannot_read_fail_the_run_at_once() {
    let mut bench = Bench::new(RetryPolicy { max_attempts: 5, ..RetryPolicy::default() }).await;
    let mut executor = bench.executor("a").await;
    let run = bench.run(1).await;
    reject(&bench, run, &mut executor, CODE_INVALID_PARAMS).await;
    bench.settle().await;
    assert_eq!(bench.state(run).await, RunState::Failed);
}

#[tokio::test]
async fn t8_a_handler_that_nobody_has_fails_the_run_after_three_refusals_by_all() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut a = bench.executor("a").await;
    let mut b = bench.executor("b").await;
    let run = bench.run(1).await;
    for refusal in 0..3 {
        let executor = if refusal == 1 { &mut b } else { &mut a };
        assert_eq!(bench.state(run).await, RunState::Queued, "after {refusal} refusals");
        reject(&bench, run, executor, CODE_UNKNOWN_HANDLER).await;
        while bench.results.step(&mut bench.events).await > 0 {}
        bench.clock.advance(Duration::from_secs(2));
        bench.hub.tick(bench.clock.now(), bench.clock.elapsed());
    }
    let record = bench.store.get_run(run).await.expect("reads");
    assert_eq!(record.run.state, RunState::Failed);
    assert_eq!(record.failure.map(|f| f.code), Some(CODE_UNKNOWN_HANDLER.to_owned()));
}

async fn reject(bench: &Bench, run: RunId, executor: &mut LocalExecutor, code: &str) {
    let command = bench.send(run, executor).await;
    let failure = v1::Failure { code: code.to_owned(), ..v1::Failure::default() };
    executor.send(v1::session_request::Frame::RunAck(v1::RunAck {
        r#ref: command.r#ref,
        status: run_ack::Status::Rejected.into(),
        failure: Some(failure),
        retry_after: None,
    }));
}

#[tokio::test]
async fn while_the_store_is_out_of_reach_nothing_is_acknowledged_or_dropped() {
    let bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    executor.finish(attempt, outcome(Outcome::Succeeded));
    bench.store.close().await;
    let Bench { results, events, clock, stop, heard, .. } = bench;
    let run = tokio::spawn(results.run(events));
    for _ in 0..50 {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(!run.is_finished(), "it goes on trying");
    assert!(result_acks(&mut executor).is_empty());
    assert!(heard.ended.lock().is_empty());
    stop.cancel();
    run.await.expect("ends when told to");
    assert!(result_acks(&mut executor).is_empty(), "the executor keeps it for the next start");
    assert_eq!(executor.listed(), [(attempt, true)]);
}

#[tokio::test]
async fn results_that_wait_are_written_in_one_batch() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let mut runs = Vec::new();
    for n in 0..100 {
        let attempt = bench.start(n, &mut executor).await;
        executor.finish(attempt, outcome(Outcome::Succeeded));
        runs.push(attempt.run);
    }
    assert_eq!(bench.results.step(&mut bench.events).await, 200, "acks and results in one batch");
    assert_eq!(result_acks(&mut executor).len(), 100);
    let open = bench.store.open_runs(&runs).await.expect("reads");
    assert!(open.is_empty());
}
