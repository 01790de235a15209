//! What users of cron systems ran into, as given → must.

use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use clawjob_scheduler::model::schedule::{Dialect, Reason, Schedule, Trigger, preview};

use super::support::{cron, fires, time, times};

#[test]
fn x15_every_30_minutes_stays_30_minutes_on_both_clock_changes() {
    for (zone, from) in [
        ("Europe/Berlin", "2026-03-28T22:00:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z"),
        ("America/New_York", "2026-03-08T04:00:00Z"),
        ("America/New_York", "2026-11-01T04:00:00Z"),
    ] {
        for text in ["*/30 * * * *", "0 0/30 * * * ?", "0 */30 * * * *"] {
            let found = fires(&cron(text, zone), time(from), 20);
            for pair in found.windows(2) {
                assert_eq!((pair[1] - pair[0]).num_minutes(), 30, "{text} in {zone}");
            }
        }
    }
}

#[test]
fn x17_the_last_day_is_28_29_30_or_31() {
    let found = fires(&cron("0 0 0 L * ?", ""), time("2028-01-01T00:00:00Z"), 12);
    let days: Vec<_> = found.iter().map(Datelike::day).collect();
    assert_eq!(days, [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
    let next = fires(&cron("0 0 0 L 2 ?", ""), time("2029-01-01T00:00:00Z"), 1);
    assert_eq!(next, [time("2029-02-28T00:00:00Z")]);
}

#[test]
fn x18_a_date_that_never_comes_is_refused_with_a_reason() {
    let now = time("2026-01-15T00:00:00Z");
    for text in ["0 0 31 2 *", "0 0 0 31 2 ?", "0 0 0 31 FEB *", "0 0 0 29 2 ? 2027"] {
        let compiled = cron(text, "").compile().unwrap();
        let fault = compiled.check_fires(now, now).unwrap_err();
        assert_eq!((fault.field, fault.reason), ("cron", Reason::NeverFires), "{text}");
        assert!(fault.message.contains("never runs"), "{}", fault.message);
    }
    cron("0 0 29 2 *", "").compile().unwrap().check_fires(now, now).unwrap();
}

#[test]
fn x19_a_fixed_rate_keeps_its_anchor_over_an_outage() {
    let schedule =
        Schedule { trigger: Trigger::Interval(Duration::from_secs(3600)), ..Schedule::default() };
    let compiled = schedule.compile().unwrap();
    let anchor = time("2026-01-15T00:10:00Z");
    let back = time("2026-01-15T09:40:00Z");
    assert_eq!(compiled.next_fire(back, anchor), Some(time("2026-01-15T10:10:00Z")));
}

#[test]
fn r1_a_daily_run_in_the_repeated_hour_comes_once() {
    let found = fires(&cron("0 2 * * *", "Europe/Berlin"), time("2026-10-24T12:00:00Z"), 2);
    assert_eq!(found, times(&["2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"]));
}

#[test]
fn r2_a_run_in_the_missing_hour_starts_at_the_jump_and_says_so() {
    let schedule = cron("30 2 * * *", "America/New_York");
    let after = time("2026-03-07T12:00:00Z");
    let seen = preview(&schedule, after, after, 2).unwrap();
    assert_eq!(seen.fire_times, times(&["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]));
    let [remark] = seen.warnings.as_slice() else { panic!("{:?}", seen.warnings) };
    assert!(remark.contains("2026-03-08 02:30:00 does not exist in America/New_York"), "{remark}");
    assert!(remark.contains("2026-03-08 03:00:00 EDT"), "{remark}");
    let compiled = schedule.compile().unwrap();
    assert_eq!(compiled.moved_remark(seen.fire_times[0]).as_ref(), Some(remark));
    assert_eq!(compiled.moved_remark(seen.fire_times[1]), None);
}

#[test]
fn r4_weekdays_are_those_of_the_jobs_zone() {
    let quartz = "0 0 12 ? * 2-6";
    let found = fires(&cron(quartz, "Australia/Sydney"), time("2026-01-15T12:00:00Z"), 3);
    // Friday noon in Sydney, then Monday noon, which is Monday 01:00 in UTC.
    let wanted = ["2026-01-16T01:00:00Z", "2026-01-19T01:00:00Z", "2026-01-20T01:00:00Z"];
    assert_eq!(found, times(&wanted));
    let early = fires(&cron("0 0 6 ? * MON", "Australia/Sydney"), time("2026-01-15T00:00:00Z"), 1);
    assert_eq!(early, times(&["2026-01-18T19:00:00Z"]));
}

#[test]
fn r5_preview_next_and_fire_times_agree_and_the_zone_is_named() {
    for zone in ["", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia"] {
        let schedule = cron("15 10 * * 1-5", zone);
        let after = time("2026-03-06T00:00:00Z");
        let seen = preview(&schedule, after, after, 5).unwrap();
        assert_eq!(seen.fire_times, fires(&schedule, after, 5));
        let compiled = schedule.compile().unwrap();
        assert_eq!(compiled.time_zone(), if zone.is_empty() { "UTC" } else { zone });
        assert!(seen.description.contains(compiled.time_zone()), "{}", seen.description);
    }
}

#[test]
fn r6_dates_are_those_of_the_jobs_zone() {
    let mut schedule = cron("0 1 * * *", "Asia/Tokyo");
    schedule.excluded_dates = vec![NaiveDate::from_ymd_opt(2026, 1, 17).unwrap()];
    // 01:00 in Tokyo on the 17th is still the 16th in UTC.
    let found = fires(&schedule, time("2026-01-15T00:00:00Z"), 2);
    assert_eq!(found, times(&["2026-01-15T16:00:00Z", "2026-01-17T16:00:00Z"]));
}

#[test]
fn r6_an_instant_that_has_passed_is_refused() {
    let at = time("2026-01-15T09:00:00Z");
    let schedule = Schedule { trigger: Trigger::At(at), ..Schedule::default() };
    let compiled = schedule.compile().unwrap();
    assert!(compiled.check_fires(time("2026-01-15T08:59:59.999Z"), at).is_ok());
    let fault = compiled.check_fires(at, at).unwrap_err();
    assert_eq!((fault.field, fault.reason), ("at", Reason::NeverFires));
}

#[test]
fn schedules_of_all_kinds_end_with_the_year_2100() {
    let now = time("2026-01-15T00:00:00Z");
    let far = time("9999-12-31T23:59:59.999Z");
    let hour = Duration::from_secs(3600);
    let starting = |trigger| Schedule { trigger, start_at: Some(far), ..Schedule::default() };
    for (schedule, field) in [
        (Schedule { trigger: Trigger::At(far), spread: 24 * hour, ..Schedule::default() }, "at"),
        (starting(Trigger::Interval(hour)), "interval"),
        (Schedule { start_at: Some(far), ..cron("@every 1h", "") }, "cron"),
    ] {
        let compiled = schedule.compile().unwrap();
        assert_eq!(compiled.next_fire(now, now), None, "{schedule:?}");
        let fault = compiled.check_fires(now, now).unwrap_err();
        assert_eq!((fault.field, fault.reason), (field, Reason::NeverFires));
        assert!(fault.message.contains("the year 2100"), "{}", fault.message);
    }
    assert_eq!(starting(Trigger::Delay(hour)).compile().unwrap().next_delayed(now), None);
    let hourly = Schedule { trigger: Trigger::Interval(hour), ..Schedule::default() };
    let last = time("2100-12-31T22:30:00Z");
    assert_eq!(fires(&hourly, last, 9), times(&["2100-12-31T23:30:00Z"]));
}

#[test]
fn r7_a_zone_inside_the_expression_is_refused_with_a_remedy() {
    for text in
        ["CRON_TZ=Europe/Berlin @every 24h", "CRON_TZ=X @every 24h", "TZ=UTC 0 9 * * *", "TZ=UTC"]
    {
        let faults = cron(text, "").compile().unwrap_err();
        assert_eq!(faults[0].reason, Reason::CronInvalid);
        assert!(faults[0].message.contains("time_zone"), "{text}: {}", faults[0].message);
    }
}

#[test]
fn r8_an_unknown_zone_is_one_schedules_fault_and_no_others() {
    for zone in ["Europe/Atlantis", "Etc/Unknown", "../../etc/passwd", "posixrules", "right/UTC"] {
        let faults = cron("0 9 * * *", zone).compile().unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!((faults[0].field, faults[0].reason), ("time_zone", Reason::TimeZoneUnknown));
        assert!(faults[0].message.contains(zone), "{}", faults[0].message);
    }
    assert!(cron("0 9 * * *", "Europe/Berlin").compile().is_ok());
}

#[test]
fn r10_a_search_for_what_never_comes_ends_soon() {
    let now = time("2026-01-15T00:00:00Z");
    let texts = ["0 0 30 2 *", "0 0 31 4 *", "*/5 * 31 6 *", "0 0 31W 2 *", "0 0 L-30 2 *"];
    for text in texts {
        let compiled = cron(text, "Europe/Berlin").compile().unwrap();
        #[allow(clippy::disallowed_methods, reason = "bounds the machine time of a search")]
        let begun = Instant::now();
        assert!(compiled.never_fires(now, now), "{text}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{text}: {:?}", begun.elapsed());
    }
}

#[test]
fn r11_broken_texts_are_errors() {
    let texts = [
        "",
        " ",
        "TZ=UTC",
        "@",
        "@every",
        "@every -1h",
        "1,,2 * * * *",
        "5* * * * *",
        "******",
        "0 9.5 * * *",
        "0 9 * * MOND",
        "60 * * * * *",
        "0 0 0 * *",
        "0 0 1 13 *",
        "* * * * * * * *",
        "\u{0}",
        "٣ * * * *",
        "0 0 9 ? * MON#6",
        "99999999999999999999 * * * *",
    ];
    for text in texts {
        for dialect in [None, Some(Dialect::Unix), Some(Dialect::Quartz), Some(Dialect::Spring)] {
            let trigger = Trigger::Cron { text: text.to_owned(), dialect };
            let schedule = Schedule { trigger, ..Schedule::default() };
            let faults = schedule.compile().unwrap_err();
            assert!(faults.iter().all(|fault| fault.reason == Reason::CronInvalid), "{text:?}");
        }
    }
}

#[test]
fn r12_zero_padded_numbers_are_numbers() {
    let after = time("2026-01-15T00:00:00Z");
    for (padded, plain) in [
        ("05 09 01 01 *", "5 9 1 1 *"),
        ("00 00 09 01 01 ?", "0 0 9 1 1 ?"),
        ("*/05 00 * * 01-05", "*/5 0 * * 1-5"),
    ] {
        assert_eq!(fires(&cron(padded, ""), after, 5), fires(&cron(plain, ""), after, 5));
    }
}

#[test]
fn r14_every_6h_goes_on_from_the_last_fire_after_a_restart() {
    let compiled = cron("@every 6h", "Europe/Berlin").compile().unwrap();
    let anchor = time("2026-01-15T01:23:45Z");
    let last = compiled.next_fire(time("2026-01-20T00:00:00Z"), anchor).unwrap();
    // Whatever it is asked after, up to the next one, the next is the last + 6 h.
    let next: DateTime<Utc> = last + chrono::Duration::hours(6);
    for minutes in [0, 1, 90, 359] {
        let asked = last + chrono::Duration::minutes(minutes);
        assert_eq!(compiled.next_fire(asked, anchor), Some(next));
    }
}
