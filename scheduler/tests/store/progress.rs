//! Progress and checkpoints.

use clawjob_scheduler::{
    model::{Payload, ids::AttemptRef, run::RunState},
    store::ops::ProgressRow,
};

use super::fixture::{Fixture, at, ending, retry_later};

fn progress(attempt: AttemptRef, fraction: f32, checkpoint: Option<&'static str>) -> ProgressRow {
    ProgressRow {
        attempt,
        fraction: Some(fraction),
        message: format!("at {fraction}"),
        checkpoint: checkpoint.map(payload),
    }
}

fn payload(text: &'static str) -> Payload {
    Payload { content_type: "text/plain".to_owned(), data: text.into() }
}

pub(crate) async fn the_newest_progress_is_kept_and_a_checkpoint_outlives_it(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let rows = [progress(running, 0.25, Some("one")), progress(running, 0.5, None)];
    f.store.save_progress(&rows).await.expect("saved");
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!((record.progress, record.progress_message.as_str()), (Some(0.5), "at 0.5"));
    let kept = f.store.load_checkpoints(&[running.run]).await.expect("checkpoints");
    assert_eq!(kept, [(running.run, payload("one"))]);
    f.store.put_back(&[retry_later(running)], at(20)).await.expect("back");
    let woken = f.store.wake_retries(&[running], at(60)).await.expect("woken")[0];
    let again = f.dispatched(woken).await;
    let kept = f.store.load_checkpoints(&[running.run]).await.expect("checkpoints");
    assert_eq!(kept, [(running.run, payload("one"))], "the next attempt goes on from it");
    f.store.save_progress(&[progress(again, 0.75, Some("two"))]).await.expect("saved");
    let kept = f.store.load_checkpoints(&[running.run]).await.expect("checkpoints");
    assert_eq!(kept, [(running.run, payload("two"))]);
}

pub(crate) async fn progress_of_an_attempt_that_is_not_current_is_left_out(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let stale = AttemptRef { fence: running.fence - 1, ..running };
    f.store.save_progress(&[progress(stale, 0.9, Some("stale"))]).await.expect("left out");
    assert_eq!(f.store.get_run(running.run).await.expect("the run").progress, None);
    assert_eq!(f.store.load_checkpoints(&[running.run]).await.expect("checkpoints"), []);
}

pub(crate) async fn progress_stays_with_the_ended_run(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.save_progress(&[progress(running, 0.5, Some("one"))]).await.expect("saved");
    f.store.end_runs(&[ending(running, RunState::Failed)], at(20)).await.expect("ended");
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!((record.progress, record.progress_message.as_str()), (Some(0.5), "at 0.5"));
    assert_eq!(f.store.load_checkpoints(&[running.run]).await.expect("checkpoints"), []);
}
