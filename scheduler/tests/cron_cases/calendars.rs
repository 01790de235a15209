//! Calendars and excluded dates, against a reader who looks at each fire time by itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Utc};
use clawjob_scheduler::model::{
    calendar::{CalendarSpec, Calendars, Coverage, Window},
    schedule::{Reason, Schedule, Trigger, preview_with},
};
use jiff::{Timestamp, tz::TimeZone};
use proptest::prelude::*;

use super::support::{cron, fires, time, times};

fn date(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn calendars(named: &[(&str, &CalendarSpec)]) -> Calendars {
    let named =
        named.iter().map(|(name, spec)| ((*name).to_owned(), Arc::new(Coverage::new(spec))));
    Arc::new(named.collect::<BTreeMap<_, _>>())
}

fn found(
    schedule: &Schedule,
    calendars: &Calendars,
    after: &str,
    count: usize,
) -> Vec<DateTime<Utc>> {
    let after = time(after);
    preview_with(schedule, calendars, after, after, count).unwrap().fire_times
}

fn holidays() -> CalendarSpec {
    let dates = ["2026-12-25", "2026-12-26", "2027-01-01"].map(date).to_vec();
    CalendarSpec { dates, ..CalendarSpec::default() }
}

fn working_days() -> CalendarSpec {
    CalendarSpec { weekdays: vec![1, 2, 3, 4, 5], ..CalendarSpec::default() }
}

#[test]
fn included_and_excluded_days_join() {
    let known = calendars(&[("work", &working_days()), ("holidays", &holidays())]);
    let schedule = Schedule {
        include_calendars: vec!["work".into()],
        exclude_calendars: vec!["holidays".into()],
        ..cron("0 9 * * *", "Europe/Berlin")
    };
    // Thursday the 24th, then Monday the 28th: Friday is Christmas.
    let wanted = ["2026-12-24T08:00:00Z", "2026-12-28T08:00:00Z", "2026-12-29T08:00:00Z"];
    assert_eq!(found(&schedule, &known, "2026-12-23T12:00:00Z", 3), times(&wanted));
}

#[test]
fn one_of_several_included_calendars_is_enough() {
    let saturdays = CalendarSpec { weekdays: vec![6], ..CalendarSpec::default() };
    let known = calendars(&[("saturdays", &saturdays), ("holidays", &holidays())]);
    let schedule = Schedule {
        include_calendars: vec!["saturdays".into(), "holidays".into()],
        ..cron("0 9 * * *", "")
    };
    let wanted = ["2026-12-25T09:00:00Z", "2026-12-26T09:00:00Z", "2027-01-01T09:00:00Z"];
    assert_eq!(found(&schedule, &known, "2026-12-20T00:00:00Z", 3), times(&wanted));
}

#[test]
fn dates_are_those_of_the_zone_of_the_schedule_and_windows_are_instants() {
    let window = Window { start: time("2026-12-24T15:00:00Z"), end: time("2026-12-24T16:00:00Z") };
    let spec = CalendarSpec { windows: vec![window], ..holidays() };
    let known = calendars(&[("c", &spec)]);
    let schedule =
        Schedule { exclude_calendars: vec!["c".into()], ..cron("0 * * * *", "Asia/Tokyo") };
    // In Tokyo the 25th begins at 15:00 UTC on the 24th, and ends with the 26th.
    let after = "2026-12-24T13:30:00Z";
    let wanted = ["2026-12-24T14:00:00Z", "2026-12-26T15:00:00Z"];
    assert_eq!(found(&schedule, &known, after, 2), times(&wanted));
    let utc = Schedule { time_zone: String::new(), ..schedule };
    let wanted = ["2026-12-24T14:00:00Z", "2026-12-24T16:00:00Z", "2026-12-24T17:00:00Z"];
    assert_eq!(found(&utc, &known, after, 3), times(&wanted));
}

#[test]
fn a_window_opens_part_of_a_day() {
    let window = Window { start: time("2026-05-04T10:00:00Z"), end: time("2026-05-04T11:00:00Z") };
    let spec = CalendarSpec { windows: vec![window], ..CalendarSpec::default() };
    let known = calendars(&[("c", &spec)]);
    let schedule = Schedule {
        trigger: Trigger::Interval(Duration::from_secs(1800)),
        include_calendars: vec!["c".into()],
        start_at: Some(time("2026-05-01T00:15:00Z")),
        ..Schedule::default()
    };
    let wanted = ["2026-05-04T10:15:00Z", "2026-05-04T10:45:00Z"];
    assert_eq!(found(&schedule, &known, "2026-05-01T00:00:00Z", 9), times(&wanted));
}

#[test]
fn r10_calendars_that_leave_nothing_end_the_search_and_are_told() {
    let mondays = CalendarSpec { weekdays: vec![1], ..CalendarSpec::default() };
    let past = CalendarSpec { dates: vec![date("2020-01-01")], ..CalendarSpec::default() };
    let all = CalendarSpec { weekdays: (1..=7).collect(), ..CalendarSpec::default() };
    let window =
        Window { start: time("2026-01-01T00:00:00Z"), end: time("9999-12-31T23:59:59.999Z") };
    let for_ever = CalendarSpec { windows: vec![window], ..CalendarSpec::default() };
    let known = [("mondays", &mondays), ("past", &past), ("all", &all), ("for-ever", &for_ever)];
    let known = calendars(&known);
    let now = time("2026-01-15T00:00:00Z");
    let every_second =
        Schedule { trigger: Trigger::Interval(Duration::from_secs(1)), ..Schedule::default() };
    for schedule in [
        Schedule {
            exclude_calendars: vec!["mondays".into()],
            ..cron("0 9 * * 1", "Europe/Berlin")
        },
        Schedule { include_calendars: vec!["past".into()], ..cron("* * * * *", "Europe/Berlin") },
        Schedule { exclude_calendars: vec!["all".into()], ..cron("* * * * *", "") },
        Schedule { exclude_calendars: vec!["all".into()], ..every_second.clone() },
        Schedule { exclude_calendars: vec!["for-ever".into()], ..every_second.clone() },
        Schedule { include_calendars: vec!["past".into()], ..every_second },
        Schedule {
            trigger: Trigger::Delay(Duration::from_secs(5)),
            exclude_calendars: vec!["all".into()],
            ..Schedule::default()
        },
    ] {
        let compiled = schedule.compile_with(&known).unwrap();
        #[allow(clippy::disallowed_methods, reason = "bounds the machine time of a search")]
        let begun = std::time::Instant::now();
        assert_eq!(compiled.next_fire(now, now), None, "{schedule:?}");
        let why = compiled.closed_for_good(now, now).unwrap();
        assert!(why.contains("calendars"), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{schedule:?}: {:?}", begun.elapsed());
        // It is shut out, not over: saving it is no fault.
        compiled.check_fires(now, now).unwrap();
        let seen = preview_with(&schedule, &known, now, now, 3).unwrap();
        assert_eq!((seen.fire_times.len(), seen.warnings.last()), (0, Some(&why)));
    }
}

#[test]
fn a_schedule_that_is_over_is_not_blamed_on_its_calendars() {
    let known = calendars(&[("holidays", &holidays())]);
    let now = time("2026-01-15T00:00:00Z");
    let over = Schedule {
        end_at: Some(now),
        exclude_calendars: vec!["holidays".into()],
        ..cron("0 9 * * *", "")
    };
    let compiled = over.compile_with(&known).unwrap();
    assert!(compiled.never_fires(now, now));
    assert_eq!(compiled.closed_for_good(now, now), None);
}

#[test]
fn a_calendar_that_is_not_known_is_a_fault_of_its_field() {
    let schedule = Schedule {
        include_calendars: vec!["apps/a/calendars/x".into()],
        exclude_calendars: vec!["y".into(); 9],
        ..cron("0 9 * * *", "")
    };
    let faults = schedule.compile().unwrap_err();
    let told: Vec<_> = faults.iter().map(|fault| (fault.field, fault.reason)).collect();
    let wanted =
        [("include_calendars", Reason::CalendarUnknown), ("exclude_calendars", Reason::OutOfRange)];
    assert_eq!(told, wanted);
}

#[test]
fn a_delay_waits_for_the_next_open_day_the_start_and_ends_with_the_end() {
    let known = calendars(&[("holidays", &holidays())]);
    let delay = Schedule {
        trigger: Trigger::Delay(Duration::from_secs(3600)),
        time_zone: "Europe/Berlin".into(),
        exclude_calendars: vec!["holidays".into()],
        start_at: Some(time("2026-12-01T00:00:00Z")),
        end_at: Some(time("2027-01-01T12:00:00Z")),
        ..Schedule::default()
    };
    let compiled = delay.compile_with(&known).unwrap();
    for (ended, next) in [
        ("2026-11-01T00:00:00Z", Some("2026-12-01T00:00:00Z")),
        ("2026-12-24T12:00:00Z", Some("2026-12-24T13:00:00Z")),
        ("2026-12-24T22:30:00Z", Some("2026-12-26T23:00:00Z")),
        ("2026-12-31T22:30:00Z", None),
        ("2027-01-01T11:30:00Z", None),
    ] {
        assert_eq!(compiled.next_delayed(time(ended)), next.map(time), "{ended}");
    }
}

/// Whether a reader who knows the rule would let the schedule fire at this instant.
fn allowed(
    schedule: &Schedule,
    specs: &[CalendarSpec],
    zone: &TimeZone,
    at: DateTime<Utc>,
) -> bool {
    let offset = zone.to_offset(Timestamp::from_second(at.timestamp()).unwrap()).seconds();
    let local = (at + TimeDelta::seconds(offset.into())).date_naive();
    let covers = |name: &String| {
        let spec = &specs[name.parse::<usize>().unwrap()];
        let day = u8::try_from(local.weekday().number_from_monday()).unwrap();
        spec.dates.contains(&local)
            || spec.weekdays.contains(&day)
            || spec.windows.iter().any(|window| window.start <= at && at < window.end)
    };
    let included =
        schedule.include_calendars.is_empty() || schedule.include_calendars.iter().any(covers);
    included
        && !schedule.exclude_calendars.iter().any(covers)
        && !schedule.excluded_dates.contains(&local)
}

fn any_calendar() -> impl Strategy<Value = CalendarSpec> {
    let day = |n: u32| date("2026-03-20") + TimeDelta::days(n.into());
    let begin = time("2026-03-20T00:00:00Z");
    let window = move |(start, length): (i64, i64)| Window {
        start: begin + TimeDelta::minutes(start),
        end: begin + TimeDelta::minutes(start + length),
    };
    (
        prop::collection::vec(0..40u32, 0..8),
        prop::collection::vec(1..=7u8, 0..4),
        prop::collection::vec((0..50_000i64, 1..4_000i64), 0..4),
    )
        .prop_map(move |(dates, weekdays, windows)| CalendarSpec {
            dates: dates.into_iter().map(day).collect(),
            weekdays,
            windows: windows.into_iter().map(window).collect(),
            ..CalendarSpec::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn it_fires_where_a_reader_of_the_calendars_lets_it(
        specs in prop::collection::vec(any_calendar(), 4),
        includes in 0..3usize, excludes in 0..2usize,
        excluded in prop::collection::vec(0..40u32, 0..4),
        text in prop::sample::select(vec!["*/30 * * * *", "15 2,9 * * *", "0 0 * * 1-5"]),
        zone in prop::sample::select(vec!["Europe/Berlin", "Asia/Kolkata", "America/Havana"]),
    ) {
        let plain = cron(text, zone);
        let schedule = Schedule {
            include_calendars: (0..includes).map(|n| n.to_string()).collect(),
            exclude_calendars: (2..2 + excludes).map(|n| n.to_string()).collect(),
            excluded_dates: excluded
                .into_iter()
                .map(|n| date("2026-03-20") + TimeDelta::days(n.into()))
                .collect(),
            ..plain.clone()
        };
        let named: Vec<(String, &CalendarSpec)> =
            specs.iter().enumerate().map(|(n, spec)| (n.to_string(), spec)).collect();
        let named: Vec<(&str, &CalendarSpec)> =
            named.iter().map(|(name, spec)| (name.as_str(), *spec)).collect();
        let (from, to) = (time("2026-03-20T00:00:00Z"), time("2026-04-25T00:00:00Z"));
        let tz = TimeZone::get(zone).unwrap();
        let wanted: Vec<_> = fires(&plain, from, 3_000)
            .into_iter()
            .filter(|at| *at < to && allowed(&schedule, &specs, &tz, *at))
            .collect();
        let compiled = schedule.compile_with(&calendars(&named)).unwrap();
        let mut got = Vec::new();
        let mut last = from;
        while let Some(fire) = compiled.next_fire(last, from).filter(|fire| *fire < to) {
            got.push(fire);
            last = fire;
        }
        prop_assert_eq!(got, wanted);
    }
}
