//! `apply` and `export`: idempotence, dry runs, pruning, and nothing written on a fault.

use crate::{fake::Fake, harness::Session};

const JOBS: &str = r#"
app: demo
jobs:
- name: hello
  every: 5s
  handler: hello
  params: {name: Jacky}
- name: report
  cron: 0 9 * * *
  timeZone: Asia/Shanghai
  handler: hello
  state: paused
"#;

async fn applied() -> (Fake, Session) {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("jobs.yaml", JOBS);
    let out = session.ok(&["apply", "-f", "jobs.yaml"]).await;
    assert!(out.contains("created    demo/hello\n"), "{out}");
    (fake, session)
}

#[tokio::test]
async fn apply_creates_and_a_second_time_changes_nothing() {
    let (fake, session) = applied().await;
    assert_eq!(fake.state().jobs["apps/demo/jobs/report"].state, 2);
    let writes = fake.state().writes;
    let again = session.run(&["apply", "-f", "jobs.yaml"]).await;
    assert_eq!(again.out, "unchanged  demo/hello\nunchanged  demo/report\n");
    assert!(again.err.contains("2 unchanged"), "{}", again.err);
    assert_eq!(fake.state().writes, writes);
}

#[tokio::test]
async fn apply_of_an_export_changes_nothing_in_yaml_and_in_json() {
    let (fake, session) = applied().await;
    let writes = fake.state().writes;
    for format in ["yaml", "json", "table"] {
        let export = session.ok(&["-o", format, "export"]).await;
        session.file("export", &export);
        let done = session.run(&["-o", "json", "apply", "--prune", "-f", "export"]).await;
        let results = done.json()["results"].clone();
        let kept = |r: &serde_json::Value| r["action"] == "unchanged" && r["ok"] == true;
        assert!(results.as_array().unwrap().iter().all(kept), "{results}");
        assert_eq!(results.as_array().unwrap().len(), 2);
    }
    assert_eq!(fake.state().writes, writes);
}

#[tokio::test]
async fn what_get_and_list_print_is_a_valid_file_too() {
    let (fake, session) = applied().await;
    let writes = fake.state().writes;
    for args in [&["-o", "yaml", "jobs", "get", "demo/hello"][..], &["-o", "json", "jobs", "list"]]
    {
        session.file("printed", &session.ok(args).await);
        let out = session.ok(&["apply", "-f", "printed"]).await;
        assert!(out.starts_with("unchanged  demo/hello\n"), "{out}");
    }
    assert_eq!(fake.state().writes, writes);
}

#[tokio::test]
async fn an_export_makes_the_same_jobs_on_another_server() {
    let (fake, session) = applied().await;
    let export = session.ok(&["export"]).await;
    let (other, url) = Fake::start().await;
    let elsewhere = Session::new(url);
    elsewhere.file("jobs.yaml", &export);
    elsewhere.ok(&["apply", "-f", "jobs.yaml"]).await;
    assert_eq!(elsewhere.ok(&["export"]).await, export);
    assert_eq!(other.state().jobs.len(), fake.state().jobs.len());
}

#[tokio::test]
async fn a_dry_run_shows_each_field_and_writes_nothing() {
    let (fake, session) = applied().await;
    let writes = fake.state().writes;
    let changed = JOBS.replace("5s", "1m").replace("Jacky", "Tom").replace("state: paused", "");
    let changed = format!("{changed}\n- {{name: new, handler: h}}\n");
    session.file("jobs.yaml", &changed.replace("report", "other"));
    let done = session.run(&["apply", "--dry-run", "--prune", "-f", "jobs.yaml"]).await;
    assert_eq!(
        done.out,
        "update     demo/hello\n  params.name: \"Jacky\" → \"Tom\"\n  \
         schedules[0].interval: \"5s\" → \"60s\"\n\
         create     demo/other\ncreate     demo/new\ndelete     demo/report\n"
    );
    assert!(done.err.contains("nothing was changed"), "{}", done.err);
    assert_eq!(fake.state().writes, writes);
}

#[tokio::test]
async fn what_a_file_drops_goes_back_to_its_default() {
    let (fake, session) = applied().await;
    session.file(
        "jobs.yaml",
        &JOBS.replace(
            "  handler: hello\n  params",
            "  handler: hello\n  retry: {maxAttempts: 3}\n  params",
        ),
    );
    session.ok(&["apply", "-f", "jobs.yaml"]).await;
    session.file("jobs.yaml", JOBS);
    let out = session.ok(&["apply", "-f", "jobs.yaml"]).await;
    assert!(out.contains("updated    demo/hello\n  retry.maxAttempts: 3 → 1\n"), "{out}");
    let job = fake.state().jobs["apps/demo/jobs/hello"].clone();
    assert_eq!(job.retry.unwrap().max_attempts, 1);
}

#[tokio::test]
async fn the_state_is_changed_by_pause_and_resume() {
    let (fake, session) = applied().await;
    session.file("jobs.yaml", &JOBS.replace("paused", "active"));
    let out = session.ok(&["apply", "-f", "jobs.yaml"]).await;
    assert!(out.contains("  state: PAUSED → ACTIVE\n"), "{out}");
    assert_eq!(fake.state().jobs["apps/demo/jobs/report"].state, 1);
    assert!(!fake.state().calls.contains(&"pause_job"));
}

#[tokio::test]
async fn prune_asks_and_touches_only_apps_of_the_file() {
    let (fake, mut session) = applied().await;
    session.ok(&["jobs", "create", "other/x", "--handler", "h"]).await;
    session.ok(&["jobs", "create", "demo/extra", "--handler", "h"]).await;
    let refused = session.run(&["apply", "--prune", "-f", "jobs.yaml"]).await;
    assert_eq!(refused.exit, 2);
    assert!(refused.err.contains("demo/extra") && refused.err.contains("--yes"), "{refused:?}");
    session.interactive = true;
    session.input = "n\n";
    assert_eq!(session.run(&["apply", "--prune", "-f", "jobs.yaml"]).await.exit, 2);
    assert_eq!(fake.state().jobs.len(), 4);
    session.input = "y\n";
    let done = session.run(&["apply", "--prune", "-f", "jobs.yaml"]).await;
    assert!(done.out.contains("deleted    demo/extra"), "{done:?}");
    let names: Vec<String> = fake.state().jobs.keys().cloned().collect();
    assert_eq!(names, ["apps/demo/jobs/hello", "apps/demo/jobs/report", "apps/other/jobs/x"]);
}

#[tokio::test]
async fn an_app_that_is_not_there_yet_has_nothing_to_prune() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("jobs.yaml", JOBS);
    let done = session.run(&["apply", "--prune", "-f", "jobs.yaml"]).await;
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(fake.state().jobs.len(), 2);
}

#[tokio::test]
async fn one_refused_job_is_named_and_its_fault_told_once() {
    let (_fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("jobs.yaml", "[{name: a/ok, handler: h}, {name: a/bad}]");
    let done = session.run(&["apply", "-f", "jobs.yaml"]).await;
    assert_eq!(done.exit, 2);
    assert!(done.err.contains("a/bad: "), "{}", done.err);
    assert_eq!(done.err.matches("is empty: name a handler").count(), 1, "{}", done.err);
}

#[tokio::test]
async fn nothing_is_written_when_the_server_refuses_one_job() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file(
        "jobs.yaml",
        "[{name: a/ok, handler: h}, {name: a/bad, cron: '1 2'}, {name: a/bad2}]",
    );
    let done = session.run(&["apply", "-f", "jobs.yaml"]).await;
    assert_eq!(done.exit, 2);
    for wanted in ["a/bad: ", "job.schedules[0].cron", "a/bad2: ", "job.handler"] {
        assert!(done.err.contains(wanted), "{wanted}: {}", done.err);
    }
    assert_eq!(fake.state().writes, 0);
}

#[tokio::test]
async fn a_change_in_between_is_a_conflict_and_the_others_go_on() {
    let (fake, session) = applied().await;
    session.file("jobs.yaml", &JOBS.replace("handler: hello", "handler: other"));
    fake.state().conflicts = 1;
    let done = session.run(&["apply", "-f", "jobs.yaml"]).await;
    assert_eq!(done.exit, 6, "{done:?}");
    assert!(done.out.contains("failed     demo/hello"), "{}", done.out);
    assert!(done.out.contains("updated    demo/report"), "{}", done.out);
    assert!(done.err.contains("ETAG_MISMATCH") && done.err.contains("1 of 2"), "{}", done.err);
}

#[tokio::test]
async fn faults_of_the_file_come_before_any_call() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("jobs.yaml", "- {name: a/b, handlr: x}\n- {name: c}\n");
    let done = session.run(&["apply", "-f", "jobs.yaml", "-f", "missing.yaml"]).await;
    assert_eq!(done.exit, 2);
    assert_eq!(done.err.lines().count(), 3, "{}", done.err);
    assert!(fake.state().calls.is_empty());
}

const RULES: &str = "
app: demo
alarmRules:
- name: broken
  condition: run-failed
  threshold: 2
  channels: [{webhook: {url: https://example.com/hook, secret: s3cret}}, {email: {to: [a@b.c]}}]
";

#[tokio::test]
async fn alarm_rules_are_made_compared_and_left_alone() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("rules.yaml", RULES);
    let apply = ["apply", "-f", "rules.yaml"];
    let dry = session.ok(&["apply", "-f", "rules.yaml", "--dry-run"]).await;
    assert!(dry.contains("create     alarm rule demo/broken"), "{dry}");
    assert!(fake.state().rules.is_empty());
    assert!(session.ok(&apply).await.contains("created    alarm rule demo/broken"));
    let again = session.ok(&apply).await;
    assert!(again.contains("unchanged  alarm rule demo/broken"), "{again}");
    // Without the secret, as an export has it.
    session.file("rules.yaml", &session.ok(&["export"]).await);
    assert!(session.ok(&apply).await.contains("unchanged  alarm rule demo/broken"));

    session.file("rules.yaml", &RULES.replace("threshold: 2", "threshold: 3"));
    let changed = session.ok(&apply).await;
    assert!(changed.contains("updated    alarm rule demo/broken\n  threshold: 2 → 3"), "{changed}");
    session.file("rules.yaml", &RULES.replace("s3cret", "other").replace(": 2", ": 3"));
    let dry = session.ok(&["apply", "-f", "rules.yaml", "--dry-run"]).await;
    assert!(dry.contains("update     alarm rule demo/broken\n  channels: "), "{dry}");
    assert!(!dry.contains("other\""), "{dry}");
    session.ok(&apply).await;
    assert!(session.ok(&apply).await.contains("unchanged  alarm rule demo/broken"));
}

#[tokio::test]
async fn faulty_rules_are_told_together_before_anything_is_written() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    let text = "app: demo\njobs: [{name: a, handler: h}]\nalarmRules: [{name: x}, {name: y}]\n";
    session.file("rules.yaml", text);
    let done = session.run(&["apply", "-f", "rules.yaml"]).await;
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(done.err.contains("demo/x: ") && done.err.contains("demo/y: "), "{}", done.err);
    assert!(fake.state().jobs.is_empty());
    session.file("rules.yaml", "app: demo\nalarmRules: [{name: x, conditon: run-failed}]\n");
    let done = session.run(&["apply", "-f", "rules.yaml"]).await;
    assert!(done.err.contains("conditon: unknown; is condition meant?"), "{}", done.err);
}

#[tokio::test]
async fn rules_are_pruned_only_in_apps_whose_rules_a_file_names() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("rules.yaml", RULES);
    session.file("other.yaml", &RULES.replace("demo", "other"));
    session.ok(&["apply", "-f", "rules.yaml", "-f", "other.yaml"]).await;
    let names = || fake.state().rules.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names().len(), 2);
    session.file("jobs.yaml", "app: demo\njobs: []\n");
    session.ok(&["apply", "-f", "jobs.yaml", "--prune", "--yes"]).await;
    assert_eq!(names().len(), 2, "the file says nothing of rules");
    session.file("jobs.yaml", "app: demo\njobs: []\nalarmRules: []\n");
    let done = session.run(&["apply", "-f", "jobs.yaml", "--prune"]).await;
    assert_eq!(done.exit, 2, "{done:?}");
    let out = session.ok(&["apply", "-f", "jobs.yaml", "--prune", "--yes"]).await;
    assert!(out.contains("deleted    alarm rule demo/broken"), "{out}");
    assert_eq!(names(), ["apps/other/alarmRules/broken"]);
}
