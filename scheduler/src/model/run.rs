//! A run: one firing of a job. Its states; its open row; what it was once ended.

mod record;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Payload,
    backfill::BackfillGroup,
    follow::Follow,
    ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
    shards::Part,
};
pub use record::{Attempt, RunRecord};

/// State of a run as stored. A QUEUED run that is not yet due is *shown* as SCHEDULED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunState {
    /// Waits for its time or for an executor.
    Queued,
    /// Sent, not yet acknowledged.
    Dispatched,
    /// Acknowledged by the executor.
    Running,
    /// Asked to stop.
    Canceling,
    /// Waits for its next attempt.
    RetryWait,
    /// Ended well.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended because somebody asked for it.
    Canceled,
    /// Ended by its timeout.
    TimedOut,
    /// Ended because its executor was lost.
    Lost,
    /// Decided not to run.
    Skipped,
}

impl RunState {
    /// All, open ones first.
    pub const ALL: [Self; 11] = [
        Self::Queued,
        Self::Dispatched,
        Self::Running,
        Self::Canceling,
        Self::RetryWait,
        Self::Succeeded,
        Self::Failed,
        Self::Canceled,
        Self::TimedOut,
        Self::Lost,
        Self::Skipped,
    ];

    /// The text in SQL, equal to the contract's name without its prefix.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Dispatched => "DISPATCHED",
            Self::Running => "RUNNING",
            Self::Canceling => "CANCELING",
            Self::RetryWait => "RETRY_WAIT",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
            Self::TimedOut => "TIMED_OUT",
            Self::Lost => "LOST",
            Self::Skipped => "SKIPPED",
        }
    }

    /// Reads [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// With an executor, or on the way there; a split parent by its shards.
    pub fn is_sent(self) -> bool {
        matches!(self, Self::Dispatched | Self::Running | Self::Canceling)
    }

    /// A final state never changes again.
    pub fn is_final(self) -> bool {
        self >= Self::Succeeded
    }
}

/// What made a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerKind {
    /// A schedule's fire time.
    Schedule,
    /// TriggerJob.
    Api,
    /// RerunRun.
    Rerun,
    /// A fire time made up for after it was missed.
    Misfire,
    /// The end of another job's run.
    Chain,
    /// BackfillJob.
    Backfill,
}

impl TriggerKind {
    const ALL: [Self; 6] =
        [Self::Schedule, Self::Api, Self::Rerun, Self::Misfire, Self::Chain, Self::Backfill];

    /// The text in SQL, equal to the contract's name without its prefix.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "SCHEDULE",
            Self::Api => "API",
            Self::Rerun => "RERUN",
            Self::Misfire => "MISFIRE",
            Self::Chain => "CHAIN",
            Self::Backfill => "BACKFILL",
        }
    }

    /// Reads [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Made by the schedule: planned anew when the job changes.
    pub fn is_planned(self) -> bool {
        matches!(self, Self::Schedule | Self::Misfire)
    }
}

/// Why a run was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KillReason {
    /// CancelRun.
    User,
    /// Its timeout passed on the scheduler's clock.
    Timeout,
    /// The attempt is no longer wanted.
    StaleAttempt,
    /// Overlap policy REPLACE.
    Replaced,
    /// Its job was deleted with force.
    JobDeleted,
    /// The executor was disconnected by an operator who asked for it.
    NodePolicy,
}

impl KillReason {
    const ALL: [Self; 6] = [
        Self::User,
        Self::Timeout,
        Self::StaleAttempt,
        Self::Replaced,
        Self::JobDeleted,
        Self::NodePolicy,
    ];

    /// The text in SQL, equal to the contract's name without its prefix.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::Timeout => "TIMEOUT",
            Self::StaleAttempt => "STALE_ATTEMPT",
            Self::Replaced => "REPLACED",
            Self::JobDeleted => "JOB_DELETED",
            Self::NodePolicy => "NODE_POLICY",
        }
    }

    /// Reads [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// The handler returned.
    Succeeded,
    /// The handler failed.
    Failed,
    /// The handler was stopped.
    Canceled,
    /// The handler used up its time.
    TimedOut,
    /// Its executor was lost; set by the scheduler only.
    Lost,
}

/// Why an attempt failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// Stable UPPER_SNAKE code.
    pub code: String,
    /// In words.
    pub message: String,
    /// Error type, for grouping.
    #[serde(rename = "type")]
    pub kind: String,
    /// Stack, at most 16 KiB.
    pub stack: String,
    /// A retry cannot help.
    pub non_retryable: bool,
    /// The handler asks for this wait before the next attempt.
    pub retry_after: Option<Duration>,
}

/// Failure code of a run that no executor took in time.
pub const CODE_QUEUE_EXPIRED: &str = "QUEUE_EXPIRED";
/// Failure code of an executor that stopped while the handler ran; uses up no attempt.
pub const CODE_SHUTDOWN: &str = "SHUTDOWN";
/// Failure code of an attempt whose executor was lost.
pub const CODE_EXECUTOR_LOST: &str = "EXECUTOR_LOST";
/// Failure code of an attempt that passed its timeout.
pub const CODE_TIMEOUT: &str = "TIMEOUT";
/// Failure code of a kill whose executor knew nothing of the attempt.
pub const CODE_NOT_FOUND_ON_EXECUTOR: &str = "NOT_FOUND_ON_EXECUTOR";
/// Failure code of params that the handler can't read.
pub const CODE_INVALID_PARAMS: &str = "INVALID_PARAMS";
/// Failure code of a handler that the executor does not have.
pub const CODE_UNKNOWN_HANDLER: &str = "UNKNOWN_HANDLER";

/// What most runs lack; kept together so that a plain scheduled run has a small row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunExtra {
    /// Replaces the job's params.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Payload>,
    /// Given by hand, beside the job's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Who asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub triggered_by: String,
    /// The ended run this one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<RunId>,
    /// The run whose end started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caused_by: Option<RunId>,
    /// Name of the app of `caused_by`; empty means the run's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub caused_by_app: String,
    /// Who waits for its end.
    #[serde(skip_serializing_if = "Follow::is_nothing")]
    pub follow: Follow,
    /// For a shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// For a shard: which.
    #[serde(skip_serializing_if = "is_zero")]
    pub shard_index: u32,
    /// For a shard, and for a parent once it was split: of how many; 0 means not sharded.
    #[serde(skip_serializing_if = "is_zero")]
    pub shard_total: u32,
    /// For a parent that repeats only some parts of another run: which.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<Part>,
    /// Goes to this executor only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target_executor: String,
    /// For a run of a backfill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill: Option<BackfillGroup>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A run that has not ended, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    /// Id.
    pub id: RunId,
    /// Its job.
    pub job: JobId,
    /// Its app.
    pub app: AppId,
    /// Its job's partition.
    pub partition: PartitionId,
    /// The job revision it was planned with.
    pub revision: u64,
    /// What made it.
    pub trigger: TriggerKind,
    /// Where it stands.
    pub state: RunState,
    /// The instant the schedule named.
    pub fire_at: DateTime<Utc>,
    /// When it may next be dispatched.
    pub due_at: DateTime<Utc>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// 1, 2, 3 …
    pub attempt: u32,
    /// Number of the last dispatch; 0 before the first. One more once an executor stopped that had
    /// begun it: that dispatch is over.
    pub fence: u64,
    /// Attempts lost with their executor so far.
    pub lost: u32,
    /// Executor of the current attempt; kept in RETRY_WAIT and after a requeue for showing.
    pub executor: Option<Arc<str>>,
    /// That executor's session at dispatch.
    pub session_epoch: u64,
    /// When the current attempt was sent.
    pub dispatched_at: Option<DateTime<Utc>>,
    /// When the executor acknowledged it.
    pub acked_at: Option<DateTime<Utc>>,
    /// When the first attempt was acknowledged: the run's start.
    pub started_at: Option<DateTime<Utc>>,
    /// Set in CANCELING.
    pub kill_reason: Option<KillReason>,
    /// When the kill was asked for.
    pub kill_at: Option<DateTime<Utc>>,
    /// Grace of that kill, when the caller set one.
    pub kill_grace: Option<Duration>,
    /// Why it waits, in one line.
    pub message: String,
    /// What most runs lack.
    pub extra: Option<Box<RunExtra>>,
}

impl OpenRun {
    /// The row of a run that was just made.
    pub fn queued(new: NewRun, created_at: DateTime<Utc>) -> Self {
        Self {
            id: new.id,
            job: new.job,
            app: new.app,
            partition: new.job.partition(),
            revision: new.revision,
            trigger: new.trigger,
            state: RunState::Queued,
            fire_at: new.fire_at,
            due_at: new.due_at,
            created_at,
            attempt: 1,
            fence: 0,
            lost: 0,
            executor: None,
            session_epoch: 0,
            dispatched_at: None,
            acked_at: None,
            started_at: None,
            kill_reason: None,
            kill_at: None,
            kill_grace: None,
            message: String::new(),
            extra: new.extra,
        }
    }

    /// The parent, if the run is a shard.
    pub fn parent(&self) -> Option<RunId> {
        self.extra.as_ref().and_then(|extra| extra.parent)
    }

    /// Is split into shards and never sent itself.
    pub fn is_parent(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.follow.has(Follow::PARENT))
    }

    /// A parent whose shards are out: its state is theirs.
    pub fn is_split(&self) -> bool {
        self.fence > 0 && self.is_parent()
    }

    /// A shard that may go to one executor only.
    pub fn is_bound_shard(&self) -> bool {
        let bound = |extra: &RunExtra| extra.parent.is_some() && !extra.target_executor.is_empty();
        self.extra.as_deref().is_some_and(bound)
    }

    /// The current attempt.
    pub fn attempt_ref(&self) -> AttemptRef {
        AttemptRef { run: self.id, attempt: self.attempt, fence: self.fence }
    }

    /// Since when it waits for an executor: since it was due, or was made for a fire time long past.
    pub fn waits_since(&self) -> DateTime<Utc> {
        self.due_at.max(self.created_at)
    }

    /// Planned, not yet due: shown as SCHEDULED and left out of lists and counts.
    pub fn is_scheduled(&self, now: DateTime<Utc>) -> bool {
        self.state == RunState::Queued && self.due_at > now
    }
}

/// A run to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Id: by [`RunId::scheduled`] for fire times of a schedule, else by [`RunId::by_hand`].
    pub id: RunId,
    /// Its job.
    pub job: JobId,
    /// Its app.
    pub app: AppId,
    /// The job revision it runs.
    pub revision: u64,
    /// What made it.
    pub trigger: TriggerKind,
    /// The instant the schedule named.
    pub fire_at: DateTime<Utc>,
    /// When it may be dispatched.
    pub due_at: DateTime<Utc>,
    /// What most runs lack.
    pub extra: Option<Box<RunExtra>>,
}

/// A decision not to run: becomes one SKIPPED row, for one fire time or a gap of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Skip {
    /// [`RunId::scheduled`] of the first fire time it stands for.
    pub id: RunId,
    /// Its job.
    pub job: JobId,
    /// Its app.
    pub app: AppId,
    /// The job revision that decided.
    pub revision: u64,
    /// The first fire time.
    pub fire_at: DateTime<Utc>,
    /// Why, in one line.
    pub message: String,
    /// How many fire times it stands for, at least 1.
    pub missed_count: u32,
    /// The last fire time it stands for.
    pub missed_until: DateTime<Utc>,
}
