//! The executor's own end, asked for in code.

use clawjob_conformance::Fake;
use clawjob_conformance::frames::command;
use clawjob_proto::v1::Outcome;

use crate::handlers::{Gate, Running, executor};

#[tokio::test]
async fn the_handle_drains_and_then_cancels() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    running.handle.drain();
    running.handle.cancel_now();
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.as_ref().unwrap().code, "SHUTDOWN");
    session.commit(&result).await;
    session.goodbye().await;
    drop(session);
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_scheduler_that_is_gone_does_not_hold_up_the_end() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    fake.open().await.heartbeat().await;
    fake.crash().await;
    running.handle.drain();
    running.end().await.unwrap();
}

#[tokio::test]
async fn run_until_ends_when_its_future_does() {
    let mut fake = Fake::start().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let executor = executor(&[fake.url()], &Gate::new());
    let join = tokio::spawn(executor.run_until(async move {
        let _ = stopped.await;
    }));
    let mut session = fake.open().await;
    session.heartbeat().await;
    stop.send(()).unwrap();
    session.goodbye().await;
    drop(session);
    join.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropping_the_run_ends_the_session() {
    let mut fake = Fake::start().await;
    let executor = executor(&[fake.url()], &Gate::new());
    let join = tokio::spawn(executor.run_until(std::future::pending()));
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    join.abort();
    while session.next().await.is_some() {}
}
