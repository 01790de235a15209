//! Hello, Welcome, heartbeats.

use clawjob_proto::v1::{run_ack, session_response::Frame as Down};

use crate::fake::{Fake, command, ms, welcome};
use crate::handlers::Running;

#[tokio::test]
async fn c01_c03_hello_comes_first_and_announces_everything() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let session = fake.accept().await;
    let hello = &session.hello;
    assert_eq!((hello.protocol_major, hello.app.as_str()), (1, "demo"));
    assert_eq!((hello.executor_id.as_str(), hello.slots), ("tester", 4));
    assert_eq!(hello.resume_token, "");
    assert!(!hello.instance_id.is_empty());
    assert_eq!(hello.labels["zone"], "a");
    assert_eq!(session.metadata.get("authorization").unwrap(), "Bearer secret");
    assert!(session.metadata.get("clawjob-client").unwrap().to_str().unwrap().starts_with("rust/"));
    let block = hello.handlers.iter().find(|handler| handler.name == "block").unwrap();
    assert!(block.params_schema.contains("\"ms\""), "{}", block.params_schema);
    let gate = hello.handlers.iter().find(|handler| handler.name == "gate").unwrap();
    assert_eq!(gate.description, "waits to be let through");
}

#[tokio::test]
async fn c02_hello_does_not_wait_for_headers() {
    let mut fake = Fake::start().await;
    fake.hold_headers_until_hello();
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.heartbeat().await;
}

#[tokio::test]
async fn c04_the_heartbeat_interval_of_the_welcome_is_kept() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.accept().await;
    let quick = clawjob_proto::v1::Welcome { heartbeat_interval: Some(ms(100)), ..welcome() };
    session.send(Down::Welcome(quick)).await;
    let start = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    for seq in 1..=11 {
        assert_eq!(session.heartbeat().await.seq, seq);
    }
    let took = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() - start;
    assert!((880..5_000).contains(&took.as_millis()), "10 intervals of 100 ms took {took:?}");
}

#[tokio::test]
async fn c05_heartbeats_list_running_and_finished_attempts() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "gate", "")).await;
    session.begin(command("R2", "echo", "1")).await;
    let result = session.result().await;
    let beat = session.heartbeat().await;
    let listed: Vec<(String, bool)> = beat
        .attempts
        .iter()
        .map(|attempt| (attempt.r#ref.as_ref().unwrap().run_id.clone(), attempt.finished))
        .collect();
    assert_eq!(listed, [("R1".to_owned(), false), ("R2".to_owned(), true)]);
    assert_eq!(beat.free_slots, 3);
    session.commit(&result).await;
    running.gate.open();
    let result = session.result().await;
    session.commit(&result).await;
    loop {
        let beat = session.heartbeat().await;
        if beat.attempts.is_empty() {
            assert_eq!(beat.free_slots, 4);
            break;
        }
    }
}

// The handlers' runtime has one thread here, and the handler blocks it.
#[test]
fn c06_heartbeats_and_answers_go_on_while_a_handler_blocks() {
    let scheduler = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut fake = scheduler.block_on(Fake::start());
    let url = fake.url();
    let gate = crate::handlers::Gate::new();
    let executor = crate::handlers::executor(&[url], &gate);
    let handle = executor.handle();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(executor.run_until(std::future::pending()))
    });
    scheduler.block_on(async {
        let mut session = fake.open().await;
        session.begin(command("R1", "block", r#"{"ms":2500}"#)).await;
        session.heartbeat().await;
        for _ in 0..3 {
            assert_eq!(session.heartbeat().await.attempts.len(), 1);
        }
        session.run(command("R2", "echo", "1")).await;
        assert_eq!(session.run_ack().await.status(), run_ack::Status::Accepted);
        for _ in 0..2 {
            let result = session.result().await;
            session.commit(&result).await;
        }
        handle.drain();
        while session.next().await.is_some() {}
    });
    thread.join().unwrap().unwrap();
}

#[tokio::test]
async fn c07_a_missing_heartbeat_ack_makes_it_reconnect() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let session = fake.open().await;
    session.fall_silent();
    let again = fake.open().await;
    assert_eq!(again.hello.instance_id, session.hello.instance_id);
    assert_eq!(again.hello.resume_token, "resume");
}

#[tokio::test]
async fn c32_each_process_has_an_instance_id_of_its_own() {
    let mut fake = Fake::start().await;
    let _one = Running::start(&fake);
    let first = fake.accept().await;
    let _two = Running::start(&fake);
    let second = fake.accept().await;
    assert_ne!(first.hello.instance_id, second.hello.instance_id);
}

#[tokio::test]
async fn c51_c53_frames_of_a_later_contract_are_passed_over() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.accept().await;
    session.send_unknown().await;
    session.send(Down::Welcome(welcome())).await;
    session.send_unknown().await;
    session.begin(command("R1", "echo", "1")).await;
    session.result().await;
}
