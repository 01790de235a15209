//! A run and its attempts, as shown.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use super::{CODE_SHUTDOWN, Failure, OpenRun, Outcome};
use crate::model::Payload;

/// One attempt, for showing. One that began on several executors, because those before the last
/// stopped, is shown once for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// 1, 2, 3 …
    pub number: u32,
    /// Number of its dispatch.
    pub fence: u64,
    /// Who ran it.
    pub executor: Option<String>,
    /// The session it was sent on.
    pub session_epoch: u64,
    /// How it ended; None while it goes on.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Sent.
    pub dispatched_at: Option<DateTime<Utc>>,
    /// Acknowledged.
    pub acked_at: Option<DateTime<Utc>>,
    /// The handler began, on the executor's clock.
    pub started_at: Option<DateTime<Utc>>,
    /// It ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Measured by the executor.
    pub duration: Option<Duration>,
    /// Log records stored of this dispatch.
    pub log_records: u64,
    /// Log records the executor had to drop.
    pub log_dropped: u64,
    /// What a result said that came after the attempt was given up.
    pub late_outcome: Option<Outcome>,
}

/// A run in full, open or ended, as lists and details show it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The row while open; for an ended run the same facts as they last were, with the final state.
    pub run: OpenRun,
    /// Its app's name.
    pub app_name: Arc<str>,
    /// Its job's name.
    pub job_name: Arc<str>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// What the handler returned.
    pub output: Option<Payload>,
    /// The output was cut to the limit.
    pub output_truncated: bool,
    /// Why the last attempt failed.
    pub failure: Option<Failure>,
    /// 0..1, the last the handler said.
    pub progress: Option<f32>,
    /// What it said with it.
    pub progress_message: String,
    /// For SKIPPED: how many fire times it stands for.
    pub missed_count: u32,
    /// For SKIPPED: the last of them.
    pub missed_until: Option<DateTime<Utc>>,
    /// All attempts, oldest first; empty when only the basics were asked for.
    pub attempts: Vec<Attempt>,
}

impl RunRecord {
    /// Puts the attempts in. A run that waits shows why the last failed; that an executor stopped is
    /// no failure of the run.
    pub fn show_attempts(&mut self, attempts: Vec<Attempt>) {
        if self.failure.is_none() {
            let last = attempts.last().and_then(|last| last.failure.as_ref());
            self.failure = last.filter(|failure| failure.code != CODE_SHUTDOWN).cloned();
        }
        self.attempts = attempts;
    }
}
