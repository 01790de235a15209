//! The run's log, and its progress.

use std::time::Instant;

use clawjob_conformance::Session;
use clawjob_conformance::frames::{command, json, value, welcome};
use clawjob_proto::v1::{
    LogAck, LogChunk, Outcome, RunCommand, RunResult, Welcome, session_request::Frame as Up,
    session_response::Frame as Down,
};
use prost::Message as _;

use super::{open, open_with};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c43_log_order_and_seq,
    c44_log_window_respected,
    c45_log_overflow_counts_dropped,
    c46_log_flood_does_not_delay_result,
    c47_progress_coalesced,
    c48_checkpoint_round_trip,
];

/// All chunks up to the result, and the result; each chunk is acknowledged if asked for.
pub(super) async fn chunks(session: &mut Session, acks: bool) -> (Vec<LogChunk>, RunResult) {
    let mut chunks = Vec::new();
    loop {
        match session.next().await.expect("the stream goes on") {
            Up::LogChunk(chunk) => {
                if acks {
                    let through_seq = chunk.first_seq + chunk.records.len() as u64 - 1;
                    let ack = LogAck { r#ref: chunk.r#ref.clone(), through_seq };
                    session.send(Down::LogAck(ack)).await;
                }
                chunks.push(chunk);
            }
            Up::Result(result) => return (chunks, result),
            _ => {}
        }
    }
}

/// Records sent and dropped; numbers run without gaps, and the result knows the last one.
pub(super) fn counted(chunks: &[LogChunk], result: &RunResult) -> (u64, u64) {
    let (mut sent, mut dropped) = (0, 0);
    for chunk in chunks {
        assert_eq!(chunk.first_seq, sent + 1);
        sent += chunk.records.len() as u64;
        dropped += chunk.dropped;
    }
    assert_eq!(result.last_log_seq, sent);
    (sent, dropped)
}

async fn c43_log_order_and_seq(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "logs", r#"{"count":500}"#)).await;
    let (chunks, result) = chunks(&mut session, true).await;
    assert_eq!(counted(&chunks, &result), (500, 0));
    for (at, record) in chunks.iter().flat_map(|chunk| &chunk.records).enumerate() {
        assert_eq!(record.message.trim_end(), format!("line {}", at + 1));
        assert!(record.time.is_some());
    }
}

async fn c44_log_window_respected(subject: Subject) {
    let narrow = Welcome { log_window_bytes: 2_000, max_log_chunk_bytes: 1_000, ..welcome() };
    let (_fake, _program, mut session) = open_with(&subject, narrow).await;
    session.begin(command("R1", "logs", r#"{"count":500}"#)).await;
    let (chunks, result) = chunks(&mut session, false).await;
    let records = chunks.iter().flat_map(|chunk| &chunk.records);
    let bytes: usize = records.map(prost::Message::encoded_len).sum();
    assert!(bytes <= 2_000, "{bytes} bytes without an ack");
    assert!(chunks.iter().all(|chunk| chunk.encoded_len() <= 1_100), "a chunk is too large");
    let (sent, dropped) = counted(&chunks, &result);
    assert!(sent > 0 && sent + dropped == 500, "{sent} sent, {dropped} dropped");
    assert_eq!(result.outcome(), Outcome::Succeeded);
}

async fn c45_log_overflow_counts_dropped(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "logs", r#"{"count":20000}"#)).await;
    let (chunks, result) = chunks(&mut session, true).await;
    let (sent, dropped) = counted(&chunks, &result);
    assert!(dropped > 0 && sent + dropped == 20_000, "{sent} sent, {dropped} dropped");
}

async fn c46_log_flood_does_not_delay_result(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "logs", r#"{"count":900,"bytes":1000}"#)).await;
    // No chunk is ever acknowledged: what does not fit the window has to stay behind.
    let (chunks, result) = chunks(&mut session, false).await;
    let (sent, dropped) = counted(&chunks, &result);
    assert!(dropped > 0 && sent + dropped == 900, "{sent} sent, {dropped} dropped");
    assert_eq!(result.outcome(), Outcome::Succeeded);
}

async fn c47_progress_coalesced(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let (start, mut told) = (Instant::now(), 0);
    session.begin(command("R1", "progress", r#"{"count":2000}"#)).await;
    loop {
        let progress = session.progress().await;
        told += 1;
        if progress.message == "step 2000" {
            assert_eq!(progress.fraction, Some(1.0));
            break;
        }
    }
    let most = start.elapsed().as_secs() + 2;
    assert!(told <= most, "{told} frames in {most} s");
}

async fn c48_checkpoint_round_trip(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let resumed = RunCommand { checkpoint: Some(json("42")), ..command("R1", "checkpoint", "") };
    session.begin(resumed).await;
    let progress = session
        .expect("a Progress before the result", |frame| match frame {
            Up::Progress(progress) => Some(progress),
            Up::Result(_) => panic!("the result overtook its checkpoint"),
            _ => None,
        })
        .await;
    assert_eq!(value(progress.checkpoint.as_ref()), 52);
    assert_eq!(value(session.result().await.output.as_ref()), 42);
}
