//! Short ways to say a schedule and an instant.

use chrono::{DateTime, Utc};
use clawjob_scheduler::model::schedule::{Schedule, Trigger};

/// A cron schedule whose dialect is found.
pub(crate) fn cron(text: &str, zone: &str) -> Schedule {
    Schedule {
        trigger: Trigger::Cron { text: text.to_owned(), dialect: None },
        time_zone: zone.to_owned(),
        ..Schedule::default()
    }
}

pub(crate) fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

pub(crate) fn times(texts: &[&str]) -> Vec<DateTime<Utc>> {
    texts.iter().map(|text| time(text)).collect()
}

/// The first fire times strictly after an instant, which is the anchor too.
pub(crate) fn fires(schedule: &Schedule, after: DateTime<Utc>, count: usize) -> Vec<DateTime<Utc>> {
    let compiled = schedule.compile().unwrap();
    let mut last = after;
    let next = || {
        last = compiled.next_fire(last, after)?;
        Some(last)
    };
    std::iter::from_fn(next).take(count).collect()
}
