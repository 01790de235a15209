//! Parents and shards: split once, running with the first, ended with the last.

use clawjob_scheduler::{
    model::{
        follow::Follow,
        ids::{AttemptRef, RunId},
        job::{Job, JobSpec, Placement},
        run::{KillReason, NewRun, RunExtra, RunState, TriggerKind},
        shards::{self, CODE_SHARDS_FAILED, Split},
    },
    store::ops::{Condition, EndRun, Followup, JobChange, RunQuery, Scheduled, Settled, StateSet},
};

use super::fixture::{Fixture, at, canceling, ending, fire};

/// A parent with so many shards that are not made yet.
async fn parent(f: &Fixture, job: &Job, shards: u32) -> (AttemptRef, Split) {
    let extra = RunExtra { follow: Follow::PARENT, ..RunExtra::default() };
    let run = NewRun { extra: Some(Box::new(extra)), ..fire(job, at(10)) };
    let plan = f.plan_of(std::slice::from_ref(&run)).await;
    assert_eq!(f.store.plan(&plan, at(0)).await.expect("a plan").inserted, [run.id]);
    let placement = Placement { shard_total: shards, ..Placement::default() };
    let spec = JobSpec { placement, ..JobSpec::default() };
    let row = f.open(run.id).await;
    let split = shards::split(&row, &spec, &[]).expect("a split");
    (row.attempt_ref(), split)
}

/// The same, split.
async fn family(f: &Fixture, job: &Job, shards: u32) -> (RunId, Vec<AttemptRef>) {
    let (attempt, split) = parent(f, job, shards).await;
    assert!(f.store.split_run(attempt, &split, at(11)).await.expect("an answer"));
    let refs = split.shards.iter().map(|shard| AttemptRef { run: shard.id, attempt: 1, fence: 0 });
    (attempt.run, refs.collect())
}

async fn end(f: &Fixture, shard: AttemptRef, to: RunState) {
    let end = EndRun { from: StateSet::OPEN, ..ending(shard, to) };
    f.store.end_runs(&[end], at(20)).await.expect("an end");
}

/// Settles whatever waits.
async fn settle(f: &Fixture) -> Settled {
    let events = f.store.end_events(1_000, &[]).await.expect("events");
    let followups: Vec<Followup> = events
        .iter()
        .map(|event| Followup {
            seq: event.seq,
            parent: event.extra.as_ref().and_then(|extra| extra.parent),
            ..Followup::default()
        })
        .collect();
    f.store.settle_ends(&followups, at(21)).await.expect("settled")
}

pub(crate) async fn a_parent_is_split_once_with_all_its_shards(f: &Fixture) {
    let job = f.job("a").await;
    let (attempt, split) = parent(f, &job, 3).await;
    let (one, two) = (
        f.store.split_run(attempt, &split, at(11)).await.expect("an answer"),
        f.store.split_run(attempt, &split, at(12)).await.expect("an answer"),
    );
    assert_eq!((one, two), (true, false));
    let row = f.open(attempt.run).await;
    assert_eq!((row.state, row.fence, row.dispatched_at), (RunState::Queued, 1, Some(at(11))));
    let extra = row.extra.expect("what it is");
    assert_eq!((extra.shard_total, extra.follow), (3, Follow::PARENT));
    let ids: Vec<RunId> = split.shards.iter().map(|shard| shard.id).collect();
    let mut shards = f.store.open_runs(&ids).await.expect("shards");
    shards.sort_by_key(|shard| shard.id);
    assert_eq!(shards.iter().map(|shard| shard.id).collect::<Vec<_>>(), ids);
    for (index, shard) in (0..).zip(shards) {
        assert_eq!((shard.state, shard.trigger), (RunState::Queued, TriggerKind::Schedule));
        let extra = shard.extra.expect("what it is");
        assert_eq!((extra.parent, extra.shard_index), (Some(attempt.run), index));
        assert_eq!((extra.shard_total, extra.follow), (3, Follow::SHARD));
    }
}

pub(crate) async fn a_parent_that_was_canceled_first_is_not_split(f: &Fixture) {
    let job = f.job("a").await;
    let (attempt, split) = parent(f, &job, 2).await;
    let end = EndRun { from: StateSet::OPEN, ..ending(attempt, RunState::Canceled) };
    f.store.end_runs(&[end], at(11)).await.expect("an end");
    assert!(!f.store.split_run(attempt, &split, at(12)).await.expect("an answer"));
    let ids: Vec<RunId> = split.shards.iter().map(|shard| shard.id).collect();
    assert_eq!(f.store.open_runs(&ids).await.expect("shards"), []);
}

pub(crate) async fn a_parent_runs_from_its_first_shard_and_ends_with_its_last(f: &Fixture) {
    let job = f.job("a").await;
    let (parent, shards) = family(f, &job, 3).await;
    f.store.start_parents(&[(parent, at(12))]).await.expect("started");
    f.store.start_parents(&[(parent, at(13))]).await.expect("started");
    let row = f.open(parent).await;
    assert_eq!((row.state, row.started_at), (RunState::Running, Some(at(12))));
    for shard in &shards[1..] {
        end(f, *shard, RunState::Succeeded).await;
        assert_eq!(settle(f).await.parents, []);
    }
    f.drain_inbox().await;
    end(f, shards[0], RunState::Failed).await;
    assert_eq!(settle(f).await.parents, [(parent, RunState::Failed)]);
    let run = f.store.get_run(parent).await.expect("the parent");
    assert_eq!((run.run.state, run.ended_at), (RunState::Failed, Some(at(21))));
    assert_eq!(run.failure.expect("a failure").code, CODE_SHARDS_FAILED);
    assert!(f.drain_inbox().await.ids.contains(&parent), "its owner is told");
    assert_eq!(settle(f).await, Settled::default());
}

pub(crate) async fn a_parent_whose_shards_end_before_it_is_told_runs_all_the_same(f: &Fixture) {
    let job = f.job("a").await;
    let (parent, shards) = family(f, &job, 2).await;
    end(f, shards[0], RunState::Succeeded).await;
    settle(f).await;
    assert_eq!(f.open(parent).await.state, RunState::Running);
}

pub(crate) async fn two_last_shards_on_two_nodes_make_one_end(f: &Fixture) {
    let job = f.job("a").await;
    for second in 0..10 {
        let extra = RunExtra { follow: Follow::PARENT, ..RunExtra::default() };
        let run = NewRun { extra: Some(Box::new(extra)), ..fire(&job, at(100 + second)) };
        let plan = f.plan_of(std::slice::from_ref(&run)).await;
        f.store.plan(&plan, at(0)).await.expect("a plan");
        let row = f.open(run.id).await;
        let placement = Placement { shard_total: 2, ..Placement::default() };
        let spec = JobSpec { placement, ..JobSpec::default() };
        let split = shards::split(&row, &spec, &[]).expect("a split");
        assert!(f.store.split_run(row.attempt_ref(), &split, at(11)).await.expect("an answer"));
        let last = |index: usize| async move {
            let shard =
                AttemptRef { run: RunId::shard(run.id, index as u16), attempt: 1, fence: 0 };
            end(f, shard, RunState::Succeeded).await;
            settle(f).await.parents.len()
        };
        let (one, two) = tokio::join!(last(0), last(1));
        assert_eq!(one + two, 1);
        let run = f.store.get_run(run.id).await.expect("the parent");
        assert_eq!(run.run.state, RunState::Succeeded);
    }
}

pub(crate) async fn a_parent_that_is_to_stop_keeps_its_state(f: &Fixture) {
    let job = f.job("a").await;
    let (parent, shards) = family(f, &job, 2).await;
    let row = f.open(parent).await;
    let mark = canceling(row.attempt_ref(), KillReason::User);
    let marked = f.store.mark_canceling(&[mark], at(13)).await.expect("a mark");
    assert_eq!(marked, [row.attempt_ref()]);
    let row = f.open(parent).await;
    assert_eq!((row.state, row.kill_reason), (RunState::Queued, Some(KillReason::User)));
    for shard in shards {
        end(f, shard, RunState::Canceled).await;
    }
    assert_eq!(settle(f).await.parents, [(parent, RunState::Canceled)]);
    let run = f.store.get_run(parent).await.expect("the parent").run;
    assert_eq!((run.kill_reason, run.message.as_str()), (Some(KillReason::User), "asked for"));
}

pub(crate) async fn a_change_of_the_job_removes_no_shard(f: &Fixture) {
    let job = f.job("a").await;
    let (parent, shards) = family(f, &job, 3).await;
    let change = JobChange { delete: true, drop_due: true, ..JobChange::by("me") };
    f.store.change_job(job.id, &change, Box::new(|_| Vec::new()), at(15)).await.expect("deleted");
    let mut ids: Vec<RunId> = shards.iter().map(|shard| shard.run).collect();
    ids.push(parent);
    assert_eq!(f.store.still_open(&ids).await.expect("open").len(), 4);
}

pub(crate) async fn shards_are_listed_with_their_parent_and_left_out_elsewhere(f: &Fixture) {
    let job = f.job("a").await;
    let (parent, shards) = family(f, &job, 4).await;
    end(f, shards[2], RunState::Failed).await;
    settle(f).await;
    let list = |condition: Condition| async move {
        let query = RunQuery {
            apps: None,
            jobs: None,
            conditions: vec![condition],
            scheduled: Scheduled::Without,
            ascending: true,
            after: None,
            limit: 100,
            full: false,
            now: at(30),
        };
        let runs = f.store.list_runs(&query).await.expect("runs");
        runs.iter().map(|run| run.run.id).collect::<Vec<_>>()
    };
    let ids: Vec<RunId> = shards.iter().map(|shard| shard.run).collect();
    assert_eq!(list(Condition::ShardOf(Some(parent))).await, ids);
    assert_eq!(list(Condition::ShardOf(None)).await, [parent]);
    assert_eq!(list(Condition::ShardOf(Some(ids[0]))).await, []);
}
