use std::time::Duration;

use super::*;
use crate::model::schedule::Dialect;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).expect("in range")
}

/// The job that a spec is checked for.
fn frame() -> Job {
    Job::draft("a", "j", now())
}

fn good() -> JobSpec {
    JobSpec { handler: "hello".to_owned(), ..JobSpec::default() }
}

fn cron(text: &str) -> Schedule {
    let trigger = Trigger::Cron { text: text.to_owned(), dialect: None };
    Schedule { trigger, ..Schedule::default() }
}

fn check(spec: &mut JobSpec) -> Result<(), (&'static str, String)> {
    let mut bad = Violations::new();
    job(&frame(), spec, now(), &mut bad);
    bad.finish().map_err(|error| (error.reason(), error.message().to_owned()))
}

fn fault(change: impl FnOnce(&mut JobSpec)) -> (&'static str, String) {
    let mut spec = good();
    change(&mut spec);
    check(&mut spec).expect_err("a fault")
}

#[test]
fn a_plain_job_is_fine_and_is_stored_with_the_dialect_that_was_found() {
    let mut spec = good();
    spec.schedules = vec![cron("*/5 * * * *"), cron("0 0 9 ? * MON")];
    check(&mut spec).expect("no fault");
    let dialects: Vec<_> = spec
        .schedules
        .iter()
        .map(|schedule| match &schedule.trigger {
            Trigger::Cron { dialect, .. } => *dialect,
            _ => None,
        })
        .collect();
    assert_eq!(dialects, [Some(Dialect::Unix), Some(Dialect::Quartz)]);
}

#[test]
fn x18_an_expression_that_never_matches_is_refused_at_save_with_a_reason() {
    for text in ["0 0 31 2 *", "0 0 0 30 2 ?"] {
        let (_, message) = fault(|spec| spec.schedules = vec![cron("* * * * *"), cron(text)]);
        assert!(message.starts_with("job.schedules[1].cron: "), "{message}");
    }
    let past = Schedule {
        trigger: Trigger::At(now() - chrono::TimeDelta::seconds(1)),
        ..Schedule::default()
    };
    let (reason, message) = fault(|spec| spec.schedules = vec![past.clone()]);
    assert_eq!(reason, "NEVER_FIRES", "{message}");
    let mut spec = JobSpec { schedules: vec![past], ..good() };
    let before = Job { spec: Arc::new(spec.clone()), ..frame() };
    let mut bad = Violations::new();
    job(&before, &mut spec, now(), &mut bad);
    bad.finish().expect("one that the job had before may have done its work");
}

#[test]
fn all_faults_come_at_once_each_under_its_field() {
    let (_, message) = fault(|spec| {
        spec.handler = String::new();
        spec.display_name = "x".repeat(200);
        spec.owner = "a\u{7}b".to_owned();
        spec.labels = [("bad key".to_owned(), String::new())].into();
        spec.retry.max_attempts = 0;
        spec.retry.multiplier = f64::NAN;
        spec.retry.jitter = 2.0;
        spec.retry.max_backoff = Duration::ZERO;
        spec.priority = i32::MIN;
        spec.max_queued = u32::MAX;
        spec.schedules = vec![
            cron("61 * * * *"),
            Schedule { time_zone: "Mars/Olympus".to_owned(), ..cron("* * * * *") },
        ];
    });
    for field in [
        "job.handler: ",
        "job.display_name: ",
        "job.owner: ",
        "job.labels[\"bad key\"]: ",
        "job.retry.max_attempts: ",
        "job.retry.multiplier: ",
        "job.retry.jitter: ",
        "job.retry.max_backoff: ",
        "job.priority: ",
        "job.max_queued: ",
        "job.schedules[0].cron: ",
        "job.schedules[1].time_zone: ",
    ] {
        assert!(message.contains(field), "{field} is missing in {message}");
    }
}

#[test]
fn shards_are_bounded_and_no_broadcast() {
    let (_, message) = fault(|spec| spec.placement.shard_total = 10_001);
    assert!(message.starts_with("job.placement.shard_total: is 10001; "), "{message}");
    let (_, message) = fault(|spec| {
        spec.placement.shard_total = 2;
        spec.placement.broadcast = true;
    });
    assert!(message.starts_with("job.placement.shard_total: must be 0 with"), "{message}");
}

#[test]
fn what_a_route_goes_by_is_bounded() {
    for (threshold, fine) in [
        (0.0, true),
        (0.5, true),
        (1.0, true),
        (-0.1, false),
        (1.01, false),
        (f32::NAN, false),
        (f32::INFINITY, false),
    ] {
        let mut spec = good();
        spec.placement.busy_threshold = threshold;
        assert_eq!(check(&mut spec).is_ok(), fine, "{threshold}");
    }
    let (_, message) = fault(|spec| {
        spec.placement.busy_threshold = 2.0;
        spec.placement.route_key = "x".repeat(ROUTE_KEY_MAX + 1);
        spec.placement.required_labels = [(String::new(), String::new())].into();
    });
    for field in ["busy_threshold", "route_key", "required_labels[\"\"]"] {
        assert!(message.contains(&format!("job.placement.{field}: ")), "{field}: {message}");
    }
    let (_, message) = fault(|spec| spec.placement.route_key = "a\nb".to_owned());
    assert!(message.starts_with("job.placement.route_key: "), "{message}");
}

#[test]
fn a_calendar_that_is_not_there_is_told_with_its_place() {
    let (reason, message) = fault(|spec| {
        spec.schedules = vec![
            cron("* * * * *"),
            Schedule {
                include_calendars: vec!["apps/a/calendars/c".to_owned()],
                exclude_calendars: vec!["holidays".to_owned(); 9],
                ..cron("* * * * *")
            },
        ];
    });
    assert_eq!(reason, "CALENDAR_NOT_FOUND", "{message}");
    assert!(message.contains("job.schedules[1].include_calendars: `apps/a"), "{message}");
    assert!(message.contains("job.schedules[1].exclude_calendars: has 9"), "{message}");
}

#[test]
fn a_spread_that_holds_very_many_fire_times_is_refused() {
    let hour = Duration::from_secs(3600);
    let (_, message) =
        fault(|spec| spec.schedules = vec![Schedule { spread: hour, ..cron("* * * * * *") }]);
    assert!(message.starts_with("job.schedules[0].spread: "), "{message}");
    let mut spec = good();
    spec.schedules = vec![Schedule { spread: hour, ..cron("* * * * *") }];
    check(&mut spec).expect("sixty are fine");
}
