//! Nodes among each other, as far as one store alone can show it; `postgres_nodes` has the rest.

use clawjob_scheduler::{
    model::{job::JobSpec, run::RunState},
    store::ops::JobChange,
};

use super::fixture::{Fixture, at};

pub(crate) async fn a_store_of_its_own_has_one_owner(f: &Fixture) {
    assert_eq!(f.store.survey().await.expect("a survey").owners, 1);
}

pub(crate) async fn jobs_are_read_as_they_were_at_a_revision(f: &Fixture) {
    let (job, other) = (f.job("a").await, f.job("b").await);
    let spec = JobSpec { handler: "new".to_owned(), ..JobSpec::default() };
    let change = JobChange { spec: Some(spec), ..JobChange::by("me") };
    let replan = Box::new(|_: &_| Vec::new());
    f.store.change_job(job.id, &change, replan, at(1)).await.expect("changed");
    let wanted = [(job.id, 1), (job.id, 2), (other.id, 1), (other.id, 7)];
    let mut found = f.store.load_revisions(&wanted).await.expect("jobs");
    found.sort_by_key(|job| (job.id, job.revision));
    let found: Vec<_> = found
        .iter()
        .map(|job| (job.id, job.revision, job.spec.handler.as_str(), job.resource_name()))
        .collect();
    let name = |name: &str| format!("apps/shop/jobs/{name}");
    let expected =
        [(job.id, 1, "h", name("a")), (job.id, 2, "new", name("a")), (other.id, 1, "h", name("b"))];
    assert_eq!(found, expected);
}

pub(crate) async fn what_one_node_hands_to_itself_changes_no_run(f: &Fixture) {
    let sent = f.run_in("a", RunState::Dispatched).await;
    f.drain_inbox().await;
    let before = f.open(sent.run).await;
    f.store.tell_owners(&[(sent.run, None)]).await.expect("told");
    f.drain_inbox().await;
    assert_eq!(f.open(sent.run).await, before);
}
