//! Calendars.

use clawjob_proto::v1 as pb;

use super::{etag, schedule::dates, time};
use crate::{
    api::{
        status::Violations,
        validate::{self, DISPLAY_NAME_MAX},
    },
    model::calendar::{CALENDAR_DATES_MAX, CALENDAR_WINDOWS_MAX, Calendar, CalendarSpec, Window},
};

/// Fields that a caller can't set: ignored in a request.
pub const OUTPUT_ONLY: &[&str] = &["name", "etag"];

/// Reads the content of a calendar. Every fault is added under its path below `calendar.`.
pub fn spec_from_proto(calendar: &pb::Calendar, bad: &mut Violations) -> CalendarSpec {
    validate::text("calendar.display_name", &calendar.display_name, DISPLAY_NAME_MAX, bad);
    let mut dates = dates("calendar.dates", &calendar.dates, CALENDAR_DATES_MAX, bad);
    dates.sort_unstable();
    dates.dedup();
    CalendarSpec {
        display_name: calendar.display_name.clone(),
        dates,
        weekdays: weekdays(&calendar.weekdays, bad),
        windows: windows(&calendar.windows, bad),
    }
}

fn weekdays(given: &[i32], bad: &mut Violations) -> Vec<u8> {
    let mut read = Vec::new();
    for (index, day) in given.iter().take(CALENDAR_WINDOWS_MAX).enumerate() {
        match u8::try_from(*day) {
            Ok(day @ 1..=7) => read.push(day),
            _ => bad.invalid(
                format!("calendar.weekdays[{index}]"),
                format!("{day} is no weekday; use 1 for Monday to 7 for Sunday"),
            ),
        }
    }
    read.sort_unstable();
    read.dedup();
    read
}

fn windows(given: &[pb::calendar::Window], bad: &mut Violations) -> Vec<Window> {
    if given.len() > CALENDAR_WINDOWS_MAX {
        let text = format!("has {} windows; use at most {CALENDAR_WINDOWS_MAX}", given.len());
        bad.invalid("calendar.windows", text);
        return Vec::new();
    }
    let mut read = Vec::with_capacity(given.len());
    for (index, window) in given.iter().enumerate() {
        let field = format!("calendar.windows[{index}]");
        let mut instant = |name: &str, value: &Option<prost_types::Timestamp>| {
            let field = format!("{field}.{name}");
            match value {
                Some(value) => time::instant(&field, value, bad),
                None => {
                    bad.invalid(field, "is missing; give an instant");
                    None
                }
            }
        };
        let (start, end) =
            (instant("start_time", &window.start_time), instant("end_time", &window.end_time));
        if let (Some(start), Some(end)) = (start, end) {
            if end <= start {
                let field = format!("{field}.end_time");
                bad.invalid(field, format!("is not after start_time {start}; put it later"));
            } else {
                read.push(Window { start, end });
            }
        }
    }
    read
}

/// A calendar as shown.
pub fn to_proto(calendar: &Calendar) -> pb::Calendar {
    let spec = &calendar.spec;
    let windows = spec.windows.iter().map(|window| pb::calendar::Window {
        start_time: Some(time::instant_to_proto(window.start)),
        end_time: Some(time::instant_to_proto(window.end)),
    });
    pb::Calendar {
        name: calendar.resource_name(),
        display_name: spec.display_name.clone(),
        dates: spec.dates.iter().map(ToString::to_string).collect(),
        weekdays: spec.weekdays.iter().map(|day| i32::from(*day)).collect(),
        windows: windows.collect(),
        etag: etag::of_calendar(calendar),
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::ReflectMessage as _;

    use super::*;
    use crate::{
        api::sample::{dynamic, full},
        model::ids::AppId,
    };

    #[test]
    fn every_field_of_a_calendar_is_read_and_shown() {
        let given = pb::Calendar {
            dates: vec!["2026-12-25".into()],
            weekdays: vec![6, 7],
            windows: vec![pb::calendar::Window {
                start_time: Some(prost_types::Timestamp { seconds: 100, nanos: 0 }),
                end_time: Some(prost_types::Timestamp { seconds: 200, nanos: 0 }),
            }],
            ..full::<pb::Calendar>(0)
        };
        let mut bad = Violations::new();
        let spec = spec_from_proto(&given, &mut bad);
        bad.finish().expect("nothing is wrong");
        let shown = to_proto(&Calendar {
            id: 1,
            app: AppId(1),
            app_name: "demo".into(),
            name: "holidays".into(),
            spec,
            version: 2,
        });
        let (given, shown) = (dynamic(&given), dynamic(&shown));
        for field in given.descriptor().fields() {
            if OUTPUT_ONLY.contains(&field.name()) {
                assert!(shown.has_field(&field), "{} is not shown", field.name());
            } else {
                assert_eq!(shown.get_field(&field), given.get_field(&field), "{}", field.name());
            }
        }
    }

    #[test]
    fn all_faults_are_told_at_once_with_their_place() {
        let window = |start: i64, end: i64| pb::calendar::Window {
            start_time: Some(prost_types::Timestamp { seconds: start, nanos: 0 }),
            end_time: Some(prost_types::Timestamp { seconds: end, nanos: 0 }),
        };
        let given = pb::Calendar {
            dates: vec!["2026-12-25".into(), "25.12.2026".into(), "2026-02-30".into()],
            weekdays: vec![1, 0, 8],
            windows: vec![window(5, 9), window(9, 9), pb::calendar::Window::default()],
            ..pb::Calendar::default()
        };
        let mut bad = Violations::new();
        spec_from_proto(&given, &mut bad);
        let message = bad.finish().expect_err("seven faults").message().to_owned();
        for field in [
            "calendar.dates[1]:",
            "calendar.dates[2]:",
            "calendar.weekdays[1]:",
            "calendar.weekdays[2]:",
            "calendar.windows[1].end_time:",
            "calendar.windows[2].start_time:",
            "calendar.windows[2].end_time:",
        ] {
            assert!(message.contains(field), "{field} in {message}");
        }
    }
}
