//! Who did what: the audit log's events.

use std::{fmt, str::FromStr};

use chrono::{DateTime, Utc};
use ulid::Ulid;

/// An event's ULID: sorts by its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuditId(pub Ulid);

impl AuditId {
    /// A fresh one. Of one instant those of the greater sequence number come later; `random` tells
    /// those of several processes apart.
    pub fn new(at: DateTime<Utc>, sequence: u32, random: u32) -> Self {
        const SEQUENCE_SHIFT: u32 = 48;
        let tail = u128::from(sequence) << SEQUENCE_SHIFT | u128::from(random);
        Self(Ulid::from_parts(ms(at), tail))
    }

    /// The smallest id of the given instant: bounds a search by time.
    pub fn first_at(at: DateTime<Utc>) -> Self {
        Self(Ulid::from_parts(ms(at), 0))
    }

    /// The 16 bytes as stored.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.0.to_be_bytes()
    }

    /// From the 16 stored bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Ulid(u128::from_be_bytes(bytes)))
    }
}

fn ms(at: DateTime<Utc>) -> u64 {
    u64::try_from(at.timestamp_millis()).unwrap_or(0)
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AuditId {
    type Err = ulid::DecodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ulid::from_string(text).map(Self)
    }
}

/// A change that was asked for, or a sign-in. It never has a value that somebody set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Its id.
    pub id: AuditId,
    /// When it was asked for.
    pub at: DateTime<Utc>,
    /// The app that the resource is in; empty when it is in none.
    pub app: String,
    /// Who.
    pub principal: String,
    /// `Service/Method`.
    pub method: String,
    /// Full name of what it was about; empty when it was about nothing that has one.
    pub resource: String,
    /// The request's id.
    pub request_id: String,
    /// Where it came from.
    pub peer_address: String,
    /// gRPC status code of the answer; 2 (UNKNOWN) as long as there is none.
    pub code: i32,
    /// Paths of the fields that the request set.
    pub changed_fields: Vec<String>,
}
