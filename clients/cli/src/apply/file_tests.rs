//! Job files: shapes, shorthand, and all faults at once.

use clawjob_proto::v1::{OverlapPolicy, job, schedule::Trigger};

use proptest::strategy::Strategy as _;

use super::*;
use crate::apply::friendly;

#[test]
fn a_file_may_be_a_job_a_list_or_a_mapping_in_several_documents() {
    let text = "
name: demo/one
handler: hello
---
- {name: two, app: other, handler: h}
- {name: apps/demo/jobs/three, handler: h}
---
app: third
jobs:
- {name: four, handler: h}
---
app: empty
jobs: []
---
";
    let wanted = parse(text, None).unwrap();
    let names: Vec<&str> = wanted.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "apps/demo/jobs/one",
            "apps/other/jobs/two",
            "apps/demo/jobs/three",
            "apps/third/jobs/four"
        ]
    );
    let apps: Vec<&str> = wanted.apps.iter().map(String::as_str).collect();
    assert_eq!(apps, ["demo", "empty", "other", "third"]);
}

#[test]
fn an_app_that_only_the_environment_names_is_not_in_reach_of_prune() {
    let wanted = parse("jobs: []", Some("ops")).unwrap();
    assert!(wanted.apps.is_empty(), "{:?}", wanted.apps);
    let wanted = parse("jobs: [{name: apps/a/jobs/one, handler: h}]", Some("ops")).unwrap();
    assert_eq!(wanted.apps.into_iter().collect::<Vec<_>>(), ["a"]);
    let wanted = parse("jobs: [{name: one, handler: h}]", Some("ops")).unwrap();
    assert_eq!(wanted.apps.into_iter().collect::<Vec<_>>(), ["ops"]);
}

#[test]
fn shorthand_becomes_the_contract() {
    let text = r#"
name: hello
cron: ["0 9 * * *", "0 21 * * *"]
every: 1m30s
timeZone: Asia/Shanghai
dialect: unix
state: paused
handler: hello
params: {name: Jacky, n: 1}
timeout: 2h
overlap: queue
misfire: fire-all
retry: {maxAttempts: 3, initialBackoff: 500ms}
placement: {route: least_loaded, requiredLabels: {zone: a}}
onSuccess: [other]
labels: {team: "1"}
kill_grace: 5s
"#;
    let job = parse(text, Some("demo")).unwrap().jobs.remove(0);
    assert_eq!(job.schedules.len(), 3);
    assert_eq!(job.schedules[1].trigger, Some(Trigger::Cron("0 21 * * *".into())));
    assert_eq!((job.schedules[1].cron_dialect, job.schedules[2].cron_dialect), (1, 0));
    assert!(job.schedules.iter().all(|s| s.time_zone == "Asia/Shanghai"));
    let every = prost_types::Duration { seconds: 90, nanos: 0 };
    assert_eq!(job.schedules[2].trigger, Some(Trigger::Interval(every)));
    assert_eq!(job.state(), job::State::Paused);
    assert_eq!(job.overlap(), OverlapPolicy::Queue);
    assert_eq!(&job.params.unwrap().data[..], br#"{"n":1,"name":"Jacky"}"#);
    assert_eq!(job.retry.unwrap().initial_backoff.unwrap().nanos, 500_000_000);
    assert_eq!(job.placement.unwrap().route, 10);
    assert_eq!(job.on_success, ["apps/demo/jobs/other"]);
    assert_eq!(job.timeout.unwrap().seconds, 7200);
    assert_eq!(job.kill_grace.unwrap().seconds, 5);
}

#[test]
fn all_faults_come_at_once_each_with_its_place() {
    let text = "
- name: demo/a
  handlr: x
  timeout: 5
  labels: {v: 1.10}
  overlap: sometimes
  schedules: [{cron: '* * * * *', timezone: UTC, interval: soon}]
  priority: 1.5
- handler: h
- name: demo/a
  handler: h
- 7
";
    let faults = parse(text, None).unwrap_err();
    for wanted in [
        "jobs[0] (demo/a).handlr: unknown; is handler meant?",
        "timeout: 5 is not a duration",
        "labels.v: 1.1 is not text: write it in quotes",
        "overlap: \"sometimes\" is unknown; there are allow, skip, queue, replace",
        "schedules[0].timezone: unknown; is timeZone meant?",
        "schedules[0].interval: \"soon\" is not a duration",
        "priority: 1.5 is not a whole number",
        "jobs[1].name: missing",
        "jobs[2] (demo/a): the same again",
        "jobs[3]: must be a job",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(wanted)), "{wanted}\n{faults:#?}");
    }
    assert_eq!(faults.len(), 10, "{faults:#?}");
}

#[test]
fn what_is_no_job_file_is_refused() {
    for text in [
        "a: [",
        "just text",
        "name: !tag x",
        "jobs: 5",
        "{jobs: [], other: 1}",
        "{name: demo/a, name: demo/b}",
        "{name: demo/a, cron: '@daily', schedules: []}",
        "{name: demo/a, timeZone: UTC}",
        "{name: demo/a, priority: .nan}",
        "{name: a}",
        "{name: demo/a, schedules: [{cron: a, interval: 5s}]}",
    ] {
        assert!(parse(text, None).is_err(), "{text}");
    }
}

#[test]
fn what_is_exported_is_read_back_as_it_was() {
    let texts = [
        "{name: demo/a, handler: h, params: {a: [1, null, 'x']}, every: 5s, state: paused}",
        "{name: demo/b, params: {contentType: text/plain, data: aGk=}}",
        "{name: demo/c, params: 'text', retry: {maxAttempts: 2, multiplier: 1.5, jitter: 0.2}}",
        "{name: demo/d, params: {}, at: '2030-01-01T00:00:00Z'}",
    ];
    for text in texts {
        let job = parse(text, None).unwrap().jobs.remove(0);
        let yaml = serde_norway::to_string(&friendly::ordered(&job).unwrap()).unwrap();
        assert!(yaml.starts_with("name: "), "{yaml}");
        assert_eq!(parse(&yaml, None).unwrap().jobs, [job], "{yaml}");
    }
}

#[test]
fn params_that_look_like_a_payload_survive_an_export() {
    let inner = serde_json::json!({"contentType": "a", "data": "b"});
    let job = Job {
        name: "apps/demo/jobs/x".into(),
        params: Some(values::payload(&inner)),
        ..Job::default()
    };
    let yaml = serde_norway::to_string(&friendly::ordered(&job).unwrap()).unwrap();
    assert_eq!(parse(&yaml, None).unwrap().jobs, [job], "{yaml}");
}

#[test]
fn an_endless_alias_does_not_fill_the_memory() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    assert!(parse(&text, None).is_err());
}

const NEARLY: [&str; 26] = [
    "name: demo/one",
    "app: demo",
    "jobs:",
    "- {name: a, handler: h}",
    "handler: h",
    "cron: [",
    "every: 1m30s",
    "every: -5s",
    "schedules: [{cron: '* * * * *', interval: 5s}]",
    "schedules: 5",
    "params: {a: {b: [1, 2, {c: d}]}}",
    "params: !!binary x",
    "labels: {v: 1.10, ~: x}",
    "---",
    "&a {x: *a}",
    "<<: {a: 1}",
    "timeout: 99999999999999999999h",
    "retry: {maxAttempts: 1e99}",
    "? [a]",
    "placement: {route: nowhere}",
    "on_success: [a, a]",
    "state: 3",
    "priority: .nan",
    "name: 'apps/-/jobs/x'",
    "name: \"\\u0000\"",
    "  - [",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        failure_persistence: None,
        ..proptest::prelude::ProptestConfig::with_cases(2000)
    })]

    #[test]
    fn any_file_is_jobs_or_faults_that_name_their_place(
        lines in proptest::collection::vec(
            proptest::prop_oneof![
                8 => proptest::sample::select(&NEARLY[..]).prop_map(str::to_owned),
                1 => "\\PC{0,40}",
            ],
            0..8,
        ),
        app in proptest::option::of("[a-z]{1,4}"),
    ) {
        let text = lines.join("\n");
        match parse(&text, app.as_deref()) {
            Ok(wanted) => {
                for job in &wanted.jobs {
                    proptest::prop_assert!(names::split(&job.name).is_some(), "{text}");
                }
            }
            Err(faults) => {
                proptest::prop_assert!(!faults.is_empty(), "{text}");
                proptest::prop_assert!(faults.iter().all(|fault| !fault.is_empty()), "{text}");
            }
        }
    }
}

#[test]
fn brackets_without_end_are_refused_at_once() {
    let text = format!("name: a/b\nhandler: h\nparams: {}\n", "[".repeat(100_000));
    let faults = parse(&text, None).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("f.yaml, line 3: brackets nest more than 128"), "{faults:?}");
}

/// The parser's own bound; it takes such a file in one go.
#[test]
fn dashes_without_end_are_refused_too() {
    let text = format!("params: \n {}1\n", "- ".repeat(100_000));
    assert!(parse(&text, None).is_err());
}
