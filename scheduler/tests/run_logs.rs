//! Logs of runs as a viewer sees them, on a clock that is moved by hand.

#[path = "support/api.rs"]
mod api;

use std::{collections::BTreeMap, time::Duration};

use api::{World, admin, hello, soon};
use clawjob_proto::v1::{self as pb, run_service_server::RunService as _};
use clawjob_scheduler::{
    clock::Clock as _,
    model::{
        ids::AttemptRef,
        log::{LogLevel, LogRecord},
    },
    store::ops::LogAppend,
};
use futures::StreamExt as _;
use prost::Message as _;

/// What a client takes as one answer unless it is told otherwise.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one record here, and records of one chunk.
const RECORD_BYTES: usize = 8 * 1024;
const CHUNK_RECORDS: u64 = 8;

fn append(attempt: AttemptRef, first: u64, count: u64) -> LogAppend {
    let record = |seq| LogRecord {
        seq,
        time: chrono::DateTime::UNIX_EPOCH,
        level: LogLevel::Info,
        message: "x".repeat(RECORD_BYTES),
        fields: BTreeMap::new(),
    };
    LogAppend { attempt, records: (first..first + count).map(record).collect(), dropped: 0 }
}

/// 12 MiB at once, of which 10 MiB are kept, then ten minutes of silence and a last word.
#[tokio::test]
async fn x46_a_flood_is_paged_its_cut_counted_and_silence_does_not_end_the_live_view() {
    let world = World::new().await;
    world.own(Duration::ZERO).await;
    let job = world.create("a", "j", hello()).await;
    let run = world.trigger(&job.name).await;
    let attempt = world.start(&run).await;
    let tail = pb::TailRunLogsRequest { name: run.name.clone(), ..Default::default() };
    let mut tail = world.runs.tail_run_logs(admin(tail)).await.expect("tails").into_inner();

    let mut next = 1;
    while next * RECORD_BYTES as u64 <= 12 * 1024 * 1024 {
        let chunk = append(attempt, next, CHUNK_RECORDS);
        world.store.append_logs(&[chunk], world.now()).await.expect("appends");
        next += CHUNK_RECORDS;
    }
    let said = next - 1;
    let (mut seen, mut dropped) = (0, 0);
    while seen + dropped < said {
        let batch = soon(tail.next()).await.expect("goes on").expect("no error");
        assert!(batch.encoded_len() < ANSWER_BYTES_MAX, "{}", batch.encoded_len());
        seen += batch.records.len() as u64;
        dropped = batch.dropped;
    }
    assert_eq!(seen + dropped, said, "what was cut is counted");
    assert!(seen * RECORD_BYTES as u64 > 9 * 1024 * 1024, "{seen}");

    // Ten minutes of silence: the view lives, and says so every 15 s.
    let mut alive = 0;
    let until = world.clock.elapsed() + Duration::from_secs(600);
    while world.clock.elapsed() < until {
        world.clock.advance(Duration::from_secs(1));
        let batch = tokio::time::timeout(Duration::from_millis(5), tail.next()).await;
        if let Ok(batch) = batch {
            let batch = batch.expect("it goes on").expect("no error");
            assert!(batch.records.is_empty() && !batch.complete);
            alive += 1;
        }
    }
    // On a busy machine several fall together.
    assert!((1..=41).contains(&alive), "{alive}");
    let quiet = world.trigger(&job.name).await;
    assert_eq!(quiet.state(), pb::RunState::Queued, "others are served");
    world.succeed(attempt).await;
    let end = async {
        loop {
            world.clock.advance(Duration::from_secs(1));
            let batch = tokio::time::timeout(Duration::from_millis(200), tail.next());
            match batch.await {
                Ok(Some(batch)) if batch.as_ref().is_ok_and(|batch| batch.complete) => return,
                Ok(Some(batch)) => drop(batch.expect("no error")),
                Ok(None) => panic!("it ended without saying that the log is complete"),
                Err(_) => {}
            }
        }
    };
    soon(end).await;

    let (mut paged, mut token) = (0, String::new());
    loop {
        let page = pb::ListRunLogsRequest {
            name: run.name.clone(),
            page_size: 1_000,
            page_token: token,
            ..Default::default()
        };
        let page = world.runs.list_run_logs(admin(page)).await.expect("lists").into_inner();
        assert!(page.encoded_len() < ANSWER_BYTES_MAX, "{}", page.encoded_len());
        paged += page.records.len() as u64;
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, seen);
}
