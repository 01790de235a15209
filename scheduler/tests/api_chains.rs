//! Chains at the API: what a save may add, and who may add it.

#[path = "support/api.rs"]
mod support;

use std::{collections::BTreeSet, sync::Arc};

use clawjob_proto::v1::{
    self as pb, job_service_server::JobService as _, run_service_server::RunService as _,
};
use clawjob_scheduler::{alarm::raise::Raiser, follow::Follower, model::principal::Role};
use support::*;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

fn starting(on_success: &[&str], on_failure: &[&str]) -> pb::Job {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    pb::Job { on_success: names(on_success), on_failure: names(on_failure), ..hello() }
}

async fn set(
    world: &World,
    who: &[(&str, Role)],
    name: &str,
    job: pb::Job,
) -> Result<pb::Job, Status> {
    let paths = ["on_success", "on_failure"].map(str::to_owned).to_vec();
    let request = pb::UpdateJobRequest {
        job: Some(pb::Job { name: name.to_owned(), ..job }),
        update_mask: Some(prost_types::FieldMask { paths }),
        ..Default::default()
    };
    world.jobs.update_job(by(caller(who), request)).await.map(tonic::Response::into_inner)
}

async fn create(world: &World, app: &str, id: &str, job: pb::Job) -> Result<pb::Job, Status> {
    let request = pb::CreateJobRequest {
        parent: format!("apps/{app}"),
        job_id: id.to_owned(),
        job: Some(job),
        ..Default::default()
    };
    world.jobs.create_job(admin(request)).await.map(tonic::Response::into_inner)
}

async fn delete(world: &World, name: &str) {
    let request = pb::DeleteJobRequest { name: name.to_owned(), ..Default::default() };
    world.jobs.delete_job(admin(request)).await.expect("deleted");
}

const ADMIN: &[(&str, Role)] = &[("*", Role::Admin)];

#[tokio::test]
async fn x39_a_cycle_is_refused_at_save_also_across_apps() {
    let world = World::new().await;
    for (app, id) in [("a", "one"), ("b", "two"), ("c", "three")] {
        world.create(app, id, hello()).await;
    }
    let [one, two, three] = ["apps/a/jobs/one", "apps/b/jobs/two", "apps/c/jobs/three"];
    set(&world, ADMIN, one, starting(&[two], &[])).await.expect("a chain");
    set(&world, ADMIN, two, starting(&[], &[three])).await.expect("a longer chain");
    for (job, next) in [(two, one), (three, one), (three, two), (three, three)] {
        for chain in [starting(&[next], &[]), starting(&[], &[next])] {
            let status = set(&world, ADMIN, job, chain).await.expect_err("a cycle");
            assert_eq!(why(&status), (Code::InvalidArgument, "CHAIN_CYCLE".to_owned()), "{job}");
            assert_eq!(fields(&status).len(), 1);
        }
    }
    // One that leads to the same job twice, by two ways, is no cycle.
    set(&world, ADMIN, one, starting(&[two, three], &[three])).await.expect("no cycle");
}

#[tokio::test]
async fn a_job_made_anew_under_an_old_name_closes_no_cycle_either() {
    let world = World::new().await;
    world.create("a", "one", hello()).await;
    world.create("a", "two", hello()).await;
    set(&world, ADMIN, "apps/a/jobs/one", starting(&["apps/a/jobs/two"], &[])).await.expect("set");
    delete(&world, "apps/a/jobs/two").await;
    let again = starting(&["apps/a/jobs/one"], &[]);
    let status = create(&world, "a", "two", again).await.expect_err("a cycle");
    assert_eq!(why(&status), (Code::InvalidArgument, "CHAIN_CYCLE".to_owned()));
    let myself = starting(&[], &["apps/a/jobs/three"]);
    let status = create(&world, "a", "three", myself).await.expect_err("a cycle");
    assert_eq!(fields(&status), ["job.on_failure[0]"]);
}

#[tokio::test]
async fn an_editor_may_start_only_jobs_that_he_may_trigger_and_learns_of_no_others() {
    let world = World::new().await;
    world.create("own", "mine", hello()).await;
    world.create("open", "theirs", hello()).await;
    world.create("shown", "theirs", hello()).await;
    world.create("secret", "hidden", hello()).await;
    let me = &[("own", Role::Editor), ("open", Role::Operator), ("shown", Role::Viewer)][..];
    let entries = [
        "apps/open/jobs/theirs",
        "apps/shown/jobs/theirs",
        "apps/secret/jobs/hidden",
        "apps/secret/jobs/none",
        "apps/open/jobs/none",
        "no name",
        "apps/open/jobs/theirs",
    ];
    let chain = starting(&entries, &[]);
    let status = set(&world, me, "apps/own/jobs/mine", chain).await.expect_err("faults");
    assert_eq!(why(&status), (Code::InvalidArgument, "CHAIN_TARGET_UNKNOWN".to_owned()));
    let wanted: Vec<String> = (1..7).map(|n| format!("job.on_success[{n}]")).collect();
    assert_eq!(fields(&status), wanted);
    let details = status.get_error_details();
    let told = &details.bad_request().expect("violations").field_violations;
    let texts: Vec<&str> = told.iter().map(|one| one.description.as_str()).collect();
    assert!(texts[..4].iter().all(|text| *text == texts[0]), "{texts:?}");

    let good = starting(&["apps/open/jobs/theirs"], &[]);
    set(&world, me, "apps/own/jobs/mine", good).await.expect("may trigger it");
}

#[tokio::test]
async fn what_was_saved_before_stays_whoever_saves_next_and_whatever_became_of_it() {
    let world = World::new().await;
    world.create("own", "mine", hello()).await;
    world.create("own", "next", hello()).await;
    world.create("secret", "hidden", hello()).await;
    let both = ["apps/secret/jobs/hidden", "apps/own/jobs/next"];
    set(&world, ADMIN, "apps/own/jobs/mine", starting(&both, &[])).await.expect("set");
    delete(&world, "apps/own/jobs/next").await;
    let request = pb::UpdateJobRequest {
        job: Some(pb::Job {
            name: "apps/own/jobs/mine".to_owned(),
            owner: "me".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let me = caller(&[("own", Role::Editor)]);
    let changed = world.jobs.update_job(by(me, request)).await.expect("changes").into_inner();
    assert_eq!((changed.owner.as_str(), changed.on_success.len()), ("me", 2));
}

#[tokio::test]
async fn a_chain_has_a_bound() {
    let world = World::new().await;
    let many: Vec<String> = (0..33).map(|n| format!("apps/a/jobs/j{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let status = create(&world, "a", "one", starting(&many, &[])).await.expect_err("too many");
    assert_eq!(fields(&status), ["job.on_success"]);
}

#[tokio::test]
async fn a_rerun_starts_the_jobs_of_the_chain_again() {
    let world = World::new().await;
    world.create("a", "next", hello()).await;
    let job = world.create("a", "one", starting(&["apps/a/jobs/next"], &[])).await;
    let run = world.trigger(&job.name).await;
    let attempt = world.start(&run).await;
    world.succeed(attempt).await;
    let request = pb::RerunRunRequest { name: run.name.clone(), ..Default::default() };
    let again = world.runs.rerun_run(admin(request)).await.expect("runs again").into_inner();
    let attempt = world.start(&again).await;
    world.succeed(attempt).await;
    let raiser = Raiser::new(world.store.clone(), None);
    let mut follower = Follower::new(world.store.clone(), Arc::default(), raiser);
    assert_eq!(follower.step(world.now()).await.expect("followed up"), 2);
    let request = pb::ListRunsRequest {
        parent: "apps/a".to_owned(),
        filter: "job = apps/a/jobs/next AND trigger = CHAIN".to_owned(),
        ..Default::default()
    };
    let runs = world.runs.list_runs(admin(request)).await.expect("lists").into_inner().runs;
    let causes: BTreeSet<&str> = runs.iter().map(|run| run.caused_by.as_str()).collect();
    assert_eq!(causes, BTreeSet::from([run.name.as_str(), again.name.as_str()]));
}
