//! Frames of a session, as they are on the wire.

use std::hint::black_box;

use clawjob_proto::v1::{
    AttemptRef, AttemptStatus, Heartbeat, Outcome, Payload, RunCommand, RunResult, SessionRequest,
    SessionResponse, session_request::Frame as Up, session_response::Frame as Down,
};
use prost::Message;
use prost_types::{Duration, Timestamp};

use super::Case;

/// Attempts that a heartbeat lists.
const HELD: u32 = 16;

pub(super) fn cases() -> Vec<Case> {
    let run = SessionResponse { frame: Some(Down::Run(run_command())) };
    let result = SessionRequest { frame: Some(Up::Result(run_result())) };
    let beat = SessionRequest { frame: Some(Up::Heartbeat(heartbeat())) };
    vec![
        encode("encode_run_command", run.clone()),
        decode("decode_run_command", &run),
        encode("encode_run_result", result.clone()),
        decode("decode_run_result", &result),
        encode("encode_heartbeat", beat.clone()),
        decode("decode_heartbeat", &beat),
    ]
}

fn encode<M: Message + 'static>(name: &'static str, frame: M) -> Case {
    let mut buffer = Vec::with_capacity(frame.encoded_len());
    Case::new(name, move || {
        buffer.clear();
        // It has room, and a vector grows.
        let _ = black_box(&frame).encode(&mut buffer);
        black_box(&buffer);
    })
}

fn decode<M: Message + Default + 'static>(name: &'static str, frame: &M) -> Case {
    let bytes = frame.encode_to_vec();
    Case::new(name, move || {
        let _ = black_box(M::decode(black_box(bytes.as_slice())));
    })
}

fn attempt(number: u32) -> AttemptRef {
    let run_id = format!("01JD0000000000000000{number:06}");
    AttemptRef { run_id, attempt: 1, fence: 1 }
}

fn instant() -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_800_000_000, nanos: 123_000_000 })
}

fn run_command() -> RunCommand {
    let params = Payload {
        content_type: "application/json".to_owned(),
        data: br#"{"month":"2026-11","region":"eu-west"}"#.as_slice().into(),
    };
    RunCommand {
        r#ref: Some(attempt(1)),
        job: "apps/billing/jobs/nightly-report".to_owned(),
        run: "apps/billing/runs/01JD0000000000000000000001".to_owned(),
        handler: "nightly-report".to_owned(),
        params: Some(params),
        fire_time: instant(),
        timeout: Some(Duration { seconds: 600, nanos: 0 }),
        deadline: instant(),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        kill_grace: Some(Duration { seconds: 10, nanos: 0 }),
        max_attempts: 3,
        lateness: Some(Duration { seconds: 0, nanos: 2_000_000 }),
        command_seq: 4_711,
        job_revision: 12,
        ..RunCommand::default()
    }
}

fn run_result() -> RunResult {
    RunResult {
        r#ref: Some(attempt(1)),
        outcome: Outcome::Succeeded.into(),
        output: Some(Payload {
            content_type: "text/plain".to_owned(),
            data: b"report for 2026-11 is ready".as_slice().into(),
        }),
        start_time: instant(),
        finish_time: instant(),
        duration: Some(Duration { seconds: 1, nanos: 500_000_000 }),
        last_log_seq: 42,
        ..RunResult::default()
    }
}

fn heartbeat() -> Heartbeat {
    let status = |number| AttemptStatus {
        r#ref: Some(attempt(number)),
        finished: false,
        start_time: instant(),
    };
    Heartbeat {
        seq: 77,
        attempts: (0..HELD).map(status).collect(),
        free_slots: 8,
        cpu: Some(0.25),
        memory: Some(0.5),
        last_command_seq: 4_711,
        ..Heartbeat::default()
    }
}
