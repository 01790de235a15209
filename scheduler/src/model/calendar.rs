//! Calendars: named sets of days, and of stretches of time, that schedules include or exclude.

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use super::ids::AppId;

/// Dates of one calendar at most: ten years of days.
pub const CALENDAR_DATES_MAX: usize = 3_660;
/// Windows of one calendar at most.
pub const CALENDAR_WINDOWS_MAX: usize = 1_000;
/// Calendars that one schedule includes at most, and as many that it excludes.
pub const SCHEDULE_CALENDARS_MAX: usize = 8;
/// Jobs that use one calendar at most: a change of it plans all of them anew in one transaction.
pub const CALENDAR_JOBS_MAX: usize = 10_000;

/// A stretch of time, the start included and the end not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Window {
    /// Its first instant.
    pub start: DateTime<Utc>,
    /// The first instant after it.
    pub end: DateTime<Utc>,
}

/// The content of a calendar. A moment is covered when its local date is listed, when its local
/// weekday is, or when it lies in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CalendarSpec {
    /// Shown instead of the id.
    pub display_name: String,
    /// Dates, read in the time zone of the schedule that uses it; in order, each once.
    pub dates: Vec<NaiveDate>,
    /// 1 Monday to 7 Sunday, each week; in order, each once.
    pub weekdays: Vec<u8>,
    /// Windows, as given.
    pub windows: Vec<Window>,
}

/// A calendar as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Row id.
    pub id: i64,
    /// Its app's row id.
    pub app: AppId,
    /// Its app's name.
    pub app_name: String,
    /// Its own name within the app.
    pub name: String,
    /// What it covers.
    pub spec: CalendarSpec,
    /// Grows with every change: the etag.
    pub version: u64,
}

impl Calendar {
    /// Resource name `apps/{app}/calendars/{calendar}`.
    pub fn resource_name(&self) -> String {
        format!("apps/{}/calendars/{}", self.app_name, self.name)
    }
}

/// What a calendar covers, ready to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// In order.
    dates: Vec<NaiveDate>,
    /// Bits 1 (Monday) to 7.
    weekdays: u8,
    /// In milliseconds since 1970; in order, apart from each other.
    windows: Vec<(i64, i64)>,
}

/// The calendars that a job's schedules name, by resource name. One that does not exist is missing.
pub type Calendars = Arc<BTreeMap<String, Arc<Coverage>>>;

impl Coverage {
    /// Of a calendar's content.
    pub fn new(spec: &CalendarSpec) -> Self {
        let mut dates = spec.dates.clone();
        dates.sort_unstable();
        dates.dedup();
        let weekdays = spec.weekdays.iter().filter(|day| (1..=7).contains(*day));
        let millis = |at: DateTime<Utc>| at.timestamp_millis();
        let mut given: Vec<_> =
            spec.windows.iter().map(|window| (millis(window.start), millis(window.end))).collect();
        given.retain(|(start, end)| start < end);
        given.sort_unstable();
        let mut windows: Vec<(i64, i64)> = Vec::with_capacity(given.len());
        for (start, end) in given {
            match windows.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => windows.push((start, end)),
            }
        }
        Self { dates, weekdays: weekdays.fold(0, |bits, day| bits | 1 << day), windows }
    }

    /// Whether all of the date is covered, by its date or its weekday.
    pub fn covers_date(&self, date: NaiveDate) -> bool {
        self.weekdays >> date.weekday().number_from_monday() & 1 == 1
            || self.dates.binary_search(&date).is_ok()
    }

    /// The end of the window that covers the instant, both in milliseconds since 1970.
    pub fn window_end(&self, at: i64) -> Option<i64> {
        let after = self.windows.partition_point(|(start, _)| *start <= at);
        let (_, end) = self.windows.get(after.checked_sub(1)?)?;
        (at < *end).then_some(*end)
    }

    /// The start of the first window after the instant, both in milliseconds since 1970.
    pub fn next_window(&self, at: i64) -> Option<i64> {
        let after = self.windows.partition_point(|(start, _)| *start <= at);
        self.windows.get(after).map(|(start, _)| *start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).expect("in range")
    }

    fn window(start: i64, end: i64) -> Window {
        Window { start: at(start), end: at(end) }
    }

    #[test]
    fn dates_and_weekdays_cover_whole_days() {
        let day = |text: &str| text.parse::<NaiveDate>().expect("a date");
        let coverage = Coverage::new(&CalendarSpec {
            dates: vec![day("2026-12-25"), day("2026-01-01"), day("2026-12-25")],
            weekdays: vec![6, 7],
            ..CalendarSpec::default()
        });
        for covered in ["2026-12-25", "2026-01-01", "2026-01-03", "2026-01-04"] {
            assert!(coverage.covers_date(day(covered)), "{covered}");
        }
        for open in ["2026-12-24", "2026-01-02", "2026-01-05"] {
            assert!(!coverage.covers_date(day(open)), "{open}");
        }
    }

    #[test]
    fn windows_that_touch_or_overlap_are_one_and_their_end_is_outside() {
        let windows = vec![window(50, 60), window(10, 20), window(20, 30), window(15, 25)];
        let coverage = Coverage::new(&CalendarSpec { windows, ..CalendarSpec::default() });
        assert_eq!(coverage.windows, [(10_000, 30_000), (50_000, 60_000)]);
        assert_eq!(coverage.window_end(9_999), None);
        assert_eq!(coverage.window_end(10_000), Some(30_000));
        assert_eq!(coverage.window_end(29_999), Some(30_000));
        assert_eq!(coverage.window_end(30_000), None);
        assert_eq!(coverage.next_window(30_000), Some(50_000));
        assert_eq!(coverage.next_window(50_000), None);
    }
}
