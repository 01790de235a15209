//! Random expressions against a daemon that looks at every second, minute or day in turn.

use chrono::{DateTime, Duration, NaiveDate, Utc};
use clawjob_scheduler::model::schedule::{Dialect, Schedule, Trigger};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::expr::{Expr, Item, expr};

/// Zones with the hour before one of their clock changes: forward, back, by 30 min, 2 h and 3 h,
/// over midnight, by a day.
const CHANGES: [(&str, &str); 18] = [
    ("Europe/Berlin", "2026-03-29T00:00:00Z"),
    ("Europe/Berlin", "2026-10-25T00:00:00Z"),
    ("America/New_York", "2026-03-08T06:00:00Z"),
    ("America/New_York", "2026-11-01T05:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T14:30:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T14:00:00Z"),
    ("Antarctica/Troll", "2026-03-29T00:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T00:00:00Z"),
    ("Antarctica/Casey", "2020-10-03T15:00:00Z"),
    ("Antarctica/Casey", "2021-03-13T12:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T02:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T01:00:00Z"),
    ("America/St_Johns", "2010-11-07T01:31:00Z"),
    ("America/Havana", "2025-03-09T04:00:00Z"),
    ("Africa/Cairo", "2025-04-24T21:00:00Z"),
    ("Europe/Dublin", "2026-10-25T00:00:00Z"),
    ("Pacific/Apia", "2011-12-30T09:00:00Z"),
    ("Asia/Kathmandu", "1985-12-31T17:30:00Z"),
];
/// How long before and after the change the daemon is watched.
const WATCHED: i64 = 30 * 3600;
/// How often the daemon wakes before the window begins.
const WARM_UP_PULSES: i64 = 2000;
/// How long around the change it is asked out of turn, in seconds.
const ASKED: i64 = 5 * 3600;
/// Longest jump whose times are made up for.
const MADE_UP: i64 = 3 * 3600;

fn schedule(expr: &Expr, zone: &str) -> Schedule {
    Schedule {
        trigger: Trigger::Cron { text: expr.text(), dialect: Some(expr.dialect) },
        time_zone: zone.to_owned(),
        ..Schedule::default()
    }
}

fn instant(at: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(at, 0).unwrap()
}

/// What the daemon starts between the two instants, the first excluded, as it wakes each `pulse`
/// seconds and reads the wall clock.
fn daemon(expr: &Expr, zone: &str, from: i64, to: i64, pulse: i64) -> Vec<i64> {
    let zone = TimeZone::get(zone).unwrap();
    let wall = |at: i64| {
        let offset = zone.to_offset(Timestamp::from_second(at).unwrap());
        at + i64::from(offset.seconds())
    };
    let matches = |local: i64| expr.matches(instant(local).naive_utc());
    let mut started = Vec::new();
    // Warmed up, so that it knows which times it has seen.
    let mut at = from - WARM_UP_PULSES * pulse;
    let mut seen = wall(at);
    while at < to {
        at += pulse;
        let local = wall(at);
        let starts = if expr.follows_clock() {
            matches(local)
        } else if local <= seen {
            false
        } else if local - seen - pulse <= MADE_UP {
            let missed = (local - seen) / pulse;
            (0..missed).any(|back| matches(local - back * pulse))
        } else {
            matches(local)
        };
        seen = seen.max(local);
        if starts && at > from {
            started.push(at);
        }
    }
    started
}

/// All fire times in the window, by asking for the next one again and again.
fn asked(schedule: &Schedule, from: i64, to: i64) -> Vec<i64> {
    let compiled = schedule.compile().unwrap_or_else(|faults| panic!("{schedule:?}: {faults:?}"));
    let mut found = Vec::new();
    let mut last = instant(from);
    while let Some(fire) = compiled.next_fire(last, last)
        && fire <= instant(to)
    {
        assert!(fire > last, "{schedule:?} gave {fire} after {last}");
        found.push(fire.timestamp());
        last = fire;
    }
    found
}

/// `inside`: seconds past the hour at which it is asked out of turn, as after a restart.
fn check_change(mut expr: Expr, change: usize, inside: i64) {
    let (zone, at) = CHANGES[change];
    let at = at.parse::<DateTime<Utc>>().unwrap().timestamp();
    // By the minute, so that three days are watched quickly; seconds have a test of their own.
    expr.second = vec![Item::Value(0)];
    let (from, to) = (at - WATCHED, at + WATCHED);
    let schedule = schedule(&expr, zone);
    let found = asked(&schedule, from, to);
    assert_eq!(found, daemon(&expr, zone, from, to, 60), "{} in {zone}", expr.text());
    for after in (at + inside..at + ASKED).step_by(600) {
        let next = schedule.compile().unwrap().next_fire(instant(after), instant(after));
        let next = next.map(|fire| fire.timestamp()).filter(|fire| *fire <= to);
        let wanted = found.iter().copied().find(|fire| *fire > after);
        assert_eq!(next, wanted, "{} in {zone}, asked at {after}", expr.text());
    }
}

fn check_seconds(expr: Expr, change: usize) {
    let (zone, at) = CHANGES[change];
    let at = at.parse::<DateTime<Utc>>().unwrap().timestamp();
    let mut expr = expr;
    expr.month_day = expr.month_day.map(|_| vec![Item::Star]);
    expr.week_day = expr.week_day.map(|_| vec![Item::Star]);
    expr.month = vec![Item::Star];
    let (from, to) = (at + 2500, at + 4500);
    let found = asked(&schedule(&expr, zone), from, to);
    assert_eq!(found, daemon(&expr, zone, from, to, 1), "{} in {zone}", expr.text());
}

fn check_days(mut expr: Expr, year: i32) {
    (expr.second, expr.minute) = (vec![Item::Value(0)], vec![Item::Value(30)]);
    expr.hour = vec![Item::Value(12)];
    let first = NaiveDate::from_ymd_opt(year, 1, 1).unwrap();
    let wanted: Vec<_> = first
        .iter_days()
        .take(3 * 365)
        .filter(|date| expr.matches_date(*date))
        .map(|date| date.and_hms_opt(12, 30, 0).unwrap().and_utc().timestamp())
        .collect();
    let from = first.and_hms_opt(0, 0, 0).unwrap().and_utc();
    let to = from + Duration::days(3 * 365 - 1) + Duration::hours(23);
    let found = asked(&schedule(&expr, ""), from.timestamp(), to.timestamp());
    assert_eq!(found, wanted, "{} from {year}", expr.text());
}

fn any_expr() -> impl Strategy<Value = Expr> {
    prop_oneof![expr(Dialect::Unix), expr(Dialect::Quartz), expr(Dialect::Spring)]
}

#[test]
fn a_fixed_time_schedule_asked_at_any_moment_of_a_clock_change_neither_loses_nor_doubles() {
    let quarters = [0, 15, 30, 45].map(Item::Value).to_vec();
    let expr = Expr {
        dialect: Dialect::Unix,
        second: vec![Item::Value(0)],
        minute: quarters,
        hour: (0..24).map(Item::Value).collect(),
        month_day: Some(vec![Item::Star]),
        month: vec![Item::Star],
        week_day: Some(vec![Item::Star]),
    };
    assert!(!expr.follows_clock());
    for change in 0..CHANGES.len() {
        check_change(expr.clone(), change, 59);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn around_a_clock_change_it_does_what_a_daemon_watching_each_minute_does(
        expr in any_expr(), change in 0..CHANGES.len(), inside in 0i64..600
    ) {
        check_change(expr, change, inside);
    }

    #[test]
    fn around_a_clock_change_it_does_what_a_daemon_watching_each_second_does(
        expr in prop_oneof![expr(Dialect::Quartz), expr(Dialect::Spring)],
        change in 0..CHANGES.len()
    ) {
        check_seconds(expr, change);
    }

    #[test]
    fn it_fires_on_the_days_that_a_reader_of_the_calendar_finds(
        expr in any_expr(), year in 1971..2098i32
    ) {
        check_days(expr, year);
    }
}
