//! `jobs`, `cron`, `tokens`: what is sent and what is printed.

use clawjob_proto::{
    json,
    v1::{Job, ListJobsResponse},
};

use crate::{fake::Fake, harness::Session};

async fn with_jobs(count: usize) -> (Fake, Session) {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    for n in 0..count {
        let name = format!("demo/job{n}");
        let cron = ["--cron", "0 9 * * *", "--tz", "Asia/Shanghai"];
        let mut args = vec!["jobs", "create", &name, "--handler", "hello"];
        args.extend(cron);
        session.ok(&args).await;
    }
    fake.state().calls.clear();
    (fake, session)
}

#[tokio::test]
async fn json_is_the_contracts_own() {
    let (fake, session) = with_jobs(1).await;
    let done = session.run(&["-o", "json", "jobs", "get", "demo/job0"]).await;
    let job = fake.state().jobs["apps/demo/jobs/job0"].clone();
    assert_eq!(done.json(), json::to_value(&job).unwrap());
    assert_eq!(json::from_value::<Job>(done.json(), false).unwrap(), job);
    let yaml = session.ok(&["-o", "yaml", "jobs", "get", "demo/job0"]).await;
    let value: serde_json::Value = serde_norway::from_str(&yaml).unwrap();
    assert_eq!(value, done.json());
}

#[tokio::test]
async fn lists_go_through_all_pages_up_to_the_limit() {
    let (fake, session) = with_jobs(7).await;
    fake.state().page_max = 3;
    let done = session.run(&["jobs", "list", "-o", "json"]).await;
    let all: ListJobsResponse = json::from_value(done.json(), false).unwrap();
    assert_eq!((all.jobs.len(), all.next_page_token.as_str()), (7, ""));
    assert_eq!(fake.state().calls, ["list_jobs"; 3]);
    let cut = session.run(&["jobs", "list", "-o", "json", "--limit", "5"]).await.json();
    assert_eq!(cut["jobs"].as_array().unwrap().len(), 5);
    assert_eq!(cut["nextPageToken"], "5");
    let rest = session.ok(&["-o", "yaml", "jobs", "list", "--page-token", "5"]).await;
    let rest: serde_json::Value = serde_norway::from_str(&rest).unwrap();
    assert_eq!(rest["jobs"][0]["name"], "apps/demo/jobs/job5");
    assert_eq!(rest["jobs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_empty_list_is_valid_in_every_format() {
    let (_fake, session) = with_jobs(0).await;
    assert_eq!(
        session.run(&["-o", "json", "jobs", "list"]).await.json()["jobs"],
        serde_json::json!([])
    );
    assert_eq!(session.ok(&["-o", "yaml", "jobs", "list"]).await, "jobs: []\n");
    let table = session.run(&["jobs", "list"]).await;
    assert_eq!((table.exit, table.out.as_str(), table.err.as_str()), (0, "", "no jobs\n"));
}

#[tokio::test]
async fn a_table_over_several_pages_has_one_header_and_straight_columns() {
    let (fake, session) = with_jobs(4).await;
    fake.state().page_max = 2;
    let out = session.ok(&["jobs", "list"]).await;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 5, "{out}");
    let column = lines[0].find("HANDLER").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("hello")), "{out}");
    assert!(lines[1].starts_with("demo/job0  ACTIVE  0 9 * * * (Asia/Shanghai)"), "{out}");
}

#[tokio::test]
async fn update_sends_only_what_is_named_and_tries_again_on_a_conflict() {
    let (fake, session) = with_jobs(1).await;
    let before = fake.state().jobs["apps/demo/jobs/job0"].clone();
    let args = ["--app", "demo", "jobs", "update", "job0", "--timeout", "9s", "--retries", "2"];
    session.ok(&args).await;
    let after = fake.state().jobs["apps/demo/jobs/job0"].clone();
    assert_eq!(after.timeout.unwrap().seconds, 9);
    assert_eq!(after.retry.as_ref().unwrap().max_attempts, 3);
    assert_eq!((&after.schedules, &after.handler), (&before.schedules, &before.handler));

    fake.state().calls.clear();
    // Only the write fails: the read before it takes no scripted failure.
    fake.state().conflicts = 1;
    session.ok(&["jobs", "update", "demo/job0", "--label", "a=1"]).await;
    assert_eq!(fake.state().calls, ["get_job", "update_job", "get_job", "update_job"]);
    fake.state().conflicts = 9;
    assert_eq!(session.run(&["jobs", "update", "demo/job0", "--label", "a=2"]).await.exit, 6);
}

#[tokio::test]
async fn names_work_in_every_form() {
    let (_fake, session) = with_jobs(1).await;
    for args in [
        &["jobs", "pause", "apps/demo/jobs/job0"][..],
        &["jobs", "resume", "demo/job0"],
        &["jobs", "resume", "job0", "--app", "demo"],
    ] {
        session.ok(args).await;
    }
    assert_eq!(session.ok(&["jobs", "delete", "demo/job0"]).await, "deleted demo/job0\n");
}

#[tokio::test]
async fn filters_are_made_from_flags() {
    let (fake, session) = with_jobs(0).await;
    session.ok(&["jobs", "list", "--state", "paused", "--label", "team=a"]).await;
    assert_eq!(fake.state().filters, ["state = STATE_PAUSED AND labels.team = \"a\""]);
}

#[tokio::test]
async fn cron_next_shows_the_zone_of_the_schedule_and_the_local_one() {
    let (_fake, session) = with_jobs(0).await;
    let args = ["cron", "next", "0 * * * *", "--tz", "Europe/Paris", "-n", "1"];
    let done = session.run(&args).await;
    assert_eq!(
        done.out,
        "dialect:  unix\nmeans:    every hour\n\
         Sun 2026-03-01 03:00:00+01:00  (2026-03-01 10:00:00+08:00)\n"
    );
    assert_eq!(done.err, "note: a skipped hour\n");
}

#[tokio::test]
async fn a_new_tokens_secret_is_alone_on_stdout() {
    let (_fake, session) = with_jobs(0).await;
    let args = ["tokens", "create", "worker", "--app", "demo", "--role", "executor"];
    let done = session.run(&args).await;
    assert_eq!(done.out, "cj_secret\n");
    assert!(done.err.contains("demo=executor"), "{}", done.err);
    let mut json = args.to_vec();
    json.extend(["-o", "json"]);
    let answer = session.run(&json).await.json();
    assert_eq!(
        (&answer["secret"], &answer["token"]["name"]),
        (&"cj_secret".into(), &"tokens/t1".into())
    );
}

#[tokio::test]
async fn completions_know_the_commands_of_every_shell() {
    let (_fake, session) = with_jobs(0).await;
    for shell in ["bash", "zsh", "fish"] {
        let script = session.ok(&["completions", shell]).await;
        assert!(script.contains("cordon") && script.contains("apply"), "{shell}");
    }
}

#[test]
fn the_parser_is_sound() {
    <crate::harness::Cli as clap::CommandFactory>::command().debug_assert();
}

#[tokio::test]
async fn a_handler_that_nobody_offers_is_warned_of_with_those_on_offer() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    let offers = [("demo".to_owned(), vec!["hello", "report"])];
    fake.state().handlers = Some(offers.into());
    let create = async |name: &str, handler: &str| {
        let done = session.run(&["jobs", "create", name, "--handler", handler]).await;
        assert_eq!(done.exit, 0, "{done:?}");
        done.err
    };
    assert_eq!(create("demo/a", "hello").await, "");
    let warned = create("demo/b", "helo").await;
    assert!(warned.contains("demo/b: nobody offers the handler \"helo\""), "{warned}");
    assert!(warned.contains("on offer in demo: hello, report"), "{warned}");
    let warned = create("other/c", "hello").await;
    assert!(warned.contains("no executor of other is connected"), "{warned}");

    let done = session.run(&["jobs", "update", "demo/a", "--handler", "reprot"]).await;
    assert!(done.err.contains("demo/a: nobody offers the handler \"reprot\""), "{done:?}");
    let done = session.run(&["jobs", "update", "demo/a", "--display-name", "A"]).await;
    assert_eq!((done.exit, &*done.err), (0, ""), "nothing was said of its handler");
}

#[tokio::test]
async fn apply_warns_of_handlers_that_nobody_offers_once_for_each_job_it_writes() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    fake.state().handlers = Some([("demo".to_owned(), vec!["hello"])].into());
    let jobs = "app: demo\njobs:\n- {name: a, handler: hello}\n- {name: b, handler: helo}\n";
    session.file("jobs.yaml", jobs);
    let warnings = |err: &str| err.lines().filter(|line| line.starts_with("warning: ")).count();
    for (args, warned) in [
        (&["apply", "-f", "jobs.yaml", "--dry-run"][..], 1),
        (&["apply", "-f", "jobs.yaml"][..], 1),
        (&["apply", "-f", "jobs.yaml"][..], 0),
    ] {
        let done = session.run(args).await;
        assert_eq!((done.exit, warnings(&done.err)), (0, warned), "{done:?}");
    }
}

#[tokio::test]
async fn a_delete_asks_on_a_terminal_and_nowhere_else() {
    let (fake, url) = Fake::start().await;
    let mut session = Session::new(url);
    let there = || fake.state().jobs.contains_key("apps/demo/jobs/a");
    for (interactive, input, args, deleted) in [
        (true, "n\n", &["jobs", "delete", "demo/a"][..], false),
        (true, "", &["jobs", "delete", "demo/a"], false),
        (true, "y\n", &["jobs", "delete", "demo/a"], true),
        (true, "", &["jobs", "delete", "demo/a", "--yes"], true),
        (false, "", &["jobs", "delete", "demo/a"], true),
    ] {
        if !there() {
            session.ok(&["jobs", "create", "demo/a", "--handler", "h"]).await;
        }
        (session.interactive, session.input) = (interactive, input);
        let done = session.run(args).await;
        assert_eq!((done.exit == 0, !there()), (deleted, deleted), "{done:?}");
        let asks = interactive && !args.contains(&"--yes");
        assert_eq!(done.err.contains("delete job demo/a? [y/N]"), asks, "{done:?}");
        (session.interactive, session.input) = (false, "");
    }
}
