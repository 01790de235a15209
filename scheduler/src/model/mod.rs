//! Values and rules: no I/O, no async, no clock.

pub mod alarm;
pub mod app;
pub mod audit;
pub mod backfill;
pub mod calendar;
pub mod executor;
pub mod follow;
pub mod forecast;
pub mod ids;
pub mod job;
pub mod log;
pub mod misfire;
pub mod plan;
pub mod principal;
pub mod retry;
pub mod route;
pub mod run;
pub mod schedule;
pub mod shards;
pub mod shared;
pub mod transition;
pub mod words;

use serde::{Deserialize, Serialize};

/// Opaque bytes with a media type, as handlers take and give them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Media type; JSON is `application/json`.
    pub content_type: String,
    /// The bytes, kept as base64 in stored specs.
    #[serde(with = "base64_bytes")]
    pub data: bytes::Bytes,
}

mod base64_bytes {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(data: &bytes::Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(data))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<bytes::Bytes, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map(Into::into).map_err(D::Error::custom)
    }
}
