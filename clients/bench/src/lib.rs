//! What the load generator and the torture harness share. Both start what they need as processes of
//! their own and speak to them as anybody would: by the contract, by signals, by /proc. Only `hot`
//! calls the scheduler's library.

#![allow(clippy::disallowed_methods, reason = "it measures real processes in real time")]

pub mod admin;
pub mod host;
pub mod hot;
pub mod instructions;
pub mod load;
pub mod meter;
pub mod node;
pub mod plot;
pub mod postgres;
pub mod profile;
pub mod relay;
pub mod row;
pub mod rows;
pub mod swarm;
pub mod torture;

/// Microseconds since 1970 by this machine's clock.
#[must_use]
pub fn now_us() -> i64 {
    chrono::Utc::now().timestamp_micros()
}
