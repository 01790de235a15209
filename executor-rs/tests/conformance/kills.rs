//! KillCommand.

use clawjob_proto::v1::{Outcome, kill_ack::Status};

use crate::fake::{Fake, command};
use crate::handlers::Running;

#[tokio::test]
async fn c21_a_kill_cancels_the_context() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    session.kill("R1", 1, 1000).await;
    assert_eq!(session.kill_ack().await, Status::Signaled);
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().code, "STOPPED");
}

#[tokio::test]
async fn c22_a_handler_that_ignores_its_kill_is_abandoned_after_the_grace() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "deaf", "")).await;
    session.kill("R1", 1, 300).await;
    assert_eq!(session.kill_ack().await, Status::Signaled);
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().code, "ABANDONED");
    // It awaits, so it was dropped and its slot is free again.
    while session.heartbeat().await.free_slots < 4 {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c22_an_abandoned_handler_that_blocks_is_counted_until_it_ends() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "block", r#"{"ms":2500}"#)).await;
    session.kill("R1", 1, 100).await;
    let result = session.result().await;
    assert_eq!(result.failure.unwrap().code, "ABANDONED");
    let beat = session.heartbeat().await;
    assert_eq!((beat.abandoned_handlers, beat.free_slots), (1, 3));
    loop {
        let beat = session.heartbeat().await;
        if beat.abandoned_handlers == 0 {
            assert_eq!(beat.free_slots, 4);
            break;
        }
    }
}

#[tokio::test]
async fn c23_c25_a_kill_before_its_run_leaves_a_tombstone() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::NotFound);
    session.begin(command("R1", "gate", "")).await;
    assert_eq!(session.result().await.outcome(), Outcome::Canceled);
    assert_eq!(running.gate.count(), 0);
}

#[tokio::test]
async fn c24_a_kill_after_the_end_is_answered_finished() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "echo", "1")).await;
    let result = session.result().await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::Finished);
    session.commit(&result).await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::Finished);
}

#[tokio::test]
async fn c26_kill_and_finish_make_one_result() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    for i in 0..20 {
        let run = format!("R{i}");
        session.begin(command(&run, "gate", "")).await;
        running.gate.open();
        session.kill(&run, 1, 1000).await;
        let result = session.result().await;
        assert_eq!(result.outcome(), Outcome::Succeeded);
        session.commit(&result).await;
    }
    // Whatever was left over would have come before the beat that lists nothing.
    let beat = session
        .expect("a quiet Heartbeat", |frame| match frame {
            clawjob_proto::v1::session_request::Frame::Result(result) => panic!("{result:?}"),
            clawjob_proto::v1::session_request::Frame::Heartbeat(beat) => Some(beat),
            _ => None,
        })
        .await;
    assert!(beat.attempts.len() <= 1);
}
