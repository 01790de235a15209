//! The one place of this crate that reads machine time and sleeps, and the conversions between
//! std's and the contract's instants and durations.

use std::time::{Duration, Instant, SystemTime};

/// One reading of both clocks: monotonic for every decision, wall for what is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Monotonic.
    pub(crate) mono: Instant,
    /// Wall.
    pub(crate) wall: SystemTime,
}

/// Reads both clocks.
#[allow(clippy::disallowed_methods, reason = "the SDK's own reader of machine time")]
pub(crate) fn now() -> Now {
    Now { mono: Instant::now(), wall: SystemTime::now() }
}

/// Sleeps until `at`; for ever without one.
#[allow(clippy::disallowed_methods, reason = "the SDK's own timer")]
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(tokio::time::Instant::from_std(at)).await,
        None => std::future::pending().await,
    }
}

/// Sleeps for `span`.
#[cfg(all(feature = "agent", unix))]
#[allow(clippy::disallowed_methods, reason = "the SDK's own timer")]
pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Wall time as the contract's timestamp.
pub(crate) fn timestamp(at: SystemTime) -> prost_types::Timestamp {
    at.into()
}

/// A duration as the contract's; what does not fit becomes the longest that does.
pub(crate) fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

/// The contract's duration as std's; absent, negative and malformed ones are `None`.
pub(crate) fn std_duration(span: Option<&prost_types::Duration>) -> Option<Duration> {
    let span = span?;
    let seconds = u64::try_from(span.seconds).ok()?;
    let nanos = u32::try_from(span.nanos).ok()?;
    (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
}

/// The contract's timestamp as UTC; `None` when absent or out of chrono's range.
pub(crate) fn utc(at: Option<&prost_types::Timestamp>) -> Option<chrono::DateTime<chrono::Utc>> {
    let at = at?;
    chrono::DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?)
}
