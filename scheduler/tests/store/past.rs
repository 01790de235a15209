//! Past fire times: what was decided about them, and runs that make up for them by hand.

use chrono::{DateTime, Utc};
use clawjob_scheduler::{
    model::{
        backfill::BackfillGroup,
        ids::{AttemptRef, RunId},
        job::Job,
        misfire::Decided,
        run::{NewRun, RunExtra, RunState, Skip, TriggerKind},
    },
    store::{
        StoreError,
        ops::{RequestKey, RunScope},
        schedules::{Backfill, Backfilled},
    },
};

use super::fixture::{Fixture, at, ending, fire};

fn skip(job: &Job, first: i64, last: i64) -> Skip {
    Skip {
        id: RunId::scheduled(job.id, at(first)),
        job: job.id,
        app: job.app,
        revision: job.revision,
        fire_at: at(first),
        message: "missed".to_owned(),
        missed_count: 3,
        missed_until: at(last),
    }
}

pub(crate) async fn what_was_decided_is_found_by_fire_time(f: &Fixture) {
    let (job, other) = (f.job("a").await, f.job("b").await);
    let runs = [fire(&job, at(40)), fire(&job, at(50)), fire(&other, at(45))];
    let mut plan = f.plan_of(&runs).await;
    plan.skips = vec![skip(&job, 10, 30)];
    f.store.plan(&plan, at(60)).await.expect("planned");
    let first = AttemptRef { run: runs[1].id, attempt: 1, fence: 0 };
    let ended = f.dispatched(first).await;
    f.store.end_runs(&[ending(ended, RunState::Succeeded)], at(61)).await.expect("ended");
    let span = |first: i64, last: i64| [(job.id, at(first), at(last))];
    let all = f.store.load_decided(&span(10, 50)).await.expect("read");
    let wanted = Decided { alone: [at(40), at(50)].into(), stretches: vec![(at(10), at(30))] };
    assert_eq!(all, [(job.id, wanted)]);
    let some = f.store.load_decided(&span(41, 50)).await.expect("read");
    assert_eq!(some[0].1.alone, [at(50)].into());
    assert_eq!(some[0].1.stretches, []);
    // Runs of a job within the span of another say nothing.
    let spans = [(job.id, at(50), at(60)), (other.id, at(30), at(45))];
    let mut both = f.store.load_decided(&spans).await.expect("read");
    both.retain(|(_, decided)| !decided.alone.is_empty());
    both.sort_by_key(|(job, _)| *job != other.id);
    let alone: Vec<_> = both.into_iter().map(|(_, decided)| decided.alone).collect();
    assert_eq!(alone, [[at(45)].into(), [at(50)].into()]);
}

fn backfill(job: &Job, now: DateTime<Utc>, fires: &[i64]) -> Backfill {
    let group = BackfillGroup { first: RunId::by_hand(now, 1), at_once: 2 };
    let extra = RunExtra { backfill: Some(group), ..RunExtra::default() };
    let run = |(index, second): (usize, &i64)| NewRun {
        id: RunId::by_hand(now, 1 + ((index as u128) << 64)),
        trigger: TriggerKind::Backfill,
        due_at: now,
        extra: Some(Box::new(extra.clone())),
        ..fire(job, at(*second))
    };
    Backfill {
        job: job.id,
        runs: fires.iter().enumerate().map(run).collect(),
        request: None,
        dry_run: false,
    }
}

async fn open_fires(f: &Fixture, job: &Job) -> Vec<i64> {
    let open = f.store.load_open_runs(&RunScope::Jobs(vec![job.id])).await.expect("open");
    let mut runs = open.runs;
    runs.sort_by_key(|run| run.id);
    runs.iter().map(|run| (run.fire_at - at(0)).num_seconds()).collect()
}

pub(crate) async fn a_backfill_leaves_out_what_has_a_run_and_not_what_was_skipped(f: &Fixture) {
    let job = f.job("a").await;
    let mut plan = f.plan_of(&[fire(&job, at(40)), fire(&job, at(50))]).await;
    plan.skips = vec![skip(&job, 10, 30)];
    f.store.plan(&plan, at(60)).await.expect("planned");
    f.drain_inbox().await;
    let asked = backfill(&job, at(100), &[10, 20, 30, 40, 50]);
    let dry = Backfill { dry_run: true, ..asked.clone() };
    let wanted = Backfilled { made: 3, had_run: 2 };
    assert_eq!(f.store.backfill(&dry, at(100)).await.expect("counted"), wanted);
    assert_eq!(open_fires(f, &job).await, [40, 50]);
    assert_eq!(f.store.backfill(&asked, at(100)).await.expect("made"), wanted);
    assert_eq!(open_fires(f, &job).await, [40, 50, 10, 20, 30]);
    let batch = f.drain_inbox().await;
    assert_eq!(batch.ids.len(), 3);
    let run = batch.open.runs.iter().find(|run| run.fire_at == at(10)).expect("the first");
    assert_eq!((run.trigger, run.due_at), (TriggerKind::Backfill, at(100)));
    assert_eq!(run.extra.as_ref().and_then(|extra| extra.backfill).expect("a group").at_once, 2);
}

pub(crate) async fn a_second_backfill_makes_none_twice_even_when_the_first_has_ended(f: &Fixture) {
    let job = f.job("a").await;
    let first = backfill(&job, at(100), &[10, 20]);
    f.store.backfill(&first, at(100)).await.expect("made");
    let first = AttemptRef { run: first.runs[0].id, attempt: 1, fence: 0 };
    let ended = f.dispatched(first).await;
    f.store.end_runs(&[ending(ended, RunState::Failed)], at(101)).await.expect("ended");
    let again = backfill(&job, at(200), &[10, 20, 30]);
    let done = f.store.backfill(&again, at(200)).await.expect("made");
    assert_eq!(done, Backfilled { made: 1, had_run: 2 });
    assert_eq!(open_fires(f, &job).await, [20, 30]);
}

pub(crate) async fn a_repeated_backfill_gets_the_first_answer(f: &Fixture) {
    let job = f.job("a").await;
    let request = |hash: u8| {
        Some(RequestKey { key: "me/BackfillJob/r".to_owned(), body_hash: vec![hash; 32] })
    };
    let asked = Backfill { request: request(1), ..backfill(&job, at(100), &[10, 20]) };
    let first = f.store.backfill(&asked, at(100)).await.expect("made");
    assert_eq!(first, Backfilled { made: 2, had_run: 0 });
    assert_eq!(f.store.backfill(&asked, at(101)).await.expect("the same"), first);
    let other = Backfill { request: request(2), ..asked };
    let reused = f.store.backfill(&other, at(101)).await;
    assert!(matches!(reused, Err(StoreError::Conflict(_))), "{reused:?}");
}
