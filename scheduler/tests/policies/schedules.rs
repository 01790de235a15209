//! Schedules while time goes by: pauses, edits, ends, calendars.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        calendar::{CalendarSpec, Window},
        job::{Job, JobSpec, JobState, MisfirePolicy, OverlapPolicy},
        plan,
        run::{NewRun, RunState},
        schedule::{Schedule, Trigger},
    },
    store::{
        ops::{JobChange, ReplanInput},
        schedules::NewCalendar,
    },
};

use crate::world::{World, at, cron};

fn spec(schedule: Schedule) -> JobSpec {
    JobSpec {
        handler: "work".to_owned(),
        schedules: vec![schedule],
        overlap: OverlapPolicy::Allow,
        ..JobSpec::default()
    }
}

fn every(seconds: u64) -> Schedule {
    Schedule { trigger: Trigger::Interval(Duration::from_secs(seconds)), ..Schedule::default() }
}

fn replan(input: &ReplanInput) -> Vec<NewRun> {
    let compiled = plan::compile_all(&input.job).expect("good schedules");
    plan::replan(&input.job, &compiled, input.now, input.partition.planned_until, 1_000)
}

async fn change(world: &World, job: &Job, change: JobChange) -> Job {
    let changed = world.store.change_job(job.id, &change, Box::new(replan), world.now()).await;
    changed.expect("changed")
}

async fn pause(world: &World, job: &Job, until: Option<DateTime<Utc>>) -> Job {
    let state = Some((JobState::Paused, until, String::new()));
    change(world, job, JobChange { state, drop_due: true, ..JobChange::by("test") }).await
}

async fn edit(world: &World, job: &Job, spec: JobSpec) -> Job {
    let restart_schedule = spec.schedules != job.spec.schedules;
    let edit = JobChange { spec: Some(spec), restart_schedule, ..JobChange::by("test") };
    change(world, job, edit).await
}

/// Fire times of the runs that ran, in order.
async fn ran(world: &World, job: &Job) -> Vec<DateTime<Utc>> {
    let runs = world.runs_of(job).await;
    assert!(runs.iter().all(|run| run.missed_until.is_none()), "nothing is missed");
    let ran = runs.iter().filter(|run| run.run.state == RunState::Succeeded);
    ran.map(|run| run.run.fire_at).collect()
}

fn times(texts: &[&str]) -> Vec<DateTime<Utc>> {
    texts.iter().map(|text| at(text)).collect()
}

#[tokio::test]
async fn what_passed_during_a_long_pause_is_neither_made_up_for_nor_recorded() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let hourly = spec(cron("30 * * * *", ""));
    let job = world.job("a", JobSpec { misfire: MisfirePolicy::FireAll, ..hourly }).await;
    world.run_until(at("2026-06-10T12:40:00Z")).await;
    pause(&world, &job, None).await;
    world.run_until(at("2026-06-10T20:45:00Z")).await;
    let state = Some((JobState::Active, None, String::new()));
    let resume = JobChange { state, restart_schedule: true, ..JobChange::by("test") };
    change(&world, &job, resume).await;
    world.run_until(at("2026-06-10T22:00:00Z")).await;
    let wanted = ["2026-06-10T12:30:00Z", "2026-06-10T21:30:00Z"];
    assert_eq!(ran(&world, &job).await, times(&wanted));
}

#[tokio::test]
async fn a_pause_with_an_end_lets_the_fire_time_at_its_end_run() {
    runs_at_the_end_of_its_pause(World::new(at("2026-06-10T08:00:00Z")).await).await;
}

/// Ended pauses are looked for every two seconds: here a second after the end of this one, up to
/// which the owner has served everything.
#[tokio::test]
async fn a_pause_that_is_seen_to_end_a_second_late_lets_the_fire_time_at_its_end_run() {
    let mut world = World::new(at("2026-06-10T08:59:01Z")).await;
    world.step_max = TimeDelta::milliseconds(250);
    runs_at_the_end_of_its_pause(world).await;
}

async fn runs_at_the_end_of_its_pause(mut world: World) {
    world.steady("one", 9, TimeDelta::zero()).await;
    let daily = world.job("daily", spec(cron("0 9 * * *", ""))).await;
    let often = world.job("often", spec(every(1))).await;
    let end = at("2026-06-10T09:00:00Z");
    pause(&world, &daily, Some(end)).await;
    pause(&world, &often, Some(end)).await;
    world.run_until(at("2026-06-10T09:00:20Z")).await;
    assert_eq!(ran(&world, &daily).await, [end]);
    let seconds: Vec<_> = (0..=20).map(|s| end + TimeDelta::seconds(s)).collect();
    assert_eq!(ran(&world, &often).await, seconds);
    for executions in world.ledger.values() {
        let late = executions[0].at - executions[0].command.fire_time.map_or(end, instant);
        assert!(late < TimeDelta::seconds(4), "resumed {late} late");
    }
    let job = world.store.get_job("day", "daily").await.expect("found");
    assert_eq!((job.state, job.pause_until), (JobState::Active, None));
}

fn instant(at: prost_types::Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp(at.seconds, 0).expect("in range")
}

#[tokio::test]
async fn a_pause_that_ended_while_nobody_served_ended_then() {
    let mut world = World::new(at("2026-06-10T08:00:00Z")).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let daily = world.job("daily", spec(cron("15 9 * * *", ""))).await;
    let paused = world.job("paused", spec(cron("15 9 * * *", ""))).await;
    pause(&world, &daily, Some(at("2026-06-10T09:00:00Z"))).await;
    pause(&world, &paused, Some(at("2026-06-10T09:20:00Z"))).await;
    world.run_until(at("2026-06-10T08:30:00Z")).await;
    world.set_down(true);
    world.run_until(at("2026-06-10T09:30:00Z")).await;
    world.set_down(false);
    world.run_until(at("2026-06-10T09:31:00Z")).await;
    assert_eq!(ran(&world, &daily).await, [at("2026-06-10T09:15:00Z")]);
    assert_eq!(ran(&world, &paused).await.len(), 0);
}

#[tokio::test]
async fn a_changed_schedule_is_nothing_retroactive() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let all = JobSpec { misfire: MisfirePolicy::FireAll, ..spec(cron("30 12 * * *", "")) };
    let job = world.job("a", all.clone()).await;
    world.run_until(at("2026-06-10T14:00:00Z")).await;
    // Each ten minutes from now on, though the expression has named the morning too.
    let often = JobSpec { schedules: vec![cron("*/10 * * * *", "")], ..all };
    edit(&world, &job, often).await;
    world.run_until(at("2026-06-10T14:25:00Z")).await;
    let wanted = ["2026-06-10T12:30:00Z", "2026-06-10T14:10:00Z", "2026-06-10T14:20:00Z"];
    assert_eq!(ran(&world, &job).await, times(&wanted));
}

#[tokio::test]
async fn x11_edits_at_every_moment_of_a_second_make_no_fire_extra_and_lose_none() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 50, TimeDelta::zero()).await;
    let mut job = world.job("a", spec(every(1))).await;
    for n in 0..300 {
        world.pass(TimeDelta::milliseconds(137)).await;
        let content = JobSpec { description: format!("edit {n}"), ..(*job.spec).clone() };
        job = edit(&world, &job, content).await;
    }
    world.pass(TimeDelta::seconds(8)).await;
    let seconds = (world.now() - begin).num_seconds();
    let wanted: Vec<_> = (1..=seconds).map(|s| begin + TimeDelta::seconds(s)).collect();
    assert_eq!(ran(&world, &job).await, wanted);
    assert!(world.ledger.values().all(|executions| executions.len() == 1));
}

#[tokio::test]
async fn the_last_fire_time_before_the_end_date_runs_and_the_job_is_expired_then() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 9, TimeDelta::seconds(30)).await;
    let ends = Some(at("2026-06-10T12:20:00Z"));
    let by_clock = world.job("clock", spec(Schedule { end_at: ends, ..cron("*/10 * * * *", "") }));
    let by_clock = by_clock.await;
    let delay = Schedule {
        trigger: Trigger::Delay(Duration::from_secs(480)),
        end_at: ends,
        ..Schedule::default()
    };
    let by_delay = world.job("delay", spec(delay)).await;
    world.run_until(at("2026-06-10T13:00:00Z")).await;
    assert_eq!(ran(&world, &by_clock).await, [at("2026-06-10T12:10:00Z")]);
    let wanted = ["2026-06-10T12:08:00Z", "2026-06-10T12:16:30Z"];
    assert_eq!(ran(&world, &by_delay).await, times(&wanted));
    for name in ["clock", "delay"] {
        let job = world.store.get_job("day", name).await.expect("found");
        assert_eq!(job.state, JobState::Expired, "{name}");
    }
}

/// The one who made the revision answers for it, not the clock.
#[tokio::test]
async fn a_job_that_expires_or_resumes_by_itself_keeps_who_changed_it_last() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    let ends = Some(at("2026-06-10T12:20:00Z"));
    let ending = spec(Schedule { end_at: ends, ..cron("*/10 * * * *", "") });
    let ending = world.job("ending", ending).await;
    let resting = world.job("resting", spec(every(60))).await;
    let edited = at("2026-06-10T12:05:00Z");
    world.run_until(edited).await;
    for job in [&ending, &resting] {
        let content = JobSpec { description: "new".to_owned(), ..(*job.spec).clone() };
        let by_bob = JobChange { spec: Some(content), ..JobChange::by("bob") };
        change(&world, job, by_bob).await;
    }
    let pause = Some((JobState::Paused, Some(at("2026-06-10T12:10:00Z")), String::new()));
    change(&world, &resting, JobChange { state: pause, ..JobChange::by("bob") }).await;
    world.run_until(at("2026-06-10T12:30:00Z")).await;
    for (name, state) in [("ending", JobState::Expired), ("resting", JobState::Active)] {
        let job = world.store.get_job("day", name).await.expect("found");
        assert_eq!(job.state, state, "{name}");
        assert_eq!((job.updated_by.as_str(), job.updated_at), ("bob", edited), "{name}");
        let revisions = world.store.list_revisions(job.id, 0, 9).await.expect("listed");
        let by: Vec<_> =
            revisions.iter().map(|old| (old.revision, old.updated_by.as_str())).collect();
        assert_eq!(by, [(2, "bob"), (1, "test")], "{name}");
    }
}

#[tokio::test]
async fn r14_an_interval_goes_on_from_its_anchor_over_restarts_and_outages() {
    let mut world = World::new(at("2026-06-10T01:10:00Z")).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let every_6h = world.job("six", spec(cron("@every 6h", ""))).await;
    let hourly = world.job("hourly", spec(every(3600))).await;
    world.run_until(at("2026-06-10T09:30:00Z")).await;
    world.restart();
    world.steady("two", 9, TimeDelta::zero()).await;
    world.set_down(true);
    world.run_until(at("2026-06-10T09:40:00Z")).await;
    world.set_down(false);
    world.run_until(at("2026-06-10T14:00:00Z")).await;
    let six = ["2026-06-10T07:10:00Z", "2026-06-10T13:10:00Z"];
    assert_eq!(ran(&world, &every_6h).await, times(&six));
    let after: Vec<_> = ran(&world, &hourly).await;
    assert!(after.contains(&at("2026-06-10T10:10:00Z")), "{after:?}");
    assert_eq!(after.len(), 12);
}

#[tokio::test]
async fn r8_a_job_whose_zone_is_unknown_here_stays_and_the_others_run() {
    let mut world = World::new(at("2026-06-10T12:00:00Z")).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let lost = world.job("lost", spec(cron("* * * * *", "Europe/Atlantis"))).await;
    let found = world.job("found", spec(cron("* * * * *", "Europe/Berlin"))).await;
    world.run_until(at("2026-06-10T12:03:30Z")).await;
    assert_eq!(ran(&world, &lost).await.len(), 0);
    assert_eq!(ran(&world, &found).await.len(), 3);
    let held = world.board.job(lost.id).expect("it is there");
    let fault = held.fault.expect("its zone is unknown");
    assert!(fault.contains("Europe/Atlantis"), "{fault}");
    assert_eq!(held.state, JobState::Active);
}

async fn calendar(world: &World, spec: CalendarSpec) -> i64 {
    let new = NewCalendar { app: world.app.id, name: "days".to_owned(), spec, request: None };
    world.store.create_calendar(&new, world.now()).await.expect("a calendar").id
}

fn excluding() -> Schedule {
    Schedule { exclude_calendars: vec!["apps/day/calendars/days".to_owned()], ..every(1) }
}

#[tokio::test]
async fn a_calendar_that_changes_while_runs_are_planned_counts_at_once() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let id = calendar(&world, CalendarSpec::default()).await;
    let job = world.job("a", spec(excluding())).await;
    world.run_until(begin + TimeDelta::milliseconds(10_500)).await;
    // The next five seconds are planned already.
    let noon =
        Window { start: begin + TimeDelta::seconds(12), end: begin + TimeDelta::seconds(20) };
    let closed = CalendarSpec { windows: vec![noon], ..CalendarSpec::default() };
    let each = Box::new(replan);
    world.store.update_calendar(id, &closed, 1, each, world.now()).await.expect("changed");
    world.run_until(begin + TimeDelta::seconds(25)).await;
    let wanted: Vec<_> = (1..12).chain(20..=25).map(|s| begin + TimeDelta::seconds(s)).collect();
    assert_eq!(ran(&world, &job).await, wanted);
}

#[tokio::test]
async fn a_job_that_its_calendars_shut_out_says_so_and_comes_back_with_them() {
    let begin = at("2026-06-10T12:00:00Z");
    let mut world = World::new(begin).await;
    world.steady("one", 9, TimeDelta::zero()).await;
    let all = CalendarSpec { weekdays: (1..=7).collect(), ..CalendarSpec::default() };
    let id = calendar(&world, all).await;
    let job = world.job("a", spec(excluding())).await;
    world.run_until(begin + TimeDelta::seconds(10)).await;
    let shut = world.store.get_job("day", "a").await.expect("found");
    assert_eq!(shut.state, JobState::Active, "it is not over");
    assert!(shut.problem.contains("calendars"), "{}", shut.problem);
    let version = shut.version;
    world.run_until(begin + TimeDelta::seconds(60)).await;
    let later = world.store.get_job("day", "a").await.expect("found");
    assert_eq!(later.version, version, "told once");
    let none = CalendarSpec::default();
    let each = Box::new(replan);
    world.store.update_calendar(id, &none, 1, each, world.now()).await.expect("changed");
    world.run_until(begin + TimeDelta::seconds(70)).await;
    assert_eq!(world.store.get_job("day", "a").await.expect("found").problem, "");
    assert!(ran(&world, &job).await.len() >= 9);
}
