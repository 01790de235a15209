//! What the scheduler says, in short.

use bytes::{Buf as _, Bytes};
use clawjob_proto::v1::{
    self, AttemptRef, Payload, RunCommand, SessionResponse, Welcome,
    session_response::Frame as Down,
};
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// A field that no release knows: number 1000, the text `later`.
const LATER_FIELD: [u8; 8] = [0xc2, 0x3e, 5, b'l', b'a', b't', b'e', b'r'];

/// The contract's duration from milliseconds.
#[must_use]
pub fn ms(millis: u64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: (millis / 1000).cast_signed(),
        nanos: (millis % 1000) as i32 * 1_000_000,
    }
}

/// The contract's instant from whole seconds since 1970.
#[must_use]
pub fn at(seconds: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds, nanos: 0 }
}

/// A Welcome with quick heartbeats and the contract's limits. Silence is borne for long, so that a
/// busy machine ends no session; a scenario about silence says so itself.
#[must_use]
pub fn welcome() -> Welcome {
    Welcome {
        session_id: "s".to_owned(),
        session_epoch: 1,
        resume_token: "resume".to_owned(),
        node_id: "node".to_owned(),
        heartbeat_interval: Some(ms(200)),
        heartbeat_timeout: Some(ms(30_000)),
        lost_after: Some(ms(120_000)),
        run_ack_timeout: Some(ms(5_000)),
        max_frame_bytes: 1024 * 1024,
        max_output_bytes: 256 * 1024,
        max_log_chunk_bytes: 64 * 1024,
        log_window_bytes: 256 * 1024,
        ..Welcome::default()
    }
}

/// A command for attempt 1 of a run; no params when they are empty.
#[must_use]
pub fn command(run_id: &str, handler: &str, params: &str) -> RunCommand {
    RunCommand {
        r#ref: Some(attempt(run_id, 1, 1)),
        job: "apps/demo/jobs/j".to_owned(),
        run: format!("apps/demo/runs/{run_id}"),
        handler: handler.to_owned(),
        params: (!params.is_empty()).then(|| json(params)),
        fire_time: Some(at(1_700_000_000)),
        kill_grace: Some(ms(30_000)),
        max_attempts: 3,
        ..RunCommand::default()
    }
}

/// A reference to an attempt.
#[must_use]
pub fn attempt(run_id: &str, attempt: u32, fence: u64) -> AttemptRef {
    AttemptRef { run_id: run_id.to_owned(), attempt, fence }
}

/// A payload of JSON.
#[must_use]
pub fn json(text: &str) -> Payload {
    Payload {
        content_type: "application/json".to_owned(),
        data: Bytes::copy_from_slice(text.as_bytes()),
    }
}

/// The JSON value in a payload; null when there is none.
///
/// # Panics
/// When the payload is not JSON.
#[must_use]
pub fn value(payload: Option<&Payload>) -> serde_json::Value {
    payload.map_or(serde_json::Value::Null, |payload| {
        assert_eq!(payload.content_type, "application/json");
        serde_json::from_slice(&payload.data).unwrap()
    })
}

/// A frame as bytes.
#[must_use]
pub fn encoded(frame: Down) -> Bytes {
    SessionResponse { frame: Some(frame) }.encode_to_vec().into()
}

/// A frame whose kind nobody knows.
#[must_use]
pub fn unknown_arm() -> Bytes {
    Bytes::from_static(&LATER_FIELD)
}

/// A frame as a later release might send it.
#[must_use]
pub fn with_later_fields(frame: Down) -> Bytes {
    laden(encoded(frame))
}

/// A request or response with a frame; fields that nobody knows are added in it and beside it.
///
/// # Panics
/// When it has no frame.
#[must_use]
pub fn laden(message: Bytes) -> Bytes {
    let mut rest = message;
    let (arm, _) = decode_key(&mut rest).unwrap();
    let length = decode_varint(&mut rest).unwrap();
    assert_eq!(length as usize, rest.remaining());
    let mut out = Vec::new();
    encode_key(arm, WireType::LengthDelimited, &mut out);
    encode_varint(length + LATER_FIELD.len() as u64, &mut out);
    out.extend_from_slice(&rest);
    out.extend_from_slice(&LATER_FIELD);
    out.extend_from_slice(&LATER_FIELD);
    out.into()
}

/// An order to stop attempt 1 of a run.
#[must_use]
pub fn kill(run_id: &str, fence: u64, grace_ms: u64) -> v1::KillCommand {
    v1::KillCommand {
        r#ref: Some(attempt(run_id, 1, fence)),
        reason: v1::KillReason::User.into(),
        grace: Some(ms(grace_ms)),
        ..v1::KillCommand::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_with_later_fields_is_read_as_the_frame() {
        let frame = Down::Run(command("R1", "echo", "1"));
        let read = SessionResponse::decode(with_later_fields(frame.clone())).unwrap();
        assert_eq!(read.frame, Some(frame));
        assert_eq!(SessionResponse::decode(unknown_arm()).unwrap().frame, None);
    }
}
