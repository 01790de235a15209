//! When a job fires.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

/// Whose cron it is: they number weekdays and join the day fields differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Dialect {
    /// Five fields.
    Unix,
    /// Six or seven fields, seconds first, `?`.
    Quartz,
    /// Six fields, seconds first.
    Spring,
}

/// What sets a schedule off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trigger {
    /// A cron expression.
    Cron {
        /// Its text.
        text: String,
        /// Set once stored.
        dialect: Option<Dialect>,
    },
    /// Fixed rate from the anchor.
    Interval(Duration),
    /// Once.
    At(DateTime<Utc>),
    /// From the end of the last run.
    Delay(Duration),
    /// Only by hand.
    #[default]
    None,
}

/// When a job fires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// What sets it off.
    pub trigger: Trigger,
    /// IANA name; empty means UTC.
    pub time_zone: String,
    /// No fire before.
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after.
    pub end_at: Option<DateTime<Utc>>,
    /// Fires are spread over this window by a hash of the job's name.
    pub spread: Duration,
    /// Days without fire, in the time zone.
    pub excluded_dates: Vec<NaiveDate>,
    /// Calendars that must include the day.
    pub include_calendars: Vec<String>,
    /// Calendars that must not include the day.
    pub exclude_calendars: Vec<String>,
}
