//! What others than the owner change reaches the owner.

use clawjob_scheduler::{
    model::{
        ids::RunId,
        job::{JobSpec, JobState},
        run::{KillReason, NewRun, RunState, TriggerKind},
    },
    store::ops::{EndAnswer, JobChange, NewJob, ReplanInput},
};

use super::fixture::{Fixture, at, canceling, ending, fire, retry_later};

pub(crate) async fn what_others_change_waits_in_the_inbox_of_its_partition(f: &Fixture) {
    let job = f.job("a").await;
    let run =
        NewRun { id: RunId::by_hand(at(1), 5), trigger: TriggerKind::Api, ..fire(&job, at(1)) };
    f.store.create_run(&run, None, at(1)).await.expect("a run");
    let batch = f.store.take_inbox(&[job.partition]).await.expect("an inbox");
    assert_eq!(batch.ids, [run.id]);
    assert_eq!(batch.open.runs, [f.open(run.id).await]);
    assert_eq!(batch.open.specs.len(), 1);
    assert_eq!(batch.open.specs[0].spec, job.spec);

    let running = f.run_in("running", RunState::Running).await;
    let other = f.run_in("other", RunState::Running).await;
    assert_eq!(f.drain_inbox().await.ids, [], "what the owner did itself it knows");
    f.store.mark_canceling(&[canceling(running, KillReason::User)], at(20)).await.expect("marked");
    f.store.put_back(&[retry_later(other)], at(20)).await.expect("back");
    let batch = f.drain_inbox().await;
    let mut ids = batch.ids;
    ids.sort_unstable();
    let mut expected = [running.run, other.run];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    assert_eq!(batch.open.runs.len(), 2);
}

pub(crate) async fn the_inbox_gives_each_change_out_once(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    for second in [20, 21] {
        let mark = [canceling(running, KillReason::User)];
        f.store.mark_canceling(&mark, at(second)).await.expect("marked");
    }
    let batch = f.drain_inbox().await;
    assert!(!batch.ids.is_empty() && batch.ids.iter().all(|run| *run == running.run));
    assert_eq!(batch.open.runs.len(), 1, "a run that changed twice is read once");
    assert_eq!(f.drain_inbox().await.ids, []);
    f.store.put_back(&[retry_later(running)], at(22)).await.expect("back");
    assert_eq!(f.drain_inbox().await.ids, [running.run], "a later change comes again");
}

pub(crate) async fn the_inbox_names_runs_that_are_gone(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.mark_canceling(&[canceling(running, KillReason::User)], at(20)).await.expect("marked");
    let answers = f.store.end_runs(&[ending(running, RunState::Canceled)], at(21)).await;
    assert!(matches!(answers.expect("answers")[..], [EndAnswer::Ended(_)]));
    let batch = f.drain_inbox().await;
    assert!(batch.ids.contains(&running.run) && batch.open.runs.is_empty());

    let new = NewJob {
        app: f.app.id,
        name: "planned".to_owned(),
        state: JobState::Active,
        spec: JobSpec::default(),
        updated_by: "me".to_owned(),
        request: None,
    };
    let first = Box::new(|input: &ReplanInput| vec![fire(&input.job, at(30))]);
    let job = f.store.create_job(&new, first, at(22)).await.expect("a job");
    let planned = RunId::scheduled(job.id, at(30));
    assert_eq!(f.drain_inbox().await.ids, [planned]);
    let delete = JobChange { delete: true, drop_due: true, ..JobChange::by("me") };
    f.store.change_job(job.id, &delete, Box::new(|_| Vec::new()), at(23)).await.expect("deleted");
    let batch = f.drain_inbox().await;
    assert_eq!((batch.ids, batch.open.runs), (vec![planned], Vec::new()));
}
