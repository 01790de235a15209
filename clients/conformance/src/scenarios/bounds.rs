//! What is too large is cut or refused, never by a broken stream.

use clawjob_conformance::Session;
use clawjob_conformance::frames::{attempt, command, welcome};
use clawjob_proto::v1::{Outcome, RunResult, Welcome, session_request::Frame as Up};
use prost::Message as _;
use serde_json::json;

use super::logs::{chunks, counted};
use super::{open, open_with};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    b01_params_over_the_limit_do_not_end_the_session,
    b02_output_at_the_limit_passes_and_the_limit_is_the_welcomes,
    b03_log_record_larger_than_a_chunk_is_cut,
    b04_failure_message_and_stack_are_cut,
];

/// The contract's bounds, in bytes.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;
const STACK_BYTES_MAX: usize = 16 * 1024;

/// The result of that run; those of others may come again.
async fn result_of(session: &mut Session, run: &str) -> RunResult {
    session
        .expect("its result", |frame| match frame {
            Up::Result(result) => (result.r#ref == Some(attempt(run, 1, 1))).then_some(result),
            _ => None,
        })
        .await
}

/// The session is the one it was, and works.
async fn lives(session: &mut Session) {
    session.begin(command("R9", "echo", "1")).await;
    assert_eq!(result_of(session, "R9").await.outcome(), Outcome::Succeeded);
}

async fn b01_params_over_the_limit_do_not_end_the_session(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let large = json!("x".repeat(2 * 1024 * 1024)).to_string();
    session.run(command("R1", "echo", &large)).await;
    // Run or refused, as the SDK likes: its answer comes, and an output of that size does not.
    let ack = session.run_ack().await;
    if ack.status() == clawjob_proto::v1::run_ack::Status::Accepted {
        let result = result_of(&mut session, "R1").await;
        assert_eq!(result.failure.unwrap().code, "OUTPUT_TOO_LARGE");
    }
    lives(&mut session).await;
}

async fn b02_output_at_the_limit_passes_and_the_limit_is_the_welcomes(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let whole = json!({ "bytes": OUTPUT_BYTES_MAX }).to_string();
    session.begin(command("R1", "big_output", &whole)).await;
    let result = result_of(&mut session, "R1").await;
    assert_eq!(result.outcome(), Outcome::Succeeded);
    assert_eq!(result.output.unwrap().data.len(), OUTPUT_BYTES_MAX);
    drop(session);

    let small = Welcome { max_output_bytes: 1_000, ..welcome() };
    let (_fake, _program, mut session) = open_with(&subject, small).await;
    session.begin(command("R2", "big_output", r#"{"bytes":1001}"#)).await;
    let result = result_of(&mut session, "R2").await;
    assert_eq!(result.failure.unwrap().code, "OUTPUT_TOO_LARGE");
    lives(&mut session).await;
}

async fn b03_log_record_larger_than_a_chunk_is_cut(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "logs", r#"{"count":3,"bytes":200000}"#)).await;
    let (chunks, result) = chunks(&mut session, true).await;
    let (sent, dropped) = counted(&chunks, &result);
    assert_eq!((sent, dropped), (3, 0));
    for chunk in &chunks {
        assert!(chunk.encoded_len() <= CHUNK_BYTES_MAX, "{} bytes", chunk.encoded_len());
    }
    assert_eq!(result.outcome(), Outcome::Succeeded);
    lives(&mut session).await;
}

async fn b04_failure_message_and_stack_are_cut(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let wordy = json!({ "message": "no ".repeat(100_000) }).to_string();
    session.begin(command("R1", "fail", &wordy)).await;
    let result = result_of(&mut session, "R1").await;
    assert_eq!(result.outcome(), Outcome::Failed);
    let failure = result.failure.unwrap();
    assert!(failure.message.starts_with("no no"), "{}", failure.message);
    assert!(failure.message.len() <= STACK_BYTES_MAX, "{} bytes", failure.message.len());
    assert!(failure.stack.len() <= STACK_BYTES_MAX, "{} bytes", failure.stack.len());
    lives(&mut session).await;
}
