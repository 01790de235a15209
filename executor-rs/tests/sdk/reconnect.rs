//! How sessions are lost and found, as the API tells it.

use clawjob_conformance::Fake;
use clawjob_conformance::frames::command;
use clawjob_executor::Error;
use clawjob_proto::v1::{Outcome, close};
use tonic::Status;

use crate::handlers::{Gate, Running, executor};

#[tokio::test]
async fn a_refusal_for_good_names_its_code() {
    let fake = Fake::start().await;
    fake.refuse([Status::permission_denied("no")]);
    let error = Running::start(&fake).end().await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "PermissionDenied"), "{error}");
}

#[tokio::test]
async fn a_superseded_executor_ends_with_that() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    session.close(close::Reason::Superseded, false).await;
    let error = running.end().await.unwrap_err();
    assert!(matches!(error, Error::Superseded(_)), "{error}");
}

#[tokio::test]
async fn a_revoked_executor_stops_and_an_unresponsive_one_dials_again() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    fake.open().await.close(close::Reason::Unresponsive, false).await;
    fake.open().await.close(close::Reason::Revoked, false).await;
    let error = running.end().await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[tokio::test]
async fn r39_an_executor_waits_for_a_scheduler_that_is_not_there_yet() {
    let addr = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let gate = Gate::new();
    let running = Running::of(executor(&[format!("http://{addr}")], &gate), gate);
    assert!(!running.handle.health().connected);
    let mut fake = Fake::start_at(addr).await;
    let mut session = fake.open().await;
    session.heartbeat().await;
    let hello = &session.hello;
    assert_eq!((hello.app.as_str(), hello.executor_id.as_str()), ("demo", "tester"));
    assert!(hello.resume_token.is_empty() && hello.attempts.is_empty());
}

#[tokio::test]
async fn results_of_runs_that_ended_in_between_come_with_the_next_session() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "gate", "")).await;
    running.gate.begun(1).await;
    session.end(Status::unavailable("going down")).await;
    running.gate.open();
    let mut session = fake.open().await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
    assert!(running.handle.health().connected);
}

#[tokio::test]
async fn the_newest_progress_is_told_again_on_a_new_session() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    assert_eq!(session.progress().await.message, "half");
    session.end(Status::unavailable("going down")).await;
    let mut session = fake.open().await;
    assert_eq!(session.progress().await.message, "half");
}
