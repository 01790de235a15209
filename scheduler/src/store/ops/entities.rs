//! Progress, logs, executors and jobs, as the store takes and gives them.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{NewRun, PartitionRow};
use crate::{
    model::{
        Payload,
        executor::{Executor, ExecutorSpec},
        ids::{AppId, AttemptRef, RunId},
        job::{Job, JobSpec, JobState},
        log::{LogLevel, LogRecord},
        run::OpenRun,
    },
    store::StoreError,
};

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
    /// Bytes of their text.
    pub bytes: usize,
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

/// How long an executor that is out of contact is kept where its app needs room for others.
pub const SILENT_KEPT: TimeDelta = TimeDelta::hours(1);
/// Executors forgotten at once to make room for others.
pub const FORGOTTEN_MAX: u32 = 100;

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
    /// Every run that may be with the executor, where memory knows them all: they are looked up by
    /// their ids. None: all open runs are looked through.
    pub may_hold: Option<Vec<RunId>>,
}

impl Claim {
    /// Whether the claim comes from the process the row is of: the same instance, which proves
    /// itself by the resume token of its Welcome. The credential may be another one then, since
    /// credentials are renewed while a process lives. A first Hello whose Welcome was lost has no
    /// token yet, and is the same process all the same if it comes with the same credential.
    pub fn resumes(&self, row: &Executor) -> bool {
        let proven = match self.resume_hash.is_empty() {
            true => row.principal == self.principal,
            false => row.resume_hash == self.resume_hash,
        };
        row.instance_id == self.instance_id && proven
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
    /// Planned runs whose fire time has come are not sent any more (pause, delete): they end as
    /// SKIPPED. Without it they stay, and only those to come are planned anew.
    pub drop_due: bool,
    /// Fire times up to `now` are no misfires any more (schedule changed, resumed). A pause whose
    /// end has passed ends then, not now.
    pub restart_schedule: bool,
    /// Why the job can't fire, as found out by the owner.
    pub problem: Option<String>,
    /// Who. Empty for what the scheduler does by itself: who changed the job last, and when, stays.
    pub updated_by: String,
}

impl JobChange {
    /// A change that changes nothing yet. `updated_by` may be empty, see there.
    pub fn by(updated_by: impl Into<String>) -> Self {
        Self {
            version: None,
            spec: None,
            state: None,
            delete: false,
            drop_due: false,
            restart_schedule: false,
            problem: None,
            updated_by: updated_by.into(),
        }
    }

    /// Why the change is refused of the job as it is.
    pub fn refusal(&self, job: &Job) -> Option<StoreError> {
        if job.deleted {
            return Some(StoreError::NotFound(job.resource_name()));
        }
        let moved = self.version.is_some_and(|version| version != job.version);
        moved.then(|| {
            StoreError::Conflict(format!(
                "{} was changed meanwhile: read it again and apply the change to what it is now",
                job.resource_name()
            ))
        })
    }

    /// Why a run that the change keeps from being sent is skipped.
    pub fn skip_message(&self) -> &'static str {
        if self.delete {
            "its job was deleted before the run was sent"
        } else {
            "its job was paused before the run was sent"
        }
    }

    /// The job as it is after the change; `jobs_version` and the like are the store's own.
    pub fn applied(&self, mut job: Job, now: DateTime<Utc>) -> Job {
        job.version += 1;
        if !self.updated_by.is_empty() {
            job.updated_at = now;
            job.updated_by.clone_from(&self.updated_by);
        }
        job.next_fire_at = None;
        if let Some(problem) = &self.problem {
            job.problem.clone_from(problem);
        }
        if self.restart_schedule {
            let ended = job.pause_until.filter(|until| *until <= now && self.resumes(&job));
            // Fire times at the very end of the pause are the schedule's.
            job.effective_from = ended.map_or(now, |until| until - TimeDelta::milliseconds(1));
        }
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
        job.deleted = self.delete;
        job
    }

    /// Whether nobody looks for fire times from before the change once it is made.
    pub fn cuts_past(&self) -> bool {
        self.delete || self.restart_schedule || self.state.is_some()
    }

    fn resumes(&self, job: &Job) -> bool {
        let to = self.state.as_ref().map(|(state, ..)| *state);
        job.state == JobState::Paused && to == Some(JobState::Active)
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
/// transaction, and again where that must be begun anew.
pub type Replan = Box<dyn Fn(&ReplanInput) -> Vec<NewRun> + Send + Sync>;

/// A request id with what it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// `{principal}/{method}/{request_id}`.
    pub key: String,
    /// SHA-256 of the body: the same id with another body is a `Conflict`.
    pub body_hash: Vec<u8>,
}
