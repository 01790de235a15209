//! Shards at the API: lists, cancel, rerun.

#[path = "support/api.rs"]
mod support;

use clawjob_proto::v1::{
    self as pb, job_service_server::JobService as _, run_service_server::RunService as _,
};
use clawjob_scheduler::{
    model::{
        ids::RunId,
        job::{JobSpec, Placement},
        run::RunState,
        shards,
    },
    store::ops::{AttemptEnd, EndRun, Followup, StateSet},
};
use support::*;
use tonic::Code;

fn sharded(shard_total: u32) -> pb::Job {
    let placement = pb::Placement { shard_total, ..Default::default() };
    pb::Job { placement: Some(placement), ..hello() }
}

/// Plays the owner: splits the run; gives its shards by index.
async fn split(world: &World, run: &pb::Run, shard_total: u32) -> Vec<RunId> {
    let row = world.store.open_runs(&[run_id(run)]).await.expect("reads").remove(0);
    let placement = Placement { shard_total, ..Placement::default() };
    let spec = JobSpec { placement, ..JobSpec::default() };
    let split = shards::split(&row, &spec, &[]).expect("a split");
    let done = world.store.split_run(row.attempt_ref(), &split, world.now()).await;
    assert!(done.expect("an answer"));
    split.shards.iter().map(|shard| shard.id).collect()
}

/// Ends shards, and follows the ends up.
async fn end(world: &World, shards: &[(RunId, RunState)]) {
    for (id, to) in shards {
        let row = world.store.open_runs(&[*id]).await.expect("reads").remove(0);
        let end = EndRun {
            attempt: row.attempt_ref(),
            from: StateSet::OPEN,
            to: *to,
            end: AttemptEnd::default(),
            output: None,
            output_truncated: false,
            message: String::new(),
            missed: false,
        };
        world.store.end_runs(&[end], world.now()).await.expect("ends");
    }
    let events = world.store.end_events(100, &[]).await.expect("events");
    let parent = |event: &clawjob_scheduler::store::ops::EndEvent| event.extra.as_ref()?.parent;
    let followups: Vec<Followup> = events
        .iter()
        .map(|event| Followup { seq: event.seq, parent: parent(event), ..Followup::default() })
        .collect();
    world.store.settle_ends(&followups, world.now()).await.expect("settled");
}

async fn get(world: &World, name: &str) -> pb::Run {
    let request = pb::GetRunRequest { name: name.to_owned(), ..Default::default() };
    world.runs.get_run(admin(request)).await.expect("found").into_inner()
}

async fn list(world: &World, filter: &str) -> Vec<String> {
    let request = pb::ListRunsRequest {
        parent: "apps/a".to_owned(),
        filter: filter.to_owned(),
        order_by: "create_time".to_owned(),
        ..Default::default()
    };
    let page = world.runs.list_runs(admin(request)).await.expect("lists").into_inner();
    page.runs.into_iter().map(|run| run.name).collect()
}

async fn rerun(world: &World, name: &str) -> pb::Run {
    let request = pb::RerunRunRequest { name: name.to_owned(), ..Default::default() };
    world.runs.rerun_run(admin(request)).await.expect("runs again").into_inner()
}

/// Indexes and totals that a parent would be split into.
async fn parts(world: &World, run: &pb::Run, job_total: u32) -> Vec<(u32, u32)> {
    let ids = split(world, run, job_total).await;
    let rows = world.store.open_runs(&ids).await.expect("reads");
    let extras = rows.iter().filter_map(|row| row.extra.as_ref());
    let mut parts: Vec<_> = extras.map(|extra| (extra.shard_index, extra.shard_total)).collect();
    parts.sort_unstable();
    parts
}

fn names(ids: &[RunId]) -> Vec<String> {
    ids.iter().map(|id| format!("apps/a/runs/{id}")).collect()
}

#[tokio::test]
async fn lists_show_parents_and_shards_only_when_asked_for() {
    let world = World::new().await;
    let job = world.create("a", "j", sharded(3)).await;
    let run = world.trigger(&job.name).await;
    let ids = split(&world, &run, 3).await;
    assert_eq!(list(&world, "").await, [run.name.as_str()]);
    assert_eq!(list(&world, &format!("parent = {:?}", run.name)).await, names(&ids));
    let of = format!("parent = {} AND state = QUEUED", run_id(&run));
    assert_eq!(list(&world, &of).await, names(&ids));
    assert_eq!(list(&world, &format!("parent = {}", ids[0])).await, [""; 0]);
    let shard = pb::Run { name: names(&ids).remove(1), ..Default::default() };
    world.start(&shard).await;
    assert_eq!(list(&world, "executor = host-1").await, [shard.name.as_str()]);
    let shown = get(&world, &shard.name).await;
    assert_eq!((shown.shard_index, shown.shard_total), (1, 3));
    assert_eq!(shown.parent_run, run.name);
    let shown = get(&world, &run.name).await;
    assert_eq!((shown.shard_total, shown.parent_run.as_str()), (3, ""));
    let request = pb::GetJobRequest { name: job.name.clone() };
    let job = world.jobs.get_job(admin(request)).await.expect("found").into_inner();
    assert_eq!(job.last_run, run.name);
    for bad in ["parent = x", "NOT parent = x", "parent < x"] {
        let request = pb::ListRunsRequest {
            parent: "apps/a".to_owned(),
            filter: bad.to_owned(),
            ..Default::default()
        };
        let status = world.runs.list_runs(admin(request)).await.expect_err("a bad filter");
        assert_eq!(why(&status), (Code::InvalidArgument, "FILTER_INVALID".to_owned()), "{bad}");
    }
}

#[tokio::test]
async fn a_rerun_of_a_parent_that_failed_repeats_just_the_shards_that_did() {
    let world = World::new().await;
    let job = world.create("a", "j", sharded(4)).await;
    let run = world.trigger(&job.name).await;
    let ids = split(&world, &run, 4).await;
    use RunState as S;
    let ends = [S::Succeeded, S::Failed, S::Canceled, S::Lost];
    let ends: Vec<(RunId, S)> = ids.iter().copied().zip(ends).collect();
    end(&world, &ends).await;
    assert_eq!(get(&world, &run.name).await.state(), pb::RunState::Lost);
    let again = rerun(&world, &run.name).await;
    assert_eq!(again.rerun_of, run.name);
    assert_eq!(parts(&world, &again, 4).await, [(1, 4), (2, 4), (3, 4)]);
    // One of its shards alone, under a parent of its own.
    let shard = rerun(&world, &names(&ids)[1]).await;
    assert_eq!((shard.parent_run.as_str(), &shard.rerun_of), ("", &names(&ids)[1]));
    assert_eq!(parts(&world, &shard, 4).await, [(1, 4)]);
}

#[tokio::test]
async fn a_rerun_of_a_parent_that_succeeded_or_never_began_repeats_all() {
    let world = World::new().await;
    let job = world.create("a", "j", sharded(2)).await;
    let good = world.trigger(&job.name).await;
    let ids = split(&world, &good, 2).await;
    end(&world, &[(ids[0], RunState::Succeeded), (ids[1], RunState::Succeeded)]).await;
    let unsplit = world.trigger(&job.name).await;
    end(&world, &[(run_id(&unsplit), RunState::Canceled)]).await;
    for run in [&good, &unsplit] {
        let again = rerun(&world, &run.name).await;
        assert_eq!(parts(&world, &again, 2).await, [(0, 2), (1, 2)]);
    }
}

#[tokio::test]
async fn a_cancel_of_a_parent_ends_it_before_the_split_and_is_noted_after_it() {
    let world = World::new().await;
    let job = world.create("a", "j", sharded(2)).await;
    let cancel = |name: &str| pb::CancelRunRequest { name: name.to_owned(), ..Default::default() };
    let waiting = world.trigger(&job.name).await;
    let run = world.runs.cancel_run(admin(cancel(&waiting.name))).await.expect("canceled");
    assert_eq!(run.into_inner().state(), pb::RunState::Canceled);
    let run = world.trigger(&job.name).await;
    let ids = split(&world, &run, 2).await;
    for _ in 0..2 {
        let shown = world.runs.cancel_run(admin(cancel(&run.name))).await.expect("noted");
        let shown = shown.into_inner();
        assert_eq!(
            (shown.state(), shown.kill_reason()),
            (pb::RunState::Queued, pb::KillReason::User)
        );
    }
    end(&world, &[(ids[0], RunState::Canceled), (ids[1], RunState::Canceled)]).await;
    assert_eq!(get(&world, &run.name).await.state(), pb::RunState::Canceled);
}

#[tokio::test]
async fn a_forced_delete_ends_parents_and_shards() {
    let world = World::new().await;
    let job = world.create("a", "j", sharded(2)).await;
    let run = world.trigger(&job.name).await;
    split(&world, &run, 2).await;
    let request = pb::DeleteJobRequest { name: job.name, force: true, ..Default::default() };
    world.jobs.delete_job(admin(request)).await.expect("deleted");
    end(&world, &[]).await;
    assert_eq!(get(&world, &run.name).await.state(), pb::RunState::Canceled);
}
