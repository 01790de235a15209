//! Everything that speaks SQL, behind one trait of domain operations.
//!
//! Two implementations with the same file names, [`sqlite`] and [`postgres`], pass one conformance
//! suite (`tests/store.rs`). Rules that both keep:
//!
//! * A run that has not ended is one row of `open_run`; its end moves it into `ended_run`, which is
//!   append-only and partitioned by day on Postgres. So what is hot stays small, what is shown in
//!   lists is indexed on rows that never change, and old days are dropped whole.
//! * Every update of a run is guarded by its state and fence, and says which rows it changed.
//! * *Owner* operations are written on the session that holds the partition's lock (the pen). After
//!   an error of one of them the caller must consider all its partitions lost and take them anew.
//! * Whoever changes a run that another loop may be waiting for leaves its id in `run_inbox` in the
//!   same transaction: the partition's owner collects it each second, or at once after a [`Topic`].
//! * Times are the caller's (`now` is a parameter), in whole microseconds.

pub mod alarms;
pub mod audit;
pub mod cluster;
mod families;
mod fields;
pub mod identity;
pub mod log_chunk;
pub mod ops;
pub mod permits;
pub mod postgres;
pub mod routes;
pub mod schedules;
mod specs;
pub mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use thiserror::Error;
use tokio::sync::broadcast;

use crate::model::{
    app::{App, AppSpec},
    executor::Executor,
    ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
    job::Job,
    run::{OpenRun, RunRecord},
};
use alarms::AlarmStore;
use audit::AuditStore;
use identity::IdentityStore;
use ops::*;
pub use schedules::{BACKFILL_RUNS_MAX, ScheduleStore};

pub use cluster::ClusterStore;
pub use families::FamilyStore;
pub use permits::PermitStore;
pub use routes::RouteStore;

/// Rows in one batch of an owner's statement: keeps a plan from delaying a dispatch by over 2 ms.
pub const OWNER_BATCH_MAX: usize = 256;
/// Rows in one batch of results.
pub const RESULT_BATCH_MAX: usize = 256;
/// Ends that are followed up in one transaction.
pub const FOLLOW_BATCH_MAX: usize = 256;
/// Jobs of one name whose runs are listed together: the living one and those deleted before it.
pub const NAMESAKES_MAX: u32 = 100;
/// Hints that may wait for a slow subscriber; older ones are dropped, since a sweep finds all.
pub const HINTS_MAX: usize = 1024;

/// Why an operation failed. Small and closed: the API maps each to one status.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The named thing does not exist.
    #[error("{0} not found")]
    NotFound(String),
    /// The name is taken.
    #[error("{0} exists already")]
    AlreadyExists(String),
    /// A guard did not hold: stale etag, fence, epoch, or a state that forbids it.
    #[error("{0}")]
    Conflict(String),
    /// The database can't be reached or is too slow; worth another try.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The database has no room left to write; reads may go on.
    #[error("the database's disk is full: {0}")]
    Full(String),
    /// The database refuses to write whatever it is: a standby, or one that was set so; reads go on.
    #[error(
        "the database is read only: lead its address to the primary, or end its read-only mode ({0})"
    )]
    ReadOnly(String),
    /// The database's files were taken away from under this process: what it would write now would
    /// be gone with its end.
    #[error("{0}")]
    Removed(String),
    /// A stored value can't be read.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// A fault of the program or the schema.
    #[error("internal store error: {0}")]
    Internal(String),
}

impl StoreError {
    /// Whether the same operation may go well later, without a change of what it does.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Removed(_)) || self.takes_no_writes()
    }

    /// Whether the database answers and is read, but not written.
    pub fn takes_no_writes(&self) -> bool {
        matches!(self, Self::Full(_) | Self::ReadOnly(_))
    }

    /// The kind alone, in words for those who may not see what the database says.
    pub fn brief(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "a row is missing in the database",
            Self::AlreadyExists(_) | Self::Conflict(_) => "the database's rows are not as expected",
            Self::Unavailable(_) => "the database can't be reached or is too slow",
            Self::Full(_) => "the database's disk is full",
            Self::ReadOnly(_) => {
                "the database is read only: lead its address to the primary, or end its read-only mode"
            }
            Self::Removed(_) => "the database's files were removed or replaced",
            Self::Corrupt(_) => "stored data is damaged",
            Self::Internal(_) => "the database does not understand the scheduler",
        }
    }
}

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A hint that something changed. Lost ones cost at most one sweep (1 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Jobs of the partition changed (`jobs_version` moved).
    Jobs(PartitionId),
    /// Runs of the partition wait in `run_inbox`.
    Inbox(PartitionId),
    /// Rows were added to the run event log, for watchers.
    RunEvents,
    /// An executor's session was claimed by another session: the holder of the older one ends it.
    Session {
        /// Executor row.
        executor: i64,
        /// The new epoch.
        epoch: u64,
    },
    /// A token, a user or a sign-in was changed or ended.
    Tokens,
    /// Log records of the run were stored.
    Logs(RunId),
    /// Ends of runs wait to be followed up; told within the process only, whose node is as good as
    /// any other to do it.
    Ends,
    /// Alarms were raised: something is to be delivered.
    Alarms,
    /// Partitions became free, or a node joined those that share them or left.
    Partitions,
    /// Runs of apps with limits ended: others may be sent.
    Permits,
    /// Runs were handed to a node.
    Handed {
        /// [`cluster::mark_of`] its id.
        node: u64,
    },
}

/// The store. All methods are safe to call from many tasks at once.
#[async_trait]
pub trait Store:
    AlarmStore
    + AuditStore
    + ClusterStore
    + FamilyStore
    + IdentityStore
    + PermitStore
    + RouteStore
    + ScheduleStore
{
    // ---- system ------------------------------------------------------------------------------

    /// `sqlite` or `postgres`.
    fn kind(&self) -> &'static str;

    /// Hints from this process's commits and, on Postgres, from other nodes' (debounced NOTIFY).
    fn hints(&self) -> broadcast::Receiver<Topic>;

    /// The database's clock; used to measure the node's offset and round trip.
    async fn database_time(&self) -> Result<DateTime<Utc>>;

    /// Whether what is written would last: `Removed` once the database's files are not where this
    /// process opened them. A database server looks after that by itself.
    async fn check_storage(&self) -> Result<()> {
        Ok(())
    }

    /// Named bytes made once per cluster: returns what is stored under `name`, storing `fresh` if
    /// nothing is (page-token key, cluster id).
    async fn cluster_secret(&self, name: &str, fresh: Vec<u8>) -> Result<Vec<u8>>;

    /// Ends background tasks and connections; releases the locks. No call may follow.
    async fn close(&self);

    // ---- nodes and partitions ----------------------------------------------------------------

    /// Writes this node's row (insert or refresh).
    async fn put_node(&self, node: &NodeRow) -> Result<()>;

    /// Marks a node as gone.
    async fn remove_node(&self, id: &str, now: DateTime<Utc>) -> Result<()>;

    /// All nodes seen within the last day.
    async fn list_nodes(&self, now: DateTime<Utc>) -> Result<Vec<NodeRow>>;

    /// Owner: tries to lock each of `want` that it does not hold and raises the epoch of those it
    /// got. Returns the ones newly taken, with what the last owner left.
    async fn take_partitions(
        &self,
        node: &str,
        want: &[PartitionId],
        now: DateTime<Utc>,
    ) -> Result<Vec<PartitionRow>>;

    /// Owner: gives partitions back.
    async fn release_partitions(&self, partitions: &[PartitionId]) -> Result<()>;

    /// Owner: proves that the pen is alive and reads the versions of the partitions held; fails
    /// with `Unavailable` when the locks are gone.
    async fn check_partitions(&self, partitions: &[PartitionId]) -> Result<Vec<PartitionRow>>;

    // ---- what an owner keeps in memory -------------------------------------------------------

    /// Jobs of the partitions that changed after the given `jobs_version` (0: all but
    /// deleted ones without open runs; else those too). A row that can't be read comes back with
    /// `problem` set and an empty spec, and never fails the rest.
    async fn load_jobs(&self, changed: &[(PartitionId, u64)]) -> Result<Vec<Job>>;

    /// All open runs of the scope, with the specs of the revisions they refer to.
    async fn load_open_runs(&self, scope: &RunScope) -> Result<OpenRuns>;

    /// Owner: takes the waiting ids out of the inbox of the partitions (at most 1,000) and returns
    /// their rows as they stand; an id without a row has ended or was removed.
    async fn take_inbox(&self, partitions: &[PartitionId]) -> Result<InboxBatch>;

    /// Which of the runs have not ended.
    async fn still_open(&self, runs: &[RunId]) -> Result<Vec<RunId>>;

    /// The newest end of a run of each job, if it has one: `delay` schedules count from it.
    async fn last_ends(&self, jobs: &[JobId]) -> Result<Vec<(JobId, DateTime<Utc>)>>;

    /// Refreshes `next_fire_at` of jobs, for showing only.
    async fn show_next_fires(&self, next: &[(JobId, Option<DateTime<Utc>>)]) -> Result<()>;

    // ---- owner's writes ----------------------------------------------------------------------

    /// Owner: inserts runs and skips and writes what routes count, in one transaction; without runs
    /// it moves the partitions' `planned_until` and `served_until`. A partition whose epoch or
    /// jobs_version is not the given one is left alone with all its rows. Rows whose id exists
    /// already, open or ended, are left as they are. Returns the partitions that were as given and
    /// the ids that were inserted; of the runs with an addressee only these may be sent.
    async fn plan(&self, plan: &Plan, now: DateTime<Utc>) -> Result<Planned>;

    /// Owner: QUEUED → DISPATCHED for the rows that are still QUEUED with the given fence; writes
    /// executor, session and fence + 1, and what routes count, in one transaction. Returns the refs
    /// that may be sent; nothing else may.
    async fn dispatch(&self, batch: &Dispatch, now: DateTime<Utc>) -> Result<Vec<AttemptRef>>;

    /// Owner: RETRY_WAIT → QUEUED with the next attempt for those still waiting. Returns them.
    async fn wake_retries(
        &self,
        runs: &[AttemptRef],
        now: DateTime<Utc>,
    ) -> Result<Vec<AttemptRef>>;

    // ---- changes of runs, guarded by state and fence -----------------------------------------

    /// DISPATCHED → RUNNING for refs that still are, and are with the executor that says so; sets
    /// the run's start when it has none.
    async fn ack_runs(&self, acks: &[Ack]) -> Result<Vec<AttemptRef>>;

    /// Ends runs: each moves from `open_run` to `ended_run` if its state is in `from`, its fence
    /// is the given one, and it is with the executor whose result it is, if it is one's. An executor
    /// that never had it gets the answer for an unknown run. One answer per request, in order.
    async fn end_runs(&self, ends: &[EndRun], now: DateTime<Utc>) -> Result<Vec<EndAnswer>>;

    /// Open runs back to waiting: to RETRY_WAIT or to QUEUED with the same attempt, if state and
    /// fence hold. An attempt that had begun is kept as it ended. Leaves the runs in the inbox.
    /// Returns those changed, with the fence they had.
    async fn put_back(&self, runs: &[PutBack], now: DateTime<Utc>) -> Result<Vec<AttemptRef>>;

    /// Open runs → CANCELING with a reason, if state and fence hold; a parent keeps its state, and
    /// only notes the reason. Leaves them in the inbox. Returns those changed.
    async fn mark_canceling(
        &self,
        kills: &[MarkCanceling],
        now: DateTime<Utc>,
    ) -> Result<Vec<AttemptRef>>;

    /// The open rows of the runs, as they stand.
    async fn open_runs(&self, runs: &[RunId]) -> Result<Vec<OpenRun>>;

    /// Why runs wait, for showing (`message` of QUEUED rows; not guarded by anything else).
    async fn explain_waiting(&self, runs: &[(RunId, String)]) -> Result<()>;

    /// Keeps what a result said that came too late, of the attempt's last executor and of a fence
    /// that it had. No error when there is no such attempt.
    async fn record_late(&self, late: &[LateResult]) -> Result<()>;

    // ---- what follows from an end ------------------------------------------------------------

    /// Ends that wait to be followed up, oldest first, at most `limit`, without those in `aside`.
    /// They stay until they are settled.
    async fn end_events(&self, limit: u32, aside: &[u64]) -> Result<Vec<EndEvent>>;

    /// Takes the events away and writes what follows from them, in one transaction. An event that
    /// somebody else has settled, or is settling just now, is left out with all its effects: each
    /// has them once, on whichever node. At most `FOLLOW_BATCH_MAX` events.
    async fn settle_ends(&self, followups: &[Followup], now: DateTime<Utc>) -> Result<Settled>;

    // ---- progress and logs -------------------------------------------------------------------

    /// Keeps the newest progress and checkpoint of attempts.
    async fn save_progress(&self, progress: &[ProgressRow]) -> Result<()>;

    /// The newest checkpoint of each run, if it has one.
    async fn load_checkpoints(&self, runs: &[RunId])
    -> Result<Vec<(RunId, crate::model::Payload)>>;

    /// Appends log records; those stored already are left out, and those of a dispatch that another
    /// has taken over from. Returns, per chunk in order and in the numbers of its own dispatch, the
    /// last record that is stored now.
    async fn append_logs(&self, chunks: &[LogAppend], now: DateTime<Utc>) -> Result<Vec<u64>>;

    /// Log records of one attempt after `after_seq`, oldest first.
    async fn list_logs(&self, query: &LogQuery) -> Result<LogPage>;

    // ---- executors ---------------------------------------------------------------------------

    /// Makes the caller's session the executor's current one: creates the row if need be, raises
    /// the epoch, decides whether the process is the one before (same instance, principal and
    /// resume token). Refused with `Conflict` when another living process has the id.
    async fn claim_executor(&self, claim: &Claim, now: DateTime<Utc>) -> Result<Claimed>;

    /// How many executors the app may get before it has `max`. Where that is none, those out of
    /// contact for longest, of [`ops::SILENT_KEPT`] at least, are forgotten, [`ops::FORGOTTEN_MAX`]
    /// at a time: none that is cordoned or has open runs.
    async fn room_for_executors(&self, app: AppId, max: u32, now: DateTime<Utc>) -> Result<u32>;

    /// Signs of life of sessions (every 10 s, batched); rows of an older epoch are left alone.
    async fn touch_executors(&self, seen: &[(i64, u64)], now: DateTime<Utc>) -> Result<()>;

    /// The session ended. `left` says that the process will not come back (Goodbye).
    async fn end_session(&self, row: i64, epoch: u64, left: bool, now: DateTime<Utc>)
    -> Result<()>;

    /// A node died: every session it held is ended at `now`, for its executors to come back within
    /// their grace, and what was handed to it is forgotten. Should it live after all, its next signs
    /// of life undo that.
    async fn end_sessions_of(&self, node: &str, now: DateTime<Utc>) -> Result<u64>;

    /// One executor.
    async fn get_executor(&self, app: AppId, name: &str) -> Result<Executor>;

    /// A page of executors, by (app, name).
    async fn list_executors(&self, query: &ExecutorQuery) -> Result<Vec<Executor>>;

    /// Sets or clears the cordon.
    async fn cordon_executor(
        &self,
        app: AppId,
        name: &str,
        cordon: Option<&str>,
    ) -> Result<Executor>;

    /// Forgets an executor. `Conflict` while it is connected or open runs refer to it.
    async fn delete_executor(&self, app: AppId, name: &str) -> Result<()>;

    // ---- jobs --------------------------------------------------------------------------------

    /// Creates a job: locks its partition's row, raises `jobs_version`, inserts job, revision and
    /// the runs of its first seconds, in one transaction. `Conflict` when its chain leads back to
    /// it: of two saves at once that close a cycle one is refused.
    async fn create_job(&self, job: &NewJob, replan: Replan, now: DateTime<Utc>) -> Result<Job>;

    /// Changes a job under its partition's row lock: raises `jobs_version`, removes the unsent
    /// planned runs that are not due, ends those whose fire time has come as SKIPPED if `change`
    /// says so, applies the change and inserts what `replan` returns, in one transaction. `Conflict`
    /// also when the chain of a new spec leads back to the job.
    async fn change_job(
        &self,
        job: JobId,
        change: &JobChange,
        replan: Replan,
        now: DateTime<Utc>,
    ) -> Result<Job>;

    /// One job by name; deleted ones are not found.
    async fn get_job(&self, app: &str, name: &str) -> Result<Job>;

    /// Every job that has the name, or had it when it was deleted and is still kept for its runs;
    /// the newest `NAMESAKES_MAX`.
    async fn jobs_named(&self, app: &str, name: &str) -> Result<Vec<JobId>>;

    /// A page of jobs.
    async fn list_jobs(&self, query: &JobQuery) -> Result<Vec<Job>>;

    /// Revisions of a job, newest first, below `before` (0: from the newest).
    async fn list_revisions(&self, job: JobId, before: u64, limit: u32) -> Result<Vec<Job>>;

    // ---- runs for readers --------------------------------------------------------------------

    /// Makes a run by hand, due at its `due_at`; leaves it in the inbox. A repeated request id with
    /// the same body returns the first answer's run.
    async fn create_run(
        &self,
        run: &NewRun,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<RunId>;

    /// One run in full.
    async fn get_run(&self, id: RunId) -> Result<RunRecord>;

    /// A page of runs; `full` adds params, output and attempts.
    async fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>>;

    /// The same, for readers who can go on: where no index leads to what is asked for, a bounded
    /// number of runs is looked at. A store of few runs looks at all.
    async fn scan_runs(&self, query: &RunQuery) -> Result<RunPage> {
        Ok(RunPage { runs: self.list_runs(query).await?, until: None })
    }

    /// Runs by id, those that exist, in no order.
    async fn get_runs(&self, ids: &[RunId], full: bool) -> Result<Vec<RunRecord>>;

    /// Due and sent runs, for the cluster's page and metrics.
    async fn count_open(&self, now: DateTime<Utc>) -> Result<OpenCounts>;

    /// Events after the cursor, oldest first, at most `limit` batches. A planned run is told of from
    /// its first change on, or once it is due when it was made late. Only such as no transaction
    /// still open can come before. `None` as cursor gives no events, just the present end.
    /// `NotFound` when the cursor is older than what is kept (1 h).
    async fn run_events(&self, after: Option<EventCursor>, limit: u32) -> Result<RunEvents>;

    // ---- apps --------------------------------------------------------------------------------

    /// The app of that name, made if need be.
    async fn ensure_app(&self, name: &str, now: DateTime<Utc>) -> Result<App>;

    /// Creates an app.
    async fn create_app(
        &self,
        name: &str,
        spec: &AppSpec,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<App>;

    /// One app.
    async fn get_app(&self, name: &str) -> Result<App>;

    /// Apps by name after `after`; only those in `only` when given.
    async fn list_apps(&self, after: &str, only: Option<&[String]>, limit: u32)
    -> Result<Vec<App>>;

    /// Replaces the spec if the version is still `version`.
    async fn update_app(&self, id: AppId, spec: &AppSpec, version: u64) -> Result<App>;

    /// Deletes an app with its executors' rows and its ended runs' visibility. `Conflict` while it
    /// has jobs or open runs.
    async fn delete_app(&self, id: AppId) -> Result<()>;

    // ---- upkeep ------------------------------------------------------------------------------

    /// What the request made when it came first, as its creation told it; `None` when it has not
    /// come before. `Conflict` when its id came with another body.
    async fn find_answer(&self, request: &RequestKey) -> Result<Option<String>>;

    /// Makes the coming day partitions, removes what is past its retention, in bounded steps.
    /// Returns whether more is left to do.
    async fn prune(&self, keep: &Retention, now: DateTime<Utc>) -> Result<bool>;
}

/// A shared store.
pub type SharedStore = Arc<dyn Store>;

/// Tells the operator of a database that a newer version of the program has used.
fn warn_of_newer_schema(newer: &refinery::Migration) {
    tracing::warn!(
        migration = %newer,
        "the database's schema is of a newer version of this program; that works if this is the \
         version just before it, and with no older one"
    );
}
