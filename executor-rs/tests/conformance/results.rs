//! Results are kept until they are acknowledged.

use clawjob_proto::v1::{self, Outcome, result_ack, session_response::Frame as Down};
use tonic::Status;

use crate::fake::{Fake, attempt, command, welcome};
use crate::handlers::Running;

#[tokio::test]
async fn c27_a_result_is_kept_across_a_reconnect_until_its_ack() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "echo", "1")).await;
    let first = session.result().await;
    session.end(Status::unavailable("going down")).await;
    let mut session = fake.open().await;
    let listed = &session.hello.attempts[0];
    assert!(listed.finished);
    assert_eq!(listed.r#ref, Some(attempt("R1", 1, 1)));
    let second = session.result().await;
    assert_eq!(second.output, first.output);
    session.commit(&second).await;
    while !session.heartbeat().await.attempts.is_empty() {}
}

#[tokio::test]
async fn c28_a_stale_ack_makes_it_forget_the_result() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "echo", "1")).await;
    let result = session.result().await;
    session.ack(&result, result_ack::Status::Stale).await;
    while !session.heartbeat().await.attempts.is_empty() {}
}

#[tokio::test]
async fn c31_results_the_scheduler_knows_are_not_sent_again() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "echo", "1")).await;
    session.result().await;
    session.end(Status::internal("oops")).await;
    let mut session = fake.accept().await;
    let known =
        v1::Welcome { resumed: true, known_results: vec![attempt("R1", 1, 1)], ..welcome() };
    session.send(Down::Welcome(known)).await;
    session
        .expect("two heartbeats and no result", |frame| match frame {
            v1::session_request::Frame::Result(result) => panic!("{result:?}"),
            v1::session_request::Frame::Heartbeat(beat) => {
                assert!(beat.attempts.is_empty());
                (beat.seq == 2).then_some(())
            }
            _ => None,
        })
        .await;
}

#[tokio::test]
async fn c60_a_hello_with_a_thousand_attempts_stays_small() {
    use prost::Message as _;
    let mut fake = Fake::start().await;
    let gate = crate::handlers::Gate::new();
    let executor = crate::handlers::executor(&[fake.url()], &gate).slots(1000);
    let _running = Running::of(executor, gate);
    let mut session = fake.open().await;
    for i in 0..1000 {
        session.run(command(&format!("01J{i:023}"), "gate", "")).await;
    }
    for _ in 0..1000 {
        assert_eq!(session.run_ack().await.status(), v1::run_ack::Status::Accepted);
    }
    session.end(Status::unavailable("going down")).await;
    let session = fake.accept().await;
    assert_eq!(session.hello.attempts.len(), 1000);
    assert!(session.hello.encoded_len() < 128 * 1024, "{} bytes", session.hello.encoded_len());
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
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Succeeded);
}
