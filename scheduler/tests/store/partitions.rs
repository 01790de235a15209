//! Partitions: epochs, and the version of their jobs.

use clawjob_scheduler::{
    model::ids::PartitionId,
    store::{
        Topic,
        ops::{JobChange, Plan},
    },
};
use tokio::sync::broadcast::Receiver;

use super::fixture::{Fixture, advance, at};

pub(crate) async fn a_new_partition_is_planned_up_to_now(f: &Fixture) {
    let row = f.partition(PartitionId(3)).await;
    assert_eq!((row.epoch, row.jobs_version), (1, 0));
    assert_eq!((row.planned_until, row.served_until), (at(0), at(0)));
}

pub(crate) async fn each_new_owner_raises_the_epoch_and_finds_what_the_last_one_left(f: &Fixture) {
    let id = PartitionId(5);
    let first = f.partition(id).await;
    let step = advance(&first);
    let plan = Plan { advances: vec![step], ..Plan::default() };
    assert_eq!(f.store.plan(&plan, at(1)).await.expect("a plan").advanced, [id]);
    f.store.release_partitions(&[id]).await.expect("given back");
    let taken = f.store.take_partitions("n2", &[id], at(100)).await.expect("taken");
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].epoch, first.epoch + 1);
    assert_eq!(taken[0].planned_until, step.planned_until);
    assert_eq!(taken[0].served_until, step.served_until);
    assert_eq!(f.partition(id).await, taken[0]);
    assert_eq!(f.partition(PartitionId(6)).await.epoch, 1, "another partition keeps its epoch");
}

pub(crate) async fn what_is_not_held_is_given_back_to_nobody(f: &Fixture) {
    f.store.release_partitions(&[PartitionId(7)]).await.expect("given back");
    let mut hints = f.store.hints();
    f.store.release_partitions(&[PartitionId(7)]).await.expect("nothing to do");
    assert!(!told(&mut hints).contains(&Topic::Partitions), "others would look for it");
}

fn told(hints: &mut Receiver<Topic>) -> Vec<Topic> {
    std::iter::from_fn(|| hints.try_recv().ok()).collect()
}

pub(crate) async fn every_change_of_a_job_raises_the_version_of_its_partition(f: &Fixture) {
    let job = f.job("a").await;
    let created = f.partition(job.partition).await.jobs_version;
    assert_eq!(created, 1);
    let pause = JobChange { restart_schedule: true, ..JobChange::by("me") };
    f.store.change_job(job.id, &pause, Box::new(|_| Vec::new()), at(1)).await.expect("changed");
    assert_eq!(f.partition(job.partition).await.jobs_version, 2);
    let newer = f.store.load_jobs(&[(job.partition, created)]).await.expect("jobs");
    assert_eq!(newer.len(), 1);
    assert_eq!((newer[0].id, newer[0].version), (job.id, 2));
    assert_eq!(f.store.load_jobs(&[(job.partition, 2)]).await.expect("jobs"), []);
}
