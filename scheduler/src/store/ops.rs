//! What goes into and comes out of the store's operations.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use super::StoreError;
use crate::model::{
    Payload,
    executor::{Executor, ExecutorSpec},
    ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
    job::{Job, JobSpec, JobState},
    log::{LogLevel, LogRecord},
    run::{Failure, KillReason, OpenRun, Outcome, RunState, Skip},
};

pub use crate::model::run::NewRun;

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
    /// Every fire time before this instant is planned.
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
    /// All of the jobs.
    Jobs(Vec<JobId>),
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

/// How far a partition is planned.
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
    /// Runs to insert as QUEUED, attempt 1, fence 0.
    pub runs: Vec<NewRun>,
    /// Decisions not to run.
    pub skips: Vec<Skip>,
}

/// What a plan did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Partitions whose row had the given epoch and jobs_version.
    pub advanced: Vec<PartitionId>,
    /// Runs that were inserted (others existed already, or their partition was left alone).
    pub inserted: Vec<RunId>,
}

/// One run to send.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchRow {
    /// With the fence before the dispatch.
    pub attempt: AttemptRef,
    /// To whom.
    pub executor: Arc<str>,
    /// On which session.
    pub session_epoch: u64,
}

/// One step of dispatch: at most `OWNER_BATCH_MAX` rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dispatch {
    /// The runs.
    pub rows: Vec<DispatchRow>,
    /// Round-robin cursors after these runs, per job.
    pub cursors: Vec<(JobId, u64)>,
}

/// An acknowledged attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which.
    pub attempt: AttemptRef,
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
    /// Why, in one line (SKIPPED, LOST).
    pub message: String,
}

impl EndRun {
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
    /// State or fence did not hold, or the run is unknown.
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
    /// QUEUED, same attempt (T7, SHUTDOWN).
    SameAttempt,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateResult {
    /// Which.
    pub attempt: AttemptRef,
    /// What it said.
    pub outcome: Outcome,
}

/// The newest progress of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressRow {
    /// Which.
    pub attempt: AttemptRef,
    /// 0..1.
    pub fraction: Option<f32>,
    /// In words.
    pub message: String,
    /// For the next attempt; None keeps the earlier one.
    pub checkpoint: Option<Payload>,
}

/// Log records to store.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAppend {
    /// Whose.
    pub attempt: AttemptRef,
    /// Numbered from `first_seq` without gaps.
    pub records: Vec<LogRecord>,
    /// Records the sender dropped just before.
    pub dropped: u64,
}

/// Which log records.
#[derive(Clone, Debug, PartialEq)]
pub struct LogQuery {
    /// Whose.
    pub run: RunId,
    /// 0 means the last attempt that logged.
    pub attempt: u32,
    /// Those with a higher number.
    pub after_seq: u64,
    /// At least this severe.
    pub min_level: LogLevel,
    /// With this text in the message; empty means all.
    pub contains: String,
    /// At most so many.
    pub limit: u32,
}

/// Log records, and how far the log reaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogPage {
    /// The attempt they are of.
    pub attempt: u32,
    /// Oldest first.
    pub records: Vec<LogRecord>,
    /// Highest number looked at: go on from here, whatever the filter left out.
    pub through_seq: u64,
    /// Records of the attempt that never arrived.
    pub dropped: u64,
    /// The attempt has ended and its last record is stored (or it ended without a result that told
    /// the last one's number): no more will come.
    pub complete: bool,
    /// When the attempt ended. Records that its executor never sent keep `complete` false for
    /// good: whoever waits gives up some time after this instant.
    pub ended_at: Option<DateTime<Utc>>,
}

/// A session that wants to be the executor's current one.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The app.
    pub app: AppId,
    /// The executor's name.
    pub name: String,
    /// What Hello says of it.
    pub spec: ExecutorSpec,
    /// The process.
    pub instance_id: String,
    /// SHA-256 of the resume token in Hello; empty when it had none.
    pub resume_hash: Vec<u8>,
    /// SHA-256 of the token to be given out if the process has none yet.
    pub fresh_resume_hash: Vec<u8>,
    /// Credential.
    pub principal: String,
    /// This node.
    pub node: String,
    /// Where it dialled from.
    pub peer_address: String,
    /// Another process that was seen after this instant is alive: the claim is refused.
    pub alive_since: DateTime<Utc>,
}

impl Claim {
    /// Whether the claim comes from the process the row is of. A first Hello whose Welcome was lost
    /// has no token yet, and is the same process all the same.
    pub fn resumes(&self, row: &Executor) -> bool {
        row.instance_id == self.instance_id
            && row.principal == self.principal
            && (self.resume_hash.is_empty() || row.resume_hash == self.resume_hash)
    }

    /// Why the claim is refused: another process is alive under the name.
    pub fn refusal(&self, row: &Executor) -> Option<StoreError> {
        let alive = row.disconnected_at.is_none() && row.last_seen_at > self.alive_since;
        (alive && !self.resumes(row)).then(|| {
            StoreError::Conflict(format!(
                "executor {} is in use by another living process, connected from {} and last seen \
                 at {}: give this one another id, or stop the other",
                self.name, row.peer_address, row.last_seen_at
            ))
        })
    }
}

/// What a claim found.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The row as it is now.
    pub executor: Executor,
    /// The session goes on with the earlier one's attempts.
    pub resumed: bool,
    /// A process with another instance had the id before: its attempts are lost.
    pub replaced: bool,
    /// Open runs whose current attempt is with this executor.
    pub attempts: Vec<OpenRun>,
}

/// Which executors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutorQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// After this (app name, executor name).
    pub after: Option<(String, String)>,
    /// Only those without a session that did not say Goodbye.
    pub out_of_contact: bool,
    /// At most so many.
    pub limit: u32,
}

/// A job to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Its app.
    pub app: AppId,
    /// Its name.
    pub name: String,
    /// Active or paused.
    pub state: JobState,
    /// Content.
    pub spec: JobSpec,
    /// Who.
    pub updated_by: String,
    /// For an idempotent repeat: the job of the first call is returned.
    pub request: Option<RequestKey>,
}

/// What to change of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobChange {
    /// The version the caller saw; None skips the check.
    pub version: Option<u64>,
    /// New content: makes a revision.
    pub spec: Option<JobSpec>,
    /// New state with the pause's end and reason.
    pub state: Option<(JobState, Option<DateTime<Utc>>, String)>,
    /// Delete it.
    pub delete: bool,
    /// Remove also planned runs that are due and unsent (pause, delete).
    pub drop_due: bool,
    /// Fire times up to `now` are no misfires any more (schedule changed, resumed).
    pub restart_schedule: bool,
    /// Who.
    pub updated_by: String,
}

impl JobChange {
    /// The job as it is after the change; `jobs_version` and the like are the store's own.
    pub fn applied(&self, mut job: Job, now: DateTime<Utc>) -> Job {
        job.version += 1;
        job.updated_at = now;
        job.updated_by.clone_from(&self.updated_by);
        job.next_fire_at = None;
        if let Some(spec) = &self.spec {
            job.spec = Arc::new(spec.clone());
            job.revision += 1;
            job.problem.clear();
        }
        if let Some((state, until, reason)) = &self.state {
            job.state = *state;
            job.pause_until = *until;
            job.pause_reason.clone_from(reason);
        }
        if self.restart_schedule {
            job.effective_from = now;
        }
        job.deleted = self.delete;
        job
    }
}

/// What a replan may look at: the job as it will be, and how far its partition is planned.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplanInput {
    /// The changed job.
    pub job: Job,
    /// Its partition's row.
    pub partition: PartitionRow,
    /// The transaction's `now`.
    pub now: DateTime<Utc>,
}

/// Makes the runs of a changed job up to its partition's `planned_until`; pure, called within the
/// transaction.
pub type Replan = Box<dyn FnOnce(&ReplanInput) -> Vec<NewRun> + Send>;

/// A request id with what it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// `{principal}/{method}/{request_id}`.
    pub key: String,
    /// SHA-256 of the body: the same id with another body is a `Conflict`.
    pub body_hash: Vec<u8>,
}

/// A comparison on a named field, joined by AND with the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The field equals one of the values (or none of them when negated).
    OneOf {
        /// Column-like name that the query's doc lists.
        field: &'static str,
        /// Texts.
        values: Vec<String>,
        /// NOT.
        negated: bool,
    },
    /// The field is at or after / before the instant.
    Time {
        /// Column-like name.
        field: &'static str,
        /// Lower bound, inclusive.
        from: Option<DateTime<Utc>>,
        /// Upper bound, exclusive.
        until: Option<DateTime<Utc>>,
    },
    /// A label has the value.
    Label {
        /// Its key.
        key: String,
        /// Its value; None asks only whether it is there.
        value: Option<String>,
        /// NOT.
        negated: bool,
    },
    /// The text occurs in the field, whatever the case.
    Contains {
        /// Column-like name.
        field: &'static str,
        /// Part of it.
        text: String,
        /// NOT.
        negated: bool,
    },
}

/// Order of a list of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobOrder {
    /// By (app name, job name).
    #[default]
    Name,
    /// Newest first.
    Created,
    /// By next fire, those without one last.
    NextFire,
}

/// Which jobs. Fields for conditions: `state`, `handler`, `owner`, `display_name`, `name`,
/// `next_fire_time`, labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Order.
    pub order: JobOrder,
    /// The last job of the page before, as [`Job`] gave it: go on after it.
    pub after: Option<JobKey>,
    /// At most so many.
    pub limit: u32,
}

/// Where a page of jobs ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKey {
    /// The job.
    pub id: JobId,
    /// App name.
    pub app_name: String,
    /// Job name.
    pub name: String,
    /// For [`JobOrder::NextFire`].
    pub next_fire_at: Option<DateTime<Utc>>,
}

/// Which runs, by id (time). Fields for conditions: `state`, `trigger`, `executor`, `fire_time`,
/// `create_time`, labels. SCHEDULED runs (QUEUED, due after `now`) come only when
/// `scheduled` says so.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// Only these jobs; None means all.
    pub jobs: Option<Vec<JobId>>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Which of the planned ones.
    pub scheduled: Scheduled,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Go on after this id.
    pub after: Option<RunId>,
    /// At most so many.
    pub limit: u32,
    /// With params, output, attempts.
    pub full: bool,
    /// The caller's now, to tell SCHEDULED from QUEUED.
    pub now: DateTime<Utc>,
}

/// How a list treats runs that are planned but not due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduled {
    /// Left out.
    #[default]
    Without,
    /// Along with the others that match.
    With,
    /// Nothing else.
    Only,
}

/// Open runs by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Due and waiting.
    pub queued: u64,
    /// Planned, not due.
    pub scheduled: u64,
    /// DISPATCHED, RUNNING, CANCELING.
    pub running: u64,
    /// RETRY_WAIT.
    pub retry_wait: u64,
    /// When the oldest waiting run was due.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// A place in the run event log; grows with commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    /// Transaction id on Postgres; 0 on SQLite.
    pub tx: u64,
    /// Row number.
    pub seq: u64,
}

/// A stretch of the run event log.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvents {
    /// Runs that changed, in order, each once per batch.
    pub changed: Vec<RunId>,
    /// Runs whose row is gone (a planned run that was removed after it had been shown).
    pub deleted: Vec<RunId>,
    /// Go on from here.
    pub cursor: EventCursor,
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Ended runs.
    pub runs: Duration,
    /// Logs.
    pub logs: Duration,
}
