//! The one transition function of a run. The letters T1–T23 and R1–R7 are the contract's.

use super::{
    job::LostPolicy,
    retry::RetryPolicy,
    run::{CODE_SHUTDOWN, CODE_TIMEOUT, Failure, KillReason, OpenRun, Outcome, RunState},
};

/// What decides besides the event: where the run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: RunState,
    /// Current attempt, 1-based.
    pub attempt: u32,
    /// Attempts lost so far.
    pub lost: u32,
    /// Why it is CANCELING.
    pub kill_reason: Option<KillReason>,
}

/// Something that happened to a run. Frames were matched by run, attempt and fence before.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An executor with a free slot was found (T3).
    Dispatch,
    /// RunAck ACCEPTED or DUPLICATE, or a frame that implies it (T6, R5).
    Acked,
    /// Proof that the executor does not hold the attempt (R3).
    NotHeld,
    /// The executor can't run it, and no other can (T8).
    Rejected,
    /// The attempt ended.
    Result {
        /// How.
        outcome: Outcome,
        /// Why it failed.
        failure: Option<Failure>,
    },
    /// Somebody asked for its end.
    Cancel(KillReason),
    /// Its timeout passed on the scheduler's clock (T13).
    TimeoutPassed,
    /// Timeout and kill grace passed without a result (T17).
    GraceOver,
    /// KillAck NOT_FOUND (R7).
    KillNotFound,
    /// The executor was declared lost, or came back without an attempt it had acknowledged.
    ExecutorLost,
    /// Nobody took it in time (T5).
    QueueExpired,
    /// Overlap, queue bound or misfire decided against it (T22).
    Skip,
    /// Its backoff is over (T20).
    RetryDue,
}

/// Where a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// QUEUED → DISPATCHED; fence + 1.
    Dispatched,
    /// DISPATCHED → RUNNING.
    Running,
    /// Back to QUEUED with the same attempt.
    Queued,
    /// RETRY_WAIT → QUEUED with the next attempt.
    NextAttempt,
    /// Asked to stop.
    Canceling(KillReason),
    /// Waits for another attempt; `lost` says that the loss of the executor was the cause.
    RetryWait {
        /// Counts towards `max_lost` instead of `max_attempts`.
        lost: bool,
    },
    /// Ended.
    End(RunState),
    /// Already so: nothing changes.
    Unchanged,
    /// Not possible from here: a frame is STALE, an API call fails.
    Refused,
}

/// Decides where a run goes. Pure; every pair of state and event has an answer.
pub fn transition(
    run: Standing,
    retry: &RetryPolicy,
    lost_policy: LostPolicy,
    event: &Event,
) -> Verdict {
    use RunState as S;
    if run.state.is_final() {
        return after_the_end(event);
    }
    match (run.state, event) {
        (S::Queued, Event::Dispatch) => Verdict::Dispatched,
        (S::Queued, Event::QueueExpired) => Verdict::End(S::Failed),
        (S::Queued, Event::Skip) => Verdict::End(S::Skipped),
        (S::RetryWait, Event::RetryDue) => Verdict::NextAttempt,
        (S::Queued | S::RetryWait, Event::Cancel(_)) => Verdict::End(S::Canceled),

        (S::Dispatched, Event::Acked) => Verdict::Running,
        (S::Running | S::Canceling, Event::Acked) => Verdict::Unchanged,
        (S::Dispatched, Event::NotHeld) => Verdict::Queued,
        (S::Dispatched, Event::Rejected) => Verdict::End(S::Failed),
        (S::Dispatched | S::Running, Event::Cancel(reason)) => Verdict::Canceling(*reason),
        (S::Dispatched | S::Running, Event::TimeoutPassed) => {
            Verdict::Canceling(KillReason::Timeout)
        }
        // A kill by hand outranks a timeout: it ends the run instead of a retry.
        (S::Canceling, Event::Cancel(reason)) if run.kill_reason == Some(KillReason::Timeout) => {
            Verdict::Canceling(*reason)
        }
        (S::Canceling, Event::Cancel(_) | Event::TimeoutPassed) => Verdict::Unchanged,

        (S::Dispatched | S::Running, Event::ExecutorLost) => {
            if lost_policy == LostPolicy::Retry && run.lost < retry.max_lost {
                Verdict::RetryWait { lost: true }
            } else {
                Verdict::End(S::Lost)
            }
        }
        // After a requeue on evidence the old dispatch may still answer under the same fence (R4).
        (S::Dispatched | S::Running | S::Queued, Event::Result { outcome, failure }) => {
            unasked_result(run, retry, *outcome, failure.as_ref())
        }
        (S::Canceling, Event::Result { outcome, failure }) => match outcome {
            Outcome::Succeeded => Verdict::End(S::Succeeded),
            Outcome::Failed => Verdict::End(S::Failed),
            Outcome::Canceled | Outcome::TimedOut | Outcome::Lost => {
                stopped(run, retry, failure.as_ref())
            }
        },
        (
            S::Canceling,
            Event::NotHeld | Event::Rejected | Event::KillNotFound | Event::ExecutorLost,
        ) => stopped(run, retry, None),
        (S::Canceling, Event::GraceOver) if run.kill_reason == Some(KillReason::Timeout) => {
            stopped(run, retry, None)
        }
        _ => Verdict::Refused,
    }
}

/// Where a run goes when somebody asks for its end. A split parent only notes it: its shards are
/// ended, and their ends make its own.
pub fn cancel(run: &OpenRun, reason: KillReason) -> Verdict {
    if run.is_split() {
        let first = run.kill_reason.is_none();
        return if first { Verdict::Canceling(reason) } else { Verdict::Unchanged };
    }
    let standing = Standing {
        state: run.state,
        attempt: run.attempt,
        lost: run.lost,
        kill_reason: run.kill_reason,
    };
    // It depends on nothing that the job says.
    transition(standing, &RetryPolicy::default(), LostPolicy::default(), &Event::Cancel(reason))
}

/// The line that stays with a run that has ended: of one that somebody stopped, who asked and why;
/// else what happened.
pub fn last_words(run: &OpenRun, to: RunState, happened: String) -> String {
    let stopped = run.state == RunState::Canceling && to == RunState::Canceled;
    if stopped && !run.message.is_empty() { run.message.clone() } else { happened }
}

/// An ended run stays as it is: asking again for its end is no error, all else is refused.
fn after_the_end(event: &Event) -> Verdict {
    match event {
        Event::Cancel(_) => Verdict::Unchanged,
        _ => Verdict::Refused,
    }
}

/// A result that no kill asked for (T9–T12, T14).
fn unasked_result(
    run: Standing,
    retry: &RetryPolicy,
    outcome: Outcome,
    failure: Option<&Failure>,
) -> Verdict {
    if outcome != Outcome::Succeeded && failure.is_some_and(|f| f.code == CODE_SHUTDOWN) {
        return Verdict::Queued;
    }
    match outcome {
        Outcome::Succeeded => Verdict::End(RunState::Succeeded),
        Outcome::Canceled => Verdict::End(RunState::Canceled),
        Outcome::Failed if may_retry(run, retry, failure) => Verdict::RetryWait { lost: false },
        Outcome::Failed => Verdict::End(RunState::Failed),
        Outcome::TimedOut if may_retry_timeout(run, retry, failure) => {
            Verdict::RetryWait { lost: false }
        }
        Outcome::TimedOut => Verdict::End(RunState::TimedOut),
        // Only the scheduler may say so; from an executor it is a failure it could not name.
        Outcome::Lost => Verdict::End(RunState::Failed),
    }
}

/// A kill took effect (T15, T17).
fn stopped(run: Standing, retry: &RetryPolicy, failure: Option<&Failure>) -> Verdict {
    if run.kill_reason != Some(KillReason::Timeout) {
        return Verdict::End(RunState::Canceled);
    }
    if may_retry_timeout(run, retry, failure) {
        Verdict::RetryWait { lost: false }
    } else {
        Verdict::End(RunState::TimedOut)
    }
}

/// A timeout goes by its own code, whatever the executor called its end.
fn may_retry_timeout(run: Standing, retry: &RetryPolicy, failure: Option<&Failure>) -> bool {
    let listed = retry.non_retryable_codes.iter().any(|code| code == CODE_TIMEOUT);
    !listed && may_retry(run, retry, failure)
}

fn may_retry(run: Standing, retry: &RetryPolicy, failure: Option<&Failure>) -> bool {
    let used = run.attempt.saturating_sub(run.lost);
    let retryable = failure.is_none_or(|failure| {
        !failure.non_retryable && !retry.non_retryable_codes.contains(&failure.code)
    });
    used < retry.max_attempts && retryable
}

#[cfg(test)]
mod tests;
