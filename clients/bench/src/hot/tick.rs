//! A batch of fire times on the board: taken, each job's next one put in, their runs let
//! in, written and ended.

use std::{hint::black_box, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    board::{Adoption, Board},
    model::{
        calendar::Calendars,
        ids::{AppId, JobId, PARTITION_COUNT, PartitionId, RunId},
        job::{Job, JobSpec, JobState},
        schedule::{Schedule, Trigger},
    },
    store::{
        OWNER_BATCH_MAX,
        ops::{PartitionRow, Planned},
    },
};

use super::Case;

/// Jobs handed over at once.
const ADOPTED_MAX: i64 = 10_000;

pub(super) fn case(jobs: i64) -> Case {
    let board = board(jobs);
    let far = DateTime::UNIX_EPOCH + TimeDelta::days(36_500);
    Case::new("tick", move || {
        board.fall_due(far, OWNER_BATCH_MAX);
        board.take_due(far, OWNER_BATCH_MAX);
        let runs: Vec<RunId> = board.unwritten().iter().map(|run| run.id).collect();
        let advanced = (0..PARTITION_COUNT).map(PartitionId).collect();
        let planned = Planned { advanced, inserted: runs.clone(), ..Planned::default() };
        black_box(board.written(&runs, &planned));
        runs.iter().for_each(|run| board.ended(*run, far));
    })
}

/// A board on which every job fires once a minute, each at its own moment of it.
fn board(jobs: i64) -> Board {
    let board = Board::default();
    let partitions = (0..PARTITION_COUNT).map(|id| PartitionRow {
        id: PartitionId(id),
        epoch: 1,
        planned_until: DateTime::UNIX_EPOCH,
        served_until: DateTime::UNIX_EPOCH,
        jobs_version: 0,
    });
    board.adopt(Adoption { partitions: partitions.collect(), ..Adoption::default() });
    let minute = Trigger::Interval(Duration::from_secs(60));
    let schedules = vec![Schedule { trigger: minute, ..Schedule::default() }];
    let spec = Arc::new(JobSpec { schedules, ..JobSpec::default() });
    for first in (0..jobs).step_by(ADOPTED_MAX as usize) {
        let ids = first..jobs.min(first + ADOPTED_MAX);
        let jobs = ids.map(|id| job(id, &spec)).collect();
        board.adopt(Adoption { jobs, ..Adoption::default() });
    }
    board
}

fn job(id: i64, spec: &Arc<JobSpec>) -> Job {
    // Its interval counts from here.
    let created_at: DateTime<Utc> =
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(id * 7_919 % 60_000);
    Job {
        id: JobId(id),
        app: AppId(1),
        app_name: "hot".into(),
        name: format!("j-{id}").into(),
        partition: JobId(id).partition(),
        state: JobState::Active,
        spec: spec.clone(),
        revision: 1,
        version: 1,
        created_at,
        updated_at: created_at,
        updated_by: String::new(),
        pause_until: None,
        pause_reason: String::new(),
        effective_from: DateTime::UNIX_EPOCH,
        next_fire_at: None,
        problem: String::new(),
        deleted: false,
        calendars: Calendars::default(),
    }
}
