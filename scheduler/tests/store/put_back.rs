//! Runs that wait again.

use clawjob_scheduler::{
    model::{
        executor::ExecutorRef,
        ids::AttemptRef,
        run::{CODE_SHUTDOWN, KillReason, Outcome, RunRecord, RunState},
    },
    store::ops::{AttemptEnd, EndAnswer, LateResult, PutBack, PutBackHow, StateSet},
};

use super::fixture::{Fixture, at, begun, canceling, ending, failed, on, retry_later};

fn same_attempt(attempt: AttemptRef) -> PutBack {
    PutBack {
        due_at: at(30),
        message: "busy".to_owned(),
        how: PutBackHow::SameAttempt,
        ..retry_later(attempt)
    }
}

pub(crate) async fn a_run_put_back_on_evidence_keeps_its_attempt_and_fence(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    assert_eq!(f.store.put_back(&[same_attempt(sent)], at(20)).await.expect("back"), [sent]);
    let run = f.open(sent.run).await;
    assert_eq!((run.state, run.attempt_ref()), (RunState::Queued, sent));
    assert_eq!((run.due_at, run.message.as_str()), (at(30), "busy"));
    assert_eq!((run.dispatched_at, run.acked_at, run.lost), (None, None, 0));
    assert_eq!(f.store.get_run(sent.run).await.expect("the run").attempts, []);
    // The executor may answer after all, under the same fence.
    let answers = f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(21)).await;
    assert!(matches!(answers.expect("answers")[..], [EndAnswer::Ended(_)]));
}

pub(crate) async fn a_run_put_back_for_a_retry_keeps_the_ended_attempt(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    assert_eq!(f.store.put_back(&[retry_later(sent)], at(20)).await.expect("back"), [sent]);
    let run = f.open(sent.run).await;
    assert_eq!((run.state, run.attempt_ref()), (RunState::RetryWait, sent));
    assert_eq!((run.due_at, run.lost), (at(60), 0));
    assert_eq!(run.message, "failed, next attempt in a minute");
    assert_eq!(run.started_at, Some(at(12)), "an ack that came with the result counts");
    let record = f.store.get_run(sent.run).await.expect("the run");
    assert_eq!(record.failure, failed().failure);
    assert_eq!(record.attempts.len(), 1);
    let attempt = &record.attempts[0];
    assert_eq!((attempt.number, attempt.outcome), (1, Some(Outcome::Failed)));
    assert_eq!(attempt.failure, failed().failure);
    assert_eq!((attempt.executor.as_deref(), attempt.session_epoch), (Some("e1"), 1));
    assert_eq!((attempt.dispatched_at, attempt.acked_at), (Some(at(11)), Some(at(12))));
    assert_eq!(attempt.ended_at, Some(at(20)));
    let woken = f.store.wake_retries(&[sent], at(60)).await.expect("woken")[0];
    let again = f.dispatched(woken).await;
    f.store.end_runs(&[ending(again, RunState::Succeeded)], at(70)).await.expect("ended");
    let record = f.store.get_run(sent.run).await.expect("the run");
    let outcomes: Vec<_> = record.attempts.iter().map(|a| (a.number, a.outcome)).collect();
    assert_eq!(outcomes, [(1, Some(Outcome::Failed)), (2, Some(Outcome::Succeeded))]);
}

pub(crate) async fn a_loss_is_counted(f: &Fixture) {
    let mut sent = f.run_in("a", RunState::Running).await;
    for lost in 1..=2 {
        let end = AttemptEnd { outcome: Some(Outcome::Lost), ..AttemptEnd::default() };
        let how = PutBackHow::NextAttempt { end, lost: true };
        let back = PutBack { how, ..retry_later(sent) };
        assert_eq!(f.store.put_back(&[back], at(20)).await.expect("back"), [sent]);
        assert_eq!(f.open(sent.run).await.lost, lost);
        let woken = f.store.wake_retries(&[sent], at(60)).await.expect("woken")[0];
        sent = f.dispatched(woken).await;
    }
    assert_eq!((sent.attempt, sent.fence), (3, 3));
}

pub(crate) async fn a_put_back_needs_state_attempt_and_fence(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let before = f.open(running.run).await;
    let wrong_fence = AttemptRef { fence: running.fence + 1, ..running };
    let wrong_attempt = AttemptRef { attempt: 2, ..running };
    let dispatched = StateSet::only(RunState::Dispatched);
    let refused = [
        same_attempt(wrong_fence),
        same_attempt(wrong_attempt),
        PutBack { from: dispatched, ..same_attempt(running) },
        retry_later(wrong_fence),
        retry_later(wrong_attempt),
        PutBack { from: dispatched, ..retry_later(running) },
    ];
    f.drain_inbox().await;
    assert_eq!(f.store.put_back(&refused, at(20)).await.expect("none"), []);
    assert_eq!(f.open(running.run).await, before);
    assert_eq!(f.store.get_run(running.run).await.expect("the run").attempts.len(), 1);
    assert_eq!(f.drain_inbox().await.ids, []);
    // A kill under way is forgotten with the attempt it was for.
    let kill = [canceling(running, KillReason::Timeout)];
    f.store.mark_canceling(&kill, at(20)).await.expect("marked");
    f.store.put_back(&[retry_later(running)], at(21)).await.expect("back");
    assert_eq!(f.open(running.run).await.kill_reason, None);
}

/// Number, executor and outcome of each attempt, and when it ended.
fn told(record: &RunRecord) -> Vec<(u32, &str, Option<Outcome>, Option<i64>)> {
    let since = |ended: chrono::DateTime<chrono::Utc>| (ended - at(0)).num_seconds();
    let attempts = record.attempts.iter();
    let told = attempts.map(|one| {
        (one.number, one.executor.as_deref().unwrap_or(""), one.outcome, one.ended_at.map(since))
    });
    told.collect()
}

pub(crate) async fn a_run_whose_executor_stopped_keeps_where_it_had_begun(f: &Fixture) {
    let sent = f.run_in("a", RunState::Running).await;
    assert_eq!(f.store.put_back(&[begun(sent)], at(20)).await.expect("back"), [sent]);
    let run = f.open(sent.run).await;
    let waits = AttemptRef { fence: 2, ..sent };
    assert_eq!((run.state, run.attempt_ref()), (RunState::Queued, waits));
    assert_eq!((run.due_at, run.message.as_str(), run.lost), (at(30), "it stopped", 0));
    assert_eq!((run.dispatched_at, run.acked_at, run.started_at), (None, None, Some(at(12))));
    assert_eq!(f.drain_inbox().await.ids, [sent.run], "its owner hears of it");
    let record = f.store.get_run(sent.run).await.expect("the run");
    let stopped = (1, "e1", Some(Outcome::Canceled), Some(20));
    assert_eq!(told(&record), [stopped]);
    assert_eq!(record.failure, None, "that an executor stopped is no failure of the run");
    let first = &record.attempts[0];
    assert_eq!((first.dispatched_at, first.acked_at), (Some(at(11)), Some(at(12))));
    assert_eq!(first.failure.as_ref().expect("a reason").code, CODE_SHUTDOWN);
    let again = f.store.dispatch(&on("e2", waits), at(31)).await.expect("a dispatch")[0];
    assert_eq!(again, AttemptRef { fence: 3, ..sent });
    f.store.end_runs(&[ending(again, RunState::Succeeded)], at(40)).await.expect("ended");
    let record = f.store.get_run(sent.run).await.expect("the run");
    assert_eq!(told(&record), [stopped, (1, "e2", Some(Outcome::Succeeded), Some(40))]);
    assert_eq!((record.run.attempt, record.run.started_at), (1, Some(at(12))));
    assert_eq!(record.failure, None);
}

pub(crate) async fn a_start_that_was_told_with_the_stop_counts(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    f.store.put_back(&[begun(sent)], at(20)).await.expect("back");
    assert_eq!(f.open(sent.run).await.started_at, Some(at(12)));
    let record = f.store.get_run(sent.run).await.expect("the run");
    assert_eq!(record.attempts[0].acked_at, Some(at(12)));
}

pub(crate) async fn what_an_executor_says_again_of_a_run_it_gave_back_changes_nothing(f: &Fixture) {
    let sent = f.run_in("a", RunState::Running).await;
    f.store.put_back(&[begun(sent)], at(20)).await.expect("back");
    let before = f.store.get_run(sent.run).await.expect("the run");
    assert_eq!(
        f.store.put_back(&[begun(sent), retry_later(sent)], at(21)).await.expect("none"),
        []
    );
    let answers = f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(21)).await;
    assert_eq!(answers.expect("answers"), [EndAnswer::Duplicate]);
    assert_eq!(f.store.get_run(sent.run).await.expect("the run"), before);
}

pub(crate) async fn a_run_given_back_twice_then_retried_shows_each_executor(f: &Fixture) {
    let mut sent = f.run_in("a", RunState::Running).await;
    for (executor, time) in [("e2", 20), ("e3", 40)] {
        f.store.put_back(&[begun(sent)], at(time)).await.expect("back");
        let waits = f.open(sent.run).await.attempt_ref();
        sent = f.store.dispatch(&on(executor, waits), at(time + 11)).await.expect("sent")[0];
    }
    let end = AttemptEnd { outcome: Some(Outcome::Lost), ..AttemptEnd::default() };
    let how = PutBackHow::NextAttempt { end, lost: true };
    f.store.put_back(&[PutBack { how, ..retry_later(sent) }], at(60)).await.expect("back");
    let by = ExecutorRef { name: "e3".into(), ..f.e1() };
    let late = LateResult { attempt: sent, by, outcome: Outcome::Succeeded };
    f.store.record_late(&[late]).await.expect("noted");
    let record = f.store.get_run(sent.run).await.expect("the run");
    let (stopped, lost) = (Some(Outcome::Canceled), Some(Outcome::Lost));
    let past =
        [(1, "e1", stopped, Some(20)), (1, "e2", stopped, Some(40)), (1, "e3", lost, Some(60))];
    assert_eq!(told(&record), past);
    let late: Vec<_> = record.attempts.iter().map(|one| one.late_outcome).collect();
    assert_eq!(late, [None, None, Some(Outcome::Succeeded)]);
    let woken = f.store.wake_retries(&[sent], at(61)).await.expect("woken")[0];
    assert_eq!(woken.attempt, 2);
    f.dispatched(woken).await;
    let record = f.store.get_run(sent.run).await.expect("the run");
    assert_eq!(told(&record)[..3], past);
    assert_eq!(told(&record)[3..], [(2, "e1", None, None)]);
}

pub(crate) async fn a_late_result_is_noted_with_the_one_dispatch_that_it_is_of(f: &Fixture) {
    let mut sent = vec![f.run_in("a", RunState::Running).await];
    for time in [20, 40] {
        f.store.put_back(&[begun(*sent.last().expect("some"))], at(time)).await.expect("back");
        let waits = f.open(sent[0].run).await.attempt_ref();
        sent.extend(f.store.dispatch(&on("e1", waits), at(time + 11)).await.expect("sent"));
    }
    f.store.end_runs(&[ending(sent[2], RunState::Lost)], at(60)).await.expect("lost");
    let mut said = [None; 3];
    for (at, outcome) in [Outcome::Succeeded, Outcome::Failed, Outcome::Canceled].iter().enumerate()
    {
        let late = LateResult { attempt: sent[at], by: f.e1(), outcome: *outcome };
        f.store.record_late(&[late]).await.expect("noted");
        said[at] = Some(*outcome);
        let record = f.store.get_run(sent[0].run).await.expect("the run");
        let late: Vec<_> = record.attempts.iter().map(|one| one.late_outcome).collect();
        assert_eq!(late, said);
    }
    // Told under a fence before, it is of the first dispatch from there on.
    let before = AttemptRef { fence: sent[0].fence - 1, ..sent[0] };
    let late = LateResult { attempt: before, by: f.e1(), outcome: Outcome::TimedOut };
    f.store.record_late(&[late]).await.expect("noted");
    let record = f.store.get_run(sent[0].run).await.expect("the run");
    let late: Vec<_> = record.attempts.iter().map(|one| one.late_outcome).collect();
    assert_eq!(late, [Some(Outcome::TimedOut), said[1], said[2]]);
}

pub(crate) async fn a_run_canceled_after_its_executor_stopped_shows_no_other_attempt(f: &Fixture) {
    let sent = f.run_in("a", RunState::Running).await;
    f.store.put_back(&[begun(sent)], at(20)).await.expect("back");
    let waits = f.open(sent.run).await.attempt_ref();
    let mut end = ending(waits, RunState::Canceled);
    end.end.outcome = None;
    f.store.end_runs(&[end], at(21)).await.expect("ended");
    let record = f.store.get_run(sent.run).await.expect("the run");
    assert_eq!(told(&record), [(1, "e1", Some(Outcome::Canceled), Some(20))]);
    assert_eq!((record.run.started_at, record.failure), (Some(at(12)), None));
}
