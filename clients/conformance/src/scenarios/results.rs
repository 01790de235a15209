//! Results are kept until they are acknowledged.

use clawjob_conformance::frames::{attempt, command, ms, value, welcome};
use clawjob_proto::v1::{
    Welcome, result_ack, session_request::Frame as Up, session_response::Frame as Down,
};
use prost::Message as _;
use tonic::Status;

use super::open;
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c27_result_kept_until_ack_across_reconnect,
    c28_result_ack_stale_forgotten,
    c31_welcome_known_results_forgotten,
    c60_hello_stays_small_with_1000_attempts,
];

/// How large a Hello may be that names a thousand attempts.
const HELLO_BYTES_MAX: usize = 128 * 1024;

async fn c27_result_kept_until_ack_across_reconnect(subject: Subject) {
    let (mut fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "echo", r#"{"a":1}"#)).await;
    let first = session.result().await;
    session.end(Status::unavailable("going down")).await;
    let mut session = fake.open().await;
    let held = &session.hello.attempts;
    assert_eq!(held.len(), 1, "{held:?}");
    assert!(held[0].finished);
    assert_eq!(held[0].r#ref, Some(attempt("R1", 1, 1)));
    let second = session.result().await;
    assert_eq!(value(second.output.as_ref()), value(first.output.as_ref()));
    session.commit(&second).await;
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
}

async fn c28_result_ack_stale_forgotten(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "echo", "1")).await;
    let result = session.result().await;
    session.ack(&result, result_ack::Status::Stale).await;
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
}

async fn c31_welcome_known_results_forgotten(subject: Subject) {
    let (mut fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "echo", "1")).await;
    session.result().await;
    session.end(Status::internal("oops")).await;
    let mut session = fake.accept().await;
    let known_results = vec![attempt("R1", 1, 1)];
    let known = Welcome { resumed: true, known_results, ..welcome() };
    session.send(Down::Welcome(known)).await;
    session
        .expect("two heartbeats and no result", |frame| match frame {
            Up::Result(result) => panic!("{result:?}"),
            Up::Heartbeat(beat) => {
                assert!(beat.attempts.is_empty(), "{beat:?}");
                (beat.seq == 2).then_some(())
            }
            _ => None,
        })
        .await;
}

async fn c60_hello_stays_small_with_1000_attempts(subject: Subject) {
    let mut fake = clawjob_conformance::Fake::start().await;
    let _program = subject.dialing(fake.url()).env("CLAWJOB_CONFORMANCE_SLOTS", "1000").start();
    let mut session = fake.accept().await;
    let calm = Welcome { heartbeat_interval: Some(ms(2_000)), ..welcome() };
    session.send(Down::Welcome(calm)).await;
    for number in 0..1000 {
        session.run(command(&format!("01J{number:023}"), "echo", "1")).await;
    }
    for _ in 0..1000 {
        session.result().await;
    }
    session.end(Status::unavailable("going down")).await;
    let session = fake.accept().await;
    assert_eq!(session.hello.attempts.len(), 1000);
    let bytes = session.hello.encoded_len();
    assert!(bytes < HELLO_BYTES_MAX, "{bytes} bytes");
}
