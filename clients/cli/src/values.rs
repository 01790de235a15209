//! Values that flags and files share: durations, instants, pairs, params and words of enums.

use std::{collections::HashMap, fs, io::Read as _, sync::LazyLock};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clawjob_proto::v1::Payload;
use jiff::{civil, fmt::temporal::Pieces, tz::TimeZone};
use prost_types::{Duration, Timestamp};

use crate::{error::CliError, terminal::Terminal, time};

/// Largest file or stdin that is read, in bytes.
pub(crate) const INPUT_BYTES_MAX: u64 = 16 << 20;
/// Longest duration in nanoseconds: ten thousand years, the contract's own bound.
const DURATION_NANOS_MAX: u128 = 315_576_000_000 * SECOND;
/// A second in nanoseconds.
const SECOND: u128 = 1_000_000_000;

/// The units of a duration in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("w", 604_800 * SECOND),
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", SECOND / 1_000),
    ("us", SECOND / 1_000_000),
];

/// Reads `90s`, `1m30s`, `1.5h`, `500ms`, `2d`.
///
/// # Errors
/// The fault with an example, for clap and for files alike.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let fault = || format!("{text:?} is not a duration; write it like 30s, 1m30s, 2h or 500ms");
    let mut rest = text.trim();
    let mut nanos: u128 = 0;
    if rest.is_empty() {
        return Err(fault());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fault)?;
        let letters = &rest[digits..];
        let end = letters.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(letters.len());
        let (_, unit) =
            UNITS.iter().find(|(name, _)| *name == &letters[..end]).ok_or_else(fault)?;
        let part = times(&rest[..digits], *unit).ok_or_else(fault)?;
        nanos = nanos.saturating_add(part);
        if nanos > DURATION_NANOS_MAX {
            return Err(format!("{text:?} is longer than the longest duration, 10000 years"));
        }
        rest = &letters[end..];
    }
    Ok(Duration {
        seconds: i64::try_from(nanos / SECOND).map_err(|_| fault())?,
        nanos: i32::try_from(nanos % SECOND).map_err(|_| fault())?,
    })
}

/// A decimal number of units, exactly; what is below a nanosecond is cut off.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| {
        let digits = text.bytes().map(|digit| u128::from(digit - b'0'));
        digits.fold(0_u128, |sum, digit| sum.saturating_mul(10).saturating_add(digit))
    };
    let mut place = unit;
    let fraction = fraction.bytes().map(|digit| {
        place /= 10;
        place * u128::from(digit - b'0')
    });
    Some(digits(whole).saturating_mul(unit).saturating_add(fraction.sum()))
}

/// Reads an instant: RFC 3339, or a local date and time such as `2026-03-01 09:00`.
///
/// # Errors
/// The fault with an example.
pub(crate) fn instant(text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(time::to_proto(at));
    }
    let local: civil::DateTime = text.parse().map_err(|_| match Pieces::parse(text) {
        Ok(pieces) if pieces.offset().is_some() => {
            format!("{text:?} is out of range: the last instant is {}", jiff::Timestamp::MAX)
        }
        _ => format!(
            "{text:?} is not an instant; write 2026-03-01T09:00:00Z, or 2026-03-01 09:00 for \
             local time"
        ),
    })?;
    let at = local.to_zoned_datetime(zone.clone()).map_err(|e| format!("{text:?}: {e}"))?;
    Ok(time::to_proto(at.timestamp()))
}

/// Reads `key=value`.
///
/// # Errors
/// The fault with an example.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// Sets `key=value` and removes `key-` in a map; false when there is nothing to do.
pub(crate) fn edit_pairs(
    texts: &[String],
    flag: &str,
    map: &mut HashMap<String, String>,
    faults: &mut Vec<String>,
) -> bool {
    for text in texts {
        match (pair(text), text.strip_suffix('-')) {
            (Ok((key, value)), _) => {
                map.insert(key, value);
            }
            (Err(_), Some(key)) if !key.is_empty() => {
                map.remove(key);
            }
            (Err(fault), _) => faults.push(format!("{flag}: {fault}, nor KEY- to remove it")),
        }
    }
    !texts.is_empty()
}

/// JSON as a payload, in its shortest text.
pub(crate) fn payload(value: &serde_json::Value) -> Payload {
    Payload { content_type: "application/json".into(), data: value.to_string().into_bytes().into() }
}

/// Reads params: JSON, `@FILE` with JSON in it, or `-` for stdin.
///
/// # Errors
/// A file that cannot be read, or text that is no JSON, with its position.
pub(crate) fn params(text: &str, term: &mut Terminal) -> Result<Payload, CliError> {
    let (source, json) = match text.strip_prefix('@') {
        Some(path) => (format!("--params @{path}"), read_input(path, term)?),
        None if text == "-" => ("--params -".into(), read_input("-", term)?),
        None => ("--params".into(), text.into()),
    };
    let value: serde_json::Value = serde_json::from_str(&json).map_err(|e| {
        CliError::usage(format!("{source}: not JSON: {e}; text needs its quotes: '\"text\"'"))
    })?;
    Ok(payload(&value))
}

/// Reads a whole file, or stdin for `-`.
///
/// # Errors
/// What the system says, or that it is too large.
pub(crate) fn read_input(path: &str, term: &mut Terminal) -> Result<String, CliError> {
    let mut text = String::new();
    let read = if path == "-" {
        term.input.as_mut().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        fs::File::open(term.directory.join(path))
            .and_then(|file| file.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text))
    };
    match read {
        Ok(size) if size as u64 > INPUT_BYTES_MAX => {
            Err(CliError::usage(format!("{path}: larger than {INPUT_BYTES_MAX} bytes")))
        }
        Ok(_) => Ok(text),
        Err(e) => Err(CliError::usage(format!("{path}: {e}"))),
    }
}

/// The values of one enum of the contract as words for flags: `least-loaded`.
pub(crate) type Words = LazyLock<Vec<(String, i32)>>;

/// Reads the words of an enum from the contract; `name` is its full name.
pub(crate) fn words(name: &str) -> Vec<(String, i32)> {
    let Some(of) = clawjob_proto::json::pool().get_enum_by_name(name) else {
        return Vec::new();
    };
    let prefix = enum_prefix(&of);
    let values = of.values().filter(|value| value.number() != 0);
    values.map(|v| (word(v.name(), &prefix), v.number())).collect()
}

/// What all names of an enum's values begin with: its zero value's name without UNSPECIFIED.
pub(crate) fn enum_prefix(of: &prost_reflect::EnumDescriptor) -> String {
    of.default_value().name().trim_end_matches("UNSPECIFIED").into()
}

fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase().replace('_', "-")
}

/// A parser for flags that take one word of an enum.
pub(crate) fn one_of(words: &'static Words) -> impl TypedValueParser<Value = i32> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| word.as_str())).map(move |text| {
        // clap has checked it against the same list.
        words.iter().find(|(word, _)| *word == text).map_or(0, |(_, number)| *number)
    })
}

macro_rules! words_of {
    ($($name:ident = $enum:literal;)*) => {$(
        #[doc = concat!("The words of `", $enum, "`.")]
        pub(crate) static $name: Words = LazyLock::new(|| words(concat!("clawjob.v1.", $enum)));
    )*};
}
words_of! {
    ROUTES = "RouteStrategy";
    OVERLAPS = "OverlapPolicy";
    MISFIRES = "MisfirePolicy";
    DISCONNECTS = "DisconnectPolicy";
    LOSTS = "LostPolicy";
    DIALECTS = "CronDialect";
    RUN_STATES = "RunState";
    JOB_STATES = "Job.State";
    LOG_LEVELS = "LogLevel";
    ROLES = "Role";
    CONDITIONS = "AlarmRule.Condition";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let of = |text: &str| duration(text).map(|d| (d.seconds, d.nanos)).ok();
        assert_eq!(of("90s"), Some((90, 0)));
        assert_eq!(of("1m30s"), Some((90, 0)));
        assert_eq!(of("1.5h"), Some((5400, 0)));
        assert_eq!(of("500ms"), Some((0, 500_000_000)));
        assert_eq!(of("2d"), Some((172_800, 0)));
        assert_eq!(of("0s"), Some((0, 0)));
        assert_eq!(of("9999999999s"), Some((9_999_999_999, 0)));
        assert_eq!(of(".5s"), Some((0, 500_000_000)));
        assert_eq!(of("0.1s"), Some((0, 100_000_000)));
        for text in ["", "5", "s", "-5s", "5 s", "1x", "1.2.3s", "99999999999999w", "é"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn instants_are_utc_or_local() {
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        let utc = instant("2026-03-01T01:00:00Z", &zone).unwrap();
        assert_eq!(instant("2026-03-01 09:00", &zone), Ok(utc));
        assert_eq!(instant("2026-03-01T09:00:00+08:00", &zone), Ok(utc));
        assert!(instant("tomorrow", &zone).unwrap_err().contains("2026-03-01 09:00"));
        let late = instant("9999-12-31T23:59:59Z", &zone).unwrap_err();
        assert!(late.contains("the last instant is 9999-12-30T22:00:00"), "{late}");
    }

    #[test]
    fn params_are_json_or_a_file_of_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("p.json"), "{ \"a\" : 1 }").unwrap();
        let mut term = Terminal::of_process();
        term.directory = dir.path().into();
        assert_eq!(&params("@p.json", &mut term).unwrap().data[..], br#"{"a":1}"#);
        assert_eq!(&params("[1, 2]", &mut term).unwrap().data[..], b"[1,2]");
        term.input = Box::new(&b"true"[..]);
        assert_eq!(&params("-", &mut term).unwrap().data[..], b"true");
        assert_eq!(params("{a}", &mut term).unwrap_err().exit_code(), 2);
        assert_eq!(params("@missing", &mut term).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn words_come_from_the_contract() {
        assert!(ROUTES.contains(&("least-loaded".into(), 10)));
        assert!(JOB_STATES.contains(&("paused".into(), 2)));
        assert!(RUN_STATES.contains(&("timed-out".into(), 9)));
        let all = [&ROUTES, &OVERLAPS, &MISFIRES, &DISCONNECTS, &LOSTS, &DIALECTS, &RUN_STATES];
        assert!(all.iter().chain(&[&LOG_LEVELS, &ROLES]).all(|words| !words.is_empty()));
    }
}
