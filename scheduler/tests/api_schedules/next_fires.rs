//! The next fire time of a job is true whenever it is read, however old the stored one is.

use super::*;

/// Stores a next fire time as the owner does, so many seconds from the begin.
async fn store_next(world: &World, job: &str, seconds: i64) {
    let id = world.store.get_job("a", job).await.expect("found").id;
    let at = DateTime::from_timestamp(BEGIN + seconds, 0).expect("in range");
    world.store.show_next_fires(&[(id, Some(at))]).await.expect("stored");
}

async fn list(world: &World, filter: &str, order_by: &str) -> Vec<(String, Option<i64>)> {
    let request = pb::ListJobsRequest {
        parent: "apps/a".to_owned(),
        filter: filter.to_owned(),
        order_by: order_by.to_owned(),
        ..Default::default()
    };
    let jobs = world.jobs.list_jobs(admin(request)).await.expect("lists").into_inner().jobs;
    let next = |job: &pb::Job| job.next_fire_time.map(|at| at.seconds - BEGIN);
    jobs.iter().map(|job| (job.name.replace("apps/a/jobs/", ""), next(job))).collect()
}

fn named(jobs: &[(&str, Option<i64>)]) -> Vec<(String, Option<i64>)> {
    jobs.iter().map(|(name, next)| ((*name).to_owned(), *next)).collect()
}

#[tokio::test]
async fn one_that_has_passed_is_worked_out_anew() {
    let world = World::new().await;
    let mut spread = every(10);
    spread.schedules[0].spread = Some(prost_types::Duration { seconds: 8, nanos: 0 });
    world.create("a", "often", spread).await;
    world.create("a", "seldom", every(3_600)).await;
    store_next(&world, "often", 10).await;
    store_next(&world, "seldom", 3_600).await;
    let first = get(&world, "apps/a/jobs/often").await;
    let offset = first.next_due_time.expect("due").seconds - BEGIN - 10;
    assert!((0..8).contains(&offset), "{offset}");

    world.clock.advance(Duration::from_secs(57));
    let shown = get(&world, "apps/a/jobs/often").await;
    assert_eq!(shown.next_fire_time, instant(60));
    assert_eq!(shown.next_due_time.expect("due").seconds, BEGIN + 60 + offset);
    let both = named(&[("often", Some(60)), ("seldom", Some(3_600))]);
    assert_eq!(list(&world, "", "next_fire_time").await, both, "in the order of what is stored");
}

#[tokio::test]
async fn a_filter_takes_one_that_has_passed_for_one_that_comes() {
    let world = World::new().await;
    world.create("a", "often", every(10)).await;
    world.create("a", "seldom", every(3_600)).await;
    world.create("a", "never", hello()).await;
    store_next(&world, "often", 10).await;
    store_next(&world, "seldom", 3_600).await;
    world.clock.advance(Duration::from_secs(30));
    let (often, seldom) = (("often", Some(40)), ("seldom", Some(3_600)));
    // Now is 08:00:30.
    for (filter, expected) in [
        ("next_fire_time > 2027-01-15T08:00:30Z", named(&[often, seldom])),
        ("next_fire_time >= 2027-01-15T08:00:00Z", named(&[often, seldom])),
        ("next_fire_time < 2027-01-15T08:00:30Z", Vec::new()),
        ("next_fire_time < 2027-01-15T08:30:00Z", named(&[often])),
        ("next_fire_time > 2027-01-15T08:30:00Z", named(&[seldom])),
        ("next_fire_time < 2027-01-15T10:00:00Z", named(&[often, seldom])),
    ] {
        assert_eq!(list(&world, filter, "").await, expected, "{filter}");
    }
}

#[tokio::test]
async fn a_job_that_can_not_fire_shows_none() {
    let world = World::new().await;
    let broken = world.create("a", "broken", every(10)).await;
    let id = world.store.get_job("a", "broken").await.expect("found").id;
    let change = JobChange {
        version: None,
        spec: None,
        state: None,
        delete: false,
        drop_due: false,
        restart_schedule: false,
        problem: Some("its time zone is gone".to_owned()),
        updated_by: String::new(),
    };
    let none = Box::new(|_: &ReplanInput| Vec::new());
    world.store.change_job(id, &change, none, world.now()).await.expect("changed");
    store_next(&world, "broken", 10).await;
    assert_eq!(get(&world, &broken.name).await.next_fire_time, None);
    world.clock.advance(Duration::from_secs(30));
    let shown = get(&world, &broken.name).await;
    assert_eq!((shown.next_fire_time, shown.problem.as_str()), (None, "its time zone is gone"));
}

#[tokio::test]
async fn of_the_revisions_the_current_one_shows_it_with_its_calendars() {
    let world = World::new().await;
    let calendars = Calendars::of(&world);
    let days = calendars.create("a", "days", weekdays(&[6, 7])).await;
    let job = world.create("a", "j", every(10)).await;
    let weekend = pb::Schedule { include_calendars: vec![days.name], ..cron("* * * * *") };
    let request = pb::UpdateJobRequest {
        job: Some(pb::Job { name: job.name.clone(), ..firing(weekend) }),
        ..Default::default()
    };
    world.jobs.update_job(admin(request)).await.expect("changes");
    store_next(&world, "j", 0).await;
    let request = pb::ListJobRevisionsRequest { name: job.name.clone(), ..Default::default() };
    let list = world.jobs.list_job_revisions(admin(request)).await.expect("lists").into_inner();
    let shown: Vec<_> = list.jobs.iter().map(|j| (j.next_fire_time, j.problem.as_str())).collect();
    // Saturday, 2027-01-16 00:00.
    assert_eq!(shown, [(instant(16 * 3_600), ""), (None, "")]);
}
