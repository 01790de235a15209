//! Calendars, backfills, forecasts and previews through their services, over a SQLite store.

#[path = "api_schedules/next_fires.rs"]
mod next_fires;
#[path = "support/api.rs"]
mod support;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{
    self as pb, calendar_service_server::CalendarService as _, job_service_server::JobService as _,
    run_service_server::RunService as _,
};
use clawjob_scheduler::{
    api::calendars::CalendarsApi,
    model::{
        ids::RunId,
        job::{JobSpec, JobState},
        principal::Role,
        run::{NewRun, TriggerKind},
        schedule::{Schedule, Trigger},
    },
    store::ops::{JobChange, NewJob, ReplanInput},
};
use support::*;
use tonic::{Code, Status};

/// The begin of the world's time, 2027-01-15 08:00 UTC, a Friday.
const BEGIN: i64 = 1_800_000_000;

fn instant(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: BEGIN + seconds, nanos: 0 })
}

fn cron(text: &str) -> pb::Schedule {
    pb::Schedule {
        trigger: Some(pb::schedule::Trigger::Cron(text.to_owned())),
        ..pb::Schedule::default()
    }
}

fn firing(schedule: pb::Schedule) -> pb::Job {
    pb::Job { schedules: vec![schedule], ..hello() }
}

struct Calendars(Arc<CalendarsApi>);

impl Calendars {
    fn of(world: &World) -> Self {
        Self(Arc::new(CalendarsApi::new(world.api.clone())))
    }

    async fn create(&self, app: &str, id: &str, calendar: pb::Calendar) -> pb::Calendar {
        let request = pb::CreateCalendarRequest {
            parent: format!("apps/{app}"),
            calendar_id: id.to_owned(),
            calendar: Some(calendar),
            request_id: String::new(),
        };
        self.0.create_calendar(admin(request)).await.expect("created").into_inner()
    }

    async fn update(&self, calendar: pb::Calendar, paths: &[&str]) -> Result<pb::Calendar, Status> {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let request = pb::UpdateCalendarRequest {
            calendar: Some(calendar),
            update_mask: Some(prost_types::FieldMask { paths }),
        };
        self.0.update_calendar(admin(request)).await.map(tonic::Response::into_inner)
    }

    async fn delete(&self, name: &str, etag: &str) -> Result<(), Status> {
        let request = pb::DeleteCalendarRequest { name: name.to_owned(), etag: etag.to_owned() };
        self.0.delete_calendar(admin(request)).await.map(tonic::Response::into_inner)
    }
}

fn weekdays(days: &[i32]) -> pb::Calendar {
    pb::Calendar { weekdays: days.to_vec(), ..pb::Calendar::default() }
}

async fn get(world: &World, name: &str) -> pb::Job {
    let request = pb::GetJobRequest { name: name.to_owned() };
    world.jobs.get_job(admin(request)).await.expect("reads").into_inner()
}

#[tokio::test]
async fn a_calendar_is_created_read_changed_listed_and_deleted() {
    let world = World::new().await;
    let calendars = Calendars::of(&world);
    let made = calendars.create("a", "days", weekdays(&[7, 6, 6])).await;
    assert_eq!((made.name.as_str(), &made.weekdays[..]), ("apps/a/calendars/days", &[6, 7][..]));
    let dated = pb::Calendar { dates: vec!["2027-01-18".to_owned()], ..made.clone() };
    let changed = calendars.update(dated.clone(), &["dates"]).await.expect("changed");
    assert_eq!((changed.dates.len(), &changed.weekdays[..]), (1, &[6, 7][..]));
    assert_ne!(changed.etag, made.etag);
    let stale = calendars.update(dated, &["dates"]).await.expect_err("stale");
    assert_eq!(why(&stale), (Code::Aborted, "ETAG_MISMATCH".to_owned()));
    let unknown = pb::Calendar { etag: String::new(), ..changed.clone() };
    let unknown = calendars.update(unknown, &["colour"]).await.expect_err("unknown");
    assert_eq!(why(&unknown), (Code::InvalidArgument, "MASK_UNKNOWN_FIELD".to_owned()));
    let mut bad = pb::Calendar { etag: String::new(), ..changed.clone() };
    (bad.weekdays, bad.dates) = (vec![0], vec!["tomorrow".to_owned()]);
    let bad = calendars.update(bad, &["*"]).await.expect_err("two faults");
    assert_eq!(fields(&bad), ["calendar.dates[0]", "calendar.weekdays[0]"]);

    calendars.create("a", "a", weekdays(&[1])).await;
    let page = |token: String| pb::ListCalendarsRequest {
        parent: "apps/a".to_owned(),
        page_size: 1,
        page_token: token,
    };
    let first = calendars.0.list_calendars(admin(page(String::new()))).await.expect("lists");
    let first = first.into_inner();
    assert_eq!(first.calendars[0].name, "apps/a/calendars/a");
    let second = calendars.0.list_calendars(admin(page(first.next_page_token))).await;
    let second = second.expect("lists").into_inner();
    assert_eq!((&second.calendars[0], second.next_page_token.as_str()), (&changed, ""));

    let stale = calendars.delete(&made.name, &made.etag).await.expect_err("stale");
    assert_eq!(why(&stale).1, "ETAG_MISMATCH");
    calendars.delete(&made.name, &changed.etag).await.expect("deleted");
    let gone = calendars.delete(&made.name, "").await.expect_err("gone");
    assert_eq!(why(&gone), (Code::NotFound, "CALENDAR_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_calendar_that_a_job_uses_moves_its_next_fire_time_and_stays() {
    let world = World::new().await;
    let calendars = Calendars::of(&world);
    let days = calendars.create("a", "days", weekdays(&[6, 7])).await;
    let weekend = pb::Schedule { include_calendars: vec![days.name.clone()], ..cron("0 9 * * *") };
    let job = world.create("a", "j", firing(weekend.clone())).await;
    // Saturday, 2027-01-16 09:00.
    assert_eq!(job.next_fire_time.expect("fires").seconds, BEGIN + 25 * 3600);
    let shown = get(&world, &job.name).await;
    assert_eq!(shown.schedules[0].include_calendars, std::slice::from_ref(&days.name));
    let monday = pb::Calendar { weekdays: vec![1], ..days.clone() };
    calendars.update(monday, &["weekdays"]).await.expect("changed");
    let moved = get(&world, &job.name).await;
    assert_eq!(moved.next_fire_time.expect("fires").seconds, BEGIN + 73 * 3600);
    assert_eq!((moved.etag, moved.revision), (job.etag, job.revision), "the job is as it was");

    let refused = calendars.delete(&days.name, "").await.expect_err("in use");
    assert_eq!(why(&refused), (Code::FailedPrecondition, "CALENDAR_IN_USE".to_owned()));
    let never = pb::Calendar {
        weekdays: Vec::new(),
        dates: vec!["2020-01-01".to_owned()],
        etag: String::new(),
        ..days.clone()
    };
    calendars.update(never, &["*"]).await.expect("changed");
    let shut = get(&world, &job.name).await;
    assert_eq!((shut.next_fire_time, shut.state()), (None, pb::job::State::Active));
    assert!(shut.problem.contains("calendars"), "{}", shut.problem);
    let preview = pb::PreviewScheduleRequest { schedule: Some(weekend), ..Default::default() };
    let preview = world.jobs.preview_schedule(admin(preview)).await.expect("previews").into_inner();
    assert!(preview.fire_times.is_empty());
    assert!(preview.warnings[0].contains("calendars"), "{:?}", preview.warnings);
}

#[tokio::test]
async fn a_calendar_of_another_app_is_used_by_who_may_read_it_and_hidden_from_others() {
    let world = World::new().await;
    let calendars = Calendars::of(&world);
    let shared = calendars.create("company", "holidays", weekdays(&[7])).await;
    let job = || {
        firing(pb::Schedule { exclude_calendars: vec![shared.name.clone()], ..cron("0 9 * * *") })
    };
    let create = |id: &str, job: pb::Job| pb::CreateJobRequest {
        parent: "apps/a".to_owned(),
        job_id: id.to_owned(),
        job: Some(job),
        ..Default::default()
    };
    let stranger = || caller(&[("a", Role::Editor)]);
    let refused = world.jobs.create_job(by(stranger(), create("j", job()))).await;
    let refused = refused.expect_err("may not read it");
    assert_eq!(why(&refused), (Code::InvalidArgument, "CALENDAR_NOT_FOUND".to_owned()));
    assert_eq!(fields(&refused), ["job.schedules[0].exclude_calendars"]);
    let guest = caller(&[("a", Role::Editor), ("company", Role::Viewer)]);
    let made = world.jobs.create_job(by(guest, create("j", job()))).await.expect("may read it");
    let made = made.into_inner();
    // Whoever may change the job keeps what it has, and nothing more.
    let update_mask = Some(prost_types::FieldMask { paths: vec!["owner".to_owned()] });
    let patch = pb::Job { name: made.name.clone(), owner: "me".to_owned(), ..Default::default() };
    let update = pb::UpdateJobRequest { job: Some(patch), update_mask, ..Default::default() };
    world.jobs.update_job(by(stranger(), update)).await.expect("the calendar was there");
}

#[tokio::test]
async fn a_backfill_makes_a_run_for_each_past_fire_time_that_has_none() {
    let world = World::new().await;
    let job = world.create("a", "j", firing(cron("0 * * * *"))).await;
    let stored = world.store.get_job("a", "j").await.expect("found");
    let at = |seconds: i64| DateTime::from_timestamp(BEGIN + seconds, 0).expect("in range");
    let had = NewRun {
        id: RunId::scheduled(stored.id, at(-3600)),
        job: stored.id,
        app: stored.app,
        revision: 1,
        trigger: TriggerKind::Schedule,
        fire_at: at(-3600),
        due_at: at(-3600),
        extra: None,
    };
    world.store.create_run(&had, None, at(-3600)).await.expect("made");
    let asked = pb::BackfillJobRequest {
        name: job.name.clone(),
        start_time: instant(-5 * 3600),
        end_time: instant(0),
        max_concurrency: 2,
        request_id: "r-1".to_owned(),
        validate_only: false,
    };
    let call = |request: pb::BackfillJobRequest| {
        let jobs = world.jobs.clone();
        async move { jobs.backfill_job(admin(request)).await.map(tonic::Response::into_inner) }
    };
    let counts = pb::BackfillJobResponse { run_count: 4, already_run_count: 1 };
    let dry = pb::BackfillJobRequest { validate_only: true, ..asked.clone() };
    assert_eq!(call(dry).await.expect("counts"), counts);
    assert_eq!(call(asked.clone()).await.expect("makes"), counts);
    assert_eq!(call(asked.clone()).await.expect("the same request"), counts);
    let reused = pb::BackfillJobRequest { max_concurrency: 3, ..asked.clone() };
    let reused = call(reused).await.expect_err("another body");
    assert_eq!(why(&reused), (Code::InvalidArgument, "REQUEST_ID_REUSED".to_owned()));
    let again = pb::BackfillJobRequest { request_id: String::new(), ..asked.clone() };
    let none = pb::BackfillJobResponse { run_count: 0, already_run_count: 5 };
    assert_eq!(call(again).await.expect("nothing left"), none);

    let list = pb::ListRunsRequest {
        parent: "apps/a".to_owned(),
        filter: "trigger = BACKFILL".to_owned(),
        order_by: "create_time".to_owned(),
        ..Default::default()
    };
    let runs = world.runs.list_runs(admin(list)).await.expect("lists").into_inner().runs;
    let fires: Vec<i64> =
        runs.iter().map(|run| run.fire_time.expect("has one").seconds - BEGIN).collect();
    assert_eq!(fires, [-5 * 3600, -4 * 3600, -3 * 3600, -2 * 3600], "the oldest first");
    assert!(runs.iter().all(|run| run.job_revision == 1 && run.triggered_by == "tokens/t1"));
}

#[tokio::test]
async fn a_backfill_that_makes_no_sense_is_refused_with_what_to_do() {
    let world = World::new().await;
    let job = world.create("a", "j", every(1)).await;
    let call = async |name: &str, start: Option<i64>, end: Option<i64>| {
        let request = pb::BackfillJobRequest {
            name: name.to_owned(),
            start_time: start.and_then(instant),
            end_time: end.and_then(instant),
            max_concurrency: 20_000,
            ..Default::default()
        };
        world.jobs.backfill_job(admin(request)).await.expect_err("refused")
    };
    let status = call(&job.name, None, Some(10)).await;
    assert_eq!(fields(&status), ["max_concurrency", "start_time"]);
    let status = call(&job.name, Some(-5), Some(10)).await;
    assert_eq!(fields(&status), ["max_concurrency", "end_time"]);
    world.clock.advance(Duration::from_secs(3600));
    let request = pb::BackfillJobRequest {
        name: job.name.clone(),
        start_time: instant(0),
        end_time: instant(3600),
        ..Default::default()
    };
    let status = world.jobs.backfill_job(admin(request)).await.expect_err("too many");
    assert_eq!(why(&status), (Code::InvalidArgument, "TOO_MANY_FIRE_TIMES".to_owned()));
    assert!(status.message().contains("end it at 2027-01-15T08:16:40Z"), "{}", status.message());
    let by_hand = world.create("a", "hand", hello()).await;
    let request = pb::BackfillJobRequest {
        name: by_hand.name,
        start_time: instant(0),
        end_time: instant(10),
        ..Default::default()
    };
    let status = world.jobs.backfill_job(admin(request)).await.expect_err("no schedule");
    assert_eq!(why(&status), (Code::FailedPrecondition, "JOB_HAS_NO_FIRE_TIMES".to_owned()));
}

async fn forecast(
    world: &World,
    request: pb::ForecastRunsRequest,
) -> (Vec<(String, i64, String)>, usize) {
    let (mut found, mut pages, mut request) = (Vec::new(), 0, request);
    loop {
        let page = world.jobs.forecast_runs(admin(request.clone())).await.expect("forecasts");
        let page = page.into_inner();
        pages += 1;
        found.extend(page.fires.into_iter().map(|fire| {
            let at = fire.fire_time.expect("has one").seconds - BEGIN;
            assert_eq!(fire.handler, "hello");
            (fire.job.rsplit('/').next().expect("a name").to_owned(), at, fire.time_zone)
        }));
        if page.next_page_token.is_empty() {
            return (found, pages);
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn a_forecast_has_every_coming_fire_in_order_whatever_the_page_size() {
    let world = World::new().await;
    world.create("a", "b", firing(cron("*/20 * * * *"))).await;
    let berlin = pb::Schedule { time_zone: "Europe/Berlin".to_owned(), ..cron("0,40 10 * * *") };
    world.create("a", "a", firing(berlin)).await;
    world.create("b", "c", every(1200)).await;
    let paused = pb::Job { state: pb::job::State::Paused.into(), ..firing(cron("* * * * *")) };
    world.create("a", "paused", paused).await;
    world.create("a", "hand", hello()).await;
    let window = |parent: &str, size: i32| pb::ForecastRunsRequest {
        parent: parent.to_owned(),
        start_time: instant(1),
        end_time: instant(6_000),
        page_size: size,
        page_token: String::new(),
    };
    let (all, _) = forecast(&world, window("apps/-", 1000)).await;
    let mut wanted: Vec<(i64, &str, &str)> = Vec::new();
    for at in [1200, 2400, 3600, 4800] {
        wanted.push((at, "b", "UTC"));
        wanted.push((at, "c", "UTC"));
    }
    // 10:00 and 10:40 in Berlin.
    wanted.push((3600, "a", "Europe/Berlin"));
    wanted.push((6000, "a", "Europe/Berlin"));
    wanted.retain(|(at, ..)| *at < 6_000);
    wanted.sort_unstable();
    let shown: Vec<_> =
        all.iter().map(|(job, at, zone)| (*at, job.as_str(), zone.as_str())).collect();
    assert_eq!(shown, wanted);
    for size in [1, 2, 3] {
        let (paged, pages) = forecast(&world, window("apps/-", size)).await;
        assert_eq!((&paged, pages), (&all, all.len().div_ceil(size as usize)), "{size}");
    }
    let (own, _) = forecast(&world, window("apps/b", 1000)).await;
    assert!(own.iter().all(|(job, ..)| job == "c") && own.len() == 4);
    let guest = caller(&[("b", Role::Viewer)]);
    let seen =
        world.jobs.forecast_runs(by(guest, window("apps/-", 1000))).await.expect("forecasts");
    assert_eq!(seen.into_inner().fires.len(), 4);
    let backwards = pb::ForecastRunsRequest { end_time: instant(0), ..window("apps/-", 9) };
    let status = world.jobs.forecast_runs(admin(backwards)).await.expect_err("backwards");
    assert_eq!(fields(&status), ["end_time"]);
}

#[tokio::test]
async fn a_forecast_of_many_jobs_each_second_takes_one_page_of_work() {
    let world = World::new().await;
    let app = world.store.ensure_app("a", world.now()).await.expect("an app");
    for n in 0..500 {
        let schedule =
            Schedule { trigger: Trigger::Interval(Duration::from_secs(1)), ..Schedule::default() };
        let spec = JobSpec {
            handler: "hello".to_owned(),
            schedules: vec![schedule],
            ..JobSpec::default()
        };
        let job = NewJob {
            app: app.id,
            name: format!("job-{n:03}"),
            state: JobState::Active,
            spec,
            updated_by: "test".to_owned(),
            request: None,
        };
        let none = Box::new(|_: &_| Vec::new());
        world.store.create_job(&job, none, world.now()).await.expect("created");
    }
    let request = pb::ForecastRunsRequest {
        parent: "apps/a".to_owned(),
        page_size: 1000,
        ..Default::default()
    };
    let page =
        soon(world.jobs.forecast_runs(admin(request))).await.expect("forecasts").into_inner();
    let last = page.fires.last().expect("some");
    assert_eq!((page.fires.len(), last.job.as_str()), (1000, "apps/a/jobs/job-499"));
    assert_eq!(last.fire_time, instant(2));
    assert!(!page.next_page_token.is_empty());
}

#[tokio::test]
async fn a_preview_tells_of_a_crowded_minute_and_a_quiet_one() {
    let world = World::new().await;
    for n in 0..12 {
        world.create("a", &format!("job-{n}"), firing(cron("0 * * * *"))).await;
    }
    world.create("a", "near", firing(cron("1 * * * *"))).await;
    let preview = async |text: &str| {
        let request = pb::PreviewScheduleRequest {
            parent: "apps/a".to_owned(),
            schedule: Some(pb::Schedule { time_zone: "Asia/Kolkata".to_owned(), ..cron(text) }),
            ..Default::default()
        };
        let seen = world.jobs.preview_schedule(admin(request)).await.expect("previews");
        seen.into_inner().warnings
    };
    // 09:00 UTC is 14:30 in Kolkata.
    let warnings = preview("30 * * * *").await;
    let [crowd] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(crowd.starts_with("12 jobs fire at 14:30"), "{crowd}");
    assert!(crowd.contains("14:29 has only 0"), "{crowd}");
    assert_eq!(preview("37 * * * *").await, Vec::<String>::new());
    assert_eq!(preview("* * * * *").await, Vec::<String>::new());
}

#[tokio::test]
async fn r8_a_job_whose_zone_is_unknown_is_shown_with_its_problem() {
    let world = World::new().await;
    let app = world.store.ensure_app("a", world.now()).await.expect("an app");
    let schedule = Schedule {
        trigger: Trigger::Cron { text: "0 9 * * *".to_owned(), dialect: None },
        time_zone: "Europe/Atlantis".to_owned(),
        ..Schedule::default()
    };
    let spec =
        JobSpec { handler: "hello".to_owned(), schedules: vec![schedule], ..JobSpec::default() };
    let job = NewJob {
        app: app.id,
        name: "lost".to_owned(),
        state: JobState::Active,
        spec,
        updated_by: "test".to_owned(),
        request: None,
    };
    let none = Box::new(|_: &_| Vec::new());
    world.store.create_job(&job, none, world.now()).await.expect("created");
    let shown = get(&world, "apps/a/jobs/lost").await;
    assert_eq!((shown.state(), shown.next_fire_time), (pb::job::State::Active, None));
    assert!(shown.problem.contains("Europe/Atlantis"), "{}", shown.problem);
}

#[tokio::test]
async fn r2_a_run_that_a_clock_change_moved_says_so() {
    let world = World::new().await;
    let zoned = pb::Schedule { time_zone: "America/New_York".to_owned(), ..cron("30 2 * * *") };
    world.create("a", "j", firing(zoned)).await;
    let job = world.store.get_job("a", "j").await.expect("found");
    let run = async |fire_at: DateTime<Utc>| {
        let run = NewRun {
            id: RunId::scheduled(job.id, fire_at),
            job: job.id,
            app: job.app,
            revision: job.revision,
            trigger: TriggerKind::Schedule,
            fire_at,
            due_at: world.now(),
            extra: None,
        };
        let id = world.store.create_run(&run, None, world.now()).await.expect("made");
        let request = pb::GetRunRequest { name: format!("apps/a/runs/{id}"), ..Default::default() };
        world.runs.get_run(admin(request)).await.expect("reads").into_inner().state_message
    };
    let moved = run("2026-03-08T07:00:00Z".parse().expect("an instant")).await;
    assert!(moved.contains("2026-03-08 02:30:00 does not exist"), "{moved}");
    assert_eq!(run("2026-03-09T06:30:00Z".parse().expect("an instant")).await, "");
}

#[tokio::test]
async fn r5_preview_shown_next_and_planned_fire_times_agree() {
    let world = World::new().await;
    world.own(Duration::from_secs(3 * 3600)).await;
    for (n, zone) in ["", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"].iter().enumerate() {
        let schedule = pb::Schedule { time_zone: (*zone).to_owned(), ..cron("15,45 * * * *") };
        let job = world.create("a", &format!("job-{n}"), firing(schedule.clone())).await;
        let request =
            pb::PreviewScheduleRequest { schedule: Some(schedule), count: 5, ..Default::default() };
        let seen =
            world.jobs.preview_schedule(admin(request)).await.expect("previews").into_inner();
        assert_eq!(job.next_fire_time, seen.fire_times.first().copied());
        let zone = if zone.is_empty() { "UTC" } else { zone };
        assert!(seen.description.contains(zone), "{}", seen.description);
        let list = pb::ListRunsRequest {
            parent: "apps/a".to_owned(),
            filter: format!("state = SCHEDULED AND job = \"{}\"", job.name),
            order_by: "create_time".to_owned(),
            ..Default::default()
        };
        let runs = world.runs.list_runs(admin(list)).await.expect("lists").into_inner().runs;
        let planned: Vec<_> = runs.iter().filter_map(|run| run.fire_time).take(5).collect();
        assert_eq!(planned, seen.fire_times, "{zone}");
    }
}
