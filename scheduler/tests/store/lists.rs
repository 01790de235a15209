//! Lists of jobs and runs: filters, pages, what is left out, and counts.

use std::collections::BTreeMap;

use clawjob_scheduler::{
    model::{
        Payload,
        ids::{AppId, RunId},
        job::{Job, JobSpec, JobState},
        run::{NewRun, RunExtra, RunState, TriggerKind},
    },
    store::ops::{Condition, JobKey, JobOrder, JobQuery, NewJob, OpenCounts, RunQuery, Scheduled},
};

use super::fixture::{Fixture, at, ending, fire, to_e1};

async fn job_in(f: &Fixture, app: AppId, name: &str, spec: JobSpec, state: JobState) -> Job {
    let job = NewJob {
        app,
        name: name.to_owned(),
        state,
        spec,
        updated_by: "me".to_owned(),
        request: None,
    };
    f.store.create_job(&job, Box::new(|_| Vec::new()), at(0)).await.expect("a job")
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn one_of(field: &'static str, values: &[&str], negated: bool) -> Condition {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    Condition::OneOf { field, values, negated }
}

fn label(key: &str, value: Option<&str>, negated: bool) -> Condition {
    Condition::Label { key: key.to_owned(), value: value.map(str::to_owned), negated }
}

async fn job_names(f: &Fixture, query: JobQuery) -> Vec<String> {
    let jobs = f.store.list_jobs(&query).await.expect("jobs");
    jobs.into_iter().map(|job| format!("{}/{}", job.app_name, job.name)).collect()
}

fn jobs() -> JobQuery {
    JobQuery { limit: 100, ..JobQuery::default() }
}

/// bank/a (paused, team pay), shop/b (team pay, owner ann), shop/c (nothing).
async fn three_jobs(f: &Fixture) -> [Job; 3] {
    let bank = f.store.ensure_app("bank", at(0)).await.expect("an app");
    let pay = JobSpec {
        handler: "pay".to_owned(),
        labels: labels(&[("team", "pay")]),
        ..JobSpec::default()
    };
    let owned = JobSpec {
        owner: "ann".to_owned(),
        display_name: "Close the DAY_50%".to_owned(),
        ..pay.clone()
    };
    let plain = JobSpec { handler: "mail".to_owned(), ..JobSpec::default() };
    [
        job_in(f, bank.id, "a", pay, JobState::Paused).await,
        job_in(f, f.app.id, "b", owned, JobState::Active).await,
        job_in(f, f.app.id, "c", plain, JobState::Active).await,
    ]
}

pub(crate) async fn jobs_are_found_by_each_of_their_fields(f: &Fixture) {
    three_jobs(f).await;
    let contains =
        |field, text: &str, negated| Condition::Contains { field, text: text.to_owned(), negated };
    let cases: [(Condition, &[&str]); 15] = [
        (one_of("state", &["PAUSED"], false), &["bank/a"]),
        (one_of("state", &["PAUSED"], true), &["shop/b", "shop/c"]),
        (one_of("state", &["PAUSED", "ACTIVE"], false), &["bank/a", "shop/b", "shop/c"]),
        (one_of("handler", &["mail"], false), &["shop/c"]),
        (one_of("owner", &["ann"], true), &["bank/a", "shop/c"]),
        (one_of("owner", &[""], false), &["bank/a", "shop/c"]),
        (one_of("name", &["a", "c"], false), &["bank/a", "shop/c"]),
        (label("team", Some("pay"), false), &["bank/a", "shop/b"]),
        (label("team", Some("pay"), true), &["shop/c"]),
        (label("team", None, false), &["bank/a", "shop/b"]),
        (label("team", None, true), &["shop/c"]),
        (label("te'am", Some("pay"), false), &[]),
        (contains("display_name", "the day_50%", false), &["shop/b"]),
        (contains("display_name", "the day-", false), &[]),
        (contains("display_name", "close", true), &["bank/a", "shop/c"]),
    ];
    for (condition, expected) in cases {
        let query = JobQuery { conditions: vec![condition.clone()], ..jobs() };
        assert_eq!(job_names(f, query).await, expected, "{condition:?}");
    }
    let both = vec![label("team", None, false), one_of("state", &["ACTIVE"], false)];
    assert_eq!(job_names(f, JobQuery { conditions: both, ..jobs() }).await, ["shop/b"]);
    let apps = Some(vec![f.app.id]);
    assert_eq!(job_names(f, JobQuery { apps, ..jobs() }).await, ["shop/b", "shop/c"]);
    assert_eq!(job_names(f, JobQuery { apps: Some(Vec::new()), ..jobs() }).await, [""; 0]);
}

pub(crate) async fn jobs_come_page_by_page_in_each_order(f: &Fixture) {
    let [a, b, c] = three_jobs(f).await;
    let d = job_in(f, f.app.id, "d", JobSpec::default(), JobState::Active).await;
    // d and c fire at the same time, a and b not at all.
    let next = [(d.id, Some(at(50))), (c.id, Some(at(50)))];
    f.store.show_next_fires(&next).await.expect("shown");
    let orders: [(JobOrder, [&Job; 4]); 3] = [
        (JobOrder::Name, [&a, &b, &c, &d]),
        (JobOrder::Created, [&d, &c, &b, &a]),
        (JobOrder::NextFire, [&c, &d, &a, &b]),
    ];
    for (order, expected) in orders {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let query = JobQuery { order, after: after.take(), limit: 1, ..JobQuery::default() };
            let page = f.store.list_jobs(&query).await.expect("jobs");
            let Some(job) = page.into_iter().next() else { break };
            after = Some(JobKey {
                id: job.id,
                app_name: job.app_name.to_string(),
                name: job.name.to_string(),
                next_fire_at: job.next_fire_at,
            });
            seen.push(job.id);
        }
        assert_eq!(seen, expected.map(|job| job.id), "{order:?}");
    }
    let soon = Condition::Time { field: "next_fire_time", from: Some(at(50)), until: Some(at(51)) };
    let query = JobQuery { conditions: vec![soon], ..jobs() };
    assert_eq!(job_names(f, query).await, ["shop/c", "shop/d"]);
}

fn runs() -> RunQuery {
    RunQuery {
        apps: None,
        jobs: None,
        conditions: Vec::new(),
        scheduled: Scheduled::Without,
        ascending: false,
        after: None,
        limit: 100,
        full: false,
        now: at(30),
    }
}

async fn run_ids(f: &Fixture, query: RunQuery) -> Vec<RunId> {
    let page = f.store.list_runs(&query).await.expect("runs");
    page.into_iter().map(|record| record.run.id).collect()
}

/// A run of the job, ended in the state; 10 seconds of fire time each.
async fn ended(f: &Fixture, job: &Job, fire_at: i64, to: RunState) -> RunId {
    let sent = f.dispatched(f.planned(job, at(fire_at)).await).await;
    f.store.end_runs(&[ending(sent, to)], at(fire_at + 1)).await.expect("ended");
    sent.run
}

pub(crate) async fn runs_come_newest_first_whether_open_or_ended(f: &Fixture) {
    let job = f.job("a").await;
    let first = ended(f, &job, 10, RunState::Succeeded).await;
    let second = f.planned(&job, at(20)).await.run;
    let third = ended(f, &job, 30, RunState::Failed).await;
    let newest_first = [third, second, first];
    assert_eq!(run_ids(f, runs()).await, newest_first);
    let mut seen = Vec::new();
    let mut after = None;
    while let [id] = run_ids(f, RunQuery { after, limit: 1, ..runs() }).await[..] {
        seen.push(id);
        after = Some(id);
    }
    assert_eq!(seen, newest_first);
    let oldest = RunQuery { ascending: true, after: Some(first), ..runs() };
    assert_eq!(run_ids(f, oldest).await, [second, third]);
}

pub(crate) async fn runs_to_come_are_shown_to_those_who_ask(f: &Fixture) {
    let job = f.job("a").await;
    let due = f.planned(&job, at(30)).await.run;
    let to_come = f.planned(&job, at(31)).await.run;
    assert_eq!(run_ids(f, runs()).await, [due]);
    let with = RunQuery { scheduled: Scheduled::With, ..runs() };
    assert_eq!(run_ids(f, with).await, [to_come, due]);
    let only = RunQuery { scheduled: Scheduled::Only, ..runs() };
    assert_eq!(run_ids(f, only).await, [to_come]);
    let queued = vec![one_of("state", &["QUEUED"], false)];
    let with = RunQuery { conditions: queued, scheduled: Scheduled::With, ..runs() };
    assert_eq!(run_ids(f, with).await, [due]);
    assert_eq!(run_ids(f, RunQuery { now: at(31), ..runs() }).await, [to_come, due]);
}

pub(crate) async fn runs_are_found_by_each_of_their_fields(f: &Fixture) {
    let [bank, shop, plain] = three_jobs(f).await;
    let failed = ended(f, &bank, 10, RunState::Failed).await;
    let good = ended(f, &shop, 11, RunState::Succeeded).await;
    let extra = RunExtra { labels: labels(&[("team", "mail")]), ..RunExtra::default() };
    let by_hand = NewRun {
        id: RunId::by_hand(at(12), 5),
        trigger: TriggerKind::Api,
        extra: Some(Box::new(extra)),
        ..fire(&shop, at(12))
    };
    let by_hand = f.store.create_run(&by_hand, None, at(12)).await.expect("a run");
    let waiting = f.planned(&plain, at(13)).await.run;
    let time = |field, from: Option<i64>, until: Option<i64>| Condition::Time {
        field,
        from: from.map(at),
        until: until.map(at),
    };
    let cases: [(Condition, &[RunId]); 13] = [
        (one_of("state", &["FAILED"], false), &[failed]),
        (one_of("state", &["FAILED", "QUEUED"], false), &[waiting, by_hand, failed]),
        (one_of("state", &["SUCCEEDED"], true), &[waiting, by_hand, failed]),
        (one_of("trigger", &["API"], false), &[by_hand]),
        (one_of("executor", &["e1"], false), &[good, failed]),
        (one_of("executor", &["e1"], true), &[waiting, by_hand]),
        (time("fire_time", Some(11), Some(13)), &[by_hand, good]),
        (time("create_time", Some(5), None), &[by_hand]),
        (label("team", Some("pay"), false), &[good, failed]),
        (label("team", Some("mail"), false), &[by_hand]),
        (label("team", Some("pay"), true), &[waiting, by_hand]),
        (label("team", None, true), &[waiting]),
        (label("none", None, false), &[]),
    ];
    for (condition, expected) in cases {
        let query = RunQuery { conditions: vec![condition.clone()], ..runs() };
        assert_eq!(run_ids(f, query).await, expected, "{condition:?}");
    }
    let of_app = RunQuery { apps: Some(vec![bank.app]), ..runs() };
    assert_eq!(run_ids(f, of_app).await, [failed]);
    let of_jobs = RunQuery { jobs: Some(vec![bank.id, plain.id]), ..runs() };
    assert_eq!(run_ids(f, of_jobs).await, [waiting, failed]);
    let of_both = RunQuery { apps: Some(vec![f.app.id]), jobs: Some(vec![bank.id]), ..runs() };
    assert_eq!(run_ids(f, of_both).await, []);
    let paged = RunQuery { apps: Some(vec![f.app.id, bank.app]), limit: 2, ..runs() };
    assert_eq!(run_ids(f, RunQuery { after: Some(by_hand), ..paged }).await, [good, failed]);
}

pub(crate) async fn only_a_full_view_has_params_output_and_attempts(f: &Fixture) {
    let job = f.job("a").await;
    let text =
        |text: &'static str| Payload { content_type: "text/plain".to_owned(), data: text.into() };
    let extra = RunExtra { params: Some(text("in")), ..RunExtra::default() };
    let run = NewRun {
        id: RunId::by_hand(at(5), 1),
        extra: Some(Box::new(extra.clone())),
        ..fire(&job, at(5))
    };
    f.store.create_run(&run, None, at(5)).await.expect("a run");
    let queued = f.open(run.id).await.attempt_ref();
    let sent = f.store.dispatch(&to_e1(queued), at(6)).await.expect("sent")[0];
    let mut end = ending(sent, RunState::Succeeded);
    end.output = Some(text("out"));
    f.store.end_runs(&[end], at(7)).await.expect("ended");
    let full = f.store.list_runs(&RunQuery { full: true, ..runs() }).await.expect("runs");
    let [full] = &full[..] else { panic!("one run: {full:?}") };
    assert_eq!(full.output, Some(text("out")));
    assert_eq!(full.run.extra.as_deref(), Some(&extra));
    assert_eq!(full.attempts.len(), 1);
    assert_eq!(full.attempts[0].executor.as_deref(), Some("e1"));
    assert_eq!((&*full.app_name, &*full.job_name), ("shop", "a"));
    assert_eq!(f.store.get_run(run.id).await.expect("found"), *full);
    let basic = f.store.get_runs(&[run.id, RunId::by_hand(at(5), 2)], false).await.expect("runs");
    let [basic] = &basic[..] else { panic!("one run: {basic:?}") };
    assert_eq!((&basic.output, basic.attempts.len()), (&None, 0));
    assert_eq!(basic.run.extra.as_ref().and_then(|extra| extra.params.clone()), None);
    assert_eq!(basic.run.state, RunState::Succeeded);
}

pub(crate) async fn open_runs_are_counted_by_what_they_do(f: &Fixture) {
    assert_eq!(f.store.count_open(at(0)).await.expect("counts"), OpenCounts::default());
    for (name, state) in [
        ("a", RunState::Queued),
        ("b", RunState::Dispatched),
        ("c", RunState::Running),
        ("d", RunState::Canceling),
        ("e", RunState::RetryWait),
    ] {
        f.run_in(name, state).await;
    }
    let job = f.store.get_job("shop", "a").await.expect("found");
    f.planned(&job, at(40)).await;
    let counts = f.store.count_open(at(30)).await.expect("counts");
    let expected =
        OpenCounts { queued: 1, scheduled: 1, running: 3, retry_wait: 1, oldest_due: Some(at(10)) };
    assert_eq!(counts, expected);
}
