//! kill -9 of the scheduler at random moments loses and doubles nothing: checked from a ledger that
//! the executor keeps, against the fire times that the schedules name.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/ledger.rs"]
mod ledger;
#[path = "support/node.rs"]
mod node;
#[path = "support/postgres.rs"]
mod postgres;

use std::time::Duration;

use clawjob_proto::v1::{
    RunState, job_service_client::JobServiceClient, run_service_client::RunServiceClient,
};
use ledger::Ledger;
use node::Node;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio_util::sync::CancellationToken;

/// Jobs that fire each second.
const JOBS: usize = 20;
const APP: &str = "ledger";

fn kills() -> u32 {
    if std::env::var_os("CLAWJOB_SOAK").is_some() { 100 } else { 10 }
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_random_kills_on_sqlite_lose_and_double_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    torment(Node::start(dir.path(), &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_random_kills_on_postgres_lose_and_double_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let schema = postgres::Schema::create().await;
    torment(Node::start(dir.path(), &["--database", &schema.url])).await;
}

async fn torment(mut node: Node) {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let ledger = Ledger::default();
    let stop = CancellationToken::new();
    let token = node.executor_token(APP).await;
    let executor = ledger.executor(&[node.url()], &token, (APP, "e1"), 500, &stop);
    let (channel, bearer) = node.admin().await;
    let mut jobs = JobServiceClient::with_interceptor(channel, bearer);
    ledger::create_lasting_jobs(&mut jobs, APP, JOBS).await;
    // The first fire has been seen: from here on all must be.
    ledger::wait_for("a first fire", || ledger.len() > 0).await;
    let from = chrono::Utc::now().timestamp() + 1;

    for _ in 0..kills() {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..2_500))).await;
        node.kill9();
        node.restart();
    }
    let until = chrono::Utc::now().timestamp() + 3;
    ledger::wait_for("a fire of each after the kills", || ledger.newest_of_all(APP, JOBS) > until)
        .await;
    let (channel, bearer) = node.admin().await;
    let mut client = RunServiceClient::with_interceptor(channel, bearer);
    let runs = ledger::settled_runs(&mut client, APP, from, until).await;
    stop.cancel();
    executor.await.expect("no panic").expect("it ends well");
    ledger::check(&runs, &ledger, APP, JOBS, from, until);
    let skipped: Vec<_> =
        runs.iter().filter(|run| run.state() != RunState::Succeeded).map(|run| &run.name).collect();
    assert!(skipped.is_empty(), "what was missed is made up for: {skipped:?}");
}
