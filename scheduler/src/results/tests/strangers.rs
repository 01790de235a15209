//! What an executor says of runs that were never sent to it counts for nothing.

use clawjob_proto::v1::{Outcome, RunCommand, result_ack, session_response::Frame as Down};

use super::{Bench, COMMITTED, failed, outcome, result_acks};
use crate::{
    clock::Clock as _,
    hub::{local::LocalExecutor, wire},
    model::{ids::AttemptRef, retry::RetryPolicy, run::RunState},
    store::Store as _,
};

const STALE: result_ack::Status = result_ack::Status::Stale;

/// One of the same name in another app, and another one of the same app.
async fn strangers(bench: &Bench) -> [LocalExecutor; 2] {
    [bench.executor_of("other", "a").await, bench.executor("b").await]
}

#[tokio::test]
async fn x49_a_result_of_a_stranger_is_stale_and_the_true_one_counts() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    for (n, mut stranger) in strangers(&bench).await.into_iter().enumerate() {
        for (m, lie) in
            [outcome(Outcome::Succeeded), failed("LIE"), failed("SHUTDOWN")].iter().enumerate()
        {
            let attempt = bench.start((10 * n + m + 1) as u128, &mut executor).await;
            let acked = bench.clock.now();
            stranger.finish(attempt, lie.clone());
            bench.settle().await;
            assert_eq!(result_acks(&mut stranger), [STALE]);
            let row = bench.open(attempt.run).await.expect("open");
            assert_eq!((row.state, row.acked_at), (RunState::Running, Some(acked)));
            // In one batch with the true result.
            stranger.finish(attempt, lie.clone());
            executor.finish(attempt, outcome(Outcome::Succeeded));
            bench.settle().await;
            assert_eq!(result_acks(&mut executor), [COMMITTED]);
            assert_eq!(result_acks(&mut stranger), [STALE]);
            // After the end, and under a fence that never was.
            for fence in [attempt.fence, attempt.fence + 76] {
                stranger.finish(AttemptRef { fence, ..attempt }, lie.clone());
                bench.settle().await;
                assert_eq!(result_acks(&mut stranger), [STALE]);
            }
            let record = bench.store.get_run(attempt.run).await.expect("reads");
            assert_eq!(record.run.state, RunState::Succeeded);
            let said: Vec<_> = record.attempts.iter().map(|a| a.late_outcome).collect();
            assert_eq!(said, [None]);
        }
    }
}

#[tokio::test]
async fn x49_a_stranger_that_lists_a_run_is_told_to_stop_and_does_not_get_it() {
    let mut bench = Bench::new(RetryPolicy::default()).await;
    let mut executor = bench.executor("a").await;
    let attempt = bench.start(1, &mut executor).await;
    let queued = bench.run(2).await;
    let waiting = AttemptRef { run: queued, attempt: 1, fence: 1 };
    bench.settle().await;
    for mut stranger in strangers(&bench).await {
        for attempt in [attempt, waiting] {
            let r#ref = Some(wire::to_ref(attempt));
            stranger.accept(&RunCommand { r#ref, ..RunCommand::default() });
        }
        stranger.heartbeat();
        bench.settle().await;
        let mut kills: Vec<AttemptRef> = stranger.receive().iter().filter_map(killed).collect();
        kills.sort_by_key(|attempt| attempt.run);
        assert_eq!(kills, [attempt, waiting], "as if there were no such runs");
        let origin = stranger.link().origin().clone();
        let live = bench.hub.snapshot(origin.app, &origin.executor).expect("live");
        assert_eq!(live.running, []);
        for attempt in [attempt, waiting] {
            stranger.forget(attempt);
        }
        for _ in 0..3 {
            stranger.heartbeat();
            bench.settle().await;
        }
        assert_eq!(bench.state(attempt.run).await, RunState::Running, "it is not lost");
        assert_eq!(bench.state(queued).await, RunState::Queued);
    }
    executor.finish(attempt, outcome(Outcome::Succeeded));
    bench.settle().await;
    assert_eq!(result_acks(&mut executor), [COMMITTED]);
}

fn killed(frame: &Down) -> Option<AttemptRef> {
    match frame {
        Down::Kill(kill) => wire::attempt_ref(kill.r#ref.as_ref()),
        _ => None,
    }
}
