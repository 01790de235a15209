//! Runs that are asked to stop, and words on runs that wait.

use std::time::Duration;

use clawjob_scheduler::{
    model::{
        ids::AttemptRef,
        run::{KillReason, RunState},
    },
    store::ops::{MarkCanceling, StateSet},
};

use super::fixture::{Fixture, at, canceling, ending, retry_later};

pub(crate) async fn a_run_is_marked_canceling_with_its_reason(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let mark = MarkCanceling {
        grace: Some(Duration::from_millis(2500)),
        ..canceling(running, KillReason::Timeout)
    };
    assert_eq!(f.store.mark_canceling(&[mark], at(20)).await.expect("marked"), [running]);
    let run = f.open(running.run).await;
    assert_eq!((run.state, run.attempt_ref()), (RunState::Canceling, running));
    assert_eq!((run.kill_reason, run.kill_at), (Some(KillReason::Timeout), Some(at(20))));
    assert_eq!(run.kill_grace, Some(Duration::from_millis(2500)));
    assert_eq!(run.message, "asked for");
    // A kill by hand outranks a timeout.
    let mark = canceling(running, KillReason::User);
    assert_eq!(f.store.mark_canceling(&[mark], at(21)).await.expect("marked"), [running]);
    assert_eq!(f.open(running.run).await.kill_reason, Some(KillReason::User));
    f.store.end_runs(&[ending(running, RunState::Canceled)], at(22)).await.expect("ended");
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!(record.run.kill_reason, Some(KillReason::User), "the end keeps the reason");
}

pub(crate) async fn a_mark_needs_state_attempt_and_fence(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let before = f.open(running.run).await;
    let refused = [
        canceling(AttemptRef { fence: 0, ..running }, KillReason::User),
        canceling(AttemptRef { attempt: 2, ..running }, KillReason::User),
        MarkCanceling {
            from: StateSet::only(RunState::Dispatched),
            ..canceling(running, KillReason::User)
        },
    ];
    assert_eq!(f.store.mark_canceling(&refused, at(20)).await.expect("none"), []);
    assert_eq!(f.open(running.run).await, before);
}

pub(crate) async fn a_kill_ends_with_the_attempt_it_was_for(f: &Fixture) {
    let canceling = f.run_in("a", RunState::Canceling).await;
    f.store.put_back(&[retry_later(canceling)], at(20)).await.expect("back");
    let run = f.open(canceling.run).await;
    assert_eq!((run.kill_reason, run.kill_at, run.kill_grace), (None, None, None));
}

pub(crate) async fn a_waiting_run_says_why(f: &Fixture) {
    let queued = f.run_in("queued", RunState::Queued).await;
    let running = f.run_in("running", RunState::Running).await;
    let why = [(queued.run, "no slot".to_owned()), (running.run, "no slot".to_owned())];
    f.store.explain_waiting(&why).await.expect("explained");
    assert_eq!(f.open(queued.run).await.message, "no slot");
    assert_eq!(f.open(running.run).await.message, "", "only a run that waits has a reason to");
}
