//! Planning: each fire time becomes one row, whoever plans it how often.

use std::sync::Arc;

use chrono::TimeDelta;
use clawjob_scheduler::{
    model::{
        ids::RunId,
        job::{Job, JobSpec},
        route::Use,
        run::{RunState, Skip, TriggerKind},
    },
    store::ops::{Addressee, EndAnswer, JobChange, Plan, Planned, RunScope},
};

use super::fixture::{Fixture, advance, at, differ, ending, fire};

pub(crate) async fn a_plan_inserts_runs_and_one_without_moves_its_partition(f: &Fixture) {
    let job = f.job("a").await;
    let before = f.partition(job.partition).await;
    let runs = [fire(&job, at(10)), fire(&job, at(20))];
    let planned = f.store.plan(&f.plan_of(&runs).await, at(1)).await.expect("a plan");
    let inserted = vec![runs[0].id, runs[1].id];
    let advanced = vec![job.partition];
    assert_eq!(planned, Planned { advanced, inserted: inserted.clone(), ..Planned::default() });
    assert_eq!(f.partition(job.partition).await, before, "runs tell of themselves");
    let moves = Plan { advances: vec![advance(&before)], ..Plan::default() };
    f.store.plan(&moves, at(1)).await.expect("a plan");
    let after = f.partition(job.partition).await;
    assert_eq!(after.planned_until, before.planned_until + TimeDelta::seconds(10));
    assert_eq!(after.served_until, before.served_until + TimeDelta::seconds(5));
    let scope = RunScope::Partitions(vec![job.partition]);
    let open = f.store.load_open_runs(&scope).await.expect("open runs");
    let mut ids: Vec<RunId> = open.runs.iter().map(|run| run.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, inserted);
    assert_eq!(open.specs.len(), 1);
    assert_eq!((open.specs[0].job, open.specs[0].revision), (job.id, 1));
    assert_eq!(open.specs[0].spec, job.spec);
    let run = f.open(runs[0].id).await;
    assert_eq!((run.state, run.attempt, run.fence), (RunState::Queued, 1, 0));
    assert_eq!((run.fire_at, run.due_at, run.created_at), (at(10), at(10), at(1)));
    assert_eq!((run.job, run.app, run.partition), (job.id, job.app, job.partition));
    assert_eq!(run.trigger, TriggerKind::Schedule);
}

pub(crate) async fn a_plan_inserts_runs_as_sent_where_they_have_an_addressee(f: &Fixture) {
    let job = f.job("a").await;
    let mut plan = f.plan_of(&[fire(&job, at(10)), fire(&job, at(20))]).await;
    plan.runs[1].to = Some(Addressee { executor: "e1".into(), session_epoch: 7 });
    let uses = Arc::new(vec![Use { row: 7, count: 1, last: 1 }]);
    plan.uses = vec![(job.id, uses.clone())];
    let ids: Vec<RunId> = plan.runs.iter().map(|row| row.run.id).collect();
    assert_eq!(f.store.plan(&plan, at(21)).await.expect("a plan").inserted, ids);
    let waits = f.open(ids[0]).await;
    assert_eq!((waits.state, waits.fence, waits.executor), (RunState::Queued, 0, None));
    let sent = f.open(ids[1]).await;
    assert_eq!((sent.state, sent.attempt, sent.fence), (RunState::Dispatched, 1, 1));
    assert_eq!((sent.executor.as_deref(), sent.session_epoch), (Some("e1"), 7));
    assert_eq!((sent.created_at, sent.dispatched_at), (at(21), Some(at(21))));
    assert_eq!(f.store.load_uses(&[job.id]).await.expect("uses"), [(job.id, uses)]);
    let acks = [f.ack(sent.attempt_ref(), at(22))];
    assert_eq!(f.store.ack_runs(&acks).await.expect("an ack"), [sent.attempt_ref()]);
    // Whoever would send it once more meets the row.
    assert_eq!(f.store.plan(&plan, at(23)).await.expect("a plan").inserted, []);
}

pub(crate) async fn planning_twice_inserts_once(f: &Fixture) {
    let job = f.job("a").await;
    let run = fire(&job, at(10));
    let attempt = f.dispatched(f.planned(&job, at(10)).await).await;
    let again =
        f.store.plan(&f.plan_of(std::slice::from_ref(&run)).await, at(2)).await.expect("a plan");
    assert_eq!(again.inserted, []);
    assert_eq!(again.advanced, [job.partition]);
    let open = f.open(run.id).await;
    assert_eq!((open.state, open.attempt_ref()), (RunState::Dispatched, attempt));
}

pub(crate) async fn a_fire_time_that_has_ended_is_not_planned_again(f: &Fixture) {
    let job = f.job("a").await;
    let attempt = f.dispatched(f.planned(&job, at(10)).await).await;
    let ends = [ending(attempt, RunState::Succeeded)];
    let answers = f.store.end_runs(&ends, at(12)).await.expect("ends");
    assert_eq!(answers, [EndAnswer::Ended(job.id)]);
    let again = f.plan_of(&[fire(&job, at(10))]).await;
    assert_eq!(f.store.plan(&again, at(13)).await.expect("a plan").inserted, []);
    assert_eq!(f.store.open_runs(&[attempt.run]).await.expect("runs"), []);
}

pub(crate) async fn a_plan_of_an_earlier_owner_changes_nothing(f: &Fixture) {
    let job = f.job("a").await;
    let stale = f.plan_of(&[fire(&job, at(10))]).await;
    f.store.release_partitions(&[job.partition]).await.expect("given back");
    let taken = f.store.take_partitions("n2", &[job.partition], at(1)).await.expect("taken");
    assert_eq!(f.store.plan(&stale, at(2)).await.expect("a plan"), Planned::default());
    assert_eq!(f.partition(job.partition).await, taken[0]);
    assert_eq!(f.store.open_runs(&[stale.runs[0].run.id]).await.expect("runs"), []);
}

pub(crate) async fn a_plan_with_old_jobs_changes_nothing(f: &Fixture) {
    let job = f.job("a").await;
    let mut old = f.plan_of(&[fire(&job, at(10))]).await;
    old.advances[0].jobs_version -= 1;
    old.skips.push(skip(&job, 20));
    let before = f.partition(job.partition).await;
    assert_eq!(f.store.plan(&old, at(2)).await.expect("a plan"), Planned::default());
    assert_eq!(f.partition(job.partition).await, before);
    assert_eq!(f.store.open_runs(&[old.runs[0].run.id]).await.expect("runs"), []);
    f.store.get_run(old.skips[0].id).await.expect_err("the skip was refused, too");
}

pub(crate) async fn a_changed_job_keeps_no_other_of_its_partition_from_its_plan(f: &Fixture) {
    let one = f.job("a").await;
    let mut other = f.job("b0").await;
    for n in 1.. {
        if other.partition == one.partition && other.id.stripe() != one.id.stripe() {
            break;
        }
        other = f.job(&format!("b{n}")).await;
    }
    let plan = f.plan_of(&[fire(&one, at(10)), fire(&other, at(10))]).await;
    let spec = JobSpec { handler: "other".to_owned(), ..JobSpec::default() };
    let edit = JobChange { spec: Some(spec), ..JobChange::by("me") };
    f.store.change_job(one.id, &edit, Box::new(|_| Vec::new()), at(1)).await.expect("changed");
    let planned = f.store.plan(&plan, at(2)).await.expect("a plan");
    let inserted = vec![RunId::scheduled(other.id, at(10))];
    let advanced = vec![one.partition];
    assert_eq!(planned, Planned { advanced, changed: vec![one.id], inserted });
    // Once it was read anew, its runs are added too.
    let again = f.plan_of(&[fire(&one, at(10))]).await;
    let planned = f.store.plan(&again, at(3)).await.expect("a plan");
    assert_eq!(planned.inserted, [RunId::scheduled(one.id, at(10))]);
}

pub(crate) async fn what_was_seen_of_partitions_is_seen_anew_after_a_change_and_a_move(
    f: &Fixture,
) {
    let job = f.job("a").await;
    let mut seconds = 10..;
    let mut next = || seconds.next().map(at).expect("a time");
    for _ in 0..3 {
        let plan = f.plan_of(&[fire(&job, next())]).await;
        assert_eq!(f.store.plan(&plan, at(1)).await.expect("a plan").inserted.len(), 1);
    }
    let old = f.plan_of(&[fire(&job, next())]).await;
    let change = JobChange::by("me");
    f.store.change_job(job.id, &change, Box::new(|_| Vec::new()), at(2)).await.expect("changed");
    for _ in 0..2 {
        let planned = f.store.plan(&old, at(3)).await.expect("a plan");
        let advanced = vec![job.partition];
        let refused = Planned { advanced, changed: vec![job.id], inserted: Vec::new() };
        assert_eq!(planned, refused, "the job has changed");
    }
    for _ in 0..2 {
        let plan = f.plan_of(&[fire(&job, next())]).await;
        assert_eq!(f.store.plan(&plan, at(4)).await.expect("a plan").inserted.len(), 1);
    }
    let stale = f.plan_of(&[fire(&job, next())]).await;
    f.store.release_partitions(&[job.partition]).await.expect("given back");
    f.store.take_partitions("n2", &[job.partition], at(5)).await.expect("taken");
    for _ in 0..2 {
        assert_eq!(f.store.plan(&stale, at(6)).await.expect("a plan"), Planned::default());
    }
    let plan = f.plan_of(&[fire(&job, next())]).await;
    assert_eq!(f.store.plan(&plan, at(7)).await.expect("a plan").inserted.len(), 1);
}

/// Two jobs in different partitions.
async fn two_jobs(f: &Fixture) -> (Job, Job) {
    let one = f.job("a").await;
    for n in 0..64 {
        let other = f.job(&format!("b{n}")).await;
        if differ(one.id, other.id) {
            return (one, other);
        }
    }
    panic!("64 jobs lie in one partition");
}

pub(crate) async fn a_stale_partition_leaves_the_others_their_plan(f: &Fixture) {
    let (one, other) = two_jobs(f).await;
    let mut plan = f.plan_of(&[fire(&one, at(10)), fire(&other, at(10))]).await;
    plan.advances[0].epoch += 1;
    let planned = f.store.plan(&plan, at(1)).await.expect("a plan");
    let inserted = vec![RunId::scheduled(other.id, at(10))];
    let advanced = vec![other.partition];
    assert_eq!(planned, Planned { advanced, inserted, ..Planned::default() });
}

pub(crate) async fn a_run_outside_the_plan_s_partitions_is_refused(f: &Fixture) {
    let (one, other) = two_jobs(f).await;
    let mut plan = f.plan_of(&[fire(&one, at(10))]).await;
    plan.runs.push(fire(&other, at(10)).into());
    let planned = f.store.plan(&plan, at(1)).await.expect("a plan");
    assert_eq!(planned.inserted, [RunId::scheduled(one.id, at(10))]);
}

fn skip(job: &Job, fire: i64) -> Skip {
    Skip {
        id: RunId::scheduled(job.id, at(fire)),
        job: job.id,
        app: job.app,
        revision: job.revision,
        fire_at: at(fire),
        message: "missed in an outage".to_owned(),
        missed_count: 3,
        missed_until: at(fire + 20),
    }
}

pub(crate) async fn a_skip_is_a_row_that_nobody_plans_again(f: &Fixture) {
    let job = f.job("a").await;
    let row = f.partition(job.partition).await;
    let skips = vec![skip(&job, 10)];
    let plan = Plan { advances: vec![advance(&row)], skips: skips.clone(), ..Plan::default() };
    for _ in 0..2 {
        let planned = f.store.plan(&plan, at(50)).await.expect("a plan");
        let advanced = vec![job.partition];
        assert_eq!(planned, Planned { advanced, ..Planned::default() });
    }
    let record = f.store.get_run(skips[0].id).await.expect("the skip");
    assert_eq!(record.run.state, RunState::Skipped);
    assert_eq!(record.run.message, "missed in an outage");
    assert_eq!((record.missed_count, record.missed_until), (3, Some(at(30))));
    assert_eq!((record.run.fire_at, record.ended_at), (at(10), Some(at(50))));
    assert_eq!(record.attempts, []);
    let run = f.plan_of(&[fire(&job, at(10))]).await;
    assert_eq!(f.store.plan(&run, at(51)).await.expect("a plan").inserted, []);
}

pub(crate) async fn a_skip_leaves_a_run_that_was_planned(f: &Fixture) {
    let job = f.job("a").await;
    let attempt = f.planned(&job, at(10)).await;
    let row = f.partition(job.partition).await;
    let skips = vec![skip(&job, 10)];
    let plan = Plan { advances: vec![advance(&row)], skips, ..Plan::default() };
    f.store.plan(&plan, at(50)).await.expect("a plan");
    assert_eq!(f.open(attempt.run).await.state, RunState::Queued);
    let record = f.store.get_run(attempt.run).await.expect("the run");
    assert_eq!(record.run.state, RunState::Queued);
}
