//! Dispatch, acks, and the way back from a retry's wait.

use clawjob_scheduler::{
    model::{
        ids::AttemptRef,
        run::{RunState, TriggerKind},
    },
    store::ops::{Ack, EndAnswer, EndRun, StateSet},
};

use super::fixture::{Fixture, at, ending, retry_later, to_e1};

pub(crate) async fn a_dispatch_writes_executor_session_and_the_next_fence(f: &Fixture) {
    let job = f.job("a").await;
    let queued = f.planned(&job, at(10)).await;
    f.store.explain_waiting(&[(queued.run, "no slot".to_owned())]).await.expect("explained");
    let mut batch = to_e1(queued);
    batch.rows[0].to.session_epoch = 7;
    let sent = f.store.dispatch(&batch, at(11)).await.expect("a dispatch");
    assert_eq!(sent, [AttemptRef { fence: 1, ..queued }]);
    let run = f.open(queued.run).await;
    assert_eq!((run.state, run.attempt_ref()), (RunState::Dispatched, sent[0]));
    assert_eq!((run.executor.as_deref(), run.session_epoch), (Some("e1"), 7));
    assert_eq!((run.dispatched_at, run.acked_at), (Some(at(11)), None));
    assert_eq!((run.message.as_str(), run.trigger), ("", TriggerKind::Schedule));
}

pub(crate) async fn a_dispatch_needs_queued_and_the_given_fence(f: &Fixture) {
    let queued = f.run_in("queued", RunState::Queued).await;
    let wrong = AttemptRef { fence: 1, ..queued };
    assert_eq!(f.store.dispatch(&to_e1(wrong), at(11)).await.expect("none"), []);
    let wrong = AttemptRef { attempt: 2, ..queued };
    assert_eq!(f.store.dispatch(&to_e1(wrong), at(11)).await.expect("none"), []);
    let open = [RunState::Dispatched, RunState::Running, RunState::Canceling, RunState::RetryWait];
    for state in open {
        let attempt = f.run_in(state.as_str(), state).await;
        let before = f.open(attempt.run).await;
        assert_eq!(f.store.dispatch(&to_e1(attempt), at(20)).await.expect("none"), []);
        assert_eq!(f.open(attempt.run).await, before);
    }
}

pub(crate) async fn a_run_that_was_canceled_first_is_not_dispatched(f: &Fixture) {
    let job = f.job("a").await;
    let queued = f.planned(&job, at(10)).await;
    let other = f.planned(&job, at(11)).await;
    let cancel =
        EndRun { from: StateSet::only(RunState::Queued), ..ending(queued, RunState::Canceled) };
    let answers = f.store.end_runs(&[cancel], at(10)).await.expect("canceled");
    assert_eq!(answers, [EndAnswer::Ended(job.id)]);
    let mut batch = to_e1(queued);
    batch.rows.extend(to_e1(other).rows);
    let sent = f.store.dispatch(&batch, at(11)).await.expect("a dispatch");
    assert_eq!(sent, [AttemptRef { fence: 1, ..other }], "the other run is sent all the same");
}

pub(crate) async fn a_retry_wakes_once_and_as_the_next_attempt(f: &Fixture) {
    let waiting = f.run_in("a", RunState::RetryWait).await;
    let wrong = AttemptRef { fence: waiting.fence + 1, ..waiting };
    assert_eq!(f.store.wake_retries(&[wrong], at(60)).await.expect("none"), []);
    let woken = f.store.wake_retries(&[waiting], at(60)).await.expect("woken");
    assert_eq!(woken, [AttemptRef { attempt: 2, ..waiting }]);
    let run = f.open(waiting.run).await;
    assert_eq!((run.state, run.attempt_ref()), (RunState::Queued, woken[0]));
    assert_eq!((run.dispatched_at, run.acked_at), (None, None));
    assert_eq!(f.store.wake_retries(&[waiting], at(61)).await.expect("none"), []);
    let sent = f.dispatched(woken[0]).await;
    assert_eq!((sent.attempt, sent.fence), (2, waiting.fence + 1));
}

pub(crate) async fn an_ack_needs_dispatched_and_the_given_fence(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    let ack = |attempt| f.ack(attempt, at(12));
    let wrong =
        [ack(AttemptRef { fence: sent.fence + 1, ..sent }), ack(AttemptRef { attempt: 2, ..sent })];
    assert_eq!(f.store.ack_runs(&wrong).await.expect("none"), []);
    assert_eq!(f.open(sent.run).await.state, RunState::Dispatched);
    assert_eq!(f.store.ack_runs(&[ack(sent)]).await.expect("acked"), [sent]);
    assert_eq!(f.open(sent.run).await.state, RunState::Running);
    assert_eq!(f.store.ack_runs(&[ack(sent)]).await.expect("none"), [], "again");
    let canceling = f.run_in("b", RunState::Canceling).await;
    assert_eq!(f.store.ack_runs(&[ack(canceling)]).await.expect("none"), []);
}

pub(crate) async fn x49_an_ack_of_another_app_or_executor_changes_no_run(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    let acks = f.strangers().await.map(|by| Ack { by, ..f.ack(sent, at(12)) });
    assert_eq!(f.store.ack_runs(&acks).await.expect("none"), []);
    assert_eq!(f.open(sent.run).await.state, RunState::Dispatched);
}

pub(crate) async fn the_first_ack_is_the_run_s_start(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let run = f.open(running.run).await;
    assert_eq!((run.acked_at, run.started_at), (Some(at(12)), Some(at(12))));
    f.store.put_back(&[retry_later(running)], at(13)).await.expect("put back");
    let woken = f.store.wake_retries(&[running], at(60)).await.expect("woken")[0];
    let sent = f.store.dispatch(&to_e1(woken), at(61)).await.expect("sent")[0];
    f.store.ack_runs(&[f.ack(sent, at(62))]).await.expect("acked");
    let run = f.open(running.run).await;
    assert_eq!((run.acked_at, run.started_at), (Some(at(62)), Some(at(12))));
}
