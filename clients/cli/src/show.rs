//! Cells of tables: instants in the local zone with its offset, durations and states for people.

use std::collections::HashMap;

use clawjob_proto::v1::{Payload, RunState};
use comfy_table::Color;
use jiff::tz::TimeZone;
use prost_types::{Duration, Timestamp};

use crate::{names, text, time};

/// A cell's text, safe for a terminal, and its colour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// What is shown.
    pub(crate) text: String,
    /// Only on a terminal that may be coloured.
    pub(crate) colour: Option<Color>,
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text::line(text.as_ref()).into_owned(), colour: None }
    }
}

impl Cell {
    /// Text that may have several lines, for a field of one thing: a list has a line for each.
    pub(crate) fn lines(text: &str) -> Cell {
        Cell { text: text::block(text, "").into_owned(), colour: None }
    }
}

/// An instant, `2026-03-01 09:00:00+08:00`; empty when absent.
pub(crate) fn instant(at: Option<&Timestamp>, zone: &TimeZone) -> String {
    let Some(at) = at else { return String::new() };
    match time::from_proto(at) {
        Some(at) => at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string(),
        None => format!("{} s after 1970", at.seconds),
    }
}

/// A duration, `1.2s`, `3m05s`, `2h03m`, `4d01h`; empty when absent.
pub(crate) fn duration(length: Option<&Duration>) -> String {
    length.map(|d| spell(f64::from(d.nanos) / 1e9 + d.seconds as f64)).unwrap_or_default()
}

/// The time from one instant to another; empty unless both are known.
pub(crate) fn between(from: Option<&Timestamp>, to: Option<&Timestamp>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => {
            let seconds = to.seconds.saturating_sub(from.seconds) as f64;
            spell(seconds + f64::from(to.nanos.saturating_sub(from.nanos)) / 1e9)
        }
        _ => String::new(),
    }
}

fn spell(seconds: f64) -> String {
    let (sign, seconds) = if seconds < 0.0 { ("-", -seconds) } else { ("", seconds) };
    // Rounded to whole seconds first where only those are shown, lest 59.9 s be 60s.
    let whole = seconds.round() as u64;
    let text = match whole {
        _ if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        0..10 if (seconds * 10.0).round() % 10.0 != 0.0 => format!("{seconds:.1}s"),
        0..60 => format!("{whole}s"),
        60..3_600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h{:02}m", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole % 86_400 / 3_600),
    };
    format!("{sign}{text}")
}

/// The value of an enum without its prefix, or its number when this build does not know it.
pub(crate) fn word(name: Option<&str>, prefix: &str, number: i32) -> String {
    match name {
        Some(name) => match name.strip_prefix(prefix).unwrap_or(name) {
            "UNSPECIFIED" => String::new(),
            word => word.into(),
        },
        None => number.to_string(),
    }
}

/// Shows an enum of the contract: `word_of!(Role, "ROLE_", grant.role)`.
macro_rules! word_of {
    ($enum:ty, $prefix:literal, $number:expr) => {{
        let number: i32 = $number;
        let known = <$enum>::try_from(number).ok();
        $crate::show::word(known.as_ref().map(<$enum>::as_str_name), $prefix, number)
    }};
}
pub(crate) use word_of;

/// A run's state without prefix.
pub(crate) fn run_state(number: i32) -> String {
    word_of!(RunState, "RUN_STATE_", number)
}

/// A run's state in its colour.
pub(crate) fn run_state_cell(number: i32) -> Cell {
    let colour = match RunState::try_from(number) {
        Ok(RunState::Succeeded) => Some(Color::Green),
        Ok(RunState::Failed | RunState::TimedOut | RunState::Lost) => Some(Color::Red),
        Ok(RunState::Running) => Some(Color::Cyan),
        Ok(RunState::RetryWait | RunState::Canceling | RunState::Canceled) => Some(Color::Yellow),
        _ => None,
    };
    Cell { colour, ..Cell::from(run_state(number)) }
}

/// Whether a state never changes again.
pub(crate) fn is_final(number: i32) -> bool {
    use RunState::{Canceled, Failed, Lost, Skipped, Succeeded, TimedOut};
    let state = RunState::try_from(number);
    matches!(state, Ok(Succeeded | Failed | Canceled | TimedOut | Lost | Skipped))
}

/// `a=1, b=2` in the order of the keys.
pub(crate) fn labels(labels: &HashMap<String, String>) -> String {
    let mut pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.sort();
    pairs.join(", ")
}

/// A payload's text, or its type and size when it is none.
pub(crate) fn payload(payload: Option<&Payload>) -> String {
    let Some(payload) = payload else { return String::new() };
    match std::str::from_utf8(&payload.data) {
        Ok(text) if !text.is_empty() => text.into(),
        _ => format!("{} ({} bytes)", payload.content_type, payload.data.len()),
    }
}

/// Short names, comma separated.
pub(crate) fn short_names(names: &[String]) -> String {
    names.iter().map(|name| names::short(name)).collect::<Vec<_>>().join(", ")
}

/// A count with what is counted: `1 record`, `2 records`.
pub(crate) fn counted(number: impl Into<u64>, one: &str) -> String {
    match number.into() {
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    }
}

/// A count, empty for 0, which the contract reads as "none".
pub(crate) fn count(number: impl Into<u64>) -> String {
    let number = number.into();
    if number == 0 { String::new() } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_counted_in_the_singular() {
        let shown = [0_u32, 1, 2].map(|number| counted(number, "fire time"));
        assert_eq!(shown, ["0 fire times", "1 fire time", "2 fire times"]);
    }

    #[test]
    fn instants_show_the_local_time_with_its_offset() {
        let at = Timestamp { seconds: 1_772_326_800, nanos: 0 };
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        assert_eq!(instant(Some(&at), &zone), "2026-03-01 09:00:00+08:00");
        assert_eq!(instant(Some(&at), &TimeZone::UTC), "2026-03-01 01:00:00+00:00");
        assert_eq!(instant(None, &zone), "");
        instant(Some(&Timestamp { seconds: i64::MAX, nanos: 0 }), &zone);
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (0.012, "12ms"),
            (1.24, "1.2s"),
            (59.6, "1m00s"),
            (185.0, "3m05s"),
            (7_380.0, "2h03m"),
            (349_200.0, "4d01h"),
            (5.0, "5s"),
            (-2.0, "-2s"),
        ] {
            assert_eq!(spell(seconds), text);
        }
    }

    #[test]
    fn states_lose_their_prefix_and_unknown_ones_show_their_number() {
        assert_eq!(run_state(9), "TIMED_OUT");
        assert_eq!(run_state(0), "");
        assert_eq!(run_state(99), "99");
        assert!(is_final(9) && !is_final(5) && !is_final(12) && !is_final(99));
    }

    #[test]
    fn a_cell_never_carries_a_control_character() {
        assert_eq!(Cell::from("a\x1b]0;x\x07").text, "a\\u{1b}]0;x\\u{7}");
    }
}
