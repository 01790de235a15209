//! The executor's own end.

use clawjob_proto::v1::{Outcome, run_ack, session_request::Frame as Up};

use crate::fake::{Fake, command};
use crate::handlers::{Gate, Running, executor};

#[tokio::test]
async fn c40_a_drain_lets_handlers_finish_and_says_goodbye() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "gate", "")).await;
    running.gate.begun(1).await;
    running.handle.drain();
    session.expect("an ExecutorDrain", |f| matches!(f, Up::Drain(_)).then_some(())).await;
    session.run(command("R2", "echo", "1")).await;
    assert_eq!(session.run_ack().await.status(), run_ack::Status::Draining);
    running.gate.open();
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Succeeded);
    session.commit(&result).await;
    session.expect("a Goodbye", |f| matches!(f, Up::Goodbye(_)).then_some(())).await;
    assert!(session.next().await.is_none());
    drop(session);
    running.end().await.unwrap();
}

#[tokio::test]
async fn c41_a_second_signal_cancels_at_once() {
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
    session.expect("a Goodbye", |f| matches!(f, Up::Goodbye(_)).then_some(())).await;
    drop(session);
    running.end().await.unwrap();
}

#[tokio::test]
async fn c42_what_runs_at_the_end_of_the_grace_is_reported_as_shut_down() {
    let mut fake = Fake::start().await;
    let gate = Gate::new();
    let executor =
        executor(&[fake.url()], &gate).shutdown_grace(std::time::Duration::from_millis(200));
    let running = Running::of(executor, gate);
    let mut session = fake.open().await;
    session.begin(command("R1", "deaf", "")).await;
    running.handle.drain();
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.as_ref().unwrap().code, "SHUTDOWN");
    session.commit(&result).await;
    session.expect("a Goodbye", |f| matches!(f, Up::Goodbye(_)).then_some(())).await;
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
    session.expect("a Goodbye", |f| matches!(f, Up::Goodbye(_)).then_some(())).await;
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
