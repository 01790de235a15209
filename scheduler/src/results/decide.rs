//! What an event means for a run's row: pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::finished::Finished;
use crate::{
    model::{
        job::JobSpec,
        run::{
            CODE_EXECUTOR_LOST, CODE_NOT_FOUND_ON_EXECUTOR, CODE_SHUTDOWN, CODE_TIMEOUT, Failure,
            KillReason, OpenRun, Outcome, RunState,
        },
        transition::{Event, Standing, Verdict, last_words, transition},
    },
    store::ops::{AttemptEnd, EndRun, PutBack, PutBackHow, StateSet},
};

/// Longest wait that an executor may ask for when it is busy.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(60);
/// Wait before a run that was refused for want of a handler is tried again.
const REFUSED_WAIT: Duration = Duration::from_secs(1);

/// What a session reported of an attempt.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It ended.
    Result(Box<Finished>),
    /// It never began there.
    NotHeld {
        /// In one line.
        why: &'static str,
        /// Not before this long.
        retry_after: Option<Duration>,
    },
    /// The executor can't run it; another may.
    Refused(Failure),
    /// No executor can run it.
    Impossible(Failure),
    /// It had begun and is gone.
    Lost(&'static str),
    /// The executor knows nothing of what it was asked to stop.
    KillNotFound,
}

/// What to do about it.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// End the run.
    End(Box<EndRun>),
    /// Let it wait; with the row as it will be.
    PutBack(Box<PutBack>, Box<OpenRun>),
    /// The row has moved on: a result is late, all else is of no matter.
    Stale,
}

/// Decides. `random` in 0..1 spreads retries.
pub(super) fn decide(
    run: &OpenRun,
    spec: &JobSpec,
    what: &What,
    acked_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
    random: f64,
) -> Decision {
    let standing = Standing {
        state: run.state,
        attempt: run.attempt,
        lost: run.lost,
        kill_reason: run.kill_reason,
    };
    let verdict = transition(standing, &spec.retry, spec.lost_policy, &event(what));
    let from = StateSet::only(run.state);
    let attempt = run.attempt_ref();
    match verdict {
        Verdict::End(to) => {
            let (output, output_truncated) = match what {
                What::Result(finished) => {
                    (finished.result.output.clone(), finished.result.output_truncated)
                }
                _ => (None, false),
            };
            let end = attempt_end(run, what, acked_at);
            let happened = match to {
                RunState::Lost => words(what),
                // The executor's failure says that the timeout passed, and not how long it was.
                RunState::TimedOut => spec.timeout.map_or_else(String::new, |timeout| {
                    format!("passed its timeout of {timeout:?}")
                }),
                _ => String::new(),
            };
            let message = last_words(run, to, happened);
            Decision::End(Box::new(EndRun {
                attempt,
                from,
                to,
                end,
                output,
                output_truncated,
                message,
                missed: false,
            }))
        }
        Verdict::Queued => {
            let wait = match what {
                What::NotHeld { retry_after, .. } => retry_after.unwrap_or_default(),
                What::Refused(_) => REFUSED_WAIT,
                _ => Duration::ZERO,
            };
            let due_at = now + wait.min(BUSY_WAIT_MAX);
            let how = match what {
                What::Result(_) => PutBackHow::Begun { end: attempt_end(run, what, acked_at) },
                _ => PutBackHow::SameAttempt,
            };
            put_back(run, from, due_at, words(what), how)
        }
        Verdict::RetryWait { lost } => {
            let end = attempt_end(run, what, acked_at);
            let asked = end.failure.as_ref().and_then(|failure| failure.retry_after);
            let wait =
                asked.unwrap_or_else(|| spec.retry.wait(run.attempt, run.lost, lost, random));
            let how = PutBackHow::NextAttempt { end, lost };
            put_back(run, from, now + wait, words(what), how)
        }
        Verdict::Dispatched
        | Verdict::Running
        | Verdict::NextAttempt
        | Verdict::Canceling(_)
        | Verdict::Unchanged
        | Verdict::Refused => Decision::Stale,
    }
}

fn put_back(
    run: &OpenRun,
    from: StateSet,
    due_at: DateTime<Utc>,
    message: String,
    how: PutBackHow,
) -> Decision {
    let mut after = run.clone();
    after.due_at = due_at;
    after.message.clone_from(&message);
    match &how {
        PutBackHow::SameAttempt => after.state = RunState::Queued,
        PutBackHow::Begun { .. } => {
            after.state = RunState::Queued;
            after.fence += 1;
        }
        PutBackHow::NextAttempt { lost, .. } => {
            after.state = RunState::RetryWait;
            after.lost += u32::from(*lost);
        }
    }
    let put_back = PutBack { attempt: run.attempt_ref(), from, due_at, message, how };
    Decision::PutBack(Box::new(put_back), Box::new(after))
}

fn event(what: &What) -> Event {
    match what {
        What::Result(finished) => Event::Result {
            outcome: finished.result.outcome,
            failure: finished.result.failure.clone(),
        },
        What::NotHeld { .. } | What::Refused(_) => Event::NotHeld,
        What::Impossible(_) => Event::Rejected,
        What::Lost(_) => Event::ExecutorLost,
        What::KillNotFound => Event::KillNotFound,
    }
}

fn attempt_end(run: &OpenRun, what: &What, acked_at: Option<DateTime<Utc>>) -> AttemptEnd {
    let by_timeout = run.kill_reason == Some(KillReason::Timeout);
    let stopped = if by_timeout { Outcome::TimedOut } else { Outcome::Canceled };
    let failed = |outcome, failure| AttemptEnd {
        outcome: Some(outcome),
        failure: Some(failure),
        acked_at,
        ..AttemptEnd::default()
    };
    match what {
        What::Result(finished) => {
            let mut end = finished.end(acked_at);
            if end.outcome == Some(Outcome::Canceled) && by_timeout {
                end.outcome = Some(Outcome::TimedOut);
            }
            if end.outcome == Some(Outcome::TimedOut) && end.failure.is_none() {
                end.failure = Some(named(CODE_TIMEOUT, "it did not end within its timeout"));
            }
            end
        }
        What::NotHeld { .. } => {
            AttemptEnd { outcome: Some(stopped), acked_at, ..AttemptEnd::default() }
        }
        What::Refused(failure) | What::Impossible(failure) => {
            failed(Outcome::Failed, failure.clone())
        }
        What::Lost(why) => failed(Outcome::Lost, named(CODE_EXECUTOR_LOST, why)),
        What::KillNotFound => {
            let why = "the executor knew nothing of the attempt it was asked to stop";
            failed(stopped, named(CODE_NOT_FOUND_ON_EXECUTOR, why))
        }
    }
}

fn named(code: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned(), ..Failure::default() }
}

/// Why the run waits or was lost, in one line.
fn words(what: &What) -> String {
    match what {
        What::Result(finished) => match &finished.result.failure {
            Some(failure) if failure.code == CODE_SHUTDOWN => {
                "the executor stopped while it ran".to_owned()
            }
            Some(failure) => {
                let first = failure.message.lines().next().unwrap_or_default();
                let first: String = first.chars().take(200).collect();
                format!("{}: {first}", failure.code)
            }
            None => "the attempt failed".to_owned(),
        },
        What::NotHeld { why, .. } | What::Lost(why) => (*why).to_owned(),
        What::Refused(failure) | What::Impossible(failure) => {
            format!("refused by the executor: {}", failure.code)
        }
        What::KillNotFound => "the executor knew nothing of it".to_owned(),
    }
}
