//! The run's log.

use clawjob_proto::v1::{self, session_request::Frame as Up, session_response::Frame as Down};

use crate::fake::{Fake, Session, command, welcome};
use crate::handlers::Running;

/// All chunks up to the result, and the result; each chunk is acknowledged if asked for.
async fn chunks(session: &mut Session, acks: bool) -> (Vec<v1::LogChunk>, v1::RunResult) {
    let mut chunks = Vec::new();
    loop {
        match session.next().await.expect("the stream goes on") {
            Up::LogChunk(chunk) => {
                if acks {
                    let through_seq = chunk.first_seq + chunk.records.len() as u64 - 1;
                    let ack = v1::LogAck { r#ref: chunk.r#ref.clone(), through_seq };
                    session.send(Down::LogAck(ack)).await;
                }
                chunks.push(chunk);
            }
            Up::Result(result) => return (chunks, result),
            _ => {}
        }
    }
}

#[tokio::test]
async fn c43_records_come_in_order_without_gaps_and_before_the_result() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "logs", r#"{"count":500}"#)).await;
    let (chunks, result) = chunks(&mut session, true).await;
    let mut expected = 1;
    for chunk in &chunks {
        assert_eq!((chunk.first_seq, chunk.dropped), (expected, 0));
        for record in &chunk.records {
            assert_eq!(record.message, format!("line {expected}"));
            expected += 1;
        }
    }
    assert_eq!((expected, result.last_log_seq), (501, 500));
}

#[tokio::test]
async fn c44_c46_a_closed_window_holds_logs_back_but_not_the_result() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.accept().await;
    let narrow = v1::Welcome { log_window_bytes: 2000, max_log_chunk_bytes: 1000, ..welcome() };
    session.send(Down::Welcome(narrow)).await;
    session.begin(command("R1", "logs", r#"{"count":500}"#)).await;
    let (chunks, result) = chunks(&mut session, false).await;
    let bytes: usize =
        chunks.iter().flat_map(|chunk| &chunk.records).map(prost::Message::encoded_len).sum();
    assert!(bytes <= 2000, "{bytes} bytes without an ack");
    let sent: u64 = chunks.iter().map(|chunk| chunk.records.len() as u64).sum();
    let dropped: u64 = chunks.iter().map(|chunk| chunk.dropped).sum();
    assert_eq!(sent + dropped, 500);
    assert_eq!(result.last_log_seq, sent);
    assert_eq!(result.outcome(), v1::Outcome::Succeeded);
}

#[tokio::test]
async fn c45_what_is_dropped_is_counted_exactly() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "logs", r#"{"count":5000}"#)).await;
    let (chunks, result) = chunks(&mut session, true).await;
    let sent: u64 = chunks.iter().map(|chunk| chunk.records.len() as u64).sum();
    let dropped: u64 = chunks.iter().map(|chunk| chunk.dropped).sum();
    assert!(dropped > 0);
    assert_eq!(sent + dropped, 5000);
    assert_eq!(result.last_log_seq, sent);
    session.commit(&result).await;
}
