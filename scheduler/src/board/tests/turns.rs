//! Whose turn it is: known of jobs that are new, read for those that were taken over.

use super::*;

fn firing(id: i64, route: RouteStrategy) -> Job {
    let placement = Placement { route, ..Placement::default() };
    job(id, JobSpec { schedules: vec![every(2)], placement, ..JobSpec::default() })
}

fn turns(board: &Board) -> Vec<Option<u64>> {
    let lanes = [(Arc::new(lane()), 10)];
    board.heads(&lanes, 10).iter().map(|(_, pick)| pick.cursor.turn).collect()
}

#[test]
fn the_turn_of_a_job_that_was_taken_over_is_unknown_until_it_is_read() {
    let board = board(vec![firing(1, RouteStrategy::RoundRobin), firing(2, RouteStrategy::First)]);
    plan(&board, at(3));
    board.take_due(at(2), 10);
    assert!(turns(&board).contains(&None));
    board.turns_read(&[(JobId(1), 20)]);
    assert!(turns(&board).contains(&Some(20)));
    board.turned(vec![(JobId(1), RouteCursor { turn: Some(30), uses: None })]);
    board.turns_read(&[(JobId(1), 20)]);
    assert!(turns(&board).contains(&Some(30)), "what is remembered counts");
}

#[test]
fn a_job_that_is_new_has_had_no_turn() {
    let board = board(vec![firing(1, RouteStrategy::First)]);
    let same = |id: &i64| JobId(*id).partition() == JobId(1).partition();
    let new = firing((2..).find(same).expect("another"), RouteStrategy::RoundRobin);
    board.replace_jobs(&[], vec![new], OpenRuns::default(), &[]);
    plan(&board, at(3));
    board.take_due(at(2), 10);
    assert!(turns(&board).contains(&Some(0)));
}
