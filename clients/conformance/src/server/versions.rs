//! An executor whose release is apart from the scheduler's.

use clawjob_conformance::frames::{laden, unknown_arm};
use clawjob_proto::v1::{
    Capacity, Heartbeat, Hello, Job, Outcome, RunResult, RunState, result_ack,
    session_request::Frame as Up, session_response::Frame as Down,
};

use super::Binary;
use super::raw::{Raw, accepted, channel, encoded, hello, succeeded};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] =
    scenarios![x55_v03_executor_of_an_older_minor, x55_v04_executor_of_a_later_minor];

// No features, none of the facts about itself, and heartbeats with a number alone.
async fn x55_v03_executor_of_an_older_minor(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let older = Hello { protocol_minor: 0, ..hello("e1", "process-1") };
    let mut raw = Raw::open(node.url(), &token, older).await;
    assert_eq!(raw.welcome.protocol_minor, 0, "the lower of both");
    assert!(raw.welcome.features.is_empty(), "{:?}", raw.welcome.features);
    for seq in 1..=3 {
        let run = admin.trigger(&job).await;
        let command = raw.accept().await;
        raw.send(Up::Heartbeat(Heartbeat {
            seq,
            attempts: vec![clawjob_proto::v1::AttemptStatus {
                r#ref: command.r#ref.clone(),
                ..Default::default()
            }],
            last_command_seq: command.command_seq,
            ..Heartbeat::default()
        }));
        let answer = raw.report(succeeded(command.r#ref, "1")).await;
        assert_eq!(answer, result_ack::Status::Committed);
        admin.until(&run, RunState::Succeeded).await;
    }
}

// Unknown frames, fields, features and values of enums in all that it says.
async fn x55_v04_executor_of_a_later_minor(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let later = Hello {
        protocol_minor: clawjob_proto::PROTOCOL_MINOR + 1,
        features: vec!["drain".to_owned(), "teleport".to_owned()],
        ..hello("e1", "process-1")
    };
    let first = laden(encoded(Up::Hello(later)));
    let mut raw = Raw::dial(channel(node.url()).await, &token, first).await.unwrap();
    assert_eq!(raw.welcome.protocol_minor, clawjob_proto::PROTOCOL_MINOR);
    assert_eq!(raw.welcome.features, ["drain"], "what both know");
    raw.send_bytes(unknown_arm());
    raw.send_bytes(laden(encoded(Up::Capacity(Capacity { free_slots: 4, ..Capacity::default() }))));

    let run = admin.trigger(&job).await;
    let command = raw.command().await;
    raw.send_bytes(laden(encoded(accepted(&command))));
    raw.send_bytes(laden(encoded(Up::Result(succeeded(command.r#ref, "1")))));
    admin.until(&run, RunState::Succeeded).await;

    // An outcome that nobody knows yet counts as a failure.
    let run = admin.trigger(&job).await;
    let command = raw.accept().await;
    let odd = RunResult { r#ref: command.r#ref, outcome: 99, ..RunResult::default() };
    assert_eq!(raw.report(odd).await, result_ack::Status::Committed);
    assert_eq!(admin.until(&run, RunState::Failed).await.attempts[0].outcome(), Outcome::Failed);

    raw.send_bytes(unknown_arm());
    let beat = Heartbeat { seq: 9, free_slots: 4, ..Heartbeat::default() };
    raw.send_bytes(laden(encoded(Up::Heartbeat(beat))));
    let acknowledged = raw.expect("its ack", |frame| match frame {
        Down::HeartbeatAck(ack) => Some(ack.seq),
        _ => None,
    });
    assert_eq!(acknowledged.await, 9);
}
