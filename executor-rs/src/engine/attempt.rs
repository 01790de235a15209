//! One attempt: its state, its deadlines, and the result it ends with.

use std::time::{Duration, Instant, SystemTime};

use clawjob_proto::v1::{self, DisconnectPolicy, Outcome};

use super::{Ending, KILL_GRACE_DEFAULT, Key, SELF_FENCE_MARGIN};
use crate::ctx::StopReason;
use crate::failure::{Failure, code};
use crate::time::{self, Now};

/// An attempt held in the table.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) fence: u64,
    pub(super) handler: String,
    pub(super) state: State,
    pub(super) kill_grace: Duration,
    pub(super) timeout_at: Option<Instant>,
    started: Now,
    stop_on_disconnect: bool,
    lost_after: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum State {
    Running,
    Stopping {
        reason: StopReason,
        abandon_at: Instant,
    },
    /// The result, without its reference.
    Finished(Box<v1::RunResult>),
}

impl Attempt {
    pub(super) fn new(now: Now, command: &v1::RunCommand, fence: u64) -> Self {
        let timeout = time::std_duration(command.timeout.as_ref()).filter(|t| !t.is_zero());
        Self {
            fence,
            handler: command.handler.clone(),
            state: State::Running,
            kill_grace: time::std_duration(command.kill_grace.as_ref())
                .unwrap_or(KILL_GRACE_DEFAULT),
            timeout_at: timeout.and_then(|timeout| now.mono.checked_add(timeout)),
            started: now,
            stop_on_disconnect: command.disconnect_policy == i32::from(DisconnectPolicy::Stop),
            lost_after: time::std_duration(command.lost_after.as_ref()).filter(|t| !t.is_zero()),
        }
    }

    /// An attempt that was killed before its command came: it ends without having begun.
    pub(super) fn stillborn(now: Now, command: &v1::RunCommand, fence: u64) -> Self {
        let mut attempt = Self::new(now, command, fence);
        let failure = Failure::new(code::STOPPED, "the run was killed before it came here");
        attempt.end(now, Outcome::Canceled, None, Some(failure));
        attempt
    }

    /// A remembered attempt whose result is asked for again.
    pub(super) fn remembered(result: v1::RunResult, fence: u64, now: Now) -> Self {
        Self {
            fence,
            handler: String::new(),
            state: State::Finished(Box::new(result)),
            kill_grace: KILL_GRACE_DEFAULT,
            timeout_at: None,
            started: now,
            stop_on_disconnect: false,
            lost_after: None,
        }
    }

    pub(super) fn result(&self) -> Option<&v1::RunResult> {
        match &self.state {
            State::Finished(result) => Some(result),
            State::Running | State::Stopping { .. } => None,
        }
    }

    pub(super) fn into_result(self) -> Option<v1::RunResult> {
        match self.state {
            State::Finished(result) => Some(*result),
            State::Running | State::Stopping { .. } => None,
        }
    }

    pub(super) fn status(&self, key: &Key) -> v1::AttemptStatus {
        v1::AttemptStatus {
            r#ref: Some(key.to_ref(self.fence)),
            finished: self.result().is_some(),
            start_time: Some(time::timestamp(self.started.wall)),
        }
    }

    /// When the attempt has to be looked at: its timeout, its self-fence, its abandonment.
    pub(super) fn next_step(&self, contact: Instant, lost_after: Duration) -> Option<Instant> {
        match self.state {
            State::Running => {
                let fence = self.stop_on_disconnect.then(|| {
                    let lost_after = self.lost_after.unwrap_or(lost_after);
                    contact + lost_after.saturating_sub(self.kill_grace + SELF_FENCE_MARGIN)
                });
                match (self.timeout_at, fence) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                }
            }
            State::Stopping { abandon_at, .. } => Some(abandon_at),
            State::Finished(_) => None,
        }
    }

    /// The handler has ended. A success stays one even when it was told to stop; an error after
    /// that is taken for the effect of having been told.
    pub(super) fn finish(&mut self, now: Now, ending: Ending, output_max: usize) {
        let stopped = match self.state {
            State::Stopping { reason, .. } => Some(reason),
            State::Running | State::Finished(_) => None,
        };
        match (ending, stopped) {
            (Ending::Returned(Ok(output)), _) => {
                let bytes = output.as_ref().map_or(0, |output| output.data.len());
                if bytes > output_max {
                    let text = format!("the output has {bytes} bytes of {output_max}");
                    let failure = Failure::new(code::OUTPUT_TOO_LARGE, text).non_retryable();
                    self.end(now, Outcome::Failed, None, Some(failure));
                } else {
                    self.end(now, Outcome::Succeeded, output, None);
                }
            }
            (Ending::Panicked(message), _) => {
                let failure = Failure::new(code::HANDLER_PANIC, message);
                self.end(now, Outcome::Failed, None, Some(failure));
            }
            (Ending::Returned(Err(failure)), None) => {
                self.end(now, Outcome::Failed, None, Some(failure));
            }
            (Ending::Returned(Err(failure)), Some(reason)) => {
                let failure = failure.with_code(reason.code());
                self.end(now, stopped_outcome(reason), None, Some(failure));
            }
            (Ending::Dropped, reason) => {
                let reason = reason.unwrap_or(StopReason::Shutdown);
                let text = format!("the handler was dropped: {reason}");
                let failure = Failure::new(reason.code(), text);
                self.end(now, stopped_outcome(reason), None, Some(failure));
            }
        }
    }

    /// The handler has not ended in its grace.
    pub(super) fn abandon(&mut self, now: Now, reason: StopReason) {
        let code = match reason {
            // The scheduler runs these again by their code, so it has to stay.
            StopReason::Shutdown | StopReason::Disconnected => reason.code(),
            _ => code::ABANDONED,
        };
        let text = format!("the handler did not stop in its grace: {reason}");
        self.end(now, stopped_outcome(reason), None, Some(Failure::new(code, text)));
    }

    fn end(
        &mut self,
        now: Now,
        outcome: Outcome,
        output: Option<v1::Payload>,
        failure: Option<Failure>,
    ) {
        let ran = now.mono.saturating_duration_since(self.started.mono);
        let start: SystemTime = self.started.wall;
        self.state = State::Finished(Box::new(v1::RunResult {
            r#ref: None,
            outcome: outcome.into(),
            output,
            failure: failure.map(Failure::into_wire),
            start_time: Some(time::timestamp(start)),
            finish_time: Some(time::timestamp(now.wall)),
            duration: Some(time::duration(ran)),
            last_log_seq: 0,
            output_truncated: false,
        }));
    }
}

/// A run that was stopped for loss of contact has failed rather than been canceled: nobody asked
/// for its end, and another attempt may serve it.
fn stopped_outcome(reason: StopReason) -> Outcome {
    match reason {
        StopReason::Timeout => Outcome::TimedOut,
        StopReason::Disconnected => Outcome::Failed,
        _ => Outcome::Canceled,
    }
}
