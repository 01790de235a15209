//! A schedule in words.

use std::time::Duration;

use chrono::DateTime;

use super::days::{ALL_MONTH_DAYS, ALL_WEEK_DAYS, DayFilter, Join, MonthDay, WeekDay};
use super::plan::{Compiled, Plan};
use super::spec::{Spec, YEAR_MAX, YEAR_MIN, Years, members};

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
/// Most times of day that are spelled out one by one.
const TIMES_LISTED_MAX: u32 = 6;

/// The schedule in English, weekday names included.
pub(super) fn describe(compiled: &Compiled) -> String {
    match &compiled.plan {
        Plan::Cron(finder) => {
            format!("{}, {} time", spec_in_words(&finder.spec), compiled.time_zone())
        }
        Plan::Every { period_ms, .. } => {
            let period = Duration::from_millis(u64::try_from(*period_ms).unwrap_or(0));
            format!("every {} of elapsed time", duration(period))
        }
        Plan::At(at) => match DateTime::from_timestamp_millis(*at) {
            Some(at) => format!("once, at {}", compiled.show(at)),
            None => "once".to_owned(),
        },
        Plan::Delay(delay) => format!("{} after the end of the last run", duration(*delay)),
        Plan::None => "only when triggered".to_owned(),
    }
}

fn spec_in_words(spec: &Spec) -> String {
    let (every_time, mut words) = times(spec);
    let days = days(&spec.days);
    if let Some(days) = days {
        words = format!("{words} {days}");
    } else if !every_time {
        words.push_str(" every day");
    }
    if spec.months.count_ones() < 12 {
        let name = |month: u32| named(&MONTHS, month.saturating_sub(1));
        words = format!("{words} in {}", list(members(spec.months), name, "and"));
    }
    if spec.years != Years::ALL {
        let years = (YEAR_MIN..=YEAR_MAX)
            .filter(|year| i32::try_from(*year).is_ok_and(|year| spec.years.contains(year)));
        words = format!("{words} in {}", list(years, |year| year.to_string(), "and"));
    }
    words
}

/// The times of a day, and whether "every day" would add nothing to them.
fn times(spec: &Spec) -> (bool, String) {
    let (seconds, minutes, hours) = (spec.seconds, spec.minutes, spec.hours);
    let all_hours = hours.count_ones() == 24;
    let on_the_minute = seconds == 1;
    if all_hours && minutes.count_ones() == 60 {
        if let Some(step) = even_step(seconds, 60) {
            return (true, every(step, "second"));
        }
        if on_the_minute {
            return (true, "every minute".to_owned());
        }
    }
    if all_hours
        && on_the_minute
        && let Some(step) = even_step(minutes, 60)
    {
        return (true, every(step, "minute"));
    }
    if on_the_minute
        && minutes == 1
        && let Some(step) = even_step(hours, 24)
    {
        return (true, every(step, "hour"));
    }
    let count = seconds.count_ones() * minutes.count_ones() * hours.count_ones();
    if count <= TIMES_LISTED_MAX {
        return (false, format!("at {}", clock_times(spec)));
    }
    let plain = |value: u32| value.to_string();
    let mut words = String::new();
    if !on_the_minute {
        words = match even_step(seconds, 60) {
            Some(step) => format!("{} of ", every(step, "second")),
            None => format!("at {} of ", counted("second", seconds, plain)),
        };
    }
    words += &match even_step(minutes, 60) {
        Some(step) => every(step, "minute"),
        None if on_the_minute => format!("at {}", counted("minute", minutes, plain)),
        None => counted("minute", minutes, plain),
    };
    words += &match even_step(hours, 24) {
        Some(step) => format!(" of {}", every(step, "hour")),
        None => format!(" of {}", counted("hour", hours, plain)),
    };
    (all_hours, words)
}

fn clock_times(spec: &Spec) -> String {
    let mut all = Vec::new();
    for hour in members(spec.hours) {
        for minute in members(spec.minutes) {
            for second in members(spec.seconds) {
                all.push(match spec.seconds {
                    1 => format!("{hour:02}:{minute:02}"),
                    _ => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
    }
    joined(&all, "and")
}

/// The days of a filter; `None` when every day is meant.
fn days(filter: &DayFilter) -> Option<String> {
    if filter.is_every_day() {
        return None;
    }
    let open_month = filter.month_days == ALL_MONTH_DAYS;
    let open_week = filter.week_days == ALL_WEEK_DAYS;
    match (open_month, open_week, filter.join) {
        (true, _, Join::And) => Some(format!("on {}", week_days(filter))),
        (_, true, Join::And) => Some(format!("on {}", month_days(filter))),
        (_, _, Join::Or) => Some(format!("on {} or on {}", month_days(filter), week_days(filter))),
        (_, _, Join::And) => {
            Some(format!("on {}, if it is also {}", month_days(filter), week_days(filter)))
        }
    }
}

fn month_days(filter: &DayFilter) -> String {
    let mut parts = Vec::new();
    if filter.month_days != 0 {
        let set = u64::from(filter.month_days);
        parts.push(format!("{} of the month", counted("day", set, |day| day.to_string())));
    }
    parts.extend(filter.month_specials.iter().map(|special| match special {
        MonthDay::FromLast(minus) => from_last(*minus),
        MonthDay::WeekdayNearLast(minus) => format!("the weekday nearest to {}", from_last(*minus)),
        MonthDay::WeekdayNear(day) => format!("the weekday nearest to day {day} of the month"),
    }));
    joined(&parts, "and")
}

fn from_last(minus: u32) -> String {
    match minus {
        0 => "the last day of the month".to_owned(),
        1 => "the day before the last day of the month".to_owned(),
        _ => format!("the day {minus} days before the last day of the month"),
    }
}

fn week_days(filter: &DayFilter) -> String {
    let mut parts = Vec::new();
    if filter.week_days != 0 {
        // A week begins with Monday here, so that Friday to Monday reads as Friday to Sunday and
        // Monday to Friday stays whole.
        let order = (1..=7).filter(|day| filter.week_days >> (day % 7) & 1 == 1);
        parts.push(list(order, |day| named(&WEEKDAYS, day % 7), "and"));
    }
    parts.extend(filter.week_specials.iter().map(|special| match special {
        WeekDay::Nth(day, nth) => format!(
            "the {} {} of the month",
            named(&ORDINALS, nth.saturating_sub(1)),
            named(&WEEKDAYS, *day)
        ),
        WeekDay::Last(day) => format!("the last {} of the month", named(&WEEKDAYS, *day)),
    }));
    joined(&parts, "and")
}

fn named(names: &[&str], index: u32) -> String {
    names.get(index as usize).copied().unwrap_or_default().to_owned()
}

/// `day 3`, `days 1 to 5 and 7`.
fn counted(noun: &str, set: u64, name: impl Fn(u32) -> String) -> String {
    let plural = if set.count_ones() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", list(members(set), name, "and"))
}

fn every(step: u32, noun: &str) -> String {
    if step == 1 { format!("every {noun}") } else { format!("every {step} {noun}s") }
}

/// The step of a set that holds 0, step, 2·step … and comes round evenly.
fn even_step(set: u64, values: u32) -> Option<u32> {
    let step = members(set).nth(1)?;
    let even = set & 1 == 1
        && values.is_multiple_of(step)
        && (0..values).all(|value| (set >> value & 1 == 1) == value.is_multiple_of(step));
    even.then_some(step)
}

/// Values in rising order, three or more in a row as a range.
fn list(values: impl Iterator<Item = u32>, name: impl Fn(u32) -> String, and: &str) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == value => *end = value,
            _ => runs.push((value, value)),
        }
    }
    let mut parts = Vec::new();
    for (start, end) in runs {
        if end > start + 1 {
            parts.push(format!("{} to {}", name(start), name(end)));
        } else {
            parts.extend((start..=end).map(&name));
        }
    }
    joined(&parts, and)
}

fn joined(parts: &[String], and: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} {and} {last}", head.join(", ")),
    }
}

/// A duration as `1 d 2 h 30 min 5 s 250 ms`, zero parts left out.
fn duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let parts = [
        (millis / 86_400_000, "d"),
        (millis / 3_600_000 % 24, "h"),
        (millis / 60_000 % 60, "min"),
        (millis / 1000 % 60, "s"),
        (millis % 1000, "ms"),
    ];
    let shown: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    shown.join(" ")
}

/// The weekdays alone, for a remark on how a dialect counts them.
pub(super) fn weekdays_in_words(spec: &Spec) -> String {
    week_days(&spec.days)
}
