//! Which stored next fire times are refreshed, and when.

use super::*;
use crate::model::job::JobState;

fn to_show(board: &Board, second: i64) -> Vec<(i64, Option<i64>)> {
    let seconds = |at: DateTime<Utc>| (at - self::at(0)).num_seconds();
    let found = board.next_fires_to_show(at(second), 100);
    let mut found: Vec<_> = found.iter().map(|(id, next)| (id.0, next.map(seconds))).collect();
    found.sort_unstable();
    found
}

fn firing(id: i64, seconds: u64) -> Job {
    job(id, JobSpec { schedules: vec![every(seconds)], ..JobSpec::default() })
}

#[test]
fn the_next_fire_time_of_a_job_that_fires_often_is_refreshed_once_a_minute() {
    let board = board(vec![firing(1, 2)]);
    assert_eq!(to_show(&board, 1), [(1, Some(2))], "one without any is told at once");
    for second in 2..62 {
        plan(&board, at(second + 5));
        assert_eq!(to_show(&board, second), [], "at {second}");
    }
    plan(&board, at(67));
    assert_eq!(to_show(&board, 62), [(1, Some(64))]);
    assert_eq!(to_show(&board, 64), []);
}

#[test]
fn the_next_fire_time_of_a_job_that_fires_seldom_is_refreshed_as_soon_as_it_has_passed() {
    let board = board(vec![firing(1, 90), firing(2, 2)]);
    plan(&board, at(5));
    assert_eq!(to_show(&board, 1), [(1, Some(90)), (2, Some(2))]);
    plan(&board, at(95));
    assert_eq!(to_show(&board, 90), [(1, Some(180)), (2, Some(92))]);
    plan(&board, at(185));
    assert_eq!(to_show(&board, 149), [], "within a minute");
    assert_eq!(to_show(&board, 181), [(1, Some(270)), (2, Some(182))]);
}

#[test]
fn a_job_that_fires_no_more_loses_its_next_fire_time_at_once() {
    let ends = Schedule { end_at: Some(at(4)), ..every(2) };
    let board = board(vec![job(1, JobSpec { schedules: vec![ends], ..JobSpec::default() })]);
    assert_eq!(to_show(&board, 0), [(1, Some(2))]);
    plan(&board, at(8));
    assert_eq!(to_show(&board, 3), [(1, None)]);
    assert_eq!(to_show(&board, 4), []);
    let mut paused = firing(2, 2);
    (paused.state, paused.next_fire_at) = (JobState::Paused, Some(at(2)));
    let board = super::board(vec![paused]);
    assert_eq!(to_show(&board, 3), [(2, None)]);
}

#[test]
fn the_next_fire_time_of_a_changed_job_is_told_anew_whatever_was_stored_meanwhile() {
    let board = board(vec![firing(1, 90)]);
    assert_eq!(to_show(&board, 1), [(1, Some(90))]);
    assert_eq!(to_show(&board, 2), []);
    // The row got the time of the job as it was between its change and its being read.
    let changed = Job { version: 2, next_fire_at: Some(at(90)), ..firing(1, 30) };
    board.replace_jobs(&board.partitions(), vec![changed], OpenRuns::default(), &[]);
    assert_eq!(to_show(&board, 3), [(1, Some(30))]);
}
