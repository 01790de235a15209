//! Jobs: made, changed and planned anew in one step; runs by hand.

use std::time::Duration;

use chrono::TimeDelta;
use clawjob_scheduler::{
    model::{
        ids::{JobId, RunId},
        job::{Job, JobSpec, JobState},
        plan,
        run::{NewRun, RunExtra, RunState, TriggerKind},
        schedule::{Schedule, Trigger},
    },
    store::{
        StoreError,
        ops::{Addressee, JobChange, NewJob, Replan, ReplanInput, RequestKey, RunScope},
    },
};

use super::fixture::{Fixture, at, ending, fire};

fn new(f: &Fixture, name: &str) -> NewJob {
    NewJob {
        app: f.app.id,
        name: name.to_owned(),
        state: JobState::Active,
        spec: JobSpec { handler: "h".to_owned(), ..JobSpec::default() },
        updated_by: "ann".to_owned(),
        request: None,
    }
}

fn no_runs() -> Replan {
    Box::new(|_| Vec::new())
}

/// Plans the given instants.
fn runs_at(seconds: &'static [i64]) -> Replan {
    Box::new(|input: &ReplanInput| seconds.iter().map(|s| fire(&input.job, at(*s))).collect())
}

fn change() -> JobChange {
    JobChange::by("bob")
}

fn request(body: u8) -> Option<RequestKey> {
    Some(RequestKey { key: "ann/CreateJob/1".to_owned(), body_hash: vec![body; 32] })
}

async fn open_ids(f: &Fixture, job: JobId) -> Vec<RunId> {
    let scope = RunScope::Jobs(vec![job]);
    let open = f.store.load_open_runs(&scope).await.expect("open runs");
    let mut ids: Vec<RunId> = open.runs.iter().map(|run| run.id).collect();
    ids.sort_unstable();
    ids
}

fn ids(job: &Job, seconds: &[i64]) -> Vec<RunId> {
    seconds.iter().map(|s| RunId::scheduled(job.id, at(*s))).collect()
}

pub(crate) async fn a_new_job_is_found_as_it_was_made(f: &Fixture) {
    let job = f.store.create_job(&new(f, "a"), no_runs(), at(1)).await.expect("a job");
    assert_eq!(f.store.get_job("shop", "a").await.expect("found"), job);
    assert_eq!((job.revision, job.version, job.state), (1, 1, JobState::Active));
    assert_eq!((&*job.app_name, &*job.name), ("shop", "a"));
    assert_eq!(job.partition, job.id.partition());
    assert_eq!((job.created_at, job.updated_at, job.effective_from), (at(1), at(1), at(1)));
    assert_eq!((job.updated_by.as_str(), job.deleted), ("ann", false));
    assert_eq!(job.spec.handler, "h");
    let missing = f.store.get_job("shop", "b").await.expect_err("no such job");
    assert!(matches!(missing, StoreError::NotFound(_)), "{missing}");
}

pub(crate) async fn a_name_belongs_to_one_living_job(f: &Fixture) {
    let first = f.job("a").await;
    let taken = f.store.create_job(&new(f, "a"), no_runs(), at(1)).await.expect_err("taken");
    assert!(matches!(taken, StoreError::AlreadyExists(_)), "{taken}");
    let delete = JobChange { delete: true, drop_due: true, ..change() };
    f.store.change_job(first.id, &delete, no_runs(), at(2)).await.expect("deleted");
    let gone = f.store.get_job("shop", "a").await.expect_err("deleted");
    assert!(matches!(gone, StoreError::NotFound(_)), "{gone}");
    let second = f.store.create_job(&new(f, "a"), no_runs(), at(3)).await.expect("free again");
    assert_ne!(second.id, first.id);
    let again = f.store.change_job(first.id, &change(), no_runs(), at(4)).await;
    assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
}

pub(crate) async fn a_repeated_request_makes_one_job(f: &Fixture) {
    let asked = NewJob { request: request(1), ..new(f, "a") };
    let first = f.store.create_job(&asked, no_runs(), at(1)).await.expect("a job");
    let again = f.store.create_job(&asked, no_runs(), at(2)).await.expect("the same job");
    assert_eq!(again, first);
    let other = NewJob { request: request(2), ..new(f, "b") };
    let reused = f.store.create_job(&other, no_runs(), at(3)).await.expect_err("reused");
    assert!(matches!(reused, StoreError::Conflict(_)), "{reused}");
    // A request that failed leaves its id free.
    let key = Some(RequestKey { key: "ann/CreateJob/2".to_owned(), body_hash: vec![3; 32] });
    let taken = NewJob { request: key.clone(), ..new(f, "a") };
    f.store.create_job(&taken, no_runs(), at(4)).await.expect_err("the name is taken");
    let free = NewJob { request: key, ..new(f, "c") };
    f.store.create_job(&free, no_runs(), at(5)).await.expect("made");
}

pub(crate) async fn a_new_job_comes_with_the_runs_of_its_first_seconds(f: &Fixture) {
    let job = f.store.create_job(&new(f, "a"), runs_at(&[3, 5]), at(1)).await.expect("a job");
    assert_eq!(open_ids(f, job.id).await, ids(&job, &[3, 5]));
    let mut waiting = f.drain_inbox().await.ids;
    waiting.sort_unstable();
    assert_eq!(waiting, ids(&job, &[3, 5]));
    let run = f.open(RunId::scheduled(job.id, at(3))).await;
    assert_eq!((run.state, run.attempt, run.fence, run.revision), (RunState::Queued, 1, 0, 1));
}

pub(crate) async fn a_replan_sees_the_job_as_it_will_be_and_its_partition(f: &Fixture) {
    let job = f.job("a").await;
    let before = f.partition(job.partition).await;
    let (sender, receiver) = std::sync::mpsc::channel();
    let look: Replan = Box::new(move |input: &ReplanInput| {
        sender.send(input.clone()).expect("the case waits");
        Vec::new()
    });
    let paused = JobChange {
        state: Some((JobState::Paused, Some(at(90)), "holiday".to_owned())),
        ..change()
    };
    let after = f.store.change_job(job.id, &paused, look, at(2)).await.expect("changed");
    let seen = receiver.recv().expect("the replan was called");
    assert_eq!((seen.job.clone(), seen.now), (after.clone(), at(2)));
    assert_eq!(seen.partition.jobs_version, before.jobs_version + 1);
    assert_eq!(seen.partition.planned_until, before.planned_until);
    assert_eq!((after.state, after.pause_until), (JobState::Paused, Some(at(90))));
    assert_eq!((after.pause_reason.as_str(), after.version, after.revision), ("holiday", 2, 1));
    assert_eq!(f.store.get_job("shop", "a").await.expect("found"), after);
}

pub(crate) async fn a_change_under_an_old_version_changes_nothing(f: &Fixture) {
    let job = f.job("a").await;
    let first = JobChange { version: Some(1), ..change() };
    let after = f.store.change_job(job.id, &first, no_runs(), at(2)).await.expect("changed");
    let version = f.partition(job.partition).await.jobs_version;
    let stale = f.store.change_job(job.id, &first, no_runs(), at(3)).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    assert_eq!(f.store.get_job("shop", "a").await.expect("found"), after);
    assert_eq!(f.partition(job.partition).await.jobs_version, version);
}

pub(crate) async fn changes_at_the_same_time_are_made_or_refused_each_for_itself(f: &Fixture) {
    const JOBS: usize = 24;
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        let new = new(f, &format!("j{n}"));
        jobs.push(f.store.create_job(&new, runs_at(&[3, 60]), at(1)).await.expect("a job"));
    }
    f.drain_inbox().await;
    let circle =
        |job: &Job| JobSpec { on_success: vec![job.resource_name()], ..JobSpec::default() };
    let content = |n: usize| JobSpec { handler: format!("h{n}"), ..JobSpec::default() };
    let changes = jobs.iter().enumerate().map(|(n, job)| match n % 6 {
        0 => JobChange { version: Some(9), spec: Some(content(n)), ..change() },
        1 => JobChange { spec: Some(circle(job)), ..change() },
        2 => JobChange { delete: true, drop_due: true, ..change() },
        3 => JobChange {
            state: Some((JobState::Paused, Some(at(90)), format!("p{n}"))),
            drop_due: true,
            ..change()
        },
        _ => JobChange { spec: Some(content(n)), ..change() },
    });
    let changes: Vec<JobChange> = changes.collect();
    // Each twice: the second comes after the first.
    let all = jobs.iter().zip(&changes).flat_map(|pair| [pair, pair]);
    let made = all.map(|(job, change)| f.store.change_job(job.id, change, runs_at(&[70]), at(4)));
    let made: Vec<_> = futures::future::join_all(made).await;
    for (n, (job, made)) in jobs.iter().zip(made.chunks(2)).enumerate() {
        let versions: Vec<_> =
            made.iter().map(|made| made.as_ref().ok().map(|j| j.version)).collect();
        let stored = f.store.get_job("shop", &job.name).await;
        let open = open_ids(f, job.id).await;
        match n % 6 {
            0 | 1 => {
                let refused = |made: &_| matches!(made, Err(StoreError::Conflict(_)));
                assert!(made.iter().all(refused), "{n}: {made:?}");
                assert_eq!(stored.expect("as it was"), *job);
                assert_eq!(open, ids(job, &[3, 60]));
            }
            2 => {
                assert_eq!(versions, [Some(2), None]);
                assert!(matches!(made[1], Err(StoreError::NotFound(_))), "{n}: {made:?}");
                stored.expect_err("deleted");
                assert_eq!(open, ids(job, &[70]));
            }
            3 => {
                assert_eq!(versions, [Some(2), Some(3)]);
                let stored = stored.expect("paused");
                assert_eq!(
                    (stored.state, stored.pause_reason),
                    (JobState::Paused, format!("p{n}"))
                );
                assert_eq!(open, ids(job, &[70]));
            }
            _ => {
                assert_eq!(versions, [Some(2), Some(3)]);
                assert_eq!(*stored.expect("changed").spec, content(n));
                assert_eq!(open, ids(job, &[3, 70]));
            }
        }
    }
}

pub(crate) async fn a_change_plans_the_runs_to_come_anew(f: &Fixture) {
    let job = f.store.create_job(&new(f, "a"), runs_at(&[3, 5, 7]), at(1)).await.expect("a job");
    f.drain_inbox().await;
    let spec = JobSpec { handler: "other".to_owned(), ..JobSpec::default() };
    let edit = JobChange { spec: Some(spec), ..change() };
    let after = f.store.change_job(job.id, &edit, runs_at(&[6, 7]), at(4)).await.expect("changed");
    // What was due stays; what was to come is the new spec's.
    assert_eq!(open_ids(f, job.id).await, ids(&job, &[3, 6, 7]));
    assert_eq!(f.open(RunId::scheduled(job.id, at(3))).await.revision, 1);
    assert_eq!(f.open(RunId::scheduled(job.id, at(7))).await.revision, 2);
    assert_eq!((after.revision, after.version, &*after.spec.handler), (2, 2, "other"));
    let mut told = f.drain_inbox().await.ids;
    told.sort_unstable();
    assert_eq!(told, ids(&job, &[5, 6, 7]));
}

pub(crate) async fn a_pause_skips_the_due_runs_too_but_none_that_was_sent(f: &Fixture) {
    let runs = runs_at(&[10, 12, 14]);
    let job = f.store.create_job(&new(f, "a"), runs, at(1)).await.expect("a job");
    f.drain_inbox().await;
    let due = f.open(RunId::scheduled(job.id, at(10))).await.attempt_ref();
    let sent = f.dispatched(due).await;
    let by_hand =
        NewRun { id: RunId::by_hand(at(11), 7), trigger: TriggerKind::Api, ..fire(&job, at(11)) };
    f.store.create_run(&by_hand, None, at(11)).await.expect("a run by hand");
    let pause = JobChange {
        state: Some((JobState::Paused, None, String::new())),
        drop_due: true,
        ..change()
    };
    f.store.change_job(job.id, &pause, no_runs(), at(13)).await.expect("paused");
    let mut left = vec![sent.run, by_hand.id];
    left.sort_unstable();
    assert_eq!(open_ids(f, job.id).await, left);
    let skipped = RunId::scheduled(job.id, at(12));
    let record = f.store.get_run(skipped).await.expect("it is told of");
    assert_eq!((record.run.state, record.ended_at), (RunState::Skipped, Some(at(13))));
    assert!(record.run.message.contains("paused"), "{}", record.run.message);
    assert!(f.drain_inbox().await.ids.contains(&skipped), "the owner hears of it");
    let gone = f.store.get_run(RunId::scheduled(job.id, at(14))).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "its time had not come: {gone:?}");
    let resume = JobChange {
        state: Some((JobState::Active, None, String::new())),
        restart_schedule: true,
        problem: None,
        ..change()
    };
    f.store.change_job(job.id, &resume, runs_at(&[12, 14]), at(13)).await.expect("resumed");
    assert!(open_ids(f, job.id).await.contains(&RunId::scheduled(job.id, at(14))));
    assert!(!open_ids(f, job.id).await.contains(&skipped), "a skip is for good");
}

pub(crate) async fn a_restarted_schedule_forgets_what_it_missed(f: &Fixture) {
    let job = f.job("a").await;
    let plain = f.store.change_job(job.id, &change(), no_runs(), at(5)).await.expect("changed");
    assert_eq!(plain.effective_from, at(0));
    let restart = JobChange { restart_schedule: true, ..change() };
    let after = f.store.change_job(job.id, &restart, no_runs(), at(9)).await.expect("changed");
    assert_eq!((after.effective_from, after.created_at), (at(9), at(0)));
}

/// The owner is about to serve them, and knows of the change only afterwards.
pub(crate) async fn a_change_leaves_no_fire_time_that_has_come_without_a_row(f: &Fixture) {
    let second = Trigger::Interval(Duration::from_secs(1));
    let schedules = vec![Schedule { trigger: second, ..Schedule::default() }];
    let spec = JobSpec { handler: "h".to_owned(), schedules, ..JobSpec::default() };
    let asked = NewJob { spec: spec.clone(), ..new(f, "a") };
    let job = f.store.create_job(&asked, no_runs(), at(0)).await.expect("a job");
    let slower = JobChange { spec: Some(spec), restart_schedule: true, ..change() };
    f.store.change_job(job.id, &slower, no_runs(), at(2)).await.expect("changed");
    assert_eq!(open_ids(f, job.id).await, ids(&job, &[1, 2]));
    assert_eq!(f.open(ids(&job, &[1])[0]).await.revision, job.revision, "they are of before");
    let pause = JobChange {
        state: Some((JobState::Paused, None, String::new())),
        drop_due: true,
        ..change()
    };
    f.store.change_job(job.id, &pause, no_runs(), at(4)).await.expect("paused");
    assert_eq!(open_ids(f, job.id).await, []);
    for run in ids(&job, &[1, 2, 3, 4]) {
        let skipped = f.store.get_run(run).await.expect("a row").run;
        assert_eq!((skipped.state, skipped.message.contains("paused")), (RunState::Skipped, true));
    }
}

/// After it no owner looks for them.
pub(crate) async fn what_nobody_served_before_a_change_is_settled_with_it(f: &Fixture) {
    let trigger = Trigger::Interval(Duration::from_secs(10));
    let schedules = vec![Schedule { trigger, ..Schedule::default() }];
    let spec = JobSpec { handler: "h".to_owned(), schedules, ..JobSpec::default() };
    let asked = NewJob { spec: spec.clone(), ..new(f, "a") };
    // The owner that wrote one of them died.
    let job = f.store.create_job(&asked, runs_at(&[20]), at(0)).await.expect("a job");
    let described = JobChange { spec: Some(spec.clone()), ..change() };
    f.store.change_job(job.id, &described, no_runs(), at(61)).await.expect("changed");
    assert_eq!(
        open_ids(f, job.id).await,
        ids(&job, &[20, 60]),
        "the next owner looks for the rest"
    );
    let slower = JobChange { spec: Some(spec), restart_schedule: true, ..change() };
    f.store.change_job(job.id, &slower, no_runs(), at(62)).await.expect("changed");
    assert_eq!(open_ids(f, job.id).await, ids(&job, &[20, 50, 60]), "the newest is made up for");
    assert_eq!(f.open(ids(&job, &[50])[0]).await.trigger, TriggerKind::Misfire);
    let gap = f.store.get_run(ids(&job, &[10])[0]).await.expect("a row");
    assert_eq!((gap.run.state, gap.ended_at), (RunState::Skipped, Some(at(62))));
    assert_eq!((gap.missed_count, gap.missed_until), (3, Some(at(40))), "{gap:?}");
    let pause = JobChange {
        state: Some((JobState::Paused, None, String::new())),
        drop_due: true,
        ..change()
    };
    f.store.change_job(job.id, &pause, no_runs(), at(83)).await.expect("paused");
    assert_eq!(open_ids(f, job.id).await, []);
    for run in ids(&job, &[20, 50, 60, 70, 80]) {
        let skipped = f.store.get_run(run).await.expect("a row").run;
        assert_eq!((skipped.state, skipped.message.contains("paused")), (RunState::Skipped, true));
    }
}

/// A spread puts it off beyond what is late.
pub(crate) async fn a_spread_fire_time_that_has_come_outlives_a_change(f: &Fixture) {
    let spread = Duration::from_secs(3_600);
    let trigger = Trigger::At(at(10));
    let schedules = vec![Schedule { trigger, spread, ..Schedule::default() }];
    let spec = JobSpec { handler: "h".to_owned(), schedules, ..JobSpec::default() };
    let asked = NewJob { spec: spec.clone(), ..new(f, "a") };
    let job = f.store.create_job(&asked, no_runs(), at(0)).await.expect("a job");
    let compiled = plan::compile_all(&job).expect("good schedules");
    let due = at(10) + plan::spread_offset(&job.name, &compiled[0]);
    assert!(due > at(20), "the hash of this name spreads it");
    let restart = JobChange { spec: Some(spec), restart_schedule: true, ..change() };
    let now = due + TimeDelta::seconds(1);
    f.store.change_job(job.id, &restart, no_runs(), now).await.expect("changed");
    assert_eq!(open_ids(f, job.id).await, ids(&job, &[10]));
    let run = f.open(ids(&job, &[10])[0]).await;
    assert_eq!((run.trigger, run.due_at), (TriggerKind::Schedule, due));
}

pub(crate) async fn a_run_that_has_ended_is_not_planned_anew(f: &Fixture) {
    let job = f.job("a").await;
    let sent = f.dispatched(f.planned(&job, at(10)).await).await;
    let end = ending(sent, RunState::Succeeded);
    f.store.end_runs(&[end], at(12)).await.expect("ended");
    // Another node's clock may be behind: for it the fire time lies ahead.
    f.store.change_job(job.id, &change(), runs_at(&[10]), at(9)).await.expect("changed");
    assert_eq!(open_ids(f, job.id).await, []);
}

pub(crate) async fn owners_load_what_changed(f: &Fixture) {
    let job = f.job("a").await;
    let version = f.partition(job.partition).await.jobs_version;
    let all = f.store.load_jobs(&[(job.partition, 0)]).await.expect("jobs");
    assert_eq!(all, std::slice::from_ref(&job));
    assert_eq!(f.store.load_jobs(&[(job.partition, version)]).await.expect("jobs"), []);
    let delete = JobChange { delete: true, drop_due: true, ..change() };
    f.store.change_job(job.id, &delete, no_runs(), at(2)).await.expect("deleted");
    let changed = f.store.load_jobs(&[(job.partition, version)]).await.expect("jobs");
    assert_eq!(
        changed.iter().map(|job| (job.id, job.deleted)).collect::<Vec<_>>(),
        [(job.id, true)]
    );
    assert_eq!(f.store.load_jobs(&[(job.partition, 0)]).await.expect("jobs"), []);
}

pub(crate) async fn a_change_is_followed_by_the_runs_that_were_never_sent(f: &Fixture) {
    let job = f.job("a").await;
    let waited = f.planned(&job, at(5)).await;
    let mut plan = f.plan_of(&[fire(&job, at(10)), fire(&job, at(20))]).await;
    plan.runs[0].to = Some(Addressee { executor: "e1".into(), session_epoch: 7 });
    f.store.plan(&plan, at(10)).await.expect("a plan");
    f.dispatched(waited).await;
    let by_hand = NewRun { trigger: TriggerKind::Api, ..fire(&job, at(9)) };
    let by_hand = NewRun { id: RunId::by_hand(at(9), 1), ..by_hand };
    f.store.create_run(&by_hand, None, at(9)).await.expect("a run");
    let unsent = RunScope::Unsent(vec![job.id]);
    let found = f.store.load_open_runs(&unsent).await.expect("open runs");
    let mut found: Vec<RunId> = found.runs.iter().map(|run| run.id).collect();
    found.sort_unstable();
    assert_eq!(found, [by_hand.id, plan.runs[1].run.id]);
    assert_eq!(open_ids(f, job.id).await.len(), 4);
}

pub(crate) async fn an_owner_loads_a_deleted_job_as_long_as_it_has_open_runs(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    let job = f.store.get_job("shop", "a").await.expect("found");
    let delete = JobChange { delete: true, drop_due: true, ..change() };
    f.store.change_job(job.id, &delete, no_runs(), at(13)).await.expect("deleted");
    let all = f.store.load_jobs(&[(job.partition, 0)]).await.expect("jobs");
    assert_eq!(all.iter().map(|job| (job.id, job.deleted)).collect::<Vec<_>>(), [(job.id, true)]);
    f.store.end_runs(&[ending(sent, RunState::Succeeded)], at(14)).await.expect("ended");
    assert_eq!(f.store.load_jobs(&[(job.partition, 0)]).await.expect("jobs"), []);
}

pub(crate) async fn revisions_are_listed_newest_first(f: &Fixture) {
    let job = f.job("a").await;
    for n in 2..=4_i64 {
        let spec = JobSpec { handler: format!("h{n}"), ..JobSpec::default() };
        let edit = JobChange { spec: Some(spec), ..change() };
        f.store.change_job(job.id, &edit, no_runs(), at(n)).await.expect("changed");
    }
    f.store.change_job(job.id, &change(), no_runs(), at(9)).await.expect("changed");
    let page = f.store.list_revisions(job.id, 0, 2).await.expect("revisions");
    let shown: Vec<(u64, &str)> =
        page.iter().map(|job| (job.revision, job.spec.handler.as_str())).collect();
    assert_eq!(shown, [(4, "h4"), (3, "h3")]);
    assert_eq!((page[0].updated_at, page[0].updated_by.as_str()), (at(4), "bob"));
    let rest = f.store.list_revisions(job.id, 3, 10).await.expect("revisions");
    assert_eq!(rest.iter().map(|job| job.revision).collect::<Vec<_>>(), [2, 1]);
}

pub(crate) async fn a_run_by_hand_waits_in_the_inbox(f: &Fixture) {
    let job = f.job("a").await;
    let extra = RunExtra { triggered_by: "ann".to_owned(), ..RunExtra::default() };
    let run = NewRun {
        id: RunId::by_hand(at(5), 1),
        trigger: TriggerKind::Api,
        extra: Some(Box::new(extra.clone())),
        ..fire(&job, at(5))
    };
    let key = request(9);
    let id = f.store.create_run(&run, key.as_ref(), at(5)).await.expect("a run");
    assert_eq!(id, run.id);
    let batch = f.drain_inbox().await;
    assert_eq!(batch.ids, [id]);
    assert_eq!(batch.open.runs[0].extra.as_deref(), Some(&extra));
    assert_eq!(batch.open.specs[0].spec, job.spec);
    let again = NewRun { id: RunId::by_hand(at(6), 2), ..run.clone() };
    assert_eq!(f.store.create_run(&again, key.as_ref(), at(6)).await.expect("the first"), id);
    assert_eq!(open_ids(f, job.id).await, [id]);
    let twice = f.store.create_run(&run, None, at(7)).await;
    assert!(matches!(twice, Err(StoreError::AlreadyExists(_))), "{twice:?}");
}

pub(crate) async fn a_deleted_job_is_run_by_nobody(f: &Fixture) {
    let job = f.job("a").await;
    let delete = JobChange { delete: true, drop_due: true, ..change() };
    f.store.change_job(job.id, &delete, no_runs(), at(2)).await.expect("deleted");
    let run = NewRun { id: RunId::by_hand(at(3), 1), ..fire(&job, at(3)) };
    let refused = f.store.create_run(&run, None, at(3)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}

pub(crate) async fn next_fires_are_shown(f: &Fixture) {
    let job = f.job("a").await;
    let next = at(60) + TimeDelta::milliseconds(250);
    f.store.show_next_fires(&[(job.id, Some(next))]).await.expect("shown");
    assert_eq!(f.store.get_job("shop", "a").await.expect("found").next_fire_at, Some(next));
    f.store.show_next_fires(&[(job.id, None)]).await.expect("shown");
    assert_eq!(f.store.get_job("shop", "a").await.expect("found").next_fire_at, None);
}
