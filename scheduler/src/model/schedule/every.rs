//! The duration of `@every`, in Go's form: `1h30m`, `1.5h`, `90s`.

use super::{PERIOD_MAX, PERIOD_MIN};

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Whole seconds of a duration in Go's form; what is below a second is cut off, as there.
///
/// # Errors
/// What is wrong with it, without its place.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    const FORM: &str = "write a duration such as 90s, 15m or 1h30m";
    if text.is_empty() {
        return Err(format!("needs a duration; {FORM}"));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut nanos: u128 = 0;
    if rest.is_empty() {
        return Err(format!("has no number; {FORM}"));
    }
    while !rest.is_empty() {
        let (part, left) = parse_part(rest).ok_or_else(|| {
            format!("is no duration; {FORM} (units h, m, s, ms, no spaces, no days)")
        })?;
        rest = left;
        nanos = nanos.saturating_add(part);
    }
    let seconds = nanos / 1_000_000_000;
    if seconds < u128::from(PERIOD_MIN.as_secs()) {
        return Err("is shorter than 1 s; the bounds are 1 s and 366 days (8784h)".to_owned());
    }
    match u64::try_from(seconds) {
        Ok(whole) if nanos <= PERIOD_MAX.as_nanos() => Ok(whole),
        _ => Err("is longer than 366 days (8784h); the bounds are 1 s and 366 days".to_owned()),
    }
}

/// One number with its unit, in nanoseconds, and what follows it. A number too large for the
/// arithmetic counts as the largest one, which the caller refuses.
fn parse_part(text: &str) -> Option<(u128, &str)> {
    let whole_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole_end);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            after.split_at(end)
        }
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let scale = u128::from(*scale);
    let mut nanos = digits(whole).saturating_mul(scale);
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.saturating_add(place * u128::from(digit - b'0'));
    }
    Some((nanos, rest))
}

fn digits(text: &str) -> u128 {
    text.bytes()
        .fold(0u128, |sum, digit| sum.saturating_mul(10).saturating_add(u128::from(digit - b'0')))
}
