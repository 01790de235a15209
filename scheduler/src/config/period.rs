//! Times as people write them in a configuration: read in any unit, printed in the largest that they
//! are whole in.

use std::time::Duration;

pub(super) use humantime_serde::deserialize;
use serde::Serializer;

/// Units by their nanoseconds, the largest first.
const UNITS: [(u128, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// As `365d`, `90s`.
pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    let ns = time.as_nanos();
    let whole = UNITS.iter().find(|(unit, _)| ns.is_multiple_of(*unit));
    match whole.filter(|_| ns > 0) {
        Some((unit, name)) => to.collect_str(&format_args!("{}{name}", ns / unit)),
        None => to.serialize_str("0s"),
    }
}
