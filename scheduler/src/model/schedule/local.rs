//! Finds matching local times. Local time is seconds since 1970 as if the wall clock showed UTC.

use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate, Utc};

use super::LAST_YEAR;
use super::spec::{Spec, members};

/// Fire times begin with 1970.
const FIRST_LOCAL: i64 = 0;
const DAY: i64 = 86_400;

/// A cron expression, ready to search.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    pub(super) spec: Spec,
    /// The times of a day, each day; the crate's calendar has no part in it.
    clock: cron::Schedule,
    /// Second of the day of its first time.
    first: i64,
}

impl Finder {
    /// # Errors
    /// What the crate says, should it refuse the normal form.
    pub(super) fn new(spec: Spec) -> Result<Self, String> {
        let text = format!(
            "{} {} {} * * *",
            list(spec.seconds, 60),
            list(spec.minutes, 60),
            list(spec.hours, 24)
        );
        let clock = cron::Schedule::from_str(&text).map_err(|error| error.to_string())?;
        let least = |set: u64| i64::from(set.trailing_zeros());
        let first = least(spec.hours) * 3600 + least(spec.minutes) * 60 + least(spec.seconds);
        Ok(Self { spec, clock, first })
    }

    /// The first matching local time strictly after `local`; `None` when there is none before the
    /// end of 2100. Looks at each month once: a few µs at worst.
    pub(super) fn next(&self, local: i64) -> Option<i64> {
        let local = local.max(FIRST_LOCAL - 1);
        let midnight = local - local.rem_euclid(DAY);
        let date = DateTime::from_timestamp(midnight, 0)?.date_naive();
        if self.day_matches(date)
            && let Some(time) = self.later_that_day(local, midnight)
        {
            return Some(time);
        }
        let day = self.next_day(date)?;
        Some(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp() + self.first)
    }

    /// Whether some time of this date matches.
    fn day_matches(&self, date: NaiveDate) -> bool {
        (self.spec.days.is_every_day()
            || self.spec.days.bits(date.year(), date.month()) >> date.day() & 1 == 1)
            && self.spec.months >> date.month() & 1 == 1
            && self.spec.years.contains(date.year())
            && date.year() <= LAST_YEAR
    }

    fn later_that_day(&self, local: i64, midnight: i64) -> Option<i64> {
        if local < midnight + self.first {
            return Some(midnight + self.first);
        }
        let after: DateTime<Utc> = DateTime::from_timestamp(local, 0)?;
        let time = self.clock.after(&after).next()?.timestamp();
        (time > local && time < midnight + DAY).then_some(time)
    }

    /// The first matching date after this one.
    fn next_day(&self, date: NaiveDate) -> Option<NaiveDate> {
        let (mut year, mut month) = (date.year(), date.month());
        // Days up to this one are over.
        let mut left = u32::MAX.checked_shl(date.day() + 1).unwrap_or(0);
        while year <= LAST_YEAR {
            if !self.spec.years.contains(year) {
                (year, month, left) = (year + 1, 1, u32::MAX);
                continue;
            }
            if self.spec.months >> month & 1 == 1 {
                let days = self.spec.days.bits(year, month) & left;
                if days != 0 {
                    return NaiveDate::from_ymd_opt(year, month, days.trailing_zeros());
                }
            }
            left = u32::MAX;
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
        None
    }
}

/// A set as the crate reads it.
fn list(set: u64, values: u32) -> String {
    if set.count_ones() == values {
        return "*".to_owned();
    }
    members(set).map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}
