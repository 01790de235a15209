//! `calendars`, and calendars in files; `jobs diff`, `jobs backfill`, `forecast`.

use clawjob_proto::v1::{self as pb, forecast_runs_response::Fire};

use crate::{fake::Fake, harness::Session};

const FILE: &str = r#"
app: demo
calendars:
- name: holidays
  dates: ["2026-12-25", "2026-12-24"]
- name: work
  weekdays: [mon, fri]
jobs:
- name: hello
  cron: 0 9 * * *
  includeCalendars: [work]
  excludeCalendars: [holidays, other/days]
  handler: hello
"#;

async fn session() -> (Fake, Session) {
    let (fake, url) = Fake::start().await;
    (fake, Session::new(url))
}

#[tokio::test]
async fn a_calendar_is_made_changed_by_what_is_named_and_deleted() {
    let (fake, session) = session().await;
    session.ok(&["calendars", "create", "demo/days", "--weekdays", "sat,7"]).await;
    assert_eq!(fake.state().calendars["apps/demo/calendars/days"].weekdays, [6, 7]);
    let shown = session.ok(&["calendars", "update", "demo/days", "--date", "2026-12-25"]).await;
    assert!(shown.contains("sat, sun") && shown.contains("2026-12-25"), "{shown}");
    let list = session.ok(&["calendars", "list", "--app", "demo"]).await;
    assert!(list.contains("demo/days"), "{list}");
    let nothing = session.run(&["calendars", "update", "demo/days"]).await;
    assert_eq!(nothing.exit, 2, "{nothing:?}");
    assert_eq!(session.ok(&["calendars", "delete", "demo/days"]).await, "deleted demo/days\n");
    assert_eq!(session.run(&["calendars", "get", "demo/days"]).await.exit, 3);
}

#[tokio::test]
async fn a_file_makes_calendars_before_the_jobs_that_name_them_and_nothing_twice() {
    let (fake, session) = session().await;
    session.file("jobs.yaml", FILE);
    let out = session.ok(&["apply", "-f", "jobs.yaml"]).await;
    let wanted = "created    calendar demo/holidays\ncreated    calendar demo/work\n\
                  created    demo/hello\n";
    assert_eq!(out, wanted);
    let job = fake.state().jobs["apps/demo/jobs/hello"].clone();
    assert_eq!(job.schedules[0].include_calendars, ["apps/demo/calendars/work"]);
    let excluded = ["apps/demo/calendars/holidays", "apps/other/calendars/days"];
    assert_eq!(job.schedules[0].exclude_calendars, excluded);
    let writes = fake.state().writes;
    for export in ["yaml", "json"] {
        let text = session.ok(&["-o", export, "export"]).await;
        session.file("export", &text);
        let again = session.run(&["apply", "--prune", "-f", "export"]).await;
        assert!(again.err.contains("3 unchanged"), "{again:?}\n{text}");
    }
    assert_eq!(fake.state().writes, writes);
    // What the file lacks goes, the calendar after the job that used it.
    session.file("less.yaml", "app: demo\ncalendars: [{name: work, weekdays: [2]}]\njobs: []\n");
    let out = session.ok(&["apply", "--prune", "-y", "-f", "less.yaml"]).await;
    let wanted = "updated    calendar demo/work\n  weekdays[0]: 1 → 2\n  weekdays[1]: 5 → (not set)\n\
                  deleted    demo/hello\ndeleted    calendar demo/holidays\n";
    assert_eq!(out, wanted);
}

#[tokio::test]
async fn a_difference_of_revisions_names_who_and_what() {
    let (_fake, session) = session().await;
    session.ok(&["jobs", "create", "demo/a", "--handler", "one", "--cron", "0 9 * * *"]).await;
    session.ok(&["jobs", "update", "demo/a", "--handler", "two"]).await;
    session.ok(&["jobs", "update", "demo/a", "--timeout", "5m"]).await;
    let last = session.ok(&["jobs", "diff", "demo/a"]).await;
    assert!(last.starts_with("revision 2 → 3, by "), "{last}");
    assert!(last.contains("  timeout: (not set) → \"300s\"\n"), "{last}");
    let all = session.run(&["-o", "json", "jobs", "diff", "demo/a", "--from", "1", "--to", "3"]);
    let all = all.await.json();
    let fields: Vec<_> =
        all["changes"].as_array().unwrap().iter().map(|change| change["field"].clone()).collect();
    assert_eq!(fields, ["handler", "timeout"]);
    let missing = session.run(&["jobs", "diff", "demo/a", "--from", "9"]).await;
    assert_eq!(missing.exit, 2);
    assert!(missing.err.contains("no revision 9"), "{}", missing.err);
    let revisions = session.ok(&["jobs", "revisions", "demo/a"]).await;
    assert_eq!(revisions.lines().count(), 4, "{revisions}");
}

#[tokio::test]
async fn a_backfill_sends_the_range_and_prints_the_counts() {
    let (fake, session) = session().await;
    let range = ["--from", "2026-03-01 09:00", "--to", "2026-03-02T00:00:00Z"];
    let mut args = vec!["jobs", "backfill", "demo/a", "--max-concurrency", "4", "--dry-run"];
    args.extend(range);
    let out = session.ok(&args).await;
    assert!(out.contains("3 to be made") && out.contains("1 fire time with a run"), "{out}");
    let asked = fake.state().backfills[0].clone();
    assert_eq!((asked.name.as_str(), asked.max_concurrency), ("apps/demo/jobs/a", 4));
    // The local zone of the session is Asia/Shanghai.
    assert_eq!(asked.start_time.unwrap().seconds, 1_772_326_800);
    assert!(asked.validate_only && !asked.request_id.is_empty());
    let bad = session.run(&["jobs", "backfill", "demo/a", "--from", "x", "--to", "y"]).await;
    assert!(bad.err.contains("--from") && bad.err.contains("--to"), "{bad:?}");
}

#[tokio::test]
async fn a_forecast_shows_zones_handlers_and_minutes_that_are_crowded() {
    let (fake, session) = session().await;
    let fire = |job: String, seconds: i64, zone: &str| Fire {
        job: format!("apps/demo/jobs/{job}"),
        fire_time: Some(prost_types::Timestamp { seconds: 1_772_326_800 + seconds, nanos: 0 }),
        time_zone: zone.into(),
        handler: "hello".into(),
        due_time: None,
    };
    let mut fires: Vec<Fire> = (0..11).map(|n| fire(format!("j{n}"), 30, "UTC")).collect();
    fires.push(fire("late".into(), 3600, "Europe/Berlin"));
    fake.state().fires = fires;
    let out = session.ok(&["forecast", "--hours", "2"]).await;
    assert!(
        out.contains("Sun 01:00:30 UTC") && out.contains("Sun 03:00:00 Europe/Berlin"),
        "{out}"
    );
    assert!(out.contains("minutes with many jobs:\n  2026-03-01 09:00:00+08:00  11 jobs"), "{out}");
    let json = session.run(&["-o", "json", "forecast"]).await.json();
    assert_eq!(json["fires"].as_array().unwrap().len(), 12);
}

#[tokio::test]
async fn a_new_job_is_told_what_the_server_remarks_on_its_schedule() {
    let (_fake, session) = session().await;
    let done = session
        .run(&["jobs", "create", "demo/a", "--handler", "hello", "--cron", "0 2 * * *"])
        .await;
    assert_eq!(done.exit, 0);
    assert!(done.err.contains("note: a skipped hour"), "{}", done.err);
}

#[tokio::test]
async fn each_next_fire_time_is_shown_in_the_zone_of_its_schedule() {
    let (fake, session) = session().await;
    session
        .ok(&[
            "jobs",
            "create",
            "demo/a",
            "--handler",
            "hello",
            "--cron",
            "0 2 * * *",
            "--tz",
            "UTC",
        ])
        .await;
    let second = pb::Schedule {
        trigger: Some(pb::schedule::Trigger::Cron("0 3 * * *".into())),
        time_zone: "Europe/Berlin".into(),
        ..pb::Schedule::default()
    };
    fake.state().jobs.get_mut("apps/demo/jobs/a").unwrap().schedules.push(second);
    let out = session.ok(&["jobs", "next", "demo/a", "-n", "1"]).await;
    assert!(out.contains("Europe/Berlin = ") && out.contains(" UTC"), "{out}");
}
