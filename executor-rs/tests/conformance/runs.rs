//! RunCommand: answers, duplicates, results.

use clawjob_proto::v1::{self, Outcome, run_ack::Status};

use crate::fake::{Fake, attempt, command, json, ms};
use crate::handlers::Running;

#[tokio::test]
async fn c08_c15_a_run_is_acknowledged_then_succeeds_with_its_output() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "echo", r#"{"a":1}"#)).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Succeeded);
    assert_eq!(result.output, Some(json(r#"{"a":1}"#)));
    assert_eq!(result.r#ref, Some(attempt("R1", 1, 1)));
    assert!(result.start_time.is_some() && result.finish_time.is_some());
    assert!(result.duration.is_some());
}

#[tokio::test]
async fn c09_a_run_sent_twice_is_started_once_and_adopts_the_higher_fence() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "gate", "")).await;
    running.gate.begun(1).await;
    let again = v1::RunCommand { r#ref: Some(attempt("R1", 1, 7)), ..command("R1", "gate", "") };
    session.run(again).await;
    let ack = session.run_ack().await;
    assert_eq!(ack.status(), Status::Duplicate);
    running.gate.open();
    let result = session.result().await;
    assert_eq!(result.r#ref.unwrap().fence, 7);
    assert_eq!(running.gate.count(), 1);
}

#[tokio::test]
async fn c10_a_run_sent_again_after_its_end_gets_its_result_again() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    running.gate.open();
    session.begin(command("R1", "gate", "")).await;
    let result = session.result().await;
    session.commit(&result).await;
    let again = v1::RunCommand { r#ref: Some(attempt("R1", 1, 2)), ..command("R1", "gate", "") };
    session.run(again).await;
    assert_eq!(session.run_ack().await.status(), Status::Duplicate);
    let second = session.result().await;
    assert_eq!(second.output, result.output);
    assert_eq!(second.r#ref.unwrap().fence, 2);
    assert_eq!(running.gate.count(), 1);
}

#[tokio::test]
async fn c11_c12_what_cannot_be_run_is_rejected() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    for (handler, params, code) in [
        ("nobody", "", "UNKNOWN_HANDLER"),
        ("block", r#"{"ms":"soon"}"#, "INVALID_PARAMS"),
        ("block", "", "INVALID_PARAMS"),
        ("block", "{", "INVALID_PARAMS"),
    ] {
        session.run(command(code, handler, params)).await;
        let ack = session.run_ack().await;
        assert_eq!(ack.status(), Status::Rejected);
        assert_eq!(ack.failure.unwrap().code, code);
    }
    assert!(session.heartbeat().await.attempts.is_empty());
}

#[tokio::test]
async fn c13_c14_a_full_or_paused_executor_is_busy() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    for run in ["R1", "R2", "R3", "R4"] {
        session.begin(command(run, "gate", "")).await;
    }
    session.run(command("R5", "echo", "1")).await;
    let ack = session.run_ack().await;
    assert_eq!(ack.status(), Status::Busy);
    assert!(ack.retry_after.is_some());
    running.gate.open();
    for _ in 0..4 {
        session.result().await;
    }
    running.handle.pause("echo");
    let capacity = session
        .expect("a Capacity", |frame| match frame {
            v1::session_request::Frame::Capacity(capacity) => Some(capacity),
            _ => None,
        })
        .await;
    assert_eq!(capacity.paused_handlers, ["echo"]);
    session.run(command("R6", "echo", "1")).await;
    assert_eq!(session.run_ack().await.status(), Status::Busy);
    running.handle.resume("echo");
    session
        .expect("an empty Capacity", |frame| match frame {
            v1::session_request::Frame::Capacity(c) => c.paused_handlers.is_empty().then_some(()),
            _ => None,
        })
        .await;
    session.begin(command("R6", "echo", "1")).await;
}

#[tokio::test]
async fn c16_an_error_carries_its_type_and_causes() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "fail", "")).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    let failure = result.failure.unwrap();
    assert_eq!(failure.code, "HANDLER_ERROR");
    assert_eq!(failure.message, "the bank is closed");
    assert!(failure.r#type.ends_with("BankClosed"), "{}", failure.r#type);
    assert!(failure.stack.contains("it is Sunday"), "{}", failure.stack);
    assert!(!failure.non_retryable);
}

#[tokio::test]
async fn c17_a_panic_is_a_failure_and_the_executor_lives() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "panic", "")).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    let failure = result.failure.unwrap();
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("HANDLER_PANIC", "out of cheese")
    );
    session.begin(command("R2", "echo", "1")).await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
}

#[tokio::test]
async fn c18_what_the_handler_says_about_retries_is_carried() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "fail_for_good", "")).await;
    let failure = session.result().await.failure.unwrap();
    assert_eq!(failure.code, "NO_SUCH_CUSTOMER");
    assert!(failure.non_retryable);
    assert_eq!(failure.retry_after, Some(ms(9000)));
}

#[tokio::test]
async fn c19_an_output_that_is_too_large_is_a_failure_not_a_disconnect() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "big_output", r#"{"count":300000}"#)).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    assert_eq!(result.failure.unwrap().code, "OUTPUT_TOO_LARGE");
    session.begin(command("R2", "echo", "1")).await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
}

#[tokio::test]
async fn c20_the_timeout_is_kept_here_whatever_the_schedulers_clock_says() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    let hour_ago = prost_types::Timestamp {
        seconds: std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64 - 3600,
        nanos: 0,
    };
    let limited = v1::RunCommand {
        timeout: Some(ms(300)),
        deadline: Some(hour_ago),
        ..command("R1", "obedient", "")
    };
    session.begin(limited).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::TimedOut);
    assert_eq!(result.failure.unwrap().code, "TIMEOUT");
    let ran = result.duration.unwrap();
    assert!(ran.seconds == 0 && ran.nanos >= 300_000_000 || ran.seconds > 0, "{ran:?}");
}

#[tokio::test]
async fn c48_checkpoints_go_round() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    let resumed =
        v1::RunCommand { checkpoint: Some(json("42")), ..command("R1", "checkpoint", "") };
    session.begin(resumed).await;
    let progress = session
        .expect("a Progress before the result", |frame| match frame {
            v1::session_request::Frame::Progress(progress) => Some(progress),
            v1::session_request::Frame::Result(_) => panic!("the result overtook its checkpoint"),
            _ => None,
        })
        .await;
    assert_eq!(progress.checkpoint, Some(json("52")));
    assert_eq!((progress.fraction, progress.message.as_str()), (Some(0.5), "half"));
    assert_eq!(session.result().await.output, Some(json("42")));
}

#[tokio::test]
async fn c49_a_handler_sees_its_shard() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    let sharded = v1::RunCommand { shard_index: 2, shard_total: 5, ..command("R1", "shard", "") };
    session.begin(sharded).await;
    assert_eq!(session.result().await.output, Some(json("[2,5]")));
    session.begin(command("R2", "shard", "")).await;
    assert_eq!(session.result().await.output, None);
}

#[tokio::test]
async fn c52_unknown_enum_values_fall_back() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    let odd = v1::RunCommand { disconnect_policy: 99, ..command("R1", "obedient", "") };
    session.begin(odd).await;
    session
        .send(v1::session_response::Frame::Kill(v1::KillCommand {
            r#ref: Some(attempt("R1", 1, 1)),
            reason: 99,
            ..v1::KillCommand::default()
        }))
        .await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().message, "the run was canceled");
}

#[tokio::test]
async fn c54_a_higher_attempt_replaces_the_running_one() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    let second =
        || v1::RunCommand { r#ref: Some(attempt("R1", 2, 2)), ..command("R1", "echo", "1") };
    session.run(second()).await;
    assert_eq!(session.run_ack().await.status(), Status::Busy);
    let first = session.result().await;
    assert_eq!((first.outcome(), first.r#ref.unwrap().attempt), (Outcome::Canceled, 1));
    session.begin(second()).await;
    assert_eq!(session.result().await.r#ref.unwrap().attempt, 2);
}
