//! RunCommand: answers, duplicates, outcomes.

use clawjob_conformance::frames::{self, attempt, command, ms, value};
use clawjob_proto::v1::{Outcome, RunCommand, run_ack::Status, session_request::Frame as Up};
use nix::sys::signal::Signal;
use serde_json::json;

use super::{ENDLESS, open};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c08_run_acked_before_start,
    c09_run_duplicate_not_started_twice,
    c10_run_duplicate_after_finish_resends_result,
    c11_run_unknown_handler_rejected,
    c12_run_invalid_params_rejected,
    c13_busy_when_full,
    c14_capacity_frame_on_pause,
    c15_success_with_output,
    c16_failure_with_type_and_stack,
    c17_panic_is_failure_and_executor_lives,
    c18_non_retryable_and_retry_after_carried,
    c19_output_too_large_is_failure_not_disconnect,
    c20_timeout_enforced_locally_by_duration,
    c54_higher_attempt_replaces_running,
];

async fn c08_run_acked_before_start(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.heartbeat().await;
    session.run(command("R1", "echo", "1")).await;
    let mut accepted = false;
    loop {
        match session.next().await.expect("the stream goes on") {
            Up::RunAck(ack) => {
                assert_eq!(ack.status(), Status::Accepted);
                assert_eq!(ack.r#ref, Some(attempt("R1", 1, 1)));
                accepted = true;
            }
            Up::Result(_) if accepted => break,
            Up::Heartbeat(_) => {}
            other => assert!(accepted, "before the RunAck: {other:?}"),
        }
    }
}

async fn c09_run_duplicate_not_started_twice(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    let again = RunCommand { r#ref: Some(attempt("R1", 1, 7)), ..command("R1", "sleep", ENDLESS) };
    session.run(again).await;
    assert_eq!(session.run_ack().await.status(), Status::Duplicate);
    let seen = session.heartbeat().await.seq;
    let beat = session.heartbeat_where("a later beat", |beat| beat.seq > seen).await;
    assert_eq!((beat.attempts.len(), beat.free_slots), (1, 3), "started once");
    session.kill("R1", 7, 30_000).await;
    let result = session.result().await;
    assert_eq!(result.r#ref.as_ref().unwrap().fence, 7, "the higher fence is adopted");
    session.commit(&result).await;
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
}

async fn c10_run_duplicate_after_finish_resends_result(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "logs", r#"{"count":1}"#)).await;
    let result = session.result().await;
    session.commit(&result).await;
    let fence = Some(attempt("R1", 1, 2));
    session
        .run(RunCommand { r#ref: fence.clone(), ..command("R1", "logs", r#"{"count":1}"#) })
        .await;
    assert_eq!(session.run_ack().await.status(), Status::Duplicate);
    let again = session
        .expect("the result again", |frame| match frame {
            Up::LogChunk(chunk) => panic!("started again: {chunk:?}"),
            Up::Result(result) => Some(result),
            _ => None,
        })
        .await;
    assert_eq!((again.outcome, again.output), (result.outcome, result.output));
    assert_eq!(again.r#ref, fence);
}

/// What cannot be run is answered with that code and held by nobody.
async fn rejected(subject: Subject, code: &str, commands: &[(&str, &str)]) {
    let (_fake, _program, mut session) = open(&subject).await;
    for (at, (handler, params)) in commands.iter().enumerate() {
        session.run(command(&format!("R{at}"), handler, params)).await;
        let ack = session.run_ack().await;
        assert_eq!(ack.status(), Status::Rejected, "{handler} {params}");
        assert_eq!(ack.failure.unwrap().code, code);
    }
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
    session.begin(command("R9", "echo", "1")).await;
}

async fn c11_run_unknown_handler_rejected(subject: Subject) {
    rejected(subject, "UNKNOWN_HANDLER", &[("nobody", ""), ("", "1")]).await;
}

async fn c12_run_invalid_params_rejected(subject: Subject) {
    let commands = [("sleep", r#"{"ms":"soon"}"#), ("logs", "{}"), ("sleep", "{")];
    rejected(subject, "INVALID_PARAMS", &commands).await;
}

async fn c13_busy_when_full(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    for run in ["R1", "R2", "R3", "R4"] {
        session.begin(command(run, "sleep", ENDLESS)).await;
    }
    session.run(command("R5", "echo", "1")).await;
    let ack = session.run_ack().await;
    assert_eq!(ack.status(), Status::Busy);
    assert!(ack.retry_after.is_some());
    session.kill("R1", 1, 30_000).await;
    let result = session.result().await;
    session.commit(&result).await;
    session.begin(command("R5", "echo", "1")).await;
}

async fn c14_capacity_frame_on_pause(subject: Subject) {
    let (_fake, program, mut session) = open(&subject).await;
    session.heartbeat().await;
    program.signal(Signal::SIGUSR1);
    let paused = |wanted: &'static [&'static str]| {
        move |frame| match frame {
            Up::Capacity(capacity) => (capacity.paused_handlers == wanted).then_some(()),
            _ => None,
        }
    };
    session.expect("a Capacity", paused(&["echo"])).await;
    session.run(command("R1", "echo", "1")).await;
    assert_eq!(session.run_ack().await.status(), Status::Busy);
    program.signal(Signal::SIGUSR2);
    session.expect("a Capacity without pauses", paused(&[])).await;
    session.begin(command("R1", "echo", "1")).await;
}

async fn c15_success_with_output(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let params = r#"{"a":[1,"zwölf",null]}"#;
    session.begin(command("R1", "echo", params)).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Succeeded);
    assert_eq!(value(result.output.as_ref()), json!({"a": [1, "zwölf", null]}));
    assert_eq!(result.r#ref, Some(attempt("R1", 1, 1)));
    assert!(result.start_time.is_some() && result.finish_time.is_some(), "{result:?}");
    assert!(result.duration.is_some() && result.failure.is_none(), "{result:?}");
}

async fn c16_failure_with_type_and_stack(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "fail", "{}")).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    let failure = result.failure.unwrap();
    assert_eq!(failure.code, "HANDLER_ERROR");
    assert_eq!(failure.message, "the bank is closed");
    assert!(failure.r#type.to_lowercase().contains("bankclosed"), "{}", failure.r#type);
    assert!(failure.stack.contains("it is Sunday"), "{}", failure.stack);
    assert!(!failure.non_retryable && failure.retry_after.is_none(), "{failure:?}");
}

async fn c17_panic_is_failure_and_executor_lives(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "panic", "")).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    let failure = result.failure.unwrap();
    assert_eq!(failure.code, "HANDLER_PANIC");
    assert!(failure.message.contains("out of cheese"), "{}", failure.message);
    session.begin(command("R2", "echo", "1")).await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
}

async fn c18_non_retryable_and_retry_after_carried(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let fault = json!({
        "code": "NO_SUCH_CUSTOMER", "message": "gone", "non_retryable": true, "retry_after_ms": 9000
    });
    session.begin(command("R1", "fail", &fault.to_string())).await;
    let failure = session.result().await.failure.unwrap();
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("NO_SUCH_CUSTOMER", "gone"));
    assert!(failure.non_retryable);
    assert_eq!(failure.retry_after, Some(ms(9_000)));
}

async fn c19_output_too_large_is_failure_not_disconnect(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "big_output", r#"{"bytes":300000}"#)).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    assert_eq!(result.failure.unwrap().code, "OUTPUT_TOO_LARGE");
    session.begin(command("R2", "echo", "1")).await;
    let result = session.expect("a second result", |frame| match frame {
        Up::Result(result) => (result.r#ref == Some(attempt("R2", 1, 1))).then_some(result),
        _ => None,
    });
    assert_eq!(result.await.outcome(), Outcome::Succeeded);
}

async fn c20_timeout_enforced_locally_by_duration(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().cast_signed();
    // A clock that is an hour behind says that the deadline has long passed.
    let limited = RunCommand {
        timeout: Some(ms(300)),
        deadline: Some(frames::at(now - 3_600)),
        ..command("R1", "sleep", ENDLESS)
    };
    session.begin(limited).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::TimedOut);
    assert_eq!(result.failure.unwrap().code, "TIMEOUT");
    let ran = result.duration.unwrap();
    assert!(ran.seconds > 0 || ran.nanos >= 300_000_000, "{ran:?}");
}

async fn c54_higher_attempt_replaces_running(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    let second = || RunCommand { r#ref: Some(attempt("R1", 2, 2)), ..command("R1", "echo", "1") };
    session.run(second()).await;
    assert_eq!(session.run_ack().await.status(), Status::Busy);
    let first = session.result().await;
    assert_eq!((first.outcome(), first.r#ref.unwrap().attempt), (Outcome::Canceled, 1));
    session.begin(second()).await;
    assert_eq!(session.result().await.r#ref.unwrap().attempt, 2);
}
