//! What a run costs Postgres: plan → dispatch → end in batches, measured on the server's side.
//!
//! `cargo test --release --test postgres_cycles -- --ignored --nocapture`

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

#[path = "support/postgres.rs"]
mod server;

use std::{sync::Arc, time::Instant};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        ids::{AppId, AttemptRef, JobId, PARTITION_COUNT, PartitionId, RunId},
        run::{NewRun, Outcome, RunState, TriggerKind},
    },
    store::{
        OWNER_BATCH_MAX, Store,
        ops::*,
        postgres::{PostgresConfig, PostgresStore},
    },
};
use tokio::sync::mpsc;

/// Runs in all.
const RUNS: usize = 256 * 200;
/// Jobs that fire by turns.
const JOBS: i64 = 5_000;
/// Batches planned ahead of their dispatch.
const AHEAD: usize = 40;

/// A batch of runs of jobs of an eighth of the partitions, by turns.
fn batch(number: usize, jobs: &[Vec<JobId>], start: DateTime<Utc>) -> Vec<NewRun> {
    let jobs = &jobs[number % jobs.len()];
    let runs = (0..OWNER_BATCH_MAX).map(|n| {
        let place = number * OWNER_BATCH_MAX + n;
        let job = jobs[(number / 8 * OWNER_BATCH_MAX + n) % jobs.len()];
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

fn succeeded(attempt: AttemptRef) -> EndRun {
    let outcome = Some(Outcome::Succeeded);
    let end = AttemptEnd {
        outcome,
        started_at: DateTime::from_timestamp(1_800_000_000, 0),
        acked_at: DateTime::from_timestamp(1_800_000_000, 0),
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

/// Plans, and dispatches what was planned some batches before.
async fn own(store: Arc<PostgresStore>, start: DateTime<Utc>, sent: mpsc::Sender<Vec<AttemptRef>>) {
    let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
    let rows = store.take_partitions("bench", &all, start).await.expect("taken");
    let batches = RUNS / OWNER_BATCH_MAX;
    let mut jobs = vec![Vec::new(); 8];
    for job in (1..=JOBS).map(JobId) {
        jobs[usize::from(job.partition().0) / 8].push(job);
    }
    for number in 0..batches + AHEAD {
        let plan = async {
            if number >= batches {
                return;
            }
            let runs = batch(number, &jobs, start);
            let until = runs.last().map_or(start, |run| run.fire_at);
            // A step of planning moves a share of the partitions.
            let advances = rows.iter().skip(number % 8 * 8).take(8).map(|row| Advance {
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
            let planned = store.plan(&plan, start).await.expect("planned");
            let ids = planned.inserted.into_iter();
            let refs = ids.map(|run| AttemptRef { run, attempt: 1, fence: 0 }).collect();
            PLANNED.lock().push_back(refs);
        };
        let dispatch = async {
            if number < AHEAD {
                return;
            }
            let Some(refs) = PLANNED.lock().pop_front() else { return };
            let refs: Vec<AttemptRef> = refs;
            let row = |attempt| DispatchRow {
                attempt,
                to: Addressee { executor: "executor-1".into(), session_epoch: 1 },
            };
            let rows = refs.into_iter().map(row).collect();
            let batch = Dispatch { rows, uses: Vec::new() };
            let refs = store.dispatch(&batch, start).await.expect("sent");
            sent.send(refs).await.expect("the other end is there");
        };
        tokio::join!(plan, dispatch);
    }
}

static PLANNED: parking_lot::Mutex<std::collections::VecDeque<Vec<AttemptRef>>> =
    parking_lot::Mutex::new(std::collections::VecDeque::new());

/// Milliseconds of processor time that all Postgres processes have used.
fn server_cpu_ms() -> u64 {
    let processes = std::fs::read_dir("/proc").expect("is read").flatten();
    let ticks = processes.filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // utime and stime; the postmaster's own children that ended are in its cutime and cstime.
        let own: u64 = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
        let ended: u64 = fields[13].parse::<u64>().ok()? + fields[14].parse::<u64>().ok()?;
        name.ends_with("(postgres").then_some(own + ended)
    });
    ticks.sum::<u64>() * 10
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn what_a_run_costs() {
    // A server that is named is taken as it is; a private one writes through to the disk.
    let private = std::env::var_os("CLAWJOB_TEST_POSTGRES").is_none();
    let private = private.then(|| server::Server::start(true));
    let server = private.as_ref().unwrap_or_else(|| server::server());
    let schema = server::Schema::create_on(server).await;
    let store = PostgresStore::connect(PostgresConfig::new(&schema.url)).await.expect("connects");
    let watch = schema.connect().await;
    let wal = "SELECT (pg_current_wal_lsn() - '0/0')::bigint";
    let wal_before: i64 = watch.query_one(wal, &[]).await.expect("wal").get(0);
    let (cpu_before, began) = (server_cpu_ms(), Instant::now());
    let start = watch.query_one("SELECT now()", &[]).await.expect("now").get(0);
    let (sender, receiver) = mpsc::channel(8);
    let owner = tokio::spawn(own(store.clone(), start, sender));
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let mut enders = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (store, receiver) = (store.clone(), receiver.clone());
        enders.spawn(async move {
            let mut ended = 0;
            loop {
                let Some(refs) = receiver.lock().await.recv().await else { return ended };
                let ends: Vec<EndRun> = refs.into_iter().map(succeeded).collect();
                let answers = store.end_runs(&ends, start).await.expect("ended");
                ended += answers.iter().filter(|a| matches!(a, EndAnswer::Ended(_))).count();
            }
        });
    }
    owner.await.expect("plans");
    let ended: usize = enders.join_all().await.into_iter().sum();
    let (took, cpu) = (began.elapsed(), server_cpu_ms() - cpu_before);
    let wal_after: i64 = watch.query_one(wal, &[]).await.expect("wal").get(0);
    println!(
        "{ended} runs in {took:.1?}: {:.0}/s, Postgres {:.1} µs and {} B of WAL each",
        ended as f64 / took.as_secs_f64(),
        cpu as f64 * 1000.0 / ended as f64,
        (wal_after - wal_before) / ended as i64,
    );
    let sizes = "SELECT relname::text, n_tup_upd, n_tup_hot_upd, n_tup_del, n_dead_tup
        FROM pg_stat_user_tables WHERE schemaname = $1 AND n_tup_ins + n_tup_upd > 100";
    for row in watch.query(sizes, &[&schema.name]).await.expect("statistics") {
        let (name, updated, hot): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
        println!("{name}: {updated} updated, {hot} of them HOT");
    }
    assert_eq!(ended, RUNS);
    store.close().await;
}
