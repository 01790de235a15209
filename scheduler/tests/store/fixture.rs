//! A store of its own for each case, with an app, and steps that most cases begin with.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        app::App,
        executor::ExecutorRef,
        ids::{AttemptRef, JobId, PARTITION_COUNT, PartitionId, RunId},
        job::{Job, JobSpec, JobState},
        run::{
            CODE_SHUTDOWN, Failure, KillReason, NewRun, OpenRun, Outcome, RunState, TriggerKind,
        },
    },
    store::{
        SharedStore, Store,
        ops::*,
        postgres::{PostgresConfig, PostgresStore},
        sqlite::SqliteStore,
    },
};

use crate::server::Schema;

/// The instant `seconds` after the cases' beginning of time.
pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
}

/// Where the store keeps its data; goes with the case.
enum Place {
    Dir(tempfile::TempDir),
    Schema(Schema),
}

/// A store of one case. It holds all partitions since `at(0)`.
pub(crate) struct Fixture {
    pub(crate) store: SharedStore,
    pub(crate) app: App,
    place: Place,
}

impl Fixture {
    pub(crate) async fn sqlite() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        Self::new(store, Place::Dir(dir)).await
    }

    pub(crate) async fn postgres() -> Self {
        let schema = Schema::create().await;
        let config = PostgresConfig::new(&schema.url);
        let store = PostgresStore::connect(config).await.expect("connects");
        Self::new(store, Place::Schema(schema)).await
    }

    async fn new(store: Arc<impl Store>, place: Place) -> Self {
        let app = store.ensure_app("shop", at(0)).await.expect("an app");
        let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
        store.take_partitions("n1", &all, at(0)).await.expect("all partitions");
        Self { store, app, place }
    }

    /// Runs a statement behind the store's back, one that both databases understand.
    pub(crate) async fn sql(&self, statement: &str) {
        match &self.place {
            Place::Dir(dir) => {
                let file = dir.path().join("clawjob.db");
                let conn = rusqlite::Connection::open(file).expect("the database");
                conn.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
                conn.execute_batch(statement).expect("a statement");
            }
            Place::Schema(schema) => {
                schema.connect().await.batch_execute(statement).await.expect("a statement");
            }
        }
    }

    /// A job without runs.
    pub(crate) async fn job(&self, name: &str) -> Job {
        let job = NewJob {
            app: self.app.id,
            name: name.to_owned(),
            state: JobState::Active,
            spec: JobSpec { handler: "h".to_owned(), ..JobSpec::default() },
            updated_by: "me".to_owned(),
            request: None,
        };
        self.store.create_job(&job, Box::new(|_| Vec::new()), at(0)).await.expect("a job")
    }

    /// How the partition stands.
    pub(crate) async fn partition(&self, id: PartitionId) -> PartitionRow {
        self.store.check_partitions(&[id]).await.expect("a partition")[0]
    }

    /// What an owner that is up to date plans for the jobs.
    pub(crate) async fn plan_of(&self, runs: &[NewRun]) -> Plan {
        let rows = runs.iter().cloned().map(PlanRow::from).collect();
        let mut plan = Plan { runs: rows, ..Plan::default() };
        for run in runs {
            let row = self.partition(run.job.partition()).await;
            if plan.advances.iter().all(|advance| advance.partition != row.id) {
                plan.advances.push(advance(&row));
            }
        }
        plan
    }

    /// A planned run of the job.
    pub(crate) async fn planned(&self, job: &Job, fire_at: DateTime<Utc>) -> AttemptRef {
        let run = fire(job, fire_at);
        let plan = self.plan_of(std::slice::from_ref(&run)).await;
        let planned = self.store.plan(&plan, at(0)).await.expect("a plan");
        assert_eq!(planned.inserted, [run.id]);
        AttemptRef { run: run.id, attempt: 1, fence: 0 }
    }

    /// Sends the run to executor `e1`.
    pub(crate) async fn dispatched(&self, attempt: AttemptRef) -> AttemptRef {
        let sent = self.store.dispatch(&to_e1(attempt), at(11)).await.expect("a dispatch");
        assert_eq!(sent.len(), 1, "not dispatched");
        sent[0]
    }

    /// Executor `e1`, to which runs are sent.
    pub(crate) fn e1(&self) -> ExecutorRef {
        ExecutorRef { app: self.app.id, name: "e1".into() }
    }

    /// Its acknowledgement of an attempt.
    pub(crate) fn ack(&self, attempt: AttemptRef, at: DateTime<Utc>) -> Ack {
        Ack { attempt, by: self.e1(), at }
    }

    /// Executors that are not `e1`: another of its app, and one of its name in another app.
    pub(crate) async fn strangers(&self) -> [ExecutorRef; 2] {
        let other = self.store.ensure_app("other", at(0)).await.expect("an app");
        let other = ExecutorRef { app: other.id, ..self.e1() };
        [ExecutorRef { name: "e2".into(), ..self.e1() }, other]
    }

    /// A new run of a new job, brought to an open state.
    pub(crate) async fn run_in(&self, name: &str, state: RunState) -> AttemptRef {
        let job = self.job(name).await;
        let queued = self.planned(&job, at(10)).await;
        if state == RunState::Queued {
            return queued;
        }
        let sent = self.dispatched(queued).await;
        match state {
            RunState::Dispatched => {}
            RunState::Running => {
                let acks = [self.ack(sent, at(12))];
                assert_eq!(self.store.ack_runs(&acks).await.expect("an ack"), [sent]);
            }
            RunState::Canceling => {
                let marks = [canceling(sent, KillReason::User)];
                let marked = self.store.mark_canceling(&marks, at(13)).await.expect("a mark");
                assert_eq!(marked, [sent]);
            }
            RunState::RetryWait => {
                let back = [retry_later(sent)];
                let back = self.store.put_back(&back, at(13)).await.expect("a put back");
                assert_eq!(back, [sent]);
            }
            other => panic!("{other:?} is no open state"),
        }
        sent
    }

    /// The open row of a run.
    pub(crate) async fn open(&self, run: RunId) -> OpenRun {
        let open = self.store.open_runs(&[run]).await.expect("open runs");
        open.into_iter().next().expect("an open run")
    }

    /// Empties all inboxes.
    pub(crate) async fn drain_inbox(&self) -> InboxBatch {
        let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
        self.store.take_inbox(&all).await.expect("an inbox")
    }
}

/// The run of a job's fire time.
pub(crate) fn fire(job: &Job, fire_at: DateTime<Utc>) -> NewRun {
    NewRun {
        id: RunId::scheduled(job.id, fire_at),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Schedule,
        fire_at,
        due_at: fire_at,
        extra: None,
    }
}

/// Two jobs' names whose ids lie in different partitions come out of any two ids that differ.
pub(crate) fn differ(one: JobId, other: JobId) -> bool {
    one.partition() != other.partition()
}

/// Moves a partition on by ten seconds.
pub(crate) fn advance(row: &PartitionRow) -> Advance {
    Advance {
        partition: row.id,
        epoch: row.epoch,
        jobs_version: row.jobs_version,
        planned_until: row.planned_until + TimeDelta::seconds(10),
        served_until: row.served_until + TimeDelta::seconds(5),
    }
}

/// A dispatch of one run to executor `e1`, session 1.
pub(crate) fn to_e1(attempt: AttemptRef) -> Dispatch {
    on("e1", attempt)
}

/// A dispatch of one run to an executor, session 1.
pub(crate) fn on(executor: &str, attempt: AttemptRef) -> Dispatch {
    let row =
        DispatchRow { attempt, to: Addressee { executor: executor.into(), session_epoch: 1 } };
    Dispatch { rows: vec![row], uses: Vec::new() }
}

/// A request to stop.
pub(crate) fn canceling(attempt: AttemptRef, reason: KillReason) -> MarkCanceling {
    MarkCanceling {
        attempt,
        from: StateSet::OPEN,
        reason,
        grace: None,
        message: "asked for".to_owned(),
    }
}

/// A failed attempt whose run waits for its next one.
pub(crate) fn retry_later(attempt: AttemptRef) -> PutBack {
    PutBack {
        attempt,
        from: StateSet::SENT,
        due_at: at(60),
        message: "failed, next attempt in a minute".to_owned(),
        how: PutBackHow::NextAttempt { end: failed(), lost: false },
    }
}

/// A run whose executor stopped after it had begun it, with three records logged.
pub(crate) fn begun(attempt: AttemptRef) -> PutBack {
    let failure = Failure { code: CODE_SHUTDOWN.to_owned(), ..Failure::default() };
    let end = AttemptEnd { outcome: Some(Outcome::Canceled), failure: Some(failure), ..failed() };
    PutBack {
        due_at: at(30),
        message: "it stopped".to_owned(),
        how: PutBackHow::Begun { end },
        ..retry_later(attempt)
    }
}

/// The end of an attempt that failed.
pub(crate) fn failed() -> AttemptEnd {
    let failure = Failure { code: "BOOM".to_owned(), ..Failure::default() };
    AttemptEnd {
        outcome: Some(Outcome::Failed),
        failure: Some(failure),
        acked_at: Some(at(12)),
        last_log_seq: 3,
        ..AttemptEnd::default()
    }
}

/// The same as that executor's own result.
pub(crate) fn result_of(by: &ExecutorRef, end: EndRun) -> EndRun {
    EndRun { end: AttemptEnd { by: Some(by.clone()), ..end.end }, ..end }
}

/// A run to end, by an outcome that fits the state.
pub(crate) fn ending(attempt: AttemptRef, to: RunState) -> EndRun {
    let outcome = match to {
        RunState::Succeeded => Some(Outcome::Succeeded),
        RunState::Failed => Some(Outcome::Failed),
        RunState::Canceled => Some(Outcome::Canceled),
        RunState::TimedOut => Some(Outcome::TimedOut),
        RunState::Lost => Some(Outcome::Lost),
        _ => None,
    };
    EndRun {
        attempt,
        from: StateSet::SENT,
        to,
        end: AttemptEnd { outcome, ..AttemptEnd::default() },
        output: None,
        output_truncated: false,
        message: String::new(),
        missed: false,
    }
}
