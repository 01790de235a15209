//! An owner that serves fire times while somebody changes the job.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use clawjob_scheduler::{
    board::{Adoption, Board},
    clock::ManualClock,
    dispatch::Dispatcher,
    fleet::Reach,
    hub::{Hub, HubSettings},
    model::{
        ids::{PARTITION_COUNT, PartitionId},
        job::{JobSpec, JobState},
        plan,
        run::{NewRun, RunState},
        schedule::{self, Schedule},
    },
    store::ops::{JobChange, NewJob, ReplanInput, RunScope},
    trigger::Trigger,
};

use super::fixture::{Fixture, at};

fn replan(input: &ReplanInput) -> Vec<NewRun> {
    let compiled = plan::compile_all(&input.job).expect("good schedules");
    plan::replan(&input.job, &compiled, input.now, input.partition.planned_until, 100)
}

fn to(state: JobState) -> JobChange {
    JobChange {
        state: Some((state, None, String::new())),
        drop_due: state == JobState::Paused,
        restart_schedule: state == JobState::Active,
        ..JobChange::by("me")
    }
}

pub(crate) async fn x10_a_job_stopped_at_the_moment_it_fires_stays_stopped(f: &Fixture) {
    // The whole count: a thousand times.
    let rounds = if std::env::var_os("CLAWJOB_SOAK").is_some() { 1_000 } else { 100 };
    let trigger = schedule::Trigger::Interval(Duration::from_secs(1));
    let job = NewJob {
        app: f.app.id,
        name: "often".to_owned(),
        state: JobState::Active,
        spec: JobSpec {
            handler: "h".to_owned(),
            schedules: vec![Schedule { trigger, ..Schedule::default() }],
            ..JobSpec::default()
        },
        updated_by: "me".to_owned(),
        request: None,
    };
    let job = f.store.create_job(&job, Box::new(replan), at(0)).await.expect("created");
    let board = Arc::new(Board::default());
    let all: Vec<_> = (0..PARTITION_COUNT).map(PartitionId).collect();
    let partitions = f.store.check_partitions(&all).await.expect("held");
    let jobs = f.store.load_jobs(&[(job.partition, 0)]).await.expect("jobs");
    board.adopt(Adoption { partitions, jobs, ..Adoption::default() });
    let (hub, _events) = Hub::new(HubSettings::default(), ManualClock::new(at(0)));
    let dispatcher = Dispatcher::new(f.store.clone(), board.clone(), Reach::alone(hub));
    let trigger = Trigger::new(f.store.clone(), board.clone());
    let mut fired = 0;
    for round in 0..rounds {
        let now = at(0) + TimeDelta::milliseconds(2_500 * round);
        let stop = to(JobState::Paused);
        let pause = f.store.change_job(job.id, &stop, Box::new(replan), now);
        let (paused, ticked) = tokio::join!(pause, dispatcher.tick(now));
        paused.expect("paused");
        ticked.expect("ticked");
        trigger.reload().await.expect("reloaded");
        dispatcher.tick(now + TimeDelta::seconds(1)).await.expect("ticked");
        let open = f.store.load_open_runs(&RunScope::Jobs(vec![job.id])).await.expect("open");
        let waiting = open.runs.iter().filter(|run| run.state == RunState::Queued).count();
        assert_eq!(waiting, 0, "round {round}: a stopped job has runs");
        let now = now + TimeDelta::milliseconds(1_200);
        let go_on = to(JobState::Active);
        let resume = f.store.change_job(job.id, &go_on, Box::new(replan), now);
        resume.await.expect("resumed");
        trigger.reload().await.expect("reloaded");
        // Every other round a fire time comes between this and the next stop.
        dispatcher.tick(now + TimeDelta::seconds(1)).await.expect("ticked");
        let open = f.store.load_open_runs(&RunScope::Jobs(vec![job.id])).await.expect("open");
        fired += open.runs.len();
    }
    assert!(fired >= rounds as usize, "it fired in between: {fired}");
}
