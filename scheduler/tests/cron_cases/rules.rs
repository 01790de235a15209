//! The rules of the schedule itself: bounds, faults, dates, words.

use std::time::Duration;

use chrono::NaiveDate;
use clawjob_scheduler::model::schedule::{
    Dialect, EXCLUDED_DATES_MAX, PERIOD_MAX, PERIOD_MIN, Reason, SPREAD_MAX, Schedule, Trigger,
    preview, tzdata_version,
};

use super::support::{cron, fires, time, times};

fn described(schedule: &Schedule) -> String {
    let after = time("2026-01-15T12:00:00Z");
    preview(schedule, after, after, 1).unwrap().description
}

fn in_dialect(text: &str, dialect: Dialect) -> Schedule {
    let trigger = Trigger::Cron { text: text.to_owned(), dialect: Some(dialect) };
    Schedule { trigger, ..Schedule::default() }
}

#[test]
fn the_dialect_is_found_by_the_fields() {
    for (text, dialect) in [
        ("0 9 * * *", Dialect::Unix),
        ("0 9 ? * 1", Dialect::Unix),
        ("0 0 9 * * ?", Dialect::Quartz),
        ("0 0 9 ? * 2-6", Dialect::Quartz),
        ("0 0 9 * * ? 2030", Dialect::Quartz),
        ("0 0 9 * * *", Dialect::Spring),
        ("0 0 9 ? * ?", Dialect::Spring),
        ("@daily", Dialect::Unix),
        ("@every 5m", Dialect::Unix),
    ] {
        assert_eq!(cron(text, "").compile().unwrap().dialect(), Some(dialect), "{text}");
    }
}

#[test]
fn a_guessed_dialect_that_matters_is_remarked_with_both_readings() {
    let after = time("2026-01-15T12:00:00Z");
    let seen = preview(&cron("0 0 9 ? * 2-6", ""), after, after, 3).unwrap();
    assert_eq!(seen.dialect, Some(Dialect::Quartz));
    assert!(seen.description.contains("Monday to Friday"), "{}", seen.description);
    let [remark] = seen.warnings.as_slice() else { panic!("{:?}", seen.warnings) };
    assert!(remark.contains("Monday to Friday"), "{remark}");
    assert!(remark.contains("Tuesday to Saturday"), "{remark}");
    for clear in ["0 0 9 ? * MON-FRI", "0 0 9 1 * ?", "0 9 * * 1-5"] {
        let seen = preview(&cron(clear, ""), after, after, 3).unwrap();
        assert_eq!(seen.warnings, Vec::<String>::new(), "{clear}");
    }
    let chosen = in_dialect("0 0 9 ? * 2-6", Dialect::Quartz);
    assert_eq!(preview(&chosen, after, after, 3).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn a_fault_names_the_field_its_position_and_the_remedy() {
    for (text, place, fault) in [
        ("0 24 * * *", "field 2 (hour), position 3", "`24` is outside 0-23"),
        ("0 0 0 * *", "field 3 (day of month), position 5", "`0` is outside 1-31"),
        ("1,,2 * * * *", "field 1 (minute), position 3", "missing beside the comma"),
        ("  0 9 * * 1-MOND", "field 5 (day of week), position 13", "`MOND` is not understood"),
        ("*/61 * * * *", "field 1 (minute), position 3", "step of 1 to 60"),
        ("0 0 0/24 * * ?", "field 3 (hour), position 7", "step of 1 to 23"),
        ("0 0 32W * *", "field 3 (day of month), position 5", "`32W`"),
        ("0 0 * * 5#6", "field 5 (day of week), position 11", "1 to 5 after the `#`"),
    ] {
        let faults = cron(text, "").compile().unwrap_err();
        assert!(faults[0].message.starts_with(place), "{text}: {}", faults[0].message);
        assert!(faults[0].message.contains(fault), "{text}: {}", faults[0].message);
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let schedule = Schedule {
        spread: SPREAD_MAX + Duration::from_millis(1),
        start_at: Some(time("2026-02-01T00:00:00Z")),
        end_at: Some(time("2026-02-01T00:00:00Z")),
        excluded_dates: vec![NaiveDate::default(); EXCLUDED_DATES_MAX + 1],
        ..cron("61 25 * 13 *", "Nowhere/At_All")
    };
    let fields: Vec<_> =
        schedule.compile().unwrap_err().into_iter().map(|fault| fault.field).collect();
    let wanted = ["cron", "cron", "cron", "time_zone", "end_time", "spread", "excluded_dates"];
    assert_eq!(fields, wanted);
}

#[test]
fn periods_are_one_second_to_366_days() {
    let compile = |trigger| Schedule { trigger, ..Schedule::default() }.compile();
    for period in [PERIOD_MIN, PERIOD_MAX, Duration::from_millis(1500)] {
        assert!(compile(Trigger::Interval(period)).is_ok());
        assert_eq!(compile(Trigger::Delay(period)).unwrap().delay(), Some(period));
    }
    let nano = Duration::from_nanos(1);
    let milli = Duration::from_millis(1);
    for period in [Duration::ZERO, PERIOD_MIN - milli, PERIOD_MIN + nano, PERIOD_MAX + milli] {
        for (field, trigger) in
            [("interval", Trigger::Interval(period)), ("delay", Trigger::Delay(period))]
        {
            let faults = compile(trigger).unwrap_err();
            assert_eq!((faults[0].field, faults[0].reason), (field, Reason::OutOfRange));
        }
    }
    for (text, good) in [
        ("@every 1s", true),
        ("@every 8784h", true),
        ("@every 1.5h", true),
        ("@every 999ms", false),
        ("@every 8784h1s", false),
        ("@every 1h-30m", false),
    ] {
        assert_eq!(cron(text, "").compile().is_ok(), good, "{text}");
    }
}

#[test]
fn an_interval_counts_from_its_start_or_from_the_jobs_creation() {
    let mut schedule =
        Schedule { trigger: Trigger::Interval(Duration::from_secs(90)), ..Schedule::default() };
    let created = time("2026-01-15T00:00:00.250Z");
    let wanted = ["2026-01-15T00:01:30.250Z", "2026-01-15T00:03:00.250Z"];
    assert_eq!(fires(&schedule, created, 2), times(&wanted));
    schedule.start_at = Some(time("2026-01-16T00:00:00Z"));
    schedule.end_at = Some(time("2026-01-16T00:03:00Z"));
    let wanted = ["2026-01-16T00:00:00Z", "2026-01-16T00:01:30Z"];
    assert_eq!(fires(&schedule, created, 9), times(&wanted));
}

#[test]
fn the_start_is_inclusive_and_the_end_exclusive() {
    let schedule = Schedule {
        start_at: Some(time("2026-01-20T09:00:00Z")),
        end_at: Some(time("2026-01-22T09:00:00Z")),
        ..cron("0 9 * * *", "")
    };
    let found = fires(&schedule, time("2026-01-15T00:00:00Z"), 9);
    assert_eq!(found, times(&["2026-01-20T09:00:00Z", "2026-01-21T09:00:00Z"]));
}

#[test]
fn excluded_dates_are_passed_in_one_step_each() {
    let from = NaiveDate::from_ymd_opt(2026, 1, 16).unwrap();
    let schedule = Schedule {
        excluded_dates: from.iter_days().take(EXCLUDED_DATES_MAX).collect(),
        ..cron("* * * * * *", "Europe/Berlin")
    };
    let found = fires(&schedule, time("2026-01-15T22:59:58Z"), 3);
    // The 1,001st day begins at midnight in Berlin, in winter time or not.
    let wanted = ["2026-01-15T22:59:59Z", "2028-10-11T22:00:00Z", "2028-10-11T22:00:01Z"];
    assert_eq!(found, times(&wanted));
}

#[test]
fn an_excluded_date_that_comes_twice_is_left_out_twice() {
    // At 00:01 on November 7th the clock goes back to 23:01 on the 6th.
    let schedule = Schedule {
        excluded_dates: vec![NaiveDate::from_ymd_opt(2010, 11, 7).unwrap()],
        ..cron("*/20 * * * *", "America/St_Johns")
    };
    let found = fires(&schedule, time("2010-11-07T02:09:00Z"), 4);
    let wanted = [
        "2010-11-07T02:10:00Z", // 23:40, first pass
        "2010-11-07T02:50:00Z", // 23:20, second pass
        "2010-11-07T03:10:00Z", // 23:40, second pass
        "2010-11-08T03:30:00Z",
    ];
    assert_eq!(found, times(&wanted));
}

#[test]
fn the_spread_is_stable_bounded_and_wide() {
    let spread = Duration::from_secs(60);
    let compiled = Schedule { spread, ..cron("0 * * * *", "") }.compile().unwrap();
    let offsets: Vec<_> =
        (0..1000).map(|n| compiled.spread_offset(&format!("apps/a/jobs/j{n}"))).collect();
    assert!(offsets.iter().all(|offset| *offset < spread && offset.subsec_micros() % 1000 == 0));
    let early = offsets.iter().filter(|offset| **offset < spread / 4).count();
    assert!((200..300).contains(&early), "{early} of 1000 in the first quarter");
    // Fixed for good: a job's due times may not move with an upgrade.
    assert_eq!(offsets[0], compiled.spread_offset("apps/a/jobs/j0"));
    let known = compiled.spread_offset("apps/demo/jobs/hello");
    assert_eq!(known, Duration::from_millis(KNOWN_OFFSET_MS));
    let unspread = cron("0 * * * *", "").compile().unwrap();
    assert_eq!(unspread.spread_offset("apps/a/jobs/j0"), Duration::ZERO);
}

/// Where `apps/demo/jobs/hello` falls in a minute: the first eight bytes of its SHA-256 as a
/// fraction of 60,000 ms.
const KNOWN_OFFSET_MS: u64 = 57_642;

#[test]
fn triggers_without_fire_times_are_not_said_to_never_run() {
    let now = time("2026-01-15T00:00:00Z");
    for trigger in [Trigger::None, Trigger::Delay(Duration::from_secs(5))] {
        let compiled = Schedule { trigger, ..Schedule::default() }.compile().unwrap();
        assert_eq!(compiled.next_fire(now, now), None);
        assert!(!compiled.never_fires(now, now));
    }
    let ended = Schedule { end_at: Some(now), ..cron("0 9 * * *", "") }.compile().unwrap();
    assert!(ended.never_fires(now, now));
}

#[test]
fn spring_and_quartz_count_as_they_do_at_home() {
    let after = time("2026-01-15T12:00:00Z");
    let days = |text: &str, dialect| -> String {
        let schedule = in_dialect(text, dialect);
        fires(&schedule, after, 7).iter().map(|fire| fire.format("%a ").to_string()).collect()
    };
    // Spring's week begins with Monday, which the step shows; its 7 starts a range as 0.
    assert_eq!(days("0 0 9 * * */2", Dialect::Spring), "Fri Sun Mon Wed Fri Sun Mon ");
    assert_eq!(days("0 0 9 * * 7-1", Dialect::Spring), "Sun Mon Sun Mon Sun Mon Sun ");
    assert_eq!(days("0 0 9 * * 7-7", Dialect::Spring), "Fri Sat Sun Mon Tue Wed Thu ");
    assert_eq!(days("0 0 9 ? * */2", Dialect::Quartz), "Sat Sun Tue Thu Sat Sun Tue ");
    assert_eq!(days("0 9 * * */2", Dialect::Unix), "Sat Sun Tue Thu Sat Sun Tue ");
    assert_eq!(days("0 9 * * FRI-MON/2", Dialect::Unix), "Fri Sun Fri Sun Fri Sun Fri ");
    assert_eq!(days("@DAILY", Dialect::Spring), "Fri Sat Sun Mon Tue Wed Thu ");
    assert_eq!(days("@weekly", Dialect::Quartz), "Sun Sun Sun Sun Sun Sun Sun ");
}

#[test]
fn a_clock_change_in_the_previewed_time_is_remarked() {
    let remarks = |text: &str, after: &str| {
        let after = time(after);
        preview(&cron(text, "Europe/Berlin"), after, after, 40).unwrap().warnings
    };
    let spring = remarks("*/5 * * * *", "2026-03-29T00:00:00Z");
    assert!(spring[0].contains("2026-03-29 02:00:00 to 2026-03-29 03:00:00"), "{spring:?}");
    assert!(spring[0].contains("left out"), "{spring:?}");
    let fixed = remarks("30 2 * * *", "2026-10-20T00:00:00Z");
    assert!(fixed[0].contains("2026-10-25 02:30:00 comes twice"), "{fixed:?}");
    assert!(fixed[0].contains("only the first runs"), "{fixed:?}");
    let both = remarks("*/5 * * * *", "2026-10-25T00:00:00Z");
    assert!(both[0].contains("runs start in both"), "{both:?}");
    assert_eq!(remarks("0 9 * * *", "2026-10-20T00:00:00Z"), Vec::<String>::new());
}

#[test]
fn a_schedule_reads_as_english() {
    for (text, words) in [
        ("* * * * *", "every minute, UTC time"),
        ("*/5 * * * *", "every 5 minutes, UTC time"),
        ("0 * * * *", "every hour, UTC time"),
        ("* * * * * *", "every second, UTC time"),
        ("*/10 * * * * *", "every 10 seconds, UTC time"),
        ("0 9 * * *", "at 09:00 every day, UTC time"),
        ("0,30 9 * * 1-5", "at 09:00 and 09:30 on Monday to Friday, UTC time"),
        ("5 4 * * sun", "at 04:05 on Sunday, UTC time"),
        ("0 0 1,15 * 5", "at 00:00 on days 1 and 15 of the month or on Friday, UTC time"),
        ("0 0 0 13 * FRI", "at 00:00 on day 13 of the month, if it is also Friday, UTC time"),
        ("0 15 10 ? * 6L", "at 10:15 on the last Friday of the month, UTC time"),
        ("0 15 10 ? * 6#3", "at 10:15 on the third Friday of the month, UTC time"),
        ("0 0 0 LW * ?", "at 00:00 on the weekday nearest to the last day of the month, UTC time"),
        ("0 0 0 L-3 * ?", "at 00:00 on the day 3 days before the last day of the month, UTC time"),
        (
            "0 0 9 1 1,7 ? 2030",
            "at 09:00 on day 1 of the month in January and July in 2030, UTC time",
        ),
        ("*/20 9-17 * * *", "every 20 minutes of hours 9 to 17 every day, UTC time"),
        ("@every 1h30m", "every 1 h 30 min of elapsed time"),
    ] {
        assert_eq!(described(&cron(text, "")), words, "{text}");
    }
    assert!(described(&cron("0 9 * * *", "Asia/Tokyo")).ends_with("Asia/Tokyo time"));
    let plain = |trigger| described(&Schedule { trigger, ..Schedule::default() });
    assert_eq!(
        plain(Trigger::Delay(Duration::from_millis(90_500))),
        "1 min 30 s 500 ms after the end of the last run"
    );
    assert_eq!(plain(Trigger::None), "only when triggered");
    assert_eq!(
        plain(Trigger::At(time("2026-02-01T09:00:00Z"))),
        "once, at 2026-02-01 09:00:00 UTC"
    );
}

#[test]
fn a_stored_schedule_comes_back_as_it_was() {
    let schedule = Schedule {
        excluded_dates: vec![NaiveDate::from_ymd_opt(2026, 12, 25).unwrap()],
        spread: Duration::from_secs(30),
        start_at: Some(time("2026-02-01T09:00:00Z")),
        ..in_dialect("0 0 9 ? * MON", Dialect::Quartz)
    };
    let stored = serde_json::to_string(&schedule).unwrap();
    assert_eq!(serde_json::from_str::<Schedule>(&stored).unwrap(), schedule);
    // A row written before a field existed still loads.
    assert_eq!(serde_json::from_str::<Schedule>("{}").unwrap(), Schedule::default());
}

#[test]
fn the_version_of_the_zone_data_looks_like_one() {
    if let Some(version) = tzdata_version() {
        assert!(version.starts_with("20") && version.len() >= 5, "{version}");
    }
}
