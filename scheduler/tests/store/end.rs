//! Ends: which results count, which came before, which come too late.

use std::time::Duration;

use clawjob_scheduler::{
    model::{
        Payload,
        executor::ExecutorRef,
        ids::{AttemptRef, RunId},
        run::{Failure, KillReason, Outcome, RunState},
    },
    store::ops::{AttemptEnd, EndAnswer, EndRun, LateResult, PutBack, PutBackHow, StateSet},
};

use super::fixture::{Fixture, at, canceling, ending, result_of, retry_later, to_e1};

const OPEN: [RunState; 5] = [
    RunState::Queued,
    RunState::Dispatched,
    RunState::Running,
    RunState::Canceling,
    RunState::RetryWait,
];

/// Every open state against every set a caller names, with the right attempt and three wrong ones.
pub(crate) async fn a_run_ends_from_the_given_states_with_the_given_attempt_only(f: &Fixture) {
    let sets = [StateSet::SENT, StateSet::OPEN].into_iter().chain(OPEN.map(StateSet::only));
    for (number, from) in sets.enumerate() {
        for state in OPEN {
            let attempt = f.run_in(&format!("{}{number}", state.as_str()), state).await;
            let before = f.open(attempt.run).await;
            let wrong = [
                AttemptRef { fence: attempt.fence + 1, ..attempt },
                AttemptRef { fence: attempt.fence.wrapping_sub(1) >> 1, ..attempt },
                AttemptRef { attempt: attempt.attempt + 1, ..attempt },
            ];
            let end = |attempt| EndRun { from, ..ending(attempt, RunState::Succeeded) };
            let refused = f.store.end_runs(&wrong.map(end), at(20)).await.expect("answers");
            assert_eq!(refused, [EndAnswer::Stale; 3], "{state:?} from {from:?}");
            assert_eq!(f.open(attempt.run).await, before);
            let answers = f.store.end_runs(&[end(attempt)], at(20)).await.expect("answers");
            let left = f.store.still_open(&[attempt.run]).await.expect("open runs");
            if from.contains(state) {
                assert_eq!(answers, [EndAnswer::Ended(before.job)], "{state:?} from {from:?}");
                assert_eq!(left, []);
            } else {
                // The attempt that waits for its next one has ended by itself.
                let known = state == RunState::RetryWait;
                let answer = if known { EndAnswer::Duplicate } else { EndAnswer::Stale };
                assert_eq!(answers, [answer], "{state:?} from {from:?}");
                assert_eq!(left, [attempt.run]);
            }
        }
    }
}

pub(crate) async fn an_end_keeps_what_the_result_said(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let failure = Failure { code: "X".to_owned(), message: "why".to_owned(), ..Failure::default() };
    let output = Payload { content_type: "text/plain".to_owned(), data: "half".into() };
    let end = EndRun {
        end: AttemptEnd {
            outcome: Some(Outcome::Failed),
            failure: Some(failure.clone()),
            acked_at: Some(at(99)),
            started_at: Some(at(13)),
            duration: Some(Duration::from_millis(1500)),
            last_log_seq: 9,
            by: Some(f.e1()),
        },
        output: Some(output.clone()),
        output_truncated: true,
        message: "in one line".to_owned(),
        ..ending(running, RunState::Failed)
    };
    f.store.end_runs(&[end], at(20)).await.expect("ended");
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!((record.run.state, record.ended_at), (RunState::Failed, Some(at(20))));
    assert_eq!((record.output, record.output_truncated), (Some(output), true));
    assert_eq!(record.failure.as_ref(), Some(&failure));
    assert_eq!(record.run.message, "in one line");
    assert_eq!(record.run.started_at, Some(at(12)), "the written ack outdoes the told one");
    assert_eq!((&*record.app_name, &*record.job_name), ("shop", "a"));
    assert_eq!(record.run.partition, record.run.job.partition());
    assert_eq!(record.attempts.len(), 1);
    let attempt = &record.attempts[0];
    assert_eq!((attempt.number, attempt.outcome), (1, Some(Outcome::Failed)));
    assert_eq!(attempt.failure, Some(failure));
    assert_eq!(attempt.executor.as_deref(), Some("e1"));
    assert_eq!((attempt.dispatched_at, attempt.acked_at), (Some(at(11)), Some(at(12))));
    assert_eq!((attempt.started_at, attempt.ended_at), (Some(at(13)), Some(at(20))));
    assert_eq!(attempt.duration, Some(Duration::from_millis(1500)));
    let in_list = f.store.get_runs(&[running.run], false).await.expect("runs");
    assert_eq!((in_list[0].output.as_ref(), in_list[0].attempts.len()), (None, 0));
}

pub(crate) async fn the_same_result_again_is_a_duplicate(f: &Fixture) {
    let finals = [RunState::Succeeded, RunState::Failed, RunState::Canceled, RunState::TimedOut];
    for state in finals {
        let sent = f.run_in(state.as_str(), RunState::Dispatched).await;
        let end = ending(sent, state);
        let answers = f.store.end_runs(&[end.clone(), end], at(20)).await.expect("answers");
        assert!(matches!(answers[..], [EndAnswer::Ended(_), EndAnswer::Duplicate]), "{answers:?}");
        let wrong = ending(AttemptRef { fence: sent.fence + 1, ..sent }, state);
        let answers = f.store.end_runs(&[wrong], at(21)).await.expect("answers");
        assert_eq!(answers, [EndAnswer::Stale], "another fence never ended");
        let record = f.store.get_run(sent.run).await.expect("the run");
        assert_eq!((record.run.state, record.ended_at), (state, Some(at(20))));
    }
}

pub(crate) async fn a_result_of_an_attempt_before_is_a_duplicate(f: &Fixture) {
    let waiting = f.run_in("a", RunState::RetryWait).await;
    let end = [ending(waiting, RunState::Failed)];
    assert_eq!(f.store.end_runs(&end, at(20)).await.expect("answers"), [EndAnswer::Duplicate]);
    let woken = f.store.wake_retries(&[waiting], at(60)).await.expect("woken")[0];
    assert_eq!(f.store.end_runs(&end, at(61)).await.expect("answers"), [EndAnswer::Duplicate]);
    f.dispatched(woken).await;
    assert_eq!(f.store.end_runs(&end, at(62)).await.expect("answers"), [EndAnswer::Duplicate]);
    assert_eq!(f.open(waiting.run).await.state, RunState::Dispatched);
}

pub(crate) async fn a_result_of_a_lost_attempt_is_stale(f: &Fixture) {
    let sent = f.run_in("ended", RunState::Dispatched).await;
    f.store.end_runs(&[ending(sent, RunState::Lost)], at(20)).await.expect("lost");
    let end = ending(sent, RunState::Succeeded);
    assert_eq!(f.store.end_runs(&[end], at(21)).await.expect("answers"), [EndAnswer::Stale]);
    let sent = f.run_in("goes on", RunState::Dispatched).await;
    lose(f, sent).await;
    let end = ending(sent, RunState::Succeeded);
    assert_eq!(f.store.end_runs(&[end], at(21)).await.expect("answers"), [EndAnswer::Stale]);
    assert_eq!(f.open(sent.run).await.state, RunState::RetryWait);
}

async fn lose(f: &Fixture, sent: AttemptRef) {
    let end = AttemptEnd { outcome: Some(Outcome::Lost), ..AttemptEnd::default() };
    let how = PutBackHow::NextAttempt { end, lost: true };
    let back = PutBack { how, ..retry_later(sent) };
    assert_eq!(f.store.put_back(&[back], at(20)).await.expect("lost"), [sent]);
}

pub(crate) async fn a_result_of_a_run_that_never_ran_is_stale(f: &Fixture) {
    let queued = f.run_in("a", RunState::Queued).await;
    let cancel = EndRun { end: AttemptEnd::default(), ..ending(queued, RunState::Canceled) };
    f.store.end_runs(&[cancel], at(20)).await.expect("canceled");
    let end = ending(queued, RunState::Succeeded);
    assert_eq!(f.store.end_runs(&[end], at(21)).await.expect("answers"), [EndAnswer::Stale]);
    let record = f.store.get_run(queued.run).await.expect("the run");
    assert_eq!((record.run.state, record.attempts.len()), (RunState::Canceled, 0));
}

pub(crate) async fn an_unknown_run_is_stale(f: &Fixture) {
    let unknown = AttemptRef { run: RunId::by_hand(at(0), 1), attempt: 1, fence: 1 };
    let end = ending(unknown, RunState::Succeeded);
    assert_eq!(f.store.end_runs(&[end], at(1)).await.expect("answers"), [EndAnswer::Stale]);
}

pub(crate) async fn answers_come_in_the_order_of_the_requests(f: &Fixture) {
    let job = f.job("a").await;
    let mut ends = Vec::new();
    let mut expected = Vec::new();
    for second in [30, 10, 20] {
        let sent = f.dispatched(f.planned(&job, at(second)).await).await;
        let stale = AttemptRef { fence: 9, ..sent };
        ends.extend([ending(stale, RunState::Failed), ending(sent, RunState::Succeeded)]);
        expected.extend([EndAnswer::Stale, EndAnswer::Ended(job.id)]);
    }
    ends.push(ends[1].clone());
    expected.push(EndAnswer::Duplicate);
    assert_eq!(f.store.end_runs(&ends, at(40)).await.expect("answers"), expected);
}

pub(crate) async fn a_planned_run_that_was_missed_stands_for_a_gap_of_one(f: &Fixture) {
    let job = f.job("a").await;
    for (fire, missed) in [(10, true), (20, false)] {
        let queued = f.planned(&job, at(fire)).await;
        let end = EndRun { missed, ..EndRun::skip(queued, "why".to_owned()) };
        f.store.end_runs(&[end], at(30)).await.expect("skipped");
        let record = f.store.get_run(queued.run).await.expect("the run");
        let gap = if missed { (1, Some(at(fire))) } else { (0, None) };
        assert_eq!((record.missed_count, record.missed_until), gap);
    }
}

pub(crate) async fn what_a_late_result_said_is_kept_with_its_attempt(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    lose(f, sent).await;
    let woken = f.store.wake_retries(&[sent], at(60)).await.expect("woken")[0];
    let again = f.dispatched(woken).await;
    f.store.end_runs(&[ending(again, RunState::Lost)], at(70)).await.expect("lost");
    let unknown = AttemptRef { run: RunId::by_hand(at(0), 1), attempt: 1, fence: 1 };
    let told = [
        late(sent, f.e1(), Outcome::Succeeded),
        late(AttemptRef { fence: again.fence - 1, ..again }, f.e1(), Outcome::Failed),
        late(unknown, f.e1(), Outcome::Failed),
    ];
    f.store.record_late(&told).await.expect("recorded");
    let record = f.store.get_run(sent.run).await.expect("the run");
    let said: Vec<_> = record.attempts.iter().map(|attempt| attempt.late_outcome).collect();
    assert_eq!(said, [Some(Outcome::Succeeded), Some(Outcome::Failed)]);
    assert_eq!(record.run.state, RunState::Lost, "what ended stays as it is");
}

fn late(attempt: AttemptRef, by: ExecutorRef, outcome: Outcome) -> LateResult {
    LateResult { attempt, by, outcome }
}

pub(crate) async fn x49_a_result_of_another_app_or_executor_changes_no_run(f: &Fixture) {
    let strangers = f.strangers().await;
    for state in [RunState::Dispatched, RunState::Running, RunState::Canceling] {
        let sent = f.run_in(state.as_str(), state).await;
        let before = f.open(sent.run).await;
        let end = ending(sent, RunState::Succeeded);
        let lies = strangers.each_ref().map(|by| result_of(by, end.clone()));
        let answers = f.store.end_runs(&lies, at(20)).await.expect("answers");
        assert_eq!(answers, [EndAnswer::Stale; 2], "{state:?}");
        assert_eq!(f.open(sent.run).await, before);
        let own = result_of(&f.e1(), end);
        let answers = f.store.end_runs(std::slice::from_ref(&own), at(20)).await.expect("answers");
        assert_eq!(answers, [EndAnswer::Ended(before.job)]);
        // Nobody else learns that it ended.
        let answers = f.store.end_runs(&lies, at(21)).await.expect("answers");
        assert_eq!(answers, [EndAnswer::Stale; 2], "{state:?}");
        let answers = f.store.end_runs(&[own], at(21)).await.expect("answers");
        assert_eq!(answers, [EndAnswer::Duplicate]);
    }
    let never_sent = f.run_in("never sent", RunState::Queued).await;
    let end = result_of(&f.e1(), ending(never_sent, RunState::Succeeded));
    assert_eq!(f.store.end_runs(&[end], at(20)).await.expect("answers"), [EndAnswer::Stale]);
}

pub(crate) async fn x49_a_result_of_an_attempt_before_is_known_to_its_executor_alone(f: &Fixture) {
    let waiting = f.run_in("a", RunState::RetryWait).await;
    let end = ending(waiting, RunState::Failed);
    let [other, foreign] = f.strangers().await;
    let told = [&f.e1(), &other, &foreign].map(|by| result_of(by, end.clone()));
    let expected = [EndAnswer::Duplicate, EndAnswer::Stale, EndAnswer::Stale];
    assert_eq!(f.store.end_runs(&told, at(20)).await.expect("answers"), expected);
    let cancel = EndRun { from: StateSet::OPEN, ..ending(waiting, RunState::Canceled) };
    f.store.end_runs(&[cancel], at(21)).await.expect("canceled");
    assert_eq!(f.store.end_runs(&told, at(22)).await.expect("answers"), expected);
}

pub(crate) async fn x49_a_late_result_of_another_app_or_executor_is_not_kept(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    lose(f, sent).await;
    let woken = f.store.wake_retries(&[sent], at(60)).await.expect("woken")[0];
    let again = f.dispatched(woken).await;
    f.store.end_runs(&[ending(again, RunState::Lost)], at(70)).await.expect("lost");
    let strangers = f.strangers().await;
    let mut told = Vec::new();
    for attempt in [sent, again] {
        let lies = strangers.iter().map(|by| late(attempt, by.clone(), Outcome::Succeeded));
        told.extend(lies);
        let never_had = AttemptRef { fence: attempt.fence + 7, ..attempt };
        told.push(late(never_had, f.e1(), Outcome::Succeeded));
    }
    f.store.record_late(&told).await.expect("looked at");
    let record = f.store.get_run(sent.run).await.expect("the run");
    let said: Vec<_> = record.attempts.iter().map(|attempt| attempt.late_outcome).collect();
    assert_eq!(said, [None, None]);
}

pub(crate) async fn still_open_names_the_runs_that_have_not_ended(f: &Fixture) {
    let open = f.run_in("open", RunState::Running).await;
    let ended = f.run_in("ended", RunState::Running).await;
    f.store.end_runs(&[ending(ended, RunState::Succeeded)], at(20)).await.expect("ended");
    let unknown = RunId::by_hand(at(0), 1);
    let left = f.store.still_open(&[ended.run, unknown, open.run]).await.expect("open runs");
    assert_eq!(left, [open.run]);
}

pub(crate) async fn last_ends_are_those_of_runs_that_ran(f: &Fixture) {
    let (job, other) = (f.job("a").await, f.job("b").await);
    for (second, end) in [(10, 40), (20, 30)] {
        let queued = f.planned(&job, at(second)).await;
        let sent = f.store.dispatch(&to_e1(queued), at(second)).await.expect("sent")[0];
        f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(end)).await.expect("ended");
    }
    let skipped = f.planned(&job, at(50)).await;
    f.store.end_runs(&[ending(skipped, RunState::Skipped)], at(50)).await.expect("skipped");
    let sent = f.dispatched(f.planned(&other, at(10)).await).await;
    f.store.ack_runs(&[f.ack(sent, at(12))]).await.expect("acked");
    f.store.mark_canceling(&[canceling(sent, KillReason::User)], at(13)).await.expect("marked");
    let ends = f.store.last_ends(&[job.id, other.id]).await.expect("ends");
    assert_eq!(ends, [(job.id, at(40))]);
}
