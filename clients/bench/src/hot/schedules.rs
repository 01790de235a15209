//! The next fire time, in each dialect of cron and of an interval.

use std::{hint::black_box, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_scheduler::model::schedule::{Compiled, Dialect, Schedule, Trigger};

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    let cron =
        |text: &str, dialect| Trigger::Cron { text: text.to_owned(), dialect: Some(dialect) };
    vec![
        case("next_fire_unix", cron("*/15 9-17 * * 1-5", Dialect::Unix), "Europe/Berlin"),
        case("next_fire_quartz", cron("0 0 2 L * ?", Dialect::Quartz), "Asia/Shanghai"),
        case("next_fire_spring", cron("0 30 6 * * MON#1", Dialect::Spring), "America/New_York"),
        case("next_fire_interval", Trigger::Interval(Duration::from_secs(45)), ""),
    ]
}

/// From one fire time to the next, over and over: that is what planning does.
fn case(name: &'static str, trigger: Trigger, zone: &str) -> Case {
    let schedule = Schedule { trigger, time_zone: zone.to_owned(), ..Schedule::default() };
    let compiled = schedule.compile().ok();
    let mut at = DateTime::UNIX_EPOCH;
    Case::new(name, move || at = next(compiled.as_ref(), at))
}

fn next(compiled: Option<&Compiled>, at: DateTime<Utc>) -> DateTime<Utc> {
    let fire = compiled.and_then(|c| c.next_fire(black_box(at), DateTime::UNIX_EPOCH));
    black_box(fire).unwrap_or(DateTime::UNIX_EPOCH)
}
