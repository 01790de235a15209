//! Every state meets every event; the tables are the contract's, written down by hand.

use super::*;

/// How each event is answered, per state. `-` refused, `=` unchanged, `D` DISPATCHED, `R` RUNNING,
/// `Q` QUEUED again, `N` QUEUED with the next attempt, `K` CANCELING with the event's reason,
/// `W` RETRY_WAIT, `V` RETRY_WAIT after a loss, else the final state: `S` SUCCEEDED, `F` FAILED,
/// `C` CANCELED, `T` TIMED_OUT, `L` LOST, `X` SKIPPED. `stopping` is CANCELING by a user,
/// `overdue` CANCELING by the timeout.
const LAST_ATTEMPT: &str = "
event            queued dispatched running stopping overdue retry_wait final
dispatch         D      -          -       -        -       -          -
acked            -      R          =       =        =       -          -
not_held         -      Q          -       C        T       -          -
rejected         -      F          -       C        T       -          -
succeeded        S      S          S       S        S       -          -
failed           F      F          F       F        F       -          -
failed_for_good  F      F          F       F        F       -          -
shutdown         Q      Q          Q       C        T       -          -
canceled         C      C          C       C        T       -          -
timed_out        T      T          T       C        T       -          -
claims_lost      F      F          F       C        T       -          -
cancel           C      K          K       =        K       C          =
timeout_passed   -      K          K       =        =       -          -
grace_over       -      -          -       -        T       -          -
kill_not_found   -      -          -       C        T       -          -
executor_lost    -      L          L       C        T       -          -
queue_expired    F      -          -       -        -       -          -
skip             X      -          -       -        -       -          -
retry_due        -      -          -       -        -       N          -
";

/// The same with attempts and losses left.
const ATTEMPTS_LEFT: &str = "
event            queued dispatched running stopping overdue retry_wait final
dispatch         D      -          -       -        -       -          -
acked            -      R          =       =        =       -          -
not_held         -      Q          -       C        W       -          -
rejected         -      F          -       C        W       -          -
succeeded        S      S          S       S        S       -          -
failed           W      W          W       F        F       -          -
failed_for_good  F      F          F       F        F       -          -
shutdown         Q      Q          Q       C        W       -          -
canceled         C      C          C       C        W       -          -
timed_out        W      W          W       C        W       -          -
claims_lost      F      F          F       C        W       -          -
cancel           C      K          K       =        K       C          =
timeout_passed   -      K          K       =        =       -          -
grace_over       -      -          -       -        W       -          -
kill_not_found   -      -          -       C        W       -          -
executor_lost    -      V          V       C        W       -          -
queue_expired    F      -          -       -        -       -          -
skip             X      -          -       -        -       -          -
retry_due        -      -          -       -        -       N          -
";

fn event(name: &str) -> Event {
    let result = |outcome, failure| Event::Result { outcome, failure };
    let failure = |code: &str, non_retryable| {
        Some(Failure { code: code.to_owned(), non_retryable, ..Failure::default() })
    };
    match name {
        "dispatch" => Event::Dispatch,
        "acked" => Event::Acked,
        "not_held" => Event::NotHeld,
        "rejected" => Event::Rejected,
        "succeeded" => result(Outcome::Succeeded, None),
        "failed" => result(Outcome::Failed, failure("HANDLER_ERROR", false)),
        "failed_for_good" => result(Outcome::Failed, failure("HANDLER_ERROR", true)),
        "shutdown" => result(Outcome::Canceled, failure(CODE_SHUTDOWN, false)),
        "canceled" => result(Outcome::Canceled, None),
        "timed_out" => result(Outcome::TimedOut, None),
        "claims_lost" => result(Outcome::Lost, None),
        "cancel" => Event::Cancel(KillReason::User),
        "timeout_passed" => Event::TimeoutPassed,
        "grace_over" => Event::GraceOver,
        "kill_not_found" => Event::KillNotFound,
        "executor_lost" => Event::ExecutorLost,
        "queue_expired" => Event::QueueExpired,
        "skip" => Event::Skip,
        "retry_due" => Event::RetryDue,
        other => panic!("no event {other}"),
    }
}

fn states(column: &str) -> Vec<(RunState, Option<KillReason>)> {
    match column {
        "queued" => vec![(RunState::Queued, None)],
        "dispatched" => vec![(RunState::Dispatched, None)],
        "running" => vec![(RunState::Running, None)],
        "stopping" => vec![(RunState::Canceling, Some(KillReason::User))],
        "overdue" => vec![(RunState::Canceling, Some(KillReason::Timeout))],
        "retry_wait" => vec![(RunState::RetryWait, None)],
        "final" => RunState::ALL.into_iter().filter(|s| s.is_final()).map(|s| (s, None)).collect(),
        other => panic!("no state {other}"),
    }
}

fn verdict(letter: &str, event: &str) -> Verdict {
    match letter {
        "-" => Verdict::Refused,
        "=" => Verdict::Unchanged,
        "D" => Verdict::Dispatched,
        "R" => Verdict::Running,
        "Q" => Verdict::Queued,
        "N" => Verdict::NextAttempt,
        "K" if event == "timeout_passed" => Verdict::Canceling(KillReason::Timeout),
        "K" => Verdict::Canceling(KillReason::User),
        "W" => Verdict::RetryWait { lost: false },
        "V" => Verdict::RetryWait { lost: true },
        "S" => Verdict::End(RunState::Succeeded),
        "F" => Verdict::End(RunState::Failed),
        "C" => Verdict::End(RunState::Canceled),
        "T" => Verdict::End(RunState::TimedOut),
        "L" => Verdict::End(RunState::Lost),
        "X" => Verdict::End(RunState::Skipped),
        other => panic!("no verdict {other}"),
    }
}

/// Compares every cell; says how many there were.
fn check(table: &str, retry: &RetryPolicy) -> usize {
    let mut lines = table.lines().filter(|line| !line.is_empty());
    let columns: Vec<&str> = lines.next().expect("a header").split_whitespace().skip(1).collect();
    let mut cells = 0;
    for line in lines {
        let mut words = line.split_whitespace();
        let name = words.next().expect("an event");
        let letters: Vec<&str> = words.collect();
        assert_eq!(letters.len(), columns.len(), "{line}");
        for (column, letter) in columns.iter().zip(letters) {
            for (state, kill_reason) in states(column) {
                let run = Standing { state, attempt: 1, lost: 0, kill_reason };
                let answer = transition(run, retry, LostPolicy::Retry, &event(name));
                assert_eq!(answer, verdict(letter, name), "{name} in {state:?} {kill_reason:?}");
                cells += 1;
            }
        }
    }
    cells
}

#[test]
fn s14_all_illegal_transitions_refused_on_the_last_attempt() {
    let retry = RetryPolicy { max_attempts: 1, max_lost: 0, ..RetryPolicy::default() };
    assert_eq!(check(LAST_ATTEMPT, &retry), 19 * 12);
}

#[test]
fn s14_all_illegal_transitions_refused_with_attempts_left() {
    let retry = RetryPolicy { max_attempts: 3, max_lost: 3, ..RetryPolicy::default() };
    assert_eq!(check(ATTEMPTS_LEFT, &retry), 19 * 12);
}

#[test]
fn f24_losses_have_a_count_of_their_own() {
    let retry = RetryPolicy { max_attempts: 2, max_lost: 2, ..RetryPolicy::default() };
    let at =
        |attempt, lost| Standing { state: RunState::Running, attempt, lost, kill_reason: None };
    let lost = |attempt, losses| {
        transition(at(attempt, losses), &retry, LostPolicy::Retry, &Event::ExecutorLost)
    };
    assert_eq!(lost(1, 0), Verdict::RetryWait { lost: true });
    assert_eq!(lost(2, 1), Verdict::RetryWait { lost: true });
    assert_eq!(lost(3, 2), Verdict::End(RunState::Lost));
    // Two attempts were lost, so the third is the first that counts as a failure.
    let failed = Event::Result { outcome: Outcome::Failed, failure: None };
    let fail =
        |attempt, losses| transition(at(attempt, losses), &retry, LostPolicy::Retry, &failed);
    assert_eq!(fail(3, 2), Verdict::RetryWait { lost: false });
    assert_eq!(fail(4, 2), Verdict::End(RunState::Failed));
}

#[test]
fn a_lost_run_of_a_job_that_must_not_run_twice_ends() {
    let retry = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
    for state in [RunState::Dispatched, RunState::Running] {
        let run = Standing { state, attempt: 1, lost: 0, kill_reason: None };
        let answer = transition(run, &retry, LostPolicy::Fail, &Event::ExecutorLost);
        assert_eq!(answer, Verdict::End(RunState::Lost));
    }
}

#[test]
fn a_code_that_the_job_lists_is_not_retried() {
    let codes = vec!["BAD_INPUT".to_owned()];
    let retry =
        RetryPolicy { max_attempts: 5, non_retryable_codes: codes, ..RetryPolicy::default() };
    let run = Standing { state: RunState::Running, attempt: 1, lost: 0, kill_reason: None };
    let failed = |code: &str| Event::Result {
        outcome: Outcome::Failed,
        failure: Some(Failure { code: code.to_owned(), ..Failure::default() }),
    };
    let answer = |code| transition(run, &retry, LostPolicy::Retry, &failed(code));
    assert_eq!(answer("BAD_INPUT"), Verdict::End(RunState::Failed));
    assert_eq!(answer("OTHER"), Verdict::RetryWait { lost: false });
}

#[test]
fn a_timeout_goes_by_its_own_code_whoever_found_it() {
    let codes = vec![CODE_TIMEOUT.to_owned()];
    let listed =
        RetryPolicy { max_attempts: 5, non_retryable_codes: codes, ..RetryPolicy::default() };
    let free = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
    let running = Standing { state: RunState::Running, attempt: 1, lost: 0, kill_reason: None };
    let overdue =
        Standing { state: RunState::Canceling, kill_reason: Some(KillReason::Timeout), ..running };
    let abandoned = Failure { code: "ABANDONED".to_owned(), ..Failure::default() };
    let result = |outcome, failure| Event::Result { outcome, failure };
    for (run, event) in [
        (running, result(Outcome::TimedOut, None)),
        (running, result(Outcome::TimedOut, Some(abandoned.clone()))),
        (overdue, result(Outcome::Canceled, None)),
        (overdue, result(Outcome::TimedOut, Some(abandoned))),
        (overdue, Event::GraceOver),
        (overdue, Event::KillNotFound),
        (overdue, Event::ExecutorLost),
    ] {
        let answer = |retry| transition(run, retry, LostPolicy::Retry, &event);
        assert_eq!(answer(&listed), Verdict::End(RunState::TimedOut), "{event:?}");
        assert_eq!(answer(&free), Verdict::RetryWait { lost: false }, "{event:?}");
    }
    let hopeless = Failure { non_retryable: true, ..Failure::default() };
    let event = result(Outcome::TimedOut, Some(hopeless));
    for run in [running, overdue] {
        let answer = transition(run, &free, LostPolicy::Retry, &event);
        assert_eq!(answer, Verdict::End(RunState::TimedOut), "the handler says that it is no use");
    }
}
