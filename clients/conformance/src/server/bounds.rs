//! What is too large is cut or refused, never by a broken stream.

use clawjob_conformance::frames::{at, json};
use clawjob_proto::v1::{
    Failure, Job, LogChunk, LogLevel, LogRecord, Outcome, Progress, RunResult, RunState,
    TriggerJobRequest, result_ack, session_request::Frame as Up, session_response::Frame as Down,
};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::Binary;
use super::raw::{Raw, hello, succeeded};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] = scenarios![
    b05_params_over_the_limit_are_refused_by_name,
    b06_what_an_executor_sends_too_large_is_cut,
];

/// The contract's bounds, in bytes.
const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
const STACK_BYTES_MAX: usize = 16 * 1024;

async fn b05_params_over_the_limit_are_refused_by_name(binary: Binary) {
    let node = binary.node().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let run = |bytes: usize| TriggerJobRequest {
        name: job.clone(),
        params: Some(json(&format!("\"{}\"", "x".repeat(bytes - 2)))),
        ..TriggerJobRequest::default()
    };
    admin.try_trigger(run(PAYLOAD_BYTES_MAX)).await.expect("at the limit");
    let refused = admin.try_trigger(run(PAYLOAD_BYTES_MAX + 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "PARAMS_TOO_LARGE");
    let violation = &details.bad_request().unwrap().field_violations[0];
    assert!(violation.field.contains("params"), "{violation:?}");
}

async fn b06_what_an_executor_sends_too_large_is_cut(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let mut raw = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    let huge = "x".repeat(500_000);

    let run = admin.trigger(&job).await;
    let command = raw.accept().await;
    let r#ref = command.r#ref.clone();
    raw.send(Up::Progress(Progress {
        r#ref: r#ref.clone(),
        fraction: Some(7.0),
        message: huge.clone(),
        checkpoint: Some(json(&format!("\"{huge}\""))),
    }));
    let record = LogRecord {
        time: Some(at(1_700_000_000)),
        level: LogLevel::Info.into(),
        message: huge.clone(),
        ..LogRecord::default()
    };
    let records = vec![record.clone(), record];
    raw.send(Up::LogChunk(LogChunk { r#ref: r#ref.clone(), first_seq: 1, records, dropped: 0 }));
    let acknowledged = raw.expect("a LogAck", |frame| match frame {
        Down::LogAck(ack) => Some(ack.through_seq),
        _ => None,
    });
    assert_eq!(acknowledged.await, 2);
    let output = RunResult { last_log_seq: 2, ..succeeded(r#ref, &format!("\"{huge}\"")) };
    assert_eq!(raw.report(output).await, result_ack::Status::Committed);
    let ended = admin.until(&run, RunState::Succeeded).await;
    assert!(ended.output.unwrap().data.len() <= PAYLOAD_BYTES_MAX);
    assert!(ended.progress_message.len() <= STACK_BYTES_MAX);
    assert_eq!(admin.logs(&run).await.len(), 2);

    let run = admin.trigger(&job).await;
    let command = raw.accept().await;
    let failure =
        Failure { code: "NO".to_owned(), message: huge.clone(), stack: huge, ..Failure::default() };
    let failed = RunResult {
        r#ref: command.r#ref,
        outcome: Outcome::Failed.into(),
        failure: Some(failure),
        ..RunResult::default()
    };
    assert_eq!(raw.report(failed).await, result_ack::Status::Committed);
    let failure = admin.until(&run, RunState::Failed).await.failure.unwrap();
    assert!(failure.message.len() <= STACK_BYTES_MAX && failure.stack.len() <= STACK_BYTES_MAX);
}
