//! Calendars: named, guarded by their version, and never changed behind the back of a job.

use std::{collections::BTreeSet, time::Duration};

use clawjob_scheduler::{
    model::{
        calendar::{Calendar, CalendarSpec},
        ids::RunId,
        job::{Job, JobSpec, JobState},
        plan,
        run::{NewRun, RunState},
        schedule::{Schedule, Trigger},
    },
    store::{
        StoreError,
        ops::{JobChange, NewJob, Plan, ReplanInput, RequestKey, RunScope},
        schedules::{CalendarQuery, NewCalendar, ReplanEach},
    },
};

use super::fixture::{Fixture, advance, at};

fn every_day() -> CalendarSpec {
    CalendarSpec { weekdays: (1..=7).collect(), ..CalendarSpec::default() }
}

async fn calendar(f: &Fixture, name: &str) -> Calendar {
    let new =
        NewCalendar { app: f.app.id, name: name.to_owned(), spec: every_day(), request: None };
    f.store.create_calendar(&new, at(0)).await.expect("a calendar")
}

/// Each ten seconds, on the days that the calendar includes.
fn including(calendar: &str) -> JobSpec {
    let schedule = Schedule {
        trigger: Trigger::Interval(Duration::from_secs(10)),
        include_calendars: vec![calendar.to_owned()],
        ..Schedule::default()
    };
    JobSpec { handler: "h".to_owned(), schedules: vec![schedule], ..JobSpec::default() }
}

fn replan(input: &ReplanInput) -> Vec<NewRun> {
    let compiled = plan::compile_all(&input.job).expect("good schedules");
    plan::replan(&input.job, &compiled, input.now, input.partition.planned_until, 100)
}

fn each() -> ReplanEach {
    Box::new(replan)
}

async fn job(f: &Fixture, name: &str, spec: JobSpec) -> Result<Job, StoreError> {
    let job = NewJob {
        app: f.app.id,
        name: name.to_owned(),
        state: JobState::Active,
        spec,
        updated_by: "me".to_owned(),
        request: None,
    };
    f.store.create_job(&job, Box::new(replan), at(0)).await
}

fn edit(spec: JobSpec) -> JobChange {
    JobChange { spec: Some(spec), ..JobChange::by("bob") }
}

async fn planned(f: &Fixture, job: &Job) -> Vec<i64> {
    let open = f.store.load_open_runs(&RunScope::Jobs(vec![job.id])).await.expect("open runs");
    let mut fires: Vec<i64> =
        open.runs.iter().map(|run| (run.fire_at - at(0)).num_seconds()).collect();
    fires.sort_unstable();
    fires
}

pub(crate) async fn a_calendar_is_made_once_and_found_by_name(f: &Fixture) {
    let request = |hash: u8| {
        Some(RequestKey { key: "me/CreateCalendar/r".to_owned(), body_hash: vec![hash; 32] })
    };
    let new = NewCalendar {
        app: f.app.id,
        name: "days".to_owned(),
        spec: every_day(),
        request: request(1),
    };
    let made = f.store.create_calendar(&new, at(0)).await.expect("made");
    assert_eq!((made.resource_name().as_str(), made.version), ("apps/shop/calendars/days", 1));
    assert_eq!(f.store.create_calendar(&new, at(1)).await.expect("the first"), made);
    let other = NewCalendar { request: request(2), ..new.clone() };
    let reused = f.store.create_calendar(&other, at(1)).await;
    assert!(matches!(reused, Err(StoreError::Conflict(_))), "{reused:?}");
    let taken = f.store.create_calendar(&NewCalendar { request: None, ..new }, at(1)).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))), "{taken:?}");
    assert_eq!(f.store.get_calendar("shop", "days").await.expect("found"), made);
    let missing = f.store.get_calendar("shop", "nights").await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
}

pub(crate) async fn calendars_are_listed_by_name_page_by_page(f: &Fixture) {
    for name in ["c", "a", "b"] {
        calendar(f, name).await;
    }
    let page = |after: Option<&str>| CalendarQuery {
        apps: Some(vec![f.app.id]),
        after: after.map(|name| ("shop".to_owned(), name.to_owned())),
        limit: 2,
    };
    let names = |found: Vec<Calendar>| found.into_iter().map(|c| c.name).collect::<Vec<_>>();
    assert_eq!(names(f.store.list_calendars(&page(None)).await.expect("listed")), ["a", "b"]);
    assert_eq!(names(f.store.list_calendars(&page(Some("b"))).await.expect("listed")), ["c"]);
    let none = CalendarQuery { apps: Some(Vec::new()), limit: 9, ..CalendarQuery::default() };
    assert_eq!(f.store.list_calendars(&none).await.expect("listed"), []);
}

pub(crate) async fn a_job_comes_with_the_calendars_it_names(f: &Fixture) {
    calendar(f, "days").await;
    let name = "apps/shop/calendars/days";
    let made = job(f, "a", including(name)).await.expect("made");
    let names: BTreeSet<String> = [name.to_owned(), "apps/shop/calendars/nights".to_owned()].into();
    let loaded = f.store.load_calendars(&names).await.expect("loaded");
    assert_eq!(loaded.keys().collect::<Vec<_>>(), [name]);
    assert_eq!(made.calendars, loaded);
    assert_eq!(f.store.get_job("shop", "a").await.expect("found").calendars, loaded);
    let of_owner = f.store.load_jobs(&[(made.partition, 0)]).await.expect("jobs");
    assert_eq!(of_owner[0].calendars, loaded);
    let nowhere = job(f, "b", including("apps/shop/calendars/nights")).await;
    assert!(matches!(nowhere, Err(StoreError::NotFound(_))), "{nowhere:?}");
}

pub(crate) async fn a_changed_calendar_plans_its_jobs_anew_and_no_others(f: &Fixture) {
    let days = calendar(f, "days").await;
    calendar(f, "others").await;
    let user = job(f, "a", including("apps/shop/calendars/days")).await.expect("made");
    let other = job(f, "b", including("apps/shop/calendars/others")).await.expect("made");
    for job in [&user, &other] {
        let mut plan =
            Plan { advances: vec![advance(&f.partition(job.partition).await)], ..Plan::default() };
        plan.advances[0].planned_until = at(35);
        f.store.plan(&plan, at(1)).await.expect("moved");
        plan.runs = [10, 20].map(|s| super::fixture::fire(job, at(s)).into()).into();
        f.store.plan(&plan, at(1)).await.expect("planned");
    }
    let before = [f.partition(user.partition).await, f.partition(other.partition).await];
    // A window from the 25th second on, and nothing else.
    let spec = CalendarSpec {
        windows: vec![clawjob_scheduler::model::calendar::Window { start: at(25), end: at(99) }],
        ..CalendarSpec::default()
    };
    let stale = f.store.update_calendar(days.id, &spec, 7, each(), at(12)).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    let changed =
        f.store.update_calendar(days.id, &spec, 1, each(), at(12)).await.expect("changed");
    assert_eq!((changed.version, &changed.spec), (2, &spec));
    // The run that was due stays, the one that was not is gone, the new one is planned.
    assert_eq!(planned(f, &user).await, [10, 30]);
    assert_eq!(planned(f, &other).await, [10, 20]);
    let after = [f.partition(user.partition).await, f.partition(other.partition).await];
    assert_eq!(after[0].jobs_version, before[0].jobs_version + 1);
    if user.partition != other.partition {
        assert_eq!(after[1].jobs_version, before[1].jobs_version);
    }
    let known = [(user.partition, before[0].jobs_version)];
    let reloaded = f.store.load_jobs(&known).await.expect("jobs");
    assert_eq!(reloaded.iter().map(|job| job.id).collect::<Vec<_>>(), [user.id]);
    assert_eq!(reloaded[0].version, user.version, "the job itself is as it was");
}

/// What it opens in the past was never to be served.
pub(crate) async fn a_changed_calendar_says_nothing_of_what_was_before(f: &Fixture) {
    let days = calendar(f, "days").await;
    let user = job(f, "a", including("apps/shop/calendars/days")).await.expect("made");
    let delay = Schedule {
        trigger: Trigger::Delay(Duration::from_secs(10)),
        include_calendars: vec!["apps/shop/calendars/days".to_owned()],
        ..Schedule::default()
    };
    let delayed = JobSpec { schedules: vec![delay], ..including("apps/shop/calendars/days") };
    job(f, "b", delayed).await.expect("made");
    let never = CalendarSpec { weekdays: Vec::new(), ..every_day() };
    f.store.update_calendar(days.id, &never, 1, each(), at(64)).await.expect("changed");
    let changed = f.store.get_job("shop", "a").await.expect("found");
    assert_eq!(changed.effective_from, at(64));
    assert_eq!(planned(f, &user).await, [50, 60], "what nobody has served is settled");
    let gap = f.store.get_run(RunId::scheduled(user.id, at(10))).await.expect("a row");
    assert_eq!((gap.run.state, gap.missed_count), (RunState::Skipped, 4));
    let changed = f.store.get_job("shop", "b").await.expect("found");
    assert_eq!(changed.effective_from, at(0), "a delay goes on counting");
    f.store.update_calendar(days.id, &every_day(), 2, each(), at(134)).await.expect("changed");
    assert_eq!(planned(f, &user).await, [50, 60], "it opens nothing in the past");
    let changed = f.store.get_job("shop", "a").await.expect("found");
    let compiled = plan::compile_all(&changed).expect("good schedules");
    let later = plan::fires_between(&changed, &compiled, at(0), at(150), 100);
    assert_eq!(later.iter().map(|run| run.fire_at).collect::<Vec<_>>(), [at(140)]);
}

pub(crate) async fn a_changed_calendar_clears_what_it_was_blamed_for(f: &Fixture) {
    let days = calendar(f, "days").await;
    let user = job(f, "a", including("apps/shop/calendars/days")).await.expect("made");
    let blame = JobChange {
        spec: None,
        problem: Some("never fires".to_owned()),
        ..edit(JobSpec::default())
    };
    let none = Box::new(|_: &ReplanInput| Vec::new());
    let blamed = f.store.change_job(user.id, &blame, none, at(1)).await.expect("changed");
    assert_eq!((blamed.problem.as_str(), blamed.revision), ("never fires", 1));
    let spec = CalendarSpec { weekdays: vec![1], ..CalendarSpec::default() };
    f.store.update_calendar(days.id, &spec, 1, each(), at(2)).await.expect("changed");
    assert_eq!(f.store.get_job("shop", "a").await.expect("found").problem, "");
}

pub(crate) async fn a_calendar_in_use_is_not_deleted(f: &Fixture) {
    let days = calendar(f, "days").await;
    let name = "apps/shop/calendars/days";
    let user = job(f, "a", including(name)).await.expect("made");
    let gone = job(f, "b", including(name)).await.expect("made");
    let refused = f.store.delete_calendar(days.id).await;
    assert_eq!(refused, Err(StoreError::Conflict("it is used by 2 jobs".to_owned())));
    let none = || Box::new(|_: &ReplanInput| Vec::new());
    let plain = JobSpec { handler: "h".to_owned(), ..JobSpec::default() };
    f.store.change_job(user.id, &edit(plain), none(), at(1)).await.expect("changed");
    let delete = JobChange { spec: None, delete: true, drop_due: true, ..edit(JobSpec::default()) };
    f.store.change_job(gone.id, &delete, none(), at(1)).await.expect("deleted");
    f.store.delete_calendar(days.id).await.expect("nobody uses it");
    let again = f.store.delete_calendar(days.id).await;
    assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
}

pub(crate) async fn an_app_goes_with_its_calendars_unless_others_use_them(f: &Fixture) {
    let shared = f.store.ensure_app("shared", at(0)).await.expect("an app");
    let new =
        NewCalendar { app: shared.id, name: "days".to_owned(), spec: every_day(), request: None };
    f.store.create_calendar(&new, at(0)).await.expect("a calendar");
    let user = job(f, "a", including("apps/shared/calendars/days")).await.expect("made");
    let refused = f.store.delete_app(shared.id).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    let delete = JobChange { spec: None, delete: true, drop_due: true, ..edit(JobSpec::default()) };
    let none = Box::new(|_: &ReplanInput| Vec::new());
    f.store.change_job(user.id, &delete, none, at(1)).await.expect("deleted");
    f.store.delete_app(shared.id).await.expect("deleted");
}
