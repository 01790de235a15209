use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::model::{
    ids::AttemptRef,
    job::{JobState, OverlapPolicy},
    run::RunState,
    schedule::Trigger,
};

const SECOND: TimeDelta = TimeDelta::seconds(1);

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + second, 0).expect("in range")
}

fn row(id: PartitionId) -> PartitionRow {
    PartitionRow { id, epoch: 1, planned_until: at(0), served_until: at(0), jobs_version: 0 }
}

fn every(seconds: u64) -> Schedule {
    Schedule { trigger: Trigger::Interval(Duration::from_secs(seconds)), ..Schedule::default() }
}

fn job(id: i64, spec: JobSpec) -> Job {
    Job {
        id: JobId(id),
        app: AppId(1),
        app_name: "demo".into(),
        name: format!("job-{id}").into(),
        partition: JobId(id).partition(),
        state: JobState::Active,
        spec: Arc::new(JobSpec { handler: "hello".to_owned(), ..spec }),
        revision: 1,
        version: 1,
        created_at: at(0),
        updated_at: at(0),
        updated_by: String::new(),
        pause_until: None,
        pause_reason: String::new(),
        effective_from: at(0),
        next_fire_at: None,
        problem: String::new(),
        deleted: false,
        calendars: Default::default(),
    }
}

fn board(jobs: Vec<Job>) -> Board {
    let board = Board::default();
    let mut partitions: Vec<_> = jobs.iter().map(|job| row(job.partition)).collect();
    partitions.dedup_by_key(|row| row.id);
    board.adopt(Adoption { partitions, jobs, ..Adoption::default() });
    board
}

/// Plans up to `until` as if the store took everything.
fn plan(board: &Board, until: DateTime<Utc>) -> Vec<RunId> {
    let step = board.plan_step(until, at(0), 1_000);
    let advanced: Vec<_> = step.advances.iter().map(|advance| advance.partition).collect();
    let ids: Vec<_> = step.runs.iter().map(|run| run.id).collect();
    board.planned(step, &advanced, &ids);
    ids
}

fn lane() -> LaneKey {
    LaneKey {
        app: AppId(1),
        handler: "hello".to_owned(),
        labels: BTreeMap::new(),
        target: String::new(),
    }
}

fn waiting(board: &Board) -> Vec<RunId> {
    board.head(&lane(), 1_000).iter().map(|pick| pick.attempt.run).collect()
}

fn send(board: &Board, run: RunId, now: DateTime<Utc>) {
    let attempt = AttemptRef { run, attempt: 1, fence: 1 };
    board.sent(attempt, &Arc::from("e1"), 1, None, now).expect("the run is known");
}

#[test]
fn every_fire_time_before_the_horizon_is_planned_once() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(2)], ..JobSpec::default() })]);
    assert_eq!(plan(&board, at(5)).len(), 2);
    assert_eq!(plan(&board, at(5)).len(), 0);
    assert_eq!(plan(&board, at(7)), [RunId::scheduled(JobId(1), at(6))]);
}

#[test]
fn a_step_that_the_store_refused_is_planned_again() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(2)], ..JobSpec::default() })]);
    let step = board.plan_step(at(3), at(0), 10);
    assert_eq!(step.runs.len(), 1);
    board.planned(step, &[], &[]);
    assert_eq!(plan(&board, at(3)), [RunId::scheduled(JobId(1), at(2))]);
}

#[test]
fn a_full_step_says_how_far_it_reached() {
    let jobs =
        (1..=5).map(|id| job(id, JobSpec { schedules: vec![every(2)], ..JobSpec::default() }));
    let board = board(jobs.collect());
    let step = board.plan_step(at(9), at(0), 3);
    assert!(step.more);
    assert!(step.advances.iter().all(|advance| advance.planned_until == at(2)));
    assert_eq!(step.runs.len(), 3);
}

#[test]
fn x33_the_overlap_policy_skip_names_the_run_in_the_way() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    let ids = plan(&board, at(3));
    assert!(board.take_due(at(1), 10).conflicts.is_empty());
    send(&board, ids[0], at(1));
    let step = board.take_due(at(2), 10);
    assert_eq!(step.conflicts, [(ids[1], vec![ids[0]])]);
    board.ended(ids[0], at(2));
    assert!(board.retry_admission(ids[1]).conflicts.is_empty());
    assert_eq!(waiting(&board), [ids[1]]);
}

#[test]
fn x34_the_overlap_policy_queue_lets_one_in_at_a_time_up_to_its_bound() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Queue,
        max_queued: 2,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(5));
    let step = board.take_due(at(4), 10);
    assert_eq!(step.full, [ids[3]]);
    assert_eq!(waiting(&board), [ids[0]]);
    send(&board, ids[0], at(4));
    board.ended(ids[0], at(4));
    assert_eq!(waiting(&board), [ids[1]]);
}

#[test]
fn allow_with_a_limit_keeps_back_what_is_over_it() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Allow,
        max_concurrency: 2,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(4));
    board.take_due(at(3), 10);
    assert_eq!(waiting(&board), ids[..2]);
    board.ended(ids[1], at(3));
    assert_eq!(waiting(&board), [ids[0], ids[2]]);
}

#[test]
fn higher_priority_goes_first_then_the_longest_due() {
    let spec = |priority| JobSpec { schedules: vec![every(1)], priority, ..JobSpec::default() };
    let board = board(vec![job(1, spec(0)), job(2, spec(5)), job(3, spec(0))]);
    plan(&board, at(2));
    board.take_due(at(1), 10);
    assert_eq!(waiting(&board)[0], RunId::scheduled(JobId(2), at(1)));
    assert_eq!(waiting(&board).len(), 3);
}

#[test]
fn a_delay_counts_from_the_end_of_the_last_run() {
    let delay =
        Schedule { trigger: Trigger::Delay(Duration::from_secs(10)), ..Schedule::default() };
    let board = board(vec![job(1, JobSpec { schedules: vec![delay], ..JobSpec::default() })]);
    let first = plan(&board, at(100));
    assert_eq!(first, [RunId::scheduled(JobId(1), at(10))]);
    assert_eq!(plan(&board, at(100)).len(), 0);
    board.take_due(at(10), 10);
    send(&board, first[0], at(10));
    board.ended(first[0], at(33));
    assert_eq!(plan(&board, at(100)), [RunId::scheduled(JobId(1), at(43))]);
}

#[test]
fn a_run_that_was_removed_elsewhere_leaves_its_lane() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    board.merge(&ids, OpenRuns::default());
    assert!(waiting(&board).is_empty());
    assert!(board.run(ids[0]).is_none());
}

#[test]
fn an_older_reading_of_a_sent_run_changes_nothing() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    let old = board.run(ids[0]).expect("it is known");
    send(&board, ids[0], at(1));
    board.merge(&ids, OpenRuns { runs: vec![old], specs: Vec::new() });
    assert_eq!(board.run(ids[0]).expect("it is known").state, RunState::Dispatched);
}

#[test]
fn missed_fire_times_without_rows_are_late_and_settled_once() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(60)], ..JobSpec::default() })]);
    let now = at(600) + SECOND;
    let late = board.late(at(0), now, 10);
    assert_eq!(late.len(), 1);
    // The one at 600 s is not past the threshold of 5 s yet.
    assert_eq!(late[0].unplanned.newest.len(), 9);
    board.settle_late(JobId(1), now - TimeDelta::seconds(5));
    assert!(board.late(at(0), now, 10).is_empty());
    assert_eq!(plan(&board, now), [RunId::scheduled(JobId(1), at(600))]);
}

#[test]
fn a_job_that_can_not_be_read_does_not_hold_up_the_others() {
    let mut broken = job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() });
    broken.problem = "unknown time zone Mars/Olympus".to_owned();
    let board =
        board(vec![broken, job(2, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    assert_eq!(plan(&board, at(2)), [RunId::scheduled(JobId(2), at(1))]);
}

#[test]
fn a_deadline_of_an_older_dispatch_falls_through() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        timeout: Some(Duration::from_secs(3)),
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    send(&board, ids[0], at(1));
    assert!(board.take_deadlines(at(3), 10).is_empty());
    assert_eq!(board.take_deadlines(at(4), 10), [(ids[0], 1)]);
    board.set_deadline(ids[0], 0, at(5));
    assert!(board.take_deadlines(at(9), 10).is_empty());
}
