//! Hello, Welcome, heartbeats.

use std::time::{Duration, Instant};

use clawjob_conformance::{Fake, frames};
use clawjob_proto::v1::{Welcome, session_response::Frame as Down};

use super::{ENDLESS, listed, open};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c01_hello_first_frame,
    c02_hello_waits_not_for_headers,
    c03_handlers_and_labels_announced,
    c04_welcome_timings_obeyed,
    c05_heartbeat_lists_all_attempts,
    c06_heartbeat_while_handler_blocks,
    c07_heartbeat_ack_missing_reconnects,
    c32_new_process_new_instance_id,
];

const HANDLERS: [&str; 11] = [
    "echo",
    "fail",
    "panic",
    "sleep",
    "spin",
    "block",
    "logs",
    "big_output",
    "progress",
    "checkpoint",
    "context",
];

async fn c01_hello_first_frame(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let session = fake.accept().await;
    let hello = &session.hello;
    assert_eq!((hello.protocol_major, hello.app.as_str()), (1, "demo"));
    assert_eq!(hello.executor_id, "tester");
    assert!(hello.slots > 0 && !hello.handlers.is_empty(), "{hello:?}");
    assert!(!hello.instance_id.is_empty() && hello.resume_token.is_empty(), "{hello:?}");
    assert!(hello.attempts.is_empty() && hello.last_command_seq == 0, "{hello:?}");
    assert_eq!(session.metadata.get("authorization").unwrap(), "Bearer secret");
}

async fn c02_hello_waits_not_for_headers(subject: Subject) {
    let mut fake = Fake::start().await;
    fake.hold_headers_until_hello();
    let _program = subject.start(&fake);
    fake.open().await.heartbeat().await;
}

async fn c03_handlers_and_labels_announced(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let session = fake.accept().await;
    let hello = &session.hello;
    for name in HANDLERS {
        assert!(hello.handlers.iter().any(|handler| handler.name == name), "no {name}: {hello:?}");
    }
    let sleep = hello.handlers.iter().find(|handler| handler.name == "sleep").unwrap();
    assert!(sleep.params_schema.contains("\"ms\""), "{}", sleep.params_schema);
    assert_eq!((hello.labels["zone"].as_str(), hello.slots), ("a", 4));
    for feature in ["checkpoint", "drain", "log", "progress", "shard"] {
        assert!(hello.features.iter().any(|known| known == feature), "{:?}", hello.features);
    }
    let client = session.metadata.get("clawjob-client").expect("it says what it is");
    assert!(client.to_str().unwrap().contains('/'), "{client:?}");
    let sdk = hello.sdk.clone().unwrap();
    assert!(!sdk.language.is_empty() && sdk.pid > 0, "{sdk:?}");
}

async fn c04_welcome_timings_obeyed(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let mut session = fake.accept().await;
    let start = Instant::now();
    let interval = Some(frames::ms(300));
    let slower = Welcome { heartbeat_interval: interval, ..frames::welcome() };
    session.send(Down::Welcome(slower)).await;
    for seq in 1..=10 {
        assert_eq!(session.heartbeat().await.seq, seq);
    }
    let took = start.elapsed();
    // Nine intervals less a tenth at least, and far less than ten of the contract's 5 s.
    assert!(took > Duration::from_millis(2_400) && took < Duration::from_secs(30), "{took:?}");
}

async fn c05_heartbeat_lists_all_attempts(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(frames::command("R1", "sleep", ENDLESS)).await;
    session.begin(frames::command("R2", "echo", "1")).await;
    let result = session.result().await;
    let both = [("R1".to_owned(), false), ("R2".to_owned(), true)];
    let beat = session.heartbeat_where("both attempts", |beat| listed(beat) == both).await;
    assert_eq!(beat.free_slots, 3);
    session.commit(&result).await;
    session.kill("R1", 1, 30_000).await;
    let result = session.result().await;
    session.commit(&result).await;
    let beat = session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
    assert_eq!(beat.free_slots, 4);
}

async fn c06_heartbeat_while_handler_blocks(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(frames::command("R1", "block", ENDLESS)).await;
    let blocked = [("R1".to_owned(), false)];
    for _ in 0..4 {
        session.heartbeat_where("the blocked attempt", |beat| listed(beat) == blocked).await;
    }
    session.begin(frames::command("R2", "echo", "1")).await;
    let result = session.result().await;
    assert_eq!(result.r#ref.unwrap().run_id, "R2");
}

async fn c07_heartbeat_ack_missing_reconnects(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let session = fake.accept().await;
    let timeout = Some(frames::ms(1_500));
    let impatient = Welcome { heartbeat_timeout: timeout, ..frames::welcome() };
    session.fall_silent();
    session.send(Down::Welcome(impatient)).await;
    let again = fake.open().await;
    assert_eq!(again.hello.instance_id, session.hello.instance_id);
    assert_eq!(again.hello.resume_token, "resume");
}

async fn c32_new_process_new_instance_id(subject: Subject) {
    let mut fake = Fake::start().await;
    let one = subject.start(&fake);
    let first = fake.open().await;
    drop(one);
    let _two = subject.start(&fake);
    let second = fake.accept().await;
    assert_eq!(first.hello.executor_id, second.hello.executor_id);
    assert_ne!(first.hello.instance_id, second.hello.instance_id);
    assert_eq!(second.hello.resume_token, "");
}
