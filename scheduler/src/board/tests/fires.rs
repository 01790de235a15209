//! Fire times that have come: each is a run once, written or come again.

use super::*;

fn job_every(id: i64, seconds: u64) -> Job {
    job(id, JobSpec { schedules: vec![every(seconds)], ..JobSpec::default() })
}

/// The runs without a row.
pub(super) fn ids(board: &Board) -> Vec<RunId> {
    board.unwritten().iter().map(|run| run.id).collect()
}

#[test]
fn every_fire_time_that_has_come_is_taken_once() {
    let board = board(vec![job_every(1, 2)]);
    let fire = |second| RunId::scheduled(JobId(1), at(second));
    assert!(!board.fall_due(at(4), 10));
    assert_eq!(ids(&board), [fire(2), fire(4)]);
    write(&board, &ids(&board), true);
    assert!(!board.fall_due(at(5), 10));
    assert_eq!(ids(&board), []);
    assert_eq!(board.next_wake(), Some(at(2)), "they are due");
    board.take_due(at(5), 10);
    assert_eq!(waiting(&board), [fire(2)]);
    assert_eq!(board.next_wake(), Some(at(6)));
}

#[test]
fn runs_of_a_refused_partition_are_forgotten_and_come_again() {
    let board = board(vec![job_every(1, 2)]);
    board.fall_due(at(4), 10);
    board.take_due(at(4), 10);
    let taken = ids(&board);
    assert!(!board.take_refused());
    write(&board, &taken, false);
    assert!(board.take_refused() && !board.take_refused());
    assert_eq!((ids(&board), waiting(&board)), (vec![], vec![]));
    assert_eq!(board.next_wake(), Some(at(2)));
    board.fall_due(at(4), 10);
    assert_eq!(ids(&board), taken);
}

#[test]
fn a_partition_counts_as_planned_up_to_the_first_fire_time_without_a_row() {
    let board = board((1..=5).map(|id| job_every(id, 2)).collect());
    let planned = |now| {
        board.all_written(now);
        board.partitions().iter().map(|row| row.planned_until).max()
    };
    assert!(board.fall_due(at(3), 3), "two more have come");
    let first = ids(&board);
    write(&board, &first, true);
    assert_eq!(planned(at(3)), Some(at(2)), "these two");
    assert!(!board.fall_due(at(3), 3));
    assert_eq!(planned(at(3)), Some(at(2)), "they have no rows");
    write(&board, &ids(&board), true);
    assert_eq!(planned(at(3)), Some(at(3)));
}

#[test]
fn what_the_store_does_not_know_of_a_partition_is_written_once() {
    let board = board(vec![job_every(1, 2)]);
    assert_eq!(board.behind(), []);
    plan(&board, at(3));
    let mine = JobId(1).partition();
    assert_eq!(board.behind(), [mine]);
    board.stored(&[]);
    assert_eq!(board.behind(), [mine], "it was refused");
    board.stored(&[mine]);
    assert_eq!(board.behind(), []);
}

#[test]
fn a_run_that_the_store_has_already_is_to_be_read() {
    let board = board(vec![job_every(1, 2)]);
    board.fall_due(at(2), 10);
    let runs = ids(&board);
    let planned = Planned { advanced: vec![JobId(1).partition()], ..Planned::default() };
    assert_eq!(board.written(&runs, &planned), runs);
    assert_eq!(ids(&board), []);
}

/// Whether the store need not look for the rows of jobs' fire times at a second.
fn are_fresh<const N: usize>(board: &Board, jobs: [i64; N], second: i64) -> [bool; N] {
    board.fall_due(at(second), 100);
    let fresh = jobs.map(|job| board.are_fresh(&[RunId::scheduled(JobId(job), at(second))]));
    write(board, &ids(board), true);
    fresh
}

#[test]
fn a_fire_time_soon_after_its_partition_was_taken_may_have_a_row() {
    let board = board(vec![job_every(1, 2)]);
    let fresh = [2, 12, 14].map(|second| are_fresh(&board, [1], second));
    assert_eq!(fresh, [[false], [false], [true]]);
}

#[test]
fn a_fire_time_soon_after_its_job_was_changed_may_have_a_row_but_not_those_of_others() {
    let mut jobs = vec![job_every(1, 2)];
    let beside = (2..).find(|id| JobId(*id).partition() == JobId(1).partition()).expect("some");
    jobs.push(job_every(beside, 2));
    let board = board(jobs);
    assert_eq!(are_fresh(&board, [1, beside], 14), [false, false]);
    assert_eq!(are_fresh(&board, [1, beside], 26), [true, true]);
    let changed = Job { revision: 2, version: 2, updated_at: at(26), ..job_every(1, 2) };
    board.replace_jobs(&board.partitions(), vec![changed], OpenRuns::default(), &[]);
    let fresh = [28, 38, 40].map(|second| are_fresh(&board, [1, beside], second));
    assert_eq!(fresh, [[false, true], [false, true], [true, true]]);
}

#[test]
fn a_fire_time_that_comes_again_with_an_earlier_one_that_was_refused_may_have_a_row() {
    let board = board(vec![job_every(1, 2)]);
    assert_eq!(are_fresh(&board, [1], 2), [false]);
    board.fall_due(at(16), 10);
    let [refused, taken] = [14, 16].map(|second| RunId::scheduled(JobId(1), at(second)));
    assert!(board.are_fresh(&[refused, taken]));
    let advanced = vec![JobId(1).partition()];
    let later = Planned { advanced: advanced.clone(), inserted: vec![taken], ..Planned::default() };
    assert_eq!(board.written(&[taken], &later), []);
    let earlier = Planned { advanced, changed: vec![JobId(1)], inserted: Vec::new() };
    assert_eq!(board.written(&[refused], &earlier), []);
    board.ended(taken, at(16));
    board.fall_due(at(16), 10);
    assert!(ids(&board).ends_with(&[refused, taken]), "it has ended, and is not known any more");
    assert!(!board.are_fresh(&[taken]));
}

#[test]
fn what_a_partition_goes_back_to_for_a_changed_job_may_have_rows() {
    let mut jobs = vec![job_every(1, 2)];
    let beside = (2..).find(|id| JobId(*id).partition() == JobId(1).partition()).expect("some");
    jobs.push(job_every(beside, 2));
    let board = board(jobs);
    are_fresh(&board, [1], 2);
    are_fresh(&board, [1], 26);
    board.all_written(at(27));
    let before = RunId::scheduled(JobId(beside), at(26));
    let changed = Job { revision: 2, version: 2, updated_at: at(20), ..job_every(1, 2) };
    board.replace_jobs(&board.partitions(), vec![changed], OpenRuns::default(), &[]);
    assert!(board.partitions()[0].planned_until < at(26));
    let inner = board.inner.lock();
    assert!(!inner.fresh.is_fresh(JobId(beside), before.time()));
    assert!(inner.fresh.is_fresh(JobId(beside), at(28)));
}

#[test]
fn runs_of_a_job_that_the_store_says_has_changed_come_again_and_others_of_its_partition_do_not() {
    let beside = (2..).find(|id| JobId(*id).partition() == JobId(1).partition()).expect("some");
    let board = board(vec![job_every(1, 2), job_every(beside, 2)]);
    board.fall_due(at(2), 10);
    let [refused, taken] = [1, beside].map(|job| RunId::scheduled(JobId(job), at(2)));
    let planned = Planned {
        advanced: vec![JobId(1).partition()],
        changed: vec![JobId(1)],
        inserted: vec![taken],
    };
    assert_eq!(board.written(&[refused, taken], &planned), []);
    assert!(board.take_refused());
    assert_eq!((board.run(refused), board.run(taken).is_some()), (None, true));
    board.fall_due(at(2), 10);
    assert_eq!(ids(&board), [refused]);
}

#[test]
fn runs_in_each_other_s_way_are_judged_with_rows_of_their_own() {
    let apart = job(2, JobSpec { schedules: vec![every(2)], ..JobSpec::default() });
    let board = board(vec![job_every(1, 1), apart]);
    board.fall_due(at(2), 10);
    let step = board.take_due(at(2), 10);
    let fire = |second| RunId::scheduled(JobId(1), at(second));
    assert_eq!(step.conflicts, [(fire(2), vec![fire(1)])]);
    let judged: Vec<_> = board.unwritten_judged(&step).iter().map(|run| run.id).collect();
    assert_eq!(judged, [fire(1), fire(2)], "the other job's run is to be sent");
}

/// All that has come until `now` has its row.
fn planned_until(board: &Board, now: DateTime<Utc>) {
    plan(board, now);
    board.take_due(now, 1_000);
    board.all_written(now);
}

fn changed(board: &Board, job: Job) {
    let partition = PartitionRow { jobs_version: 1, ..row(job.partition) };
    board.replace_jobs(&[partition], vec![job], OpenRuns::default(), &[]);
}

#[test]
fn a_changed_job_fires_from_its_change_on_however_late_it_is_loaded() {
    let fire = |second| RunId::scheduled(JobId(1), at(second));
    let mine = |board: &Board| board.standing(&[JobId(1).partition()])[0].planned_until;
    let old = job_every(1, 100);
    let new = job_every(1, 10);
    let made = Job { effective_from: at(21), ..new.clone() };
    let edited = Job { revision: 2, updated_at: at(21), ..new.clone() };
    let resumed = Job { effective_from: at(21), updated_at: at(33), ..new };
    for (before, after) in [(None, made), (Some(old.clone()), edited), (Some(old), resumed)] {
        let board = Board::default();
        let partitions = vec![row(JobId(1).partition())];
        let jobs = before.into_iter().collect();
        board.adopt(Adoption { partitions, jobs, ..Adoption::default() });
        planned_until(&board, at(42));
        assert_eq!(mine(&board), at(42));
        changed(&board, after);
        assert_eq!(mine(&board), at(30), "what is to come has no row");
        board.fall_due(at(42), 10);
        assert_eq!(ids(&board), [fire(30), fire(40)]);
        assert!(!board.are_fresh(&ids(&board)), "the change may have written them");
        write(&board, &ids(&board), true);
        board.all_written(at(42));
        assert_eq!(mine(&board), at(42));
    }
}

/// A calendar's change leaves no time at the jobs that use it.
#[test]
fn a_run_that_falls_due_after_it_was_written_moves_its_partition_again() {
    let spread = Schedule { spread: Duration::from_secs(3600), ..every(100) };
    let board = board(vec![job(1, JobSpec { schedules: vec![spread], ..JobSpec::default() })]);
    let mine = JobId(1).partition();
    let runs = plan(&board, at(101));
    let due = board.run(runs[0]).expect("it is known").due_at;
    assert!(due > at(101), "the hash of this name spreads it");
    board.stored(&[mine]);
    assert_eq!(board.behind(), []);
    board.take_due(due, 10);
    assert_eq!(board.behind(), [mine]);
}
