//! The only reader of machine time and the only waiter in the client commands.

use std::time::Duration;

use prost_types::Timestamp;

/// This machine's time, for flags such as `--for 2h` that the contract wants as an instant.
#[allow(clippy::disallowed_methods, reason = "the client's one reader of machine time")]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Waits before a call is repeated or a lost stream is opened again.
#[allow(clippy::disallowed_methods, reason = "the client's one wait")]
pub(crate) async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}

/// An instant as the contract carries it.
pub(crate) fn to_proto(at: jiff::Timestamp) -> Timestamp {
    // jiff keeps seconds and nanoseconds of one sign; the contract wants nanoseconds from 0 up.
    let (mut seconds, mut nanos) = (at.as_second(), at.subsec_nanosecond());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    Timestamp { seconds, nanos }
}

/// An instant of the contract; `None` when it is out of the range of dates.
pub(crate) fn from_proto(at: &Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(at.seconds, at.nanos).ok()
}

/// The instant so long after another.
///
/// # Errors
/// Beyond the range of dates.
pub(crate) fn after(
    start: jiff::Timestamp,
    length: &prost_types::Duration,
) -> Result<jiff::Timestamp, String> {
    let length = jiff::SignedDuration::new(length.seconds, length.nanos);
    start.checked_add(length).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_before_1970_goes_there_and_back() {
        let at: jiff::Timestamp = "1969-12-31T23:59:58.5Z".parse().unwrap();
        let proto = to_proto(at);
        assert_eq!((proto.seconds, proto.nanos), (-2, 500_000_000));
        assert_eq!(from_proto(&proto), Some(at));
    }

    #[test]
    fn an_instant_out_of_range_is_none() {
        assert_eq!(from_proto(&Timestamp { seconds: i64::MAX, nanos: 0 }), None);
    }
}
