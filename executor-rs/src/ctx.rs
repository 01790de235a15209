//! What a handler knows of its run, and what it can say about it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use clawjob_proto::v1::{KillReason, LogLevel, RunCommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, code};
use crate::logs::LogSink;
use crate::progress::{CHECKPOINT_BYTES_MAX, Progress};
use crate::time;

/// Why a handler is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// Somebody canceled the run.
    User,
    /// The run's timeout has passed.
    Timeout,
    /// A later attempt of the run took over.
    StaleAttempt,
    /// A newer run of the job takes its place.
    Replaced,
    /// The job was deleted.
    JobDeleted,
    /// The scheduler's node asks for it.
    NodePolicy,
    /// This executor shuts down.
    Shutdown,
    /// Contact with the scheduler is lost and the job asks for a stop in that case.
    Disconnected,
}

impl StopReason {
    /// A reason this build does not know counts as [`StopReason::User`].
    pub(crate) fn of(reason: i32) -> Self {
        match KillReason::try_from(reason) {
            Ok(KillReason::Timeout) => Self::Timeout,
            Ok(KillReason::StaleAttempt) => Self::StaleAttempt,
            Ok(KillReason::Replaced) => Self::Replaced,
            Ok(KillReason::JobDeleted) => Self::JobDeleted,
            Ok(KillReason::NodePolicy) => Self::NodePolicy,
            Ok(KillReason::User | KillReason::Unspecified) | Err(_) => Self::User,
        }
    }

    /// The failure code of an attempt that was stopped for this reason.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Timeout => code::TIMEOUT,
            Self::Shutdown => code::SHUTDOWN,
            Self::Disconnected => code::DISCONNECTED,
            _ => code::STOPPED,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "the run was canceled",
            Self::Timeout => "the run's timeout passed",
            Self::StaleAttempt => "a later attempt took over",
            Self::Replaced => "a newer run takes its place",
            Self::JobDeleted => "the job was deleted",
            Self::NodePolicy => "the scheduler's node asked for it",
            Self::Shutdown => "the executor shuts down",
            Self::Disconnected => "contact with the scheduler was lost",
        })
    }
}

/// Which share of a sharded run this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// 0 .. `total`.
    pub index: u32,
    /// At least 1.
    pub total: u32,
}

/// A handler's view of its run. Cheap to clone.
///
/// A handler learns that it should stop from [`Ctx::cancelled`]. It should then end within the
/// grace of the kill (10 s unless the job says otherwise) by returning an error; [`Ctx::stopped`]
/// makes one. An `Ok` counts as a success even then. A handler that does not end in time is
/// dropped at its next `.await`, and its attempt is reported as abandoned.
#[derive(Clone)]
pub struct Ctx {
    shared: Arc<Shared>,
}

/// What the context and the session's thread share about one attempt.
pub(crate) struct Shared {
    command: RunCommand,
    pub(crate) started: Instant,
    token: CancellationToken,
    reason: OnceLock<StopReason>,
    pub(crate) progress: Progress,
    pub(crate) log: Arc<LogSink>,
}

impl Shared {
    /// `command`'s params are not needed any more and are given up.
    pub(crate) fn new(mut command: RunCommand, log: LogSink, started: Instant) -> Arc<Self> {
        command.params = None;
        Arc::new(Self {
            command,
            started,
            token: CancellationToken::new(),
            reason: OnceLock::new(),
            progress: Progress::default(),
            log: Arc::new(log),
        })
    }

    /// Tells the handler to stop; the first reason stays.
    pub(crate) fn stop(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    pub(crate) fn command(&self) -> &RunCommand {
        &self.command
    }

    fn wake(&self) {
        if let Some(waker) = self.log.waker() {
            waker.list(false);
        }
    }
}

impl Ctx {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn command(&self) -> &RunCommand {
        &self.shared.command
    }

    /// The run's ULID. Together with [`Ctx::attempt`] it identifies this execution.
    pub fn run_id(&self) -> &str {
        self.command().r#ref.as_ref().map_or("", |attempt| attempt.run_id.as_str())
    }

    /// The run's resource name, `apps/{app}/runs/{ulid}`.
    pub fn run(&self) -> &str {
        &self.command().run
    }

    /// The job's resource name, `apps/{app}/jobs/{job}`.
    pub fn job(&self) -> &str {
        &self.command().job
    }

    /// The revision of the job that the run was planned with.
    pub fn job_revision(&self) -> u64 {
        self.command().job_revision
    }

    /// The handler's name.
    pub fn handler(&self) -> &str {
        &self.command().handler
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.command().r#ref.as_ref().map_or(1, |attempt| attempt.attempt)
    }

    /// How many attempts the job allows, at least 1.
    pub fn max_attempts(&self) -> u32 {
        self.command().max_attempts.max(1)
    }

    /// The instant the schedule named, not the time of the start; the Unix epoch when the
    /// scheduler named none.
    pub fn fire_time(&self) -> DateTime<Utc> {
        time::utc(self.command().fire_time.as_ref()).unwrap_or(DateTime::UNIX_EPOCH)
    }

    /// How late the scheduler was with this run.
    pub fn lateness(&self) -> Duration {
        time::std_duration(self.command().lateness.as_ref()).unwrap_or_default()
    }

    /// True when the run makes up for a fire time that passed unserved.
    pub fn catch_up(&self) -> bool {
        self.command().catch_up
    }

    /// The run's time budget, counted from the start of this attempt; `None` means no limit.
    pub fn timeout(&self) -> Option<Duration> {
        time::std_duration(self.command().timeout.as_ref()).filter(|timeout| !timeout.is_zero())
    }

    /// What is left of the budget on this machine's monotonic clock; `None` means no limit.
    pub fn remaining(&self) -> Option<Duration> {
        let spent = time::now().mono.saturating_duration_since(self.shared.started);
        Some(self.timeout()?.saturating_sub(spent))
    }

    /// The end of the budget on the scheduler's clock, for showing only.
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        time::utc(self.command().deadline.as_ref())
    }

    /// The share of a sharded run; `None` when the run is not sharded.
    pub fn shard(&self) -> Option<Shard> {
        let command = self.command();
        (command.shard_total > 0)
            .then_some(Shard { index: command.shard_index, total: command.shard_total })
    }

    /// The resource name of the run whose end started this one by `on_success` or `on_failure`;
    /// `None` when the run is not chained.
    pub fn caused_by(&self) -> Option<&str> {
        Some(self.command().caused_by.as_str()).filter(|name| !name.is_empty())
    }

    /// What the run that started this one has returned; `None` when it returned nothing, or is not
    /// kept any more.
    ///
    /// # Errors
    /// An output that is not a `T`.
    pub fn caused_by_output<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        match self.command().caused_by_output.as_ref().filter(|output| !output.data.is_empty()) {
            Some(output) => Ok(Some(serde_json::from_slice(&output.data)?)),
            None => Ok(None),
        }
    }

    /// The job's labels.
    pub fn labels(&self) -> &HashMap<String, String> {
        &self.command().labels
    }

    /// The W3C trace context of the dispatch, `None` when the run is not traced. The handler's
    /// span continues it already.
    pub fn traceparent(&self) -> Option<&str> {
        Some(self.command().traceparent.as_str()).filter(|text| !text.is_empty())
    }

    /// The vendor part of the trace context; empty when there is none.
    pub fn tracestate(&self) -> &str {
        &self.command().tracestate
    }

    /// Tells how far the run is: `fraction` in 0..=1 and a message of at most 1 KiB. Only the
    /// newest counts, at most one a second is sent; calling it often is cheap.
    pub fn progress(&self, fraction: f32, message: impl AsRef<str>) {
        self.shared.progress.set(Some(fraction), message.as_ref());
        self.shared.wake();
    }

    /// The checkpoint that this attempt, or else an earlier one, has saved.
    ///
    /// # Errors
    /// A checkpoint that is not a `T`.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let earlier = || self.command().checkpoint.as_ref().map(|payload| payload.data.clone());
        match self.shared.progress.saved().or_else(earlier).filter(|data| !data.is_empty()) {
            Some(data) => Ok(Some(serde_json::from_slice(&data)?)),
            None => Ok(None),
        }
    }

    /// Saves a checkpoint for the next attempt, as JSON of at most 64 KiB. It travels with the
    /// progress: the newest counts, and the last one leaves before the result does.
    ///
    /// # Errors
    /// A value that is not JSON, or `CHECKPOINT_TOO_LARGE`.
    pub fn save_checkpoint<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let data = serde_json::to_vec(value)?;
        if data.len() > CHECKPOINT_BYTES_MAX {
            return Err(Failure::new(
                code::CHECKPOINT_TOO_LARGE,
                format!("the checkpoint has {} bytes of {CHECKPOINT_BYTES_MAX}", data.len()),
            ));
        }
        self.shared.progress.save(Bytes::from(data));
        self.shared.wake();
        Ok(())
    }

    /// Waits until the handler should stop, and says why.
    pub async fn cancelled(&self) -> StopReason {
        self.shared.token.cancelled().await;
        self.stop_reason().unwrap_or(StopReason::User)
    }

    /// True when the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.shared.token.is_cancelled()
    }

    /// Why the handler should stop; `None` while it should go on.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.shared.reason.get().copied()
    }

    /// The token behind [`Ctx::cancelled`], to hand to libraries that take one.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.shared.token.clone()
    }

    /// The failure to return after having stopped as told.
    pub fn stopped(&self) -> Failure {
        let reason = self.stop_reason().unwrap_or(StopReason::User);
        Failure::new(reason.code(), reason.to_string())
    }

    /// Writes a record into the run's log, without `tracing`. A message over 16 KiB is cut; more
    /// than 1,000 records a second or 10 MiB in all are dropped and counted.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.log_fields(level, message, Vec::new());
    }

    /// As [`Ctx::log`], with up to 32 fields of at most 1 KiB.
    pub fn log_fields(
        &self,
        level: LogLevel,
        message: impl Into<String>,
        fields: Vec<(String, String)>,
    ) {
        self.shared.log.push(level, message.into(), fields, time::now());
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("run_id", &self.run_id())
            .field("attempt", &self.attempt())
            .field("handler", &self.handler())
            .finish_non_exhaustive()
    }
}
