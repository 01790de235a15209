//! Jobs that change, and their runs.

use super::*;

#[test]
fn a_run_that_was_collected_before_its_job_is_sent_once_the_job_is_there() {
    let board = Board::default();
    let new = job(1, JobSpec::default());
    board.adopt(Adoption { partitions: vec![row(new.partition)], ..Adoption::default() });
    let run = RunId::by_hand(at(1), 7);
    let made =
        NewRun { id: run, trigger: TriggerKind::Api, ..plan::planned_run(&new, at(1), at(1)) };
    let spec = RevisionSpec { job: new.id, revision: new.revision, spec: new.spec.clone() };
    let open =
        || OpenRuns { runs: vec![OpenRun::queued(made.clone(), at(1))], specs: vec![spec.clone()] };
    board.merge(&[run], open(), at(1));
    board.take_due(at(1), 10);
    assert_eq!(waiting(&board), []);
    board.replace_jobs(&[row(new.partition)], vec![new.clone()], open(), &[]);
    board.take_due(at(1), 10);
    assert_eq!(waiting(&board), [run]);
}

#[test]
fn a_run_that_was_sent_before_its_job_came_counts_as_a_run_of_it() {
    let board = Board::default();
    let spec = JobSpec { overlap: OverlapPolicy::Skip, ..JobSpec::default() };
    let new = job(1, spec);
    board.adopt(Adoption { partitions: vec![row(new.partition)], ..Adoption::default() });
    let run = RunId::by_hand(at(1), 7);
    let made =
        NewRun { id: run, trigger: TriggerKind::Api, ..plan::planned_run(&new, at(1), at(1)) };
    let sent = OpenRun { state: RunState::Running, fence: 1, ..OpenRun::queued(made, at(1)) };
    let spec = RevisionSpec { job: new.id, revision: new.revision, spec: new.spec.clone() };
    board.merge(&[run], OpenRuns { runs: vec![sent.clone()], specs: vec![spec] }, at(1));
    board.replace_jobs(&[row(new.partition)], vec![new.clone()], OpenRuns::default(), &[]);
    assert_eq!(board.run(run), Some(sent));
    let inner = board.inner.lock();
    let work = inner.jobs.get(new.id).expect("the job").work();
    assert_eq!(work.admitted.to_vec(), [run]);
}

#[test]
fn a_change_of_a_job_leaves_what_was_sent_and_drops_what_was_removed() {
    let before = job(1, JobSpec { schedules: vec![every(2)], ..JobSpec::default() });
    let board = board(vec![before.clone()]);
    let ids = plan(&board, at(5));
    board.take_due(at(2), 10);
    send(&board, ids[0], at(2));
    let changed = Job { revision: 2, ..before };
    board.replace_jobs(&board.partitions(), vec![changed], OpenRuns::default(), &[]);
    let left: Vec<bool> = ids.iter().map(|id| board.run(*id).is_some()).collect();
    assert_eq!(left, [true, false]);
}
