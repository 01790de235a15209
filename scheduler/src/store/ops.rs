//! What goes into and comes out of the store's operations.

mod alarms;
mod entities;
mod follow;
mod queries;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use crate::model::{
    Payload,
    executor::ExecutorRef,
    ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
    job::JobSpec,
    run::{Failure, KillReason, OpenRun, Outcome, RunState, Skip},
    shards::Tally,
};

pub use crate::model::{route::Uses, run::NewRun};
pub use alarms::*;
pub use entities::*;
pub use follow::*;
pub use queries::*;

/// A scheduler process.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// Random per process.
    pub id: String,
    /// Program version.
    pub version: String,
    /// Where executors and clients reach it.
    pub advertise_address: String,
    /// Gives its work away.
    pub draining: bool,
    /// Ended cleanly or declared dead.
    pub gone: bool,
    /// Process start.
    pub started_at: DateTime<Utc>,
    /// Last refresh.
    pub last_seen_at: DateTime<Utc>,
    /// Sessions it holds.
    pub sessions: u32,
    /// Partitions it owns.
    pub partitions: Vec<PartitionId>,
    /// Its clock against the database's, microseconds (database − node).
    pub clock_offset_us: i64,
    /// Age of the oldest due run it has not sent.
    pub lag: Duration,
    /// Median round trip to the database.
    pub database_latency: Duration,
}

/// What a partition's row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRow {
    /// Which.
    pub id: PartitionId,
    /// Raised by each new owner.
    pub epoch: u64,
    /// Every fire time before this instant has its row; later ones may have.
    pub planned_until: DateTime<Utc>,
    /// Up to here due runs were being dispatched: one that is due later and old was missed.
    pub served_until: DateTime<Utc>,
    /// Raised by every change of a job in it.
    pub jobs_version: u64,
}

/// Which open runs.
#[derive(Clone, Debug, PartialEq)]
pub enum RunScope {
    /// All of the partitions.
    Partitions(Vec<PartitionId>),
    /// All of the jobs: a look at all open runs.
    Jobs(Vec<JobId>),
    /// Those of the jobs that were never sent, which is what a change of a job makes or takes away.
    Unsent(Vec<JobId>),
    /// All whose current attempt is with the executor.
    Executor(AppId, String),
}

/// The spec of one revision of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionSpec {
    /// The job.
    pub job: JobId,
    /// Its revision.
    pub revision: u64,
    /// Its content then.
    pub spec: Arc<JobSpec>,
}

/// Open runs with the specs they refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenRuns {
    /// The rows.
    pub runs: Vec<OpenRun>,
    /// One entry per distinct (job, revision) among them.
    pub specs: Vec<RevisionSpec>,
}

/// What came out of the inbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboxBatch {
    /// Every id that waited.
    pub ids: Vec<RunId>,
    /// The rows of those still open, with their specs.
    pub open: OpenRuns,
}

/// How far a partition is planned. A plan with runs only sees to it that the row is the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Which.
    pub partition: PartitionId,
    /// The owner's.
    pub epoch: u64,
    /// The one the owner's jobs are of.
    pub jobs_version: u64,
    /// Every fire time before this instant is planned once this plan is in.
    pub planned_until: DateTime<Utc>,
    /// See [`PartitionRow::served_until`].
    pub served_until: DateTime<Utc>,
}

/// One step of planning: at most `OWNER_BATCH_MAX` rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Partitions it is about; rows of others are refused.
    pub advances: Vec<Advance>,
    /// Runs to insert.
    pub runs: Vec<PlanRow>,
    /// Nobody can have written any of the runs, so the store need not look.
    pub fresh: bool,
    /// Decisions not to run.
    pub skips: Vec<Skip>,
    /// What the routes of jobs have counted after these runs; only of routes that count.
    pub uses: Vec<(JobId, Uses)>,
}

/// A run to insert: attempt 1.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRow {
    /// The run.
    pub run: NewRun,
    /// Where it is sent at once: inserted as DISPATCHED with fence 1. None: as QUEUED with fence 0.
    pub to: Option<Addressee>,
}

impl From<NewRun> for PlanRow {
    fn from(run: NewRun) -> Self {
        Self { run, to: None }
    }
}

/// Whom a run is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressee {
    /// The executor.
    pub executor: Arc<str>,
    /// Its session.
    pub session_epoch: u64,
}

/// What a plan did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Partitions whose row had the given epoch and, unless the plan only adds runs, `jobs_version`.
    pub advanced: Vec<PartitionId>,
    /// Jobs, in no order and perhaps more than once, whose runs were refused: they have changed since
    /// the given `jobs_version`, or are about to.
    pub changed: Vec<JobId>,
    /// Runs that were inserted (others existed already, or their partition or job was left alone).
    pub inserted: Vec<RunId>,
}

/// One run to send.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchRow {
    /// With the fence before the dispatch.
    pub attempt: AttemptRef,
    /// To whom.
    pub to: Addressee,
}

/// One step of dispatch: at most `OWNER_BATCH_MAX` rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dispatch {
    /// The runs.
    pub rows: Vec<DispatchRow>,
    /// What the routes of their jobs have counted after these runs; only of routes that count.
    pub uses: Vec<(JobId, Uses)>,
}

/// An acknowledged attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which.
    pub attempt: AttemptRef,
    /// Who acknowledged it; the attempt must be with it.
    pub by: ExecutorRef,
    /// When the ack was received.
    pub at: DateTime<Utc>,
}

/// A set of open states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSet(pub &'static [RunState]);

impl StateSet {
    /// With an executor, or on the way there: what a result may end. QUEUED with the same fence
    /// was put back on evidence and may still be answered.
    pub const SENT: Self =
        Self(&[RunState::Dispatched, RunState::Running, RunState::Canceling, RunState::Queued]);
    /// Every open state.
    pub const OPEN: Self = Self(&[
        RunState::Queued,
        RunState::Dispatched,
        RunState::Running,
        RunState::Canceling,
        RunState::RetryWait,
    ]);

    /// Just one state.
    pub fn only(state: RunState) -> Self {
        match state {
            RunState::Queued => Self(&[RunState::Queued]),
            RunState::Dispatched => Self(&[RunState::Dispatched]),
            RunState::Running => Self(&[RunState::Running]),
            RunState::Canceling => Self(&[RunState::Canceling]),
            RunState::RetryWait => Self(&[RunState::RetryWait]),
            _ => Self(&[]),
        }
    }

    /// Whether the state is in it.
    pub fn contains(self, state: RunState) -> bool {
        self.0.contains(&state)
    }
}

/// What is known of an attempt when it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptEnd {
    /// How; None for a run that ends without having run (skipped, canceled while queued).
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The ack, when it was not written yet.
    pub acked_at: Option<DateTime<Utc>>,
    /// Handler's begin on the executor's clock.
    pub started_at: Option<DateTime<Utc>>,
    /// Measured by the executor.
    pub duration: Option<Duration>,
    /// Number of its last log record.
    pub last_log_seq: u64,
    /// Whose result it is; the attempt must be with that executor. None for an end that the
    /// scheduler decided.
    pub by: Option<ExecutorRef>,
}

/// A run to end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRun {
    /// Run, attempt and fence it must have.
    pub attempt: AttemptRef,
    /// States it may come from.
    pub from: StateSet,
    /// The final state.
    pub to: RunState,
    /// The attempt's end.
    pub end: AttemptEnd,
    /// What the handler returned.
    pub output: Option<Payload>,
    /// It was cut.
    pub output_truncated: bool,
    /// Why, in one line (SKIPPED, LOST, CANCELED).
    pub message: String,
    /// Its fire time was not served in time and is left out: the row stands for a gap of that one.
    pub missed: bool,
}

impl EndRun {
    /// A parent, all of whose shards have ended.
    pub fn of_parent(parent: &OpenRun, shards: &Tally) -> Self {
        Self {
            attempt: parent.attempt_ref(),
            from: StateSet::OPEN,
            to: shards.state(),
            end: AttemptEnd {
                failure: shards.failure(),
                acked_at: shards.started_at,
                ..AttemptEnd::default()
            },
            output: None,
            output_truncated: false,
            // Who asked for its end, if somebody did.
            message: parent.message.clone(),
            missed: false,
        }
    }

    /// Ends it without a word of an executor, in the state that was seen.
    pub fn unheard(run: &OpenRun, to: RunState, message: String) -> Self {
        let from = StateSet::only(run.state);
        Self { from, to, ..Self::skip(run.attempt_ref(), message) }
    }

    /// A QUEUED run that ends as SKIPPED (T22).
    pub fn skip(attempt: AttemptRef, message: String) -> Self {
        Self {
            attempt,
            from: StateSet::only(RunState::Queued),
            to: RunState::Skipped,
            end: AttemptEnd::default(),
            output: None,
            output_truncated: false,
            message,
            missed: false,
        }
    }
}

/// What became of an [`EndRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndAnswer {
    /// It ended now.
    Ended(JobId),
    /// The same attempt had ended before.
    Duplicate,
    /// State, fence or executor did not hold, or the run is unknown.
    Stale,
}

/// An open run that waits again.
#[derive(Clone, Debug, PartialEq)]
pub struct PutBack {
    /// Run, attempt and fence it must have.
    pub attempt: AttemptRef,
    /// States it may come from.
    pub from: StateSet,
    /// When it may next be dispatched.
    pub due_at: DateTime<Utc>,
    /// Why, in one line.
    pub message: String,
    /// What happens to the attempt.
    pub how: PutBackHow,
}

/// Whether the attempt is used up.
#[derive(Clone, Debug, PartialEq)]
pub enum PutBackHow {
    /// QUEUED, same attempt, which had not begun (T7).
    SameAttempt,
    /// QUEUED, same attempt, which had begun on an executor that stopped (SHUTDOWN). That is kept
    /// among the attempts; the fence is raised, so that the dispatch can't answer once more.
    Begun {
        /// How it ended there.
        end: AttemptEnd,
    },
    /// RETRY_WAIT; the attempt is kept with its end (T10, T17, T18).
    NextAttempt {
        /// The ended attempt.
        end: AttemptEnd,
        /// Counts as a loss.
        lost: bool,
    },
}

/// A run to be asked to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkCanceling {
    /// Run, attempt and fence it must have.
    pub attempt: AttemptRef,
    /// States it may come from.
    pub from: StateSet,
    /// Why.
    pub reason: KillReason,
    /// The caller's own grace.
    pub grace: Option<Duration>,
    /// The caller's words.
    pub message: String,
}

/// A result that came after its attempt was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateResult {
    /// Which; its fence may be an earlier one.
    pub attempt: AttemptRef,
    /// Whose result it is; the attempt must have been with that executor.
    pub by: ExecutorRef,
    /// What it said.
    pub outcome: Outcome,
}
