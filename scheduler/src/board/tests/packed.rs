//! Very many jobs: found by their ids, called by their names, taken in the order of their fire times.

use super::{moment::Moment, *};
use crate::model::job::JobState;

const JOBS: i64 = 3_000;

fn many(seconds: impl Fn(i64) -> u64) -> Board {
    let jobs = (1..=JOBS).map(|id| {
        // Rather like the ids of a database that is in use for long.
        let schedules = vec![every(seconds(id))];
        job(id * id, JobSpec { schedules, ..JobSpec::default() })
    });
    let board = Board::default();
    let partitions = (0..PARTITION_COUNT).map(|id| row(PartitionId(id))).collect();
    board.adopt(Adoption { partitions, jobs: jobs.collect(), ..Adoption::default() });
    board
}

#[test]
fn each_job_is_found_with_its_name_until_its_partition_is_given_away() {
    let board = many(|_| 60);
    assert_eq!(board.sizes().0, JOBS as usize);
    let gone = [JobId(4).partition(), JobId(9).partition()];
    for released in [false, true] {
        for id in 1..=JOBS {
            let id = JobId(id * id);
            let is_there = !(released && gone.contains(&id.partition()));
            let name = is_there.then(|| format!("apps/demo/jobs/job-{}", id.0));
            let known = board.job(id).map(|job| job.name.resource_name());
            assert_eq!(known, name);
            assert!(board.job(JobId(-id.0)).is_none());
        }
        board.release(&gone);
    }
    plan(&board, at(61));
    let left = (1..=JOBS).filter(|id| !gone.contains(&JobId(id * id).partition())).count();
    assert_eq!(board.sizes(), (left, left), "and what fires are those that are left");
}

#[test]
fn fire_times_are_taken_in_their_order_however_far_they_lie_apart() {
    // Some fire within the first minute, some after an hour, some twice meanwhile.
    let board = many(|id| 1 + (id as u64 * 7_919) % 3_600);
    let mut last = at(0);
    let mut taken = 0;
    while let Some(next) = board.next_wake().filter(|next| *next <= at(3_600)) {
        assert!(next >= last);
        last = next;
        assert!(!board.fall_due(next, 10_000));
        for run in board.unwritten() {
            assert_eq!(run.fire_at, next);
            taken += 1;
            board.ended(run.id, next);
        }
        // Runs that have ended fall through.
        board.take_due(next, 10_000);
    }
    let fires = |id: i64| 3_600 / (1 + (id as u64 * 7_919) % 3_600);
    assert_eq!(taken, (1..=JOBS).map(fires).sum::<u64>());
}

#[test]
fn a_job_has_room_for_work_only_while_there_is_some() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(60)], ..JobSpec::default() })]);
    let is_idle = || {
        let inner = board.inner.lock();
        let entry = inner.jobs.get(JobId(1)).expect("it is known");
        entry.work.is_none()
    };
    assert!(is_idle());
    let runs = plan(&board, at(61));
    board.take_due(at(60), 10);
    assert!(!is_idle());
    send(&board, runs[0], at(60));
    board.ended(runs[0], at(61));
    assert!(is_idle());
    let until =
        Job { state: JobState::Paused, pause_until: Some(at(90)), ..job(1, JobSpec::default()) };
    board.replace_jobs(&[], vec![until.clone()], OpenRuns::default(), &[]);
    assert!(!is_idle());
    assert_eq!(board.jobs_to_change(at(89), 10).resume, []);
    assert_eq!(board.jobs_to_change(at(90), 10).resume, [(JobId(1), until.version)]);
    let resumed = Job { state: JobState::Active, pause_until: None, ..until };
    board.replace_jobs(&[], vec![resumed], OpenRuns::default(), &[]);
    assert!(is_idle());
}

#[test]
fn a_moment_is_as_exact_as_the_store() {
    let now = at(0) + TimeDelta::microseconds(123_456);
    assert_eq!(Moment::from(now).at(), now);
    assert_eq!(Moment::from(now + TimeDelta::nanoseconds(999)).get(), Some(now));
    assert_eq!(Moment::from(None).get(), None);
    assert!(Moment::NONE < Moment::from(DateTime::<Utc>::MIN_UTC));
    let far = Moment::from(DateTime::<Utc>::MAX_UTC);
    assert!(far.get().is_some_and(|at| DateTime::<Utc>::MAX_UTC - at < TimeDelta::microseconds(1)));
}

#[test]
fn an_idle_job_is_small() {
    assert!(size_of::<jobs::JobEntry>() <= 88);
}
