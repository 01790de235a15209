//! How many runs SQLite carries: plan → dispatch → end in batches, each answered from the disk.
//!
//! `cargo test --release --test sqlite_cycles -- --ignored --nocapture`
//!
//! The file lies in `CLAWJOB_BENCH_DIR`, else in the build directory: a temporary directory may be
//! memory, whose fsync costs nothing.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::{path::PathBuf, sync::Arc, time::Instant};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        ids::{AppId, AttemptRef, JobId, PARTITION_COUNT, PartitionId, RunId},
        run::{NewRun, Outcome, RunState, TriggerKind},
    },
    store::{OWNER_BATCH_MAX, Store, ops::*, sqlite::SqliteStore},
};
use tokio::sync::mpsc;

/// Runs in all.
const RUNS: usize = 256 * 400;
/// Jobs that fire by turns.
const JOBS: usize = 5_000;
/// Batches between two stages.
const STAGE_QUEUE: usize = 8;

/// A batch of planned runs of jobs by turns.
fn batch(number: usize, start: DateTime<Utc>) -> Vec<NewRun> {
    let runs = (0..OWNER_BATCH_MAX).map(|n| {
        let place = number * OWNER_BATCH_MAX + n;
        let job = JobId(1 + (place % JOBS) as i64);
        let fire_at = start + TimeDelta::milliseconds(place as i64 / 20);
        NewRun {
            id: RunId::scheduled(job, fire_at),
            job,
            app: AppId(1 + job.0 % 7),
            revision: 1,
            trigger: TriggerKind::Schedule,
            fire_at,
            due_at: fire_at,
            extra: None,
        }
    });
    runs.collect()
}

fn succeeded(attempt: AttemptRef, at: DateTime<Utc>) -> EndRun {
    let end = AttemptEnd {
        outcome: Some(Outcome::Succeeded),
        started_at: Some(at),
        acked_at: Some(at),
        duration: Some(std::time::Duration::from_millis(3)),
        ..AttemptEnd::default()
    };
    EndRun {
        attempt,
        from: StateSet::SENT,
        to: RunState::Succeeded,
        end,
        output: None,
        output_truncated: false,
        message: String::new(),
        missed: false,
    }
}

async fn plan(
    store: Arc<SqliteStore>,
    rows: Vec<PartitionRow>,
    start: DateTime<Utc>,
    planned: mpsc::Sender<Vec<AttemptRef>>,
) {
    for number in 0..RUNS / OWNER_BATCH_MAX {
        let runs = batch(number, start);
        let until = runs.last().map_or(start, |run| run.fire_at);
        let advances = rows.iter().map(|row| Advance {
            partition: row.id,
            epoch: row.epoch,
            jobs_version: row.jobs_version,
            planned_until: until,
            served_until: start,
        });
        let plan = Plan {
            advances: advances.collect(),
            runs: runs.into_iter().map(PlanRow::from).collect(),
            ..Plan::default()
        };
        let inserted = store.plan(&plan, start).await.expect("planned").inserted;
        let refs = inserted.into_iter().map(|run| AttemptRef { run, attempt: 1, fence: 0 });
        planned.send(refs.collect()).await.expect("the other end is there");
    }
}

async fn dispatch(
    store: Arc<SqliteStore>,
    start: DateTime<Utc>,
    mut planned: mpsc::Receiver<Vec<AttemptRef>>,
    sent: mpsc::Sender<Vec<AttemptRef>>,
) {
    while let Some(refs) = planned.recv().await {
        let row = |attempt| DispatchRow {
            attempt,
            to: Addressee { executor: "executor-1".into(), session_epoch: 1 },
        };
        let rows = refs.into_iter().map(row).collect();
        let batch = Dispatch { rows, uses: Vec::new() };
        let refs = store.dispatch(&batch, start).await.expect("sent");
        sent.send(refs).await.expect("the other end is there");
    }
}

async fn end(
    store: Arc<SqliteStore>,
    start: DateTime<Utc>,
    mut sent: mpsc::Receiver<Vec<AttemptRef>>,
) -> usize {
    let mut ended = 0;
    while let Some(refs) = sent.recv().await {
        let ends: Vec<EndRun> = refs.into_iter().map(|attempt| succeeded(attempt, start)).collect();
        let answers = store.end_runs(&ends, start).await.expect("ended");
        ended += answers.iter().filter(|a| matches!(a, EndAnswer::Ended(_))).count();
    }
    ended
}

/// Milliseconds of processor time that this process has used.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("is read");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |place: usize| fields[place].parse::<u64>().expect("a number");
    (ticks(11) + ticks(12)) * 10
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods, reason = "a measurement reads the machine's time")]
async fn how_many_runs_a_second() {
    let place = std::env::var_os("CLAWJOB_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let dir = tempfile::tempdir_in(place).expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    let start = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
    let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
    let rows = store.take_partitions("bench", &all, start).await.expect("taken");
    let (cpu_before, began) = (cpu_ms(), Instant::now());
    let (planned, to_dispatch) = mpsc::channel(STAGE_QUEUE);
    let (sent, to_end) = mpsc::channel(STAGE_QUEUE);
    let planner = tokio::spawn(plan(store.clone(), rows, start, planned));
    let dispatcher = tokio::spawn(dispatch(store.clone(), start, to_dispatch, sent));
    let ended = end(store.clone(), start, to_end).await;
    planner.await.expect("plans");
    dispatcher.await.expect("dispatches");
    let (took, cpu) = (began.elapsed(), cpu_ms() - cpu_before);
    println!(
        "{ended} runs in {took:.1?}: {:.0}/s, {:.1} µs of processor each",
        ended as f64 / took.as_secs_f64(),
        cpu as f64 * 1000.0 / ended as f64,
    );
    assert_eq!(ended, RUNS);
    store.close().await;
}
