//! Any text and any instant: a value or an error, never a panic, never a step back.

use chrono::{DateTime, Duration, NaiveDate, Utc};
use clawjob_scheduler::model::schedule::{Dialect, Schedule, Trigger, preview};
use proptest::prelude::*;

use super::{expr::expr, fuzzing::fuzz};

/// Zones whose clocks do odd things, and one without changes.
const ZONES: [&str; 12] = [
    "",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "Africa/Casablanca",
    "America/St_Johns",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Asia/Kathmandu",
    "Africa/Monrovia",
];

fn dialects() -> impl Strategy<Value = Option<Dialect>> {
    prop_oneof![
        Just(None),
        Just(Some(Dialect::Unix)),
        Just(Some(Dialect::Quartz)),
        Just(Some(Dialect::Spring)),
    ]
}

fn cron(text: String, dialect: Option<Dialect>, zone: &str) -> Schedule {
    Schedule {
        trigger: Trigger::Cron { text, dialect },
        time_zone: zone.to_owned(),
        ..Schedule::default()
    }
}

/// Exercises whatever came out; an error must say where and what.
fn survive(schedule: &Schedule, after: DateTime<Utc>) {
    match preview(schedule, after, after, 3) {
        Ok(seen) => {
            let mut last = after;
            for fire in seen.fire_times {
                assert!(fire > last, "{schedule:?} gave {fire} after {last}");
                last = fire;
            }
            assert!(!seen.description.is_empty());
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| !fault.message.is_empty() && fault.field == "cron"));
        }
    }
}

fn instants() -> impl Strategy<Value = DateTime<Utc>> {
    // 1900 to 2110, to the millisecond.
    (-2_208_988_800_000i64..4_417_977_600_000)
        .prop_map(|millis| DateTime::from_timestamp_millis(millis).unwrap())
}

#[test]
fn r11_any_text_gives_a_value_or_an_error() {
    fuzz("tests/data/fuzz/cron_text.txt", 2_000, |config| {
        proptest!(config, |(
            text in "\\PC{0,40}", dialect in dialects(), after in instants()
        )| {
            survive(&cron(text, dialect, ""), after);
        });
    });
}

#[test]
fn r11_any_text_of_cron_characters_gives_a_value_or_an_error() {
    fuzz("tests/data/fuzz/cron_characters.txt", 2_000, |config| {
        proptest!(config, |(
            text in "[0-9*/,?#LWlw @.A-Zµ-]{0,12}( [0-9*/,?#LW-]{1,6}){0,7}",
            dialect in dialects(),
            after in instants(),
            zone in 0..ZONES.len(),
        )| {
            survive(&cron(text, dialect, ZONES[zone]), after);
        });
    });
}

#[test]
fn r11_any_macro_text_gives_a_value_or_an_error() {
    fuzz("tests/data/fuzz/cron_macros.txt", 2_000, |config| {
        proptest!(config, |(
            text in "@(every|daily|hourly)?[ ]{0,2}[0-9.+hmsµun-]{0,30}", after in instants()
        )| {
            survive(&cron(text, None, ""), after);
        });
    });
}

#[test]
fn any_zone_name_gives_a_value_or_an_error() {
    fuzz("tests/data/fuzz/zones.txt", 2_000, |config| {
        proptest!(config, |(zone in "\\PC{0,20}|[A-Za-z]{1,8}/[A-Za-z_.]{1,12}")| {
            let schedule = cron("0 9 * * *".to_owned(), None, &zone);
            if let Err(faults) = schedule.compile() {
                prop_assert_eq!(faults[0].field, "time_zone");
            }
        });
    });
}

#[test]
fn fire_times_rise_strictly_in_every_zone() {
    fuzz("tests/data/fuzz/fire_times.txt", 2_000, |config| {
        proptest!(config, |(
            expr in prop_oneof![expr(Dialect::Unix), expr(Dialect::Quartz), expr(Dialect::Spring)],
            zone in 0..ZONES.len(),
            after in instants(),
            excluded in prop::collection::vec(0i64..60, 0..8),
        )| {
            let mut schedule = cron(expr.text(), Some(expr.dialect), ZONES[zone]);
            let day = |days: i64| after.date_naive() + Duration::days(days);
            schedule.excluded_dates = excluded.into_iter().map(day).collect::<Vec<NaiveDate>>();
            let compiled = schedule.compile().unwrap();
            let mut last = after;
            for _ in 0..40 {
                let Some(fire) = compiled.next_fire(last, after) else { break };
                prop_assert!(fire > last, "{} gave {} after {}", expr.text(), fire, last);
                // Asked from just before, the answer is the same.
                let before = fire - Duration::milliseconds(1);
                prop_assert_eq!(compiled.next_fire(before.max(last), after), Some(fire));
                last = fire;
            }
        });
    });
}
