//! When a job fires: cron in three dialects, interval, delay, one instant.
//!
//! [`Schedule`] is what a job stores; [`Schedule::compile`] checks it, all faults at once, and
//! gives a [`Compiled`], whose [`Compiled::next_fire`] is a pure function of its arguments, so that
//! every node computes the same fire times.
//!
//! A cron text goes through a parser of its own (`parse`, `field`, `special`) into one normal form
//! (`spec`): sets of seconds, minutes, hours, months and years, and a day filter (`days`). The
//! `cron` crate is the finder of times within a local day (`local`), pinned to UTC: it is handed
//! wall-clock time as if that were UTC and never meets a time zone, because within a repeated hour
//! it answers with instants in the past. The days are left to the day filter, because the crate
//! knows neither `L`, `W` and `#` nor "day of month or day of week". `walk` maps local times to
//! instants over the zone's clock changes. Schedules of all kinds end with the year 2100, the last
//! one the crate knows.

mod allow;
mod days;
mod describe;
mod every;
mod fault;
mod field;
mod local;
mod parse;
mod plan;
mod preview;
mod spec;
mod special;
mod walk;
mod zone;

use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use super::calendar::Calendars;

pub use fault::{Reason, ScheduleError};
pub use plan::Compiled;
pub use preview::{PREVIEW_COUNT_MAX, Preview, preview, preview_with};
pub use zone::tzdata_version;

/// Shortest interval, delay and `@every` period.
pub const PERIOD_MIN: Duration = Duration::from_secs(1);
/// Longest interval, delay and `@every` period: 366 days.
pub const PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Longest spread: one day.
pub const SPREAD_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest cron text, in bytes.
pub const CRON_TEXT_MAX: usize = 1024;
/// Most excluded dates of one schedule.
pub const EXCLUDED_DATES_MAX: usize = 1000;
/// Last year with fire times: the last one that the cron crate knows.
const LAST_YEAR: i32 = 2100;

/// Whose cron it is: they number weekdays and join the two day fields differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Dialect {
    /// crontab: 5 fields, 0 and 7 are Sunday, day of month OR day of week.
    Unix,
    /// Quartz and what was modelled on it: 6 or 7 fields, 1 is Sunday, one day field is `?`.
    Quartz,
    /// Spring: 6 fields, 0 and 7 are Sunday, day of month AND day of week.
    Spring,
}

impl Dialect {
    /// The name in messages: `unix`, `quartz` or `spring`.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Unix => "unix",
            Dialect::Quartz => "quartz",
            Dialect::Spring => "spring",
        }
    }
}

/// What makes a job fire.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Trigger {
    /// A cron expression or a macro.
    Cron {
        /// As the user wrote it; at most [`CRON_TEXT_MAX`] bytes.
        text: String,
        /// How to read it; `None` detects it. A stored schedule carries [`Compiled::dialect`].
        dialect: Option<Dialect>,
    },
    /// Fixed rate from the anchor, [`PERIOD_MIN`] to [`PERIOD_MAX`], whole milliseconds.
    Interval(Duration),
    /// Once, at this instant.
    At(DateTime<Utc>),
    /// This long after the end of the last run, [`PERIOD_MIN`] to [`PERIOD_MAX`], whole
    /// milliseconds.
    Delay(Duration),
    /// Only by hand or after another job.
    #[default]
    None,
}

/// When a job fires, as stored with it. Plain data: equal schedules compile to the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// What makes the job fire.
    pub trigger: Trigger,
    /// IANA name of the zone whose wall clock cron and the dates follow; empty means UTC.
    pub time_zone: String,
    /// No fire time before this instant; the anchor of an interval when set.
    pub start_at: Option<DateTime<Utc>>,
    /// No fire time at or after this instant.
    pub end_at: Option<DateTime<Utc>>,
    /// Window over which the jobs of one fire time are spread, at most [`SPREAD_MAX`].
    pub spread: Duration,
    /// Local dates without fire times; at most [`EXCLUDED_DATES_MAX`].
    pub excluded_dates: Vec<NaiveDate>,
    /// Resource names of calendars of which one must cover the fire time; empty means no such rule.
    pub include_calendars: Vec<String>,
    /// Resource names of calendars whose days and windows have no fire times.
    pub exclude_calendars: Vec<String>,
}

impl Schedule {
    /// Checks the schedule and makes it ready to compute with. Loads the time zone.
    ///
    /// # Errors
    /// Every fault found, in the order of the fields. A schedule that is well formed but never
    /// fires is no fault here, see [`Compiled::check_fires`].
    pub fn compile(&self) -> Result<Compiled, Vec<ScheduleError>> {
        self.compile_with(&Calendars::default())
    }

    /// The same with the calendars that the schedule names.
    ///
    /// # Errors
    /// As [`Schedule::compile`], and each calendar that is missing.
    pub fn compile_with(&self, calendars: &Calendars) -> Result<Compiled, Vec<ScheduleError>> {
        plan::compile(self, calendars)
    }

    /// Whether calendars have a say in when it fires.
    pub fn names_calendars(&self) -> bool {
        !self.include_calendars.is_empty() || !self.exclude_calendars.is_empty()
    }
}
