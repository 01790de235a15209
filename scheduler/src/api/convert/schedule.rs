//! Schedules. Bounds and cron are the model's affair; here is only what the message can get wrong.

use chrono::{DateTime, NaiveDate, Utc};
use clawjob_proto::v1 as pb;

use super::{enum_value, time};
use crate::{
    api::status::Violations,
    model::schedule::{Dialect, EXCLUDED_DATES_MAX, Schedule, Trigger},
};

/// Form of dates.
const DATE_FORM: &str = "%Y-%m-%d";

/// Reads a schedule; `path` is the field it stands in, such as `job.schedules[0]`.
pub fn from_proto(path: &str, schedule: &pb::Schedule, bad: &mut Violations) -> Schedule {
    let instant = |name: &str, value: &Option<prost_types::Timestamp>, bad: &mut Violations| {
        value.as_ref().and_then(|value| time::instant(&format!("{path}.{name}"), value, bad))
    };
    Schedule {
        trigger: trigger(path, schedule, bad),
        time_zone: schedule.time_zone.clone(),
        start_at: instant("start_time", &schedule.start_time, bad),
        end_at: instant("end_time", &schedule.end_time, bad),
        spread: schedule
            .spread
            .as_ref()
            .map(|spread| well_formed(&format!("{path}.spread"), spread, bad))
            .unwrap_or_default(),
        excluded_dates: dates(
            &format!("{path}.excluded_dates"),
            &schedule.excluded_dates,
            EXCLUDED_DATES_MAX,
            bad,
        ),
        include_calendars: schedule.include_calendars.clone(),
        exclude_calendars: schedule.exclude_calendars.clone(),
    }
}

fn trigger(path: &str, schedule: &pb::Schedule, bad: &mut Violations) -> Trigger {
    use pb::schedule::Trigger as T;
    let dialect = dialect(&format!("{path}.cron_dialect"), schedule.cron_dialect, bad);
    let is_cron = matches!(schedule.trigger, Some(T::Cron(_)));
    if dialect.is_some() && !is_cron {
        bad.invalid(format!("{path}.cron_dialect"), "has no cron to be read by it; leave it out");
    }
    match &schedule.trigger {
        None => Trigger::None,
        Some(T::Cron(text)) => Trigger::Cron { text: text.clone(), dialect },
        Some(T::Interval(period)) => {
            Trigger::Interval(well_formed(&format!("{path}.interval"), period, bad))
        }
        Some(T::Delay(pause)) => Trigger::Delay(well_formed(&format!("{path}.delay"), pause, bad)),
        Some(T::At(at)) => {
            time::instant(&format!("{path}.at"), at, bad).map_or(Trigger::None, Trigger::At)
        }
    }
}

/// A duration whose bounds the model checks; an impossible one is a fault here already and reads
/// as one second, so that it is told only once.
fn well_formed(
    field: &str,
    value: &prost_types::Duration,
    bad: &mut Violations,
) -> std::time::Duration {
    time::plain(value).unwrap_or_else(|| {
        bad.invalid(field, "is negative or malformed; give a duration such as 90s");
        std::time::Duration::from_secs(1)
    })
}

fn dialect(field: &str, number: i32, bad: &mut Violations) -> Option<Dialect> {
    match enum_value::<pb::CronDialect>(field, number, bad) {
        pb::CronDialect::Unspecified => None,
        pb::CronDialect::Unix => Some(Dialect::Unix),
        pb::CronDialect::Quartz => Some(Dialect::Quartz),
        pb::CronDialect::Spring => Some(Dialect::Spring),
    }
}

/// Reads dates of the years 1970 to 9999, at most `max`; `field` is the list they stand in.
pub fn dates(field: &str, dates: &[String], max: usize, bad: &mut Violations) -> Vec<NaiveDate> {
    if dates.len() > max {
        bad.invalid(field, format!("has {} dates; use at most {max}", dates.len()));
        return Vec::new();
    }
    let mut read = Vec::with_capacity(dates.len());
    for (index, text) in dates.iter().enumerate() {
        match NaiveDate::parse_from_str(text, DATE_FORM) {
            Ok(date) if text.len() == "2000-01-01".len() => read.push(date),
            _ => bad.invalid(
                format!("{field}[{index}]"),
                "is no date; write it as YYYY-MM-DD, such as 2026-12-25",
            ),
        }
    }
    read
}

/// Hour and minute of an instant on the wall clock of a zone; `None` when the zone is unknown.
pub fn wall_clock(at: DateTime<Utc>, zone: &str) -> Option<String> {
    let zone = if zone.is_empty() { "UTC" } else { zone };
    let at = jiff::Timestamp::from_second(at.timestamp()).ok()?;
    Some(at.in_tz(zone).ok()?.strftime("%H:%M").to_string())
}

/// A schedule as shown.
pub fn to_proto(schedule: &Schedule) -> pb::Schedule {
    use pb::schedule::Trigger as T;
    let mut dialect_shown = None;
    let trigger = match &schedule.trigger {
        Trigger::None => None,
        Trigger::Cron { text, dialect } => {
            dialect_shown = *dialect;
            Some(T::Cron(text.clone()))
        }
        Trigger::Interval(period) => Some(T::Interval(time::duration_to_proto(*period))),
        Trigger::At(at) => Some(T::At(time::instant_to_proto(*at))),
        Trigger::Delay(pause) => Some(T::Delay(time::duration_to_proto(*pause))),
    };
    let spread = Some(schedule.spread).filter(|spread| !spread.is_zero());
    pb::Schedule {
        trigger,
        time_zone: schedule.time_zone.clone(),
        start_time: schedule.start_at.map(time::instant_to_proto),
        end_time: schedule.end_at.map(time::instant_to_proto),
        spread: spread.map(time::duration_to_proto),
        excluded_dates: schedule.excluded_dates.iter().map(ToString::to_string).collect(),
        include_calendars: schedule.include_calendars.clone(),
        exclude_calendars: schedule.exclude_calendars.clone(),
        cron_dialect: dialect_to_proto(dialect_shown) as i32,
    }
}

/// A dialect as shown.
pub fn dialect_to_proto(dialect: Option<Dialect>) -> pb::CronDialect {
    match dialect {
        None => pb::CronDialect::Unspecified,
        Some(Dialect::Unix) => pb::CronDialect::Unix,
        Some(Dialect::Quartz) => pb::CronDialect::Quartz,
        Some(Dialect::Spring) => pb::CronDialect::Spring,
    }
}
