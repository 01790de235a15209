//! Instants and durations, with range checks.

use std::{ops::RangeInclusive, time::Duration};

use chrono::{DateTime, Utc};

use crate::{api::status::Violations, hub::wire::TIMESTAMP_SECONDS};

/// Reads an instant, cut to whole microseconds as they are stored.
pub fn instant(
    field: &str,
    value: &prost_types::Timestamp,
    bad: &mut Violations,
) -> Option<DateTime<Utc>> {
    let nanos = u32::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let read = nanos
        .filter(|_| TIMESTAMP_SECONDS.contains(&value.seconds))
        .and_then(|nanos| DateTime::from_timestamp(value.seconds, nanos - nanos % 1_000));
    if read.is_none() {
        bad.invalid(field, "is no instant of the years 1 to 9999");
    }
    read
}

/// Reads a duration within `bounds`.
pub fn duration(
    field: &str,
    value: &prost_types::Duration,
    bounds: RangeInclusive<Duration>,
    bad: &mut Violations,
) -> Option<Duration> {
    let read = plain(value);
    if read.is_some_and(|duration| bounds.contains(&duration)) {
        return read;
    }
    bad.invalid(
        field,
        format!(
            "must be a duration from {} to {}",
            in_words(*bounds.start()),
            in_words(*bounds.end())
        ),
    );
    None
}

/// Reads a duration that is not negative and well formed; `None` otherwise.
pub fn plain(value: &prost_types::Duration) -> Option<Duration> {
    let seconds = u64::try_from(value.seconds).ok()?;
    let nanos = u32::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// An instant as shown: one outside the contract's years is shown as their edge, since a single
/// instant that cannot be said would keep a whole answer from being given as JSON.
pub fn instant_to_proto(at: DateTime<Utc>) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.timestamp().clamp(*TIMESTAMP_SECONDS.start(), *TIMESTAMP_SECONDS.end()),
        nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or(0),
    }
}

/// A duration as shown.
pub fn duration_to_proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A long bound in days or hours, so that a reader need not count seconds.
fn in_words(duration: Duration) -> String {
    const DAY: u64 = 24 * 3600;
    match duration.as_secs() {
        _ if duration.is_zero() => "0s".to_owned(),
        seconds if seconds >= 2 * DAY && seconds % DAY == 0 => format!("{} days", seconds / DAY),
        seconds if seconds >= 3600 && seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        _ => format!("{duration:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_instants_and_durations_are_faults_and_no_panics() {
        let mut bad = Violations::new();
        for (seconds, nanos) in
            [(i64::MIN, 0), (i64::MAX, 0), (0, -1), (0, 1_000_000_000), (253_402_300_800, 0)]
        {
            let value = prost_types::Timestamp { seconds, nanos };
            assert_eq!(instant("at", &value, &mut bad), None);
        }
        for (seconds, nanos) in [(-1, 0), (1, -1), (0, i32::MAX), (i64::MAX, 0), (0, 0)] {
            let value = prost_types::Duration { seconds, nanos };
            let bounds = Duration::from_secs(1)..=Duration::from_secs(86_400);
            assert_eq!(duration("timeout", &value, bounds, &mut bad), None);
        }
        let message = bad.finish().expect_err("ten faults").message().to_owned();
        assert_eq!(message.matches("at: ").count(), 5, "{message}");
        assert_eq!(message.matches("from 1s to 24 h").count(), 5, "{message}");
        assert_eq!(in_words(Duration::ZERO), "0s");
    }

    #[test]
    fn instants_beyond_the_contracts_years_are_shown_as_their_edge() {
        for (at, edge) in [
            (DateTime::<Utc>::MAX_UTC, 253_402_300_799),
            (DateTime::<Utc>::MIN_UTC, -62_135_596_800),
        ] {
            assert_eq!(instant_to_proto(at).seconds, edge);
        }
    }

    #[test]
    fn instants_are_cut_to_microseconds() {
        let mut bad = Violations::new();
        let value = prost_types::Timestamp { seconds: 5, nanos: 123_456_789 };
        let at = instant("at", &value, &mut bad).expect("in range");
        assert_eq!(at.timestamp_subsec_nanos(), 123_456_000);
        assert_eq!(instant_to_proto(at).seconds, 5);
    }
}
