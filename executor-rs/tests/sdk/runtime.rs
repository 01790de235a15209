//! Handlers on the caller's runtime, the session beside it.

use clawjob_conformance::Fake;
use clawjob_conformance::frames::command;
use clawjob_proto::v1::{Outcome, kill_ack::Status, run_ack};

use crate::handlers::{Gate, Running, executor};

#[tokio::test]
async fn a_handler_says_what_it_is_for() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let hello = fake.accept().await.hello;
    let gate = hello.handlers.iter().find(|handler| handler.name == "gate").unwrap();
    assert_eq!(gate.description, "waits to be let through");
}

// The handlers' runtime has one thread here, and the handler blocks it.
#[test]
fn heartbeats_and_answers_go_on_while_a_handler_blocks_the_only_thread() {
    let scheduler = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut fake = scheduler.block_on(Fake::start());
    let url = fake.url();
    let executor = executor(&[url], &Gate::new());
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
async fn an_abandoned_handler_that_awaits_is_dropped_and_frees_its_slot() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "deaf", "")).await;
    session.kill("R1", 1, 300).await;
    assert_eq!(session.kill_ack().await, Status::Signaled);
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().code, "ABANDONED");
    session.heartbeat_where("its slot", |beat| beat.free_slots == 4).await;
}
