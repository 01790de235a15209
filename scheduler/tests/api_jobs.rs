//! JobService over a SQLite store.

#[path = "support/api.rs"]
mod support;

use std::{collections::HashSet, time::Duration};

use clawjob_proto::v1::{
    self as pb, job_service_server::JobService as _, run_service_server::RunService as _,
};
use clawjob_scheduler::model::principal::Role;
use support::*;
use tonic::Code;

fn mask(paths: &[&str]) -> Option<prost_types::FieldMask> {
    Some(prost_types::FieldMask { paths: paths.iter().map(|p| (*p).to_owned()).collect() })
}

async fn update(world: &World, job: pb::Job, paths: &[&str]) -> Result<pb::Job, tonic::Status> {
    let update_mask = if paths.is_empty() { None } else { mask(paths) };
    let request = pb::UpdateJobRequest { job: Some(job), update_mask, ..Default::default() };
    world.jobs.update_job(admin(request)).await.map(tonic::Response::into_inner)
}

async fn get(world: &World, name: &str) -> Result<pb::Job, tonic::Status> {
    let request = pb::GetJobRequest { name: name.to_owned() };
    world.jobs.get_job(admin(request)).await.map(tonic::Response::into_inner)
}

/// Fire times of the planned runs of all jobs, in seconds from the start, with their revision.
async fn planned(world: &World) -> Vec<(i64, u64)> {
    let request = pb::ListRunsRequest {
        parent: "apps/-".to_owned(),
        filter: "state = SCHEDULED".to_owned(),
        order_by: "create_time".to_owned(),
        ..Default::default()
    };
    let runs = world.runs.list_runs(admin(request)).await.expect("lists").into_inner().runs;
    let seconds = |run: &pb::Run| run.fire_time.expect("has one").seconds - 1_800_000_000;
    runs.iter().map(|run| (seconds(run), run.job_revision)).collect()
}

#[tokio::test]
async fn a_job_is_created_read_changed_and_deleted() {
    let world = World::new().await;
    let made = world.create("a", "j", every(60)).await;
    assert_eq!(made.name, "apps/a/jobs/j");
    assert_eq!((made.revision, made.state()), (1, pb::job::State::Active));
    assert_eq!(made.next_fire_time.expect("fires").seconds, 1_800_000_060);
    assert_eq!(get(&world, &made.name).await.expect("reads"), made);

    let taken = pb::CreateJobRequest {
        parent: "apps/a".to_owned(),
        job_id: "j".to_owned(),
        job: Some(hello()),
        ..Default::default()
    };
    let status = world.jobs.create_job(admin(taken)).await.expect_err("taken");
    assert_eq!(why(&status), (Code::AlreadyExists, "JOB_EXISTS".to_owned()));

    let patch = pb::Job { name: made.name.clone(), owner: "me".to_owned(), ..Default::default() };
    let changed = update(&world, patch, &["owner"]).await.expect("changes");
    assert_eq!((changed.owner.as_str(), changed.revision), ("me", 2));
    assert_ne!(changed.etag, made.etag);

    let request = |etag: &str| pb::DeleteJobRequest {
        name: made.name.clone(),
        etag: etag.to_owned(),
        force: false,
    };
    let status = world.jobs.delete_job(admin(request(&made.etag))).await.expect_err("stale");
    assert_eq!(why(&status), (Code::Aborted, "ETAG_MISMATCH".to_owned()));
    world.jobs.delete_job(admin(request(&changed.etag))).await.expect("deletes");
    let status = get(&world, &made.name).await.expect_err("gone");
    assert_eq!(why(&status), (Code::NotFound, "JOB_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn all_faults_of_a_new_job_are_told_at_once_and_nothing_is_stored() {
    let world = World::new().await;
    let request = pb::CreateJobRequest {
        parent: "apps/A".to_owned(),
        job_id: "-".to_owned(),
        job: Some(pb::Job {
            schedules: vec![pb::Schedule {
                trigger: Some(pb::schedule::Trigger::Cron("0 0 31 2 *".to_owned())),
                ..Default::default()
            }],
            overlap: 99,
            ..Default::default()
        }),
        request_id: "has space".to_owned(),
        ..Default::default()
    };
    let status = world.jobs.create_job(admin(request)).await.expect_err("faults");
    assert_eq!(status.code(), Code::InvalidArgument);
    let wanted = ["parent", "job_id", "request_id", "job.handler", "job.overlap"];
    let found: HashSet<String> = fields(&status).into_iter().collect();
    for field in wanted.iter().chain(&["job.schedules[0].cron"]) {
        assert!(found.contains(*field), "{field} is missing in {found:?}");
    }
    let apps = world.store.list_apps("", None, 10).await.expect("lists");
    assert!(apps.is_empty());
}

#[tokio::test]
async fn validate_only_answers_as_the_call_would_and_stores_nothing() {
    let world = World::new().await;
    let request = pb::CreateJobRequest {
        parent: "apps/a".to_owned(),
        job_id: "j".to_owned(),
        job: Some(every(60)),
        validate_only: true,
        ..Default::default()
    };
    let shown = world.jobs.create_job(admin(request.clone())).await.expect("fine").into_inner();
    assert_eq!(shown.handler, "hello");
    assert!(get(&world, "apps/a/jobs/j").await.is_err());
    let made = world.create("a", "j", every(60)).await;
    let status = world.jobs.create_job(admin(request)).await.expect_err("taken by now");
    assert_eq!(status.code(), Code::AlreadyExists);

    let patch = pb::Job { owner: "me".to_owned(), ..made.clone() };
    let request =
        pb::UpdateJobRequest { job: Some(patch), validate_only: true, ..Default::default() };
    let shown = world.jobs.update_job(admin(request)).await.expect("fine").into_inner();
    assert_eq!(shown.owner, "me");
    assert_eq!(get(&world, &made.name).await.expect("reads"), made);
}

#[tokio::test]
async fn x54_an_update_of_one_field_keeps_all_others() {
    let world = World::new().await;
    let full = pb::Job {
        display_name: "Hello".to_owned(),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        retry: Some(pb::RetryPolicy { max_attempts: 5, ..Default::default() }),
        timeout: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        params: Some(pb::Payload { content_type: String::new(), data: "{}".into() }),
        ..every(60)
    };
    let made = world.create("a", "j", full).await;
    let patch = |name: &str| pb::Job { name: name.to_owned(), ..Default::default() };
    let by_mask = pb::Job { description: "new".to_owned(), ..patch(&made.name) };
    let by_mask = update(&world, by_mask, &["description"]).await.expect("changes");
    let volatile = |mut job: pb::Job| {
        job.etag.clear();
        job.revision = 0;
        job
    };
    let wanted = pb::Job { description: "new".to_owned(), ..made.clone() };
    assert_eq!(volatile(by_mask), volatile(wanted.clone()));

    let nested = pb::Job {
        retry: Some(pb::RetryPolicy { max_attempts: 2, ..Default::default() }),
        ..patch(&made.name)
    };
    let nested = update(&world, nested, &["retry.max_attempts"]).await.expect("changes");
    let mut wanted = wanted;
    wanted.retry.as_mut().expect("has one").max_attempts = 2;
    assert_eq!(volatile(nested), volatile(wanted));
}

#[tokio::test]
async fn r65_an_update_without_a_mask_keeps_what_it_does_not_name() {
    let world = World::new().await;
    let made = world.create("a", "j", pb::Job { owner: "me".to_owned(), ..every(60) }).await;
    let patch =
        pb::Job { name: made.name.clone(), description: "new".to_owned(), ..Default::default() };
    let changed = update(&world, patch, &[]).await.expect("changes");
    assert_eq!((changed.owner.as_str(), changed.schedules.len()), ("me", 1));
    assert_eq!(changed.description, "new");
    let same = pb::Job { name: made.name.clone(), ..Default::default() };
    let same = update(&world, same, &[]).await.expect("nothing to do");
    assert_eq!(same.revision, changed.revision, "what changes nothing makes no revision");
}

#[tokio::test]
async fn updates_of_different_fields_at_the_same_time_all_last() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    let set_label = |n: usize| {
        let job = pb::Job {
            name: made.name.clone(),
            labels: [(format!("k{n}"), "v".to_owned())].into(),
            ..Default::default()
        };
        let (jobs, path) = (world.jobs.clone(), format!("labels.k{n}"));
        async move {
            let request = pb::UpdateJobRequest {
                job: Some(job),
                update_mask: mask(&[&path]),
                ..Default::default()
            };
            jobs.update_job(admin(request)).await
        }
    };
    for result in futures::future::join_all((0..6).map(set_label)).await {
        result.expect("changes");
    }
    assert_eq!(get(&world, &made.name).await.expect("reads").labels.len(), 6);
}

#[tokio::test]
async fn a_stale_etag_and_an_unknown_path_are_refused() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    let patch = |etag: &str| pb::Job {
        name: made.name.clone(),
        owner: "me".to_owned(),
        etag: etag.to_owned(),
        ..Default::default()
    };
    update(&world, patch(&made.etag), &["owner"]).await.expect("current");
    let status = update(&world, patch(&made.etag), &["owner"]).await.expect_err("stale");
    assert_eq!(why(&status), (Code::Aborted, "ETAG_MISMATCH".to_owned()));
    let status = update(&world, patch(""), &["colour"]).await.expect_err("unknown");
    assert_eq!(why(&status), (Code::InvalidArgument, "MASK_UNKNOWN_FIELD".to_owned()));
}

#[tokio::test]
async fn an_update_may_create_what_is_missing() {
    let world = World::new().await;
    let job = pb::Job { name: "apps/a/jobs/j".to_owned(), ..every(60) };
    let mut request = pb::UpdateJobRequest { job: Some(job), ..Default::default() };
    let status = world.jobs.update_job(admin(request.clone())).await.expect_err("missing");
    assert_eq!(why(&status).1, "JOB_NOT_FOUND");
    request.allow_missing = true;
    let made = world.jobs.update_job(admin(request)).await.expect("creates").into_inner();
    assert_eq!((made.revision, made.name.as_str()), (1, "apps/a/jobs/j"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r66_a_hundred_parallel_triggers_with_one_request_id_make_one_run() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    let request = pb::TriggerJobRequest {
        name: made.name.clone(),
        request_id: "once".to_owned(),
        labels: (0..8).map(|n| (format!("k{n}"), "v".to_owned())).collect(),
        ..Default::default()
    };
    let calls = (0..100).map(|_| {
        let (jobs, mut again) = (world.jobs.clone(), request.clone());
        // A map of its own for each call: its order is another one.
        again.labels = request.labels.clone().into_iter().collect();
        tokio::spawn(async move { jobs.trigger_job(admin(again)).await })
    });
    let mut names = HashSet::new();
    for call in futures::future::join_all(calls).await {
        names.insert(call.expect("no panic").expect("triggered").into_inner().name);
    }
    assert_eq!(names.len(), 1);
    let list = pb::ListRunsRequest { parent: "apps/a".to_owned(), ..Default::default() };
    let runs = world.runs.list_runs(admin(list)).await.expect("lists").into_inner().runs;
    assert_eq!(runs.len(), 1);

    let other = pb::TriggerJobRequest { labels: [].into(), ..request };
    let status = world.jobs.trigger_job(admin(other)).await.expect_err("another body");
    assert_eq!(why(&status), (Code::InvalidArgument, "REQUEST_ID_REUSED".to_owned()));
}

#[tokio::test]
async fn a_repeated_creation_with_a_request_id_gives_the_same_job() {
    let world = World::new().await;
    let request = pb::CreateJobRequest {
        parent: "apps/a".to_owned(),
        job_id: "j".to_owned(),
        job: Some(hello()),
        request_id: "r".to_owned(),
        ..Default::default()
    };
    let first = world.jobs.create_job(admin(request.clone())).await.expect("creates");
    let again = world.jobs.create_job(admin(request.clone())).await.expect("the same");
    assert_eq!(first.into_inner(), again.into_inner());
    let other = pb::CreateJobRequest { job_id: "k".to_owned(), ..request };
    let status = world.jobs.create_job(admin(other)).await.expect_err("another body");
    assert_eq!(why(&status), (Code::InvalidArgument, "REQUEST_ID_REUSED".to_owned()));
}

#[tokio::test]
async fn x11_an_edit_loses_no_planned_fire_and_adds_none() {
    let world = World::new().await;
    world.own(Duration::from_secs(61)).await;
    let made = world.create("a", "j", every(20)).await;
    assert_eq!(planned(&world).await, [(20, 1), (40, 1), (60, 1)]);
    world.clock.advance(Duration::from_secs(20));
    let name = made.name.clone();
    let patch = pb::Job { name: name.clone(), owner: "me".to_owned(), ..Default::default() };
    update(&world, patch, &["owner"]).await.expect("changes");
    // The one that is due keeps its revision; the others run the new one.
    assert_eq!(planned(&world).await, [(40, 2), (60, 2)]);
    let patch = pb::Job { name, ..every(15) };
    update(&world, patch, &["schedules"]).await.expect("changes");
    assert_eq!(planned(&world).await, [(30, 3), (45, 3), (60, 3)]);
}

#[tokio::test]
async fn a_pause_skips_even_what_is_due_and_a_resume_misses_nothing() {
    let world = World::new().await;
    world.own(Duration::from_secs(61)).await;
    let made = world.create("a", "j", every(20)).await;
    world.clock.advance(Duration::from_secs(30));
    let pause = pb::PauseJobRequest { name: made.name.clone(), ..Default::default() };
    let paused = world.jobs.pause_job(admin(pause)).await.expect("pauses").into_inner();
    assert_eq!((paused.state(), paused.next_fire_time), (pb::job::State::Paused, None));
    assert!(planned(&world).await.is_empty());
    let list = pb::ListRunsRequest { parent: "apps/a".to_owned(), ..Default::default() };
    let runs = world.runs.list_runs(admin(list)).await.expect("lists").into_inner().runs;
    let skipped: Vec<_> = runs.iter().map(|run| (run.state(), &*run.state_message)).collect();
    let why = "its job was paused before the run was sent";
    assert_eq!(skipped, [(pb::RunState::Skipped, why)]);

    world.clock.advance(Duration::from_secs(15));
    let resume = pb::ResumeJobRequest { name: made.name.clone() };
    let resumed = world.jobs.resume_job(admin(resume)).await.expect("resumes").into_inner();
    assert_eq!(resumed.state(), pb::job::State::Active);
    assert_eq!(planned(&world).await, [(60, 1)], "fires in between are no misfires");

    let past = pb::PauseJobRequest {
        name: made.name,
        until_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
        ..Default::default()
    };
    let status = world.jobs.pause_job(admin(past)).await.expect_err("has passed");
    assert_eq!(fields(&status), ["until_time"]);
}

#[tokio::test]
async fn who_changed_a_job_is_told_with_its_display_name_beside() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    assert_eq!(made.update_by, "tokens/t1", "it has none");
    let pause = pb::PauseJobRequest { name: made.name.clone(), ..Default::default() };
    let paused = world.jobs.pause_job(by(called("Deploy"), pause)).await.expect("pauses");
    assert_eq!(paused.into_inner().update_by, "tokens/t1 (Deploy)");
    let run = world
        .jobs
        .trigger_job(admin(pb::TriggerJobRequest { name: made.name, ..Default::default() }));
    let cancel = pb::CancelRunRequest {
        name: run.await.expect("a run").into_inner().name,
        ..Default::default()
    };
    let canceled = world.runs.cancel_run(by(called("Deploy"), cancel)).await.expect("canceled");
    assert_eq!(canceled.into_inner().state_message, "canceled by tokens/t1 (Deploy)");
}

#[tokio::test]
async fn a_forced_delete_ends_what_waits_and_stops_what_runs() {
    let world = World::new().await;
    world.own(Duration::from_secs(61)).await;
    let made = world.create("a", "j", every(20)).await;
    let (waits, runs) = (world.trigger(&made.name).await, world.trigger(&made.name).await);
    world.start(&runs).await;
    let delete = pb::DeleteJobRequest { name: made.name, force: true, ..Default::default() };
    world.jobs.delete_job(admin(delete)).await.expect("deletes");
    assert!(planned(&world).await.is_empty());
    for (run, state) in [(&waits, pb::RunState::Canceled), (&runs, pb::RunState::Canceling)] {
        let request = pb::GetRunRequest { name: run.name.clone(), view: 0 };
        let now = world.runs.get_run(admin(request)).await.expect("reads").into_inner();
        assert_eq!(now.state(), state);
    }
}

#[tokio::test]
async fn a_run_for_later_is_scheduled_and_left_out_of_lists_until_it_is_due() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    let later = pb::TriggerJobRequest {
        name: made.name.clone(),
        run_time: Some(prost_types::Timestamp { seconds: 1_800_000_100, nanos: 0 }),
        ..Default::default()
    };
    let run = world.jobs.trigger_job(admin(later)).await.expect("triggers").into_inner();
    assert_eq!(run.state(), pb::RunState::Scheduled);
    assert_eq!(run.fire_time.expect("has one").seconds, 1_800_000_100);
    let list = || pb::ListRunsRequest { parent: "apps/a".to_owned(), ..Default::default() };
    let shown = world.runs.list_runs(admin(list())).await.expect("lists").into_inner().runs;
    assert!(shown.is_empty());
    world.clock.advance(Duration::from_secs(100));
    let shown = world.runs.list_runs(admin(list())).await.expect("lists").into_inner().runs;
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].state(), pb::RunState::Queued);
}

#[tokio::test]
async fn a_trigger_names_executors_of_its_own_app_that_exist() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    let to = |executor: &str| pb::TriggerJobRequest {
        name: made.name.clone(),
        executor: executor.to_owned(),
        ..Default::default()
    };
    let foreign = to("apps/b/executors/x");
    let status = world.jobs.trigger_job(admin(foreign)).await.expect_err("foreign");
    assert_eq!(fields(&status), ["executor"]);
    let unknown = to("apps/a/executors/x");
    let status = world.jobs.trigger_job(admin(unknown)).await.expect_err("unknown");
    assert_eq!(why(&status), (Code::NotFound, "EXECUTOR_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn lists_come_in_pages_filtered_and_only_of_visible_apps() {
    let world = World::new().await;
    for id in ["a1", "a2", "a3", "a4", "a5"] {
        world.create("a", id, pb::Job { owner: "me".to_owned(), ..hello() }).await;
    }
    world.create("b", "b1", hello()).await;
    let list = |parent: &str, filter: &str, token: String| pb::ListJobsRequest {
        parent: parent.to_owned(),
        page_size: 2,
        page_token: token,
        filter: filter.to_owned(),
        ..Default::default()
    };
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let request = list("apps/-", "owner = me", token);
        let page = world.jobs.list_jobs(admin(request)).await.expect("lists").into_inner();
        assert!(page.jobs.len() <= 2);
        seen.extend(page.jobs.into_iter().map(|job| job.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let wanted: Vec<String> = (1..=5).map(|n| format!("apps/a/jobs/a{n}")).collect();
    assert_eq!(seen, wanted);

    let first = world.jobs.list_jobs(admin(list("apps/a", "", String::new()))).await;
    let token = first.expect("lists").into_inner().next_page_token;
    let other = list("apps/a", "owner = me", token);
    let status = world.jobs.list_jobs(admin(other)).await.expect_err("another filter");
    assert_eq!(why(&status), (Code::InvalidArgument, "PAGE_TOKEN_INVALID".to_owned()));

    let viewer = caller(&[("b", Role::Viewer)]);
    let page = world.jobs.list_jobs(by(viewer, list("apps/-", "", String::new()))).await;
    let names: Vec<String> =
        page.expect("lists").into_inner().jobs.into_iter().map(|job| job.name).collect();
    assert_eq!(names, ["apps/b/jobs/b1"]);

    let bad = pb::ListJobsRequest {
        parent: "b".to_owned(),
        page_size: -1,
        filter: "x = 1".to_owned(),
        order_by: "owner".to_owned(),
        ..Default::default()
    };
    let status = world.jobs.list_jobs(admin(bad)).await.expect_err("faults");
    assert_eq!(fields(&status), ["parent", "page_size", "filter", "order_by"]);
}

#[tokio::test]
async fn an_earlier_revision_can_be_made_current_again() {
    let world = World::new().await;
    let made = world.create("a", "j", every(60)).await;
    let patch = pb::Job { name: made.name.clone(), owner: "me".to_owned(), ..every(30) };
    update(&world, patch, &[]).await.expect("changes");
    let pause = pb::PauseJobRequest { name: made.name.clone(), ..Default::default() };
    world.jobs.pause_job(admin(pause)).await.expect("pauses");
    let back =
        pb::RollbackJobRequest { name: made.name.clone(), revision: 1, ..Default::default() };
    let back = world.jobs.rollback_job(admin(back)).await.expect("rolls back").into_inner();
    assert_eq!((back.revision, back.owner.as_str()), (3, ""));
    assert_eq!(back.schedules, made.schedules);
    assert_eq!(back.state(), pb::job::State::Paused, "the state stays as it is");

    let list = pb::ListJobRevisionsRequest { name: made.name.clone(), ..Default::default() };
    let list = world.jobs.list_job_revisions(admin(list)).await.expect("lists").into_inner();
    let revisions: Vec<u64> = list.jobs.iter().map(|job| job.revision).collect();
    assert_eq!(revisions, [3, 2, 1]);
    let never = pb::RollbackJobRequest { name: made.name, revision: 9, ..Default::default() };
    let status = world.jobs.rollback_job(admin(never)).await.expect_err("unknown");
    assert_eq!(fields(&status), ["revision"]);
}

#[tokio::test]
async fn a_schedule_is_previewed_without_an_app_or_a_job() {
    let world = World::new().await;
    let preview = |cron: &str, count: i32| pb::PreviewScheduleRequest {
        schedule: Some(pb::Schedule {
            trigger: Some(pb::schedule::Trigger::Cron(cron.to_owned())),
            time_zone: "Asia/Shanghai".to_owned(),
            ..Default::default()
        }),
        count,
        ..Default::default()
    };
    let good = preview("0 0 9 * * ?", 0);
    let answer = world.jobs.preview_schedule(admin(good)).await.expect("previews").into_inner();
    assert_eq!((answer.fire_times.len(), answer.cron_dialect()), (10, pb::CronDialect::Quartz));
    assert!(answer.fire_times.windows(2).all(|two| two[1].seconds - two[0].seconds == 86_400));
    assert!(!answer.description.is_empty());
    let bad = preview("61 * * * *", 501);
    let status = world.jobs.preview_schedule(admin(bad)).await.expect_err("faults");
    assert_eq!(fields(&status), ["count", "schedule.cron"]);
}

#[tokio::test]
async fn r72_a_new_job_has_no_last_run_and_later_the_one_that_lists_show() {
    let world = World::new().await;
    let made = world.create("a", "j", hello()).await;
    assert_eq!(made.last_run, "");
    let run = world.trigger(&made.name).await;
    assert_eq!(get(&world, &made.name).await.expect("reads").last_run, run.name);
}
