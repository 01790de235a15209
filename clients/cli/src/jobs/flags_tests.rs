//! Flags of `jobs create` and `jobs update` as messages.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    flags: JobFlags,
}

fn parse(args: &[&str]) -> Result<JobFlags, clap::Error> {
    Flags::try_parse_from(std::iter::once(&"x").chain(args)).map(|parsed| parsed.flags)
}

fn job() -> Job {
    Job { name: "apps/demo/jobs/hello".into(), ..Job::default() }
}

fn apply(args: &[&str], job: &mut Job) -> Result<Vec<String>, CliError> {
    parse(args).unwrap().apply(job, &mut Terminal::of_process(), None)
}

#[test]
fn every_group_of_flags_lands_in_the_job_and_in_the_mask() {
    let mut made = job();
    let paths = apply(
        &[
            "--cron",
            "0 9 * * *",
            "--tz",
            "Asia/Shanghai",
            "--handler",
            "hello",
            "--params",
            r#"{"name": "Jacky"}"#,
            "--timeout",
            "1m30s",
            "--retries",
            "2",
            "--backoff",
            "1s",
            "--overlap",
            "queue",
            "--concurrency",
            "3",
            "--misfire",
            "fire-all",
            "--route",
            "least-loaded",
            "--label",
            "team=a",
            "--require",
            "zone=x",
            "--on-success",
            "other",
            "--priority",
            "-5",
        ],
        &mut made,
    )
    .unwrap();
    assert_eq!(
        paths,
        [
            "schedules",
            "params",
            "handler",
            "labels",
            "on_success",
            "placement",
            "timeout",
            "retry",
            "overlap",
            "max_concurrency",
            "misfire",
            "priority"
        ]
    );
    assert_eq!(made.schedules[0].time_zone, "Asia/Shanghai");
    assert_eq!(&made.params.unwrap().data[..], br#"{"name":"Jacky"}"#);
    assert_eq!(made.timeout.unwrap().seconds, 90);
    assert_eq!(made.retry.unwrap().max_attempts, 3);
    assert_eq!((made.overlap, made.max_concurrency, made.misfire), (3, 3, 3));
    let place = made.placement.unwrap();
    assert_eq!((place.route, place.required_labels["zone"].as_str()), (10, "x"));
    assert_eq!(made.labels["team"], "a");
    assert_eq!(made.on_success, ["apps/demo/jobs/other"]);
    assert_eq!(made.priority, -5);
}

#[test]
fn what_is_not_named_stays() {
    let mut made = job();
    apply(&["--retries", "4", "--route", "first", "--label", "a=1", "--label", "b=2"], &mut made)
        .unwrap();
    let paths = apply(&["--backoff", "9s", "--shards", "2", "--label", "a-"], &mut made).unwrap();
    assert_eq!(paths, ["labels", "placement", "retry"]);
    let retry = made.retry.unwrap();
    assert_eq!((retry.max_attempts, retry.initial_backoff.unwrap().seconds), (5, 9));
    let place = made.placement.unwrap();
    assert_eq!((place.route, place.shard_total), (3, 2));
    assert_eq!(made.labels.into_iter().collect::<Vec<_>>(), [("b".into(), "2".into())]);
}

#[test]
fn faults_of_all_flags_come_at_once() {
    let wrong = ["--params", "{x", "--at", "soon", "--label", "=", "--on-failure", "a/b/c"];
    let CliError::Usage(faults) = apply(&wrong, &mut job()).unwrap_err() else {
        panic!("not a usage error");
    };
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn no_flags_name_no_fields() {
    assert_eq!(apply(&[], &mut job()).unwrap(), Vec::<String>::new());
}

#[test]
fn words_that_the_contract_lacks_are_refused_with_those_it_has() {
    let shown = parse(&["--overlap", "sometimes"]).unwrap_err().to_string();
    assert!(shown.contains("replace") && shown.contains("queue"), "{shown}");
    assert!(parse(&["--timeout", "5"]).is_err());
}

#[test]
fn routes_and_retries_have_a_flag_for_each_of_their_fields() {
    let mut made = job();
    let args = [
        "--route",
        "busyover",
        "--route-key",
        "k",
        "--busy-threshold",
        "0.75",
        "--retries",
        "3",
        "--jitter",
        "0",
        "--no-retry",
        "BAD_INPUT",
        "--no-retry",
        "TIMEOUT",
        "--max-lost",
        "1",
    ];
    assert_eq!(apply(&args, &mut made).unwrap(), ["placement", "retry"]);
    let place = made.placement.clone().unwrap();
    assert_eq!((place.route_key.as_str(), place.busy_threshold), ("k", 0.75));
    let retry = made.retry.clone().unwrap();
    assert_eq!((retry.max_attempts, retry.jitter, retry.max_lost), (4, Some(0.0), 1));
    assert_eq!(retry.non_retryable_codes, ["BAD_INPUT", "TIMEOUT"]);
    apply(&["--no-retry", ""], &mut made).unwrap();
    assert!(made.retry.unwrap().non_retryable_codes.is_empty());
}
