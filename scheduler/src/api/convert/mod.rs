//! Between the contract's messages and the model.
//!
//! Reading a message collects every fault under the path of its field. Defaults: an absent optional
//! value (a duration, `max_queued` 0 …) is stored and shown as absent, so that a later change of the
//! server's default reaches the job; enums and the retry policy are shown as they take effect.

pub mod calendar;
pub mod etag;
pub mod job;
pub mod names;
pub mod run;
pub mod schedule;
pub mod time;

use clawjob_proto::v1 as pb;

use crate::{api::status::Violations, model::Payload};

/// Longest media type, in bytes.
pub const CONTENT_TYPE_MAX: usize = 127;
/// Media type of a payload that names none.
pub const CONTENT_TYPE_DEFAULT: &str = "application/json";

/// Reads params: at most `max` bytes, and valid JSON where they say so.
pub fn params(field: &str, payload: &pb::Payload, max: u32, bad: &mut Violations) -> Payload {
    let content_type = match payload.content_type.as_str() {
        "" => CONTENT_TYPE_DEFAULT.to_owned(),
        given => given.to_owned(),
    };
    let plain = content_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if content_type.len() > CONTENT_TYPE_MAX || !plain {
        bad.invalid(
            format!("{field}.content_type"),
            format!("is no media type of at most {CONTENT_TYPE_MAX} ASCII characters"),
        );
    }
    if payload.data.len() > max as usize {
        bad.add(
            format!("{field}.data"),
            "PARAMS_TOO_LARGE",
            format!(
                "has {} bytes, at most {max} are taken; pass a reference to the data instead",
                payload.data.len()
            ),
        );
    } else if content_type == CONTENT_TYPE_DEFAULT
        && !payload.data.is_empty()
        && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&payload.data)
    {
        bad.invalid(
            format!("{field}.data"),
            format!("is not JSON ({error}); correct it or name another content_type"),
        );
    }
    Payload { content_type, data: payload.data.clone() }
}

/// A payload as shown.
pub fn payload_to_proto(payload: &Payload) -> pb::Payload {
    pb::Payload { content_type: payload.content_type.clone(), data: payload.data.clone() }
}

/// Reads an enum by its number; an unknown number is a fault and reads as the default.
fn enum_value<E: TryFrom<i32> + Default>(field: &str, number: i32, bad: &mut Violations) -> E {
    E::try_from(number).unwrap_or_else(|_| {
        bad.invalid(field, format!("{number} is no value of this enum"));
        E::default()
    })
}
