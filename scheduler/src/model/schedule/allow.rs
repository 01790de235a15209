//! Which instants a schedule may fire at: excluded dates, and calendars that include or exclude.

use std::{collections::BTreeSet, sync::Arc};

use chrono::{DateTime, Datelike, NaiveDate};

use super::fault::{Reason, ScheduleError, quote};
use super::zone::Zone;
use super::{LAST_YEAR, Schedule};
use crate::model::calendar::{Calendars, Coverage, SCHEDULE_CALENDARS_MAX};

/// Seconds of a day of the wall clock without a clock change.
const DAY: i64 = 86_400;
/// Closed days that one step passes at most.
const DAYS_PER_STEP_MAX: i64 = 400;

/// What keeps a schedule from firing at some of its times.
#[derive(Debug, Clone, Default)]
pub(super) struct Allow {
    excluded: BTreeSet<NaiveDate>,
    include: Vec<Arc<Coverage>>,
    exclude: Vec<Arc<Coverage>>,
}

impl Allow {
    /// Of a schedule, with the calendars that it names.
    ///
    /// # Errors
    /// Each calendar that is not there, and more of them than may be.
    pub(super) fn of(
        schedule: &Schedule,
        calendars: &Calendars,
    ) -> Result<Self, Vec<ScheduleError>> {
        let mut faults = Vec::new();
        let mut resolve = |field: &'static str, names: &[String]| {
            if names.len() > SCHEDULE_CALENDARS_MAX {
                let message = format!(
                    "has {} calendars, at most {SCHEDULE_CALENDARS_MAX} are taken; put their days \
                     into one",
                    names.len()
                );
                faults.push(ScheduleError::new(field, Reason::OutOfRange, message));
                return Vec::new();
            }
            let mut found = Vec::with_capacity(names.len());
            for name in names {
                match calendars.get(name) {
                    Some(coverage) => found.push(coverage.clone()),
                    None => {
                        let message = format!(
                            "{} is no calendar that you may read; write apps/{{app}}/calendars/\
                             {{calendar}} of one that exists",
                            quote(name)
                        );
                        faults.push(ScheduleError::new(field, Reason::CalendarUnknown, message));
                    }
                }
            }
            found
        };
        let include = resolve("include_calendars", &schedule.include_calendars);
        let exclude = resolve("exclude_calendars", &schedule.exclude_calendars);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { excluded: schedule.excluded_dates.iter().copied().collect(), include, exclude })
    }

    /// Whether nothing is kept from firing.
    pub(super) fn everything(&self) -> bool {
        self.excluded.is_empty() && self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether calendars have a say.
    pub(super) fn has_calendars(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    /// `None` when the instant is allowed; else an instant, later than this one, before which no
    /// other is. Both in milliseconds since 1970.
    pub(super) fn closed_until(&self, at: i64, zone: &Zone) -> Option<i64> {
        let second = at.div_euclid(1000);
        let local = second + zone.offset_at(second);
        let date = DateTime::from_timestamp(local, 0)?.date_naive();
        if !self.closed_on(date) {
            let ends = self.exclude.iter().filter_map(|calendar| calendar.window_end(at));
            return ends.max();
        }
        let opened = self.include.iter().any(|calendar| calendar.window_end(at).is_some());
        if opened && !self.excluded_on(date) {
            let ends = self.exclude.iter().filter_map(|calendar| calendar.window_end(at));
            return ends.max();
        }
        let mut days = 1;
        let mut next = date.succ_opt();
        // A window that is open already may open the next day.
        while let Some(day) = next
            && !opened
            && days < DAYS_PER_STEP_MAX
            && day.year() <= LAST_YEAR
            && self.closed_on(day)
        {
            days += 1;
            next = day.succ_opt();
        }
        // As far as the clock is where it was, the day ends where the wall clock says; else it is
        // asked again at the next change.
        let day_end = second + days * DAY - local.rem_euclid(DAY);
        let same_clock = zone.offset_at(day_end) == local - second;
        let next_change = || zone.changes_after(second).next().map(|change| change.at);
        let change = if same_clock { None } else { next_change() };
        let until = change.map_or(day_end, |at| at.min(day_end)).saturating_mul(1000);
        let opens = self.include.iter().filter_map(|calendar| calendar.next_window(at)).min();
        Some(opens.map_or(until, |opens| opens.min(until)))
    }

    /// Whether the date is shut out as a whole, whatever includes it.
    fn excluded_on(&self, date: NaiveDate) -> bool {
        self.excluded.contains(&date)
            || self.exclude.iter().any(|calendar| calendar.covers_date(date))
    }

    /// Whether the date is closed, but for windows that open part of it.
    fn closed_on(&self, date: NaiveDate) -> bool {
        self.excluded_on(date)
            || (!self.include.is_empty()
                && !self.include.iter().any(|calendar| calendar.covers_date(date)))
    }
}
