//! Nodes, then executors, are restarted one by one while long runs are under way.

use std::time::{Duration, Instant};

use clawjob_proto::v1::{Run, RunState};

use crate::{
    ledger::{self, PATIENCE},
    load::{self, is_soak, settle, waiting},
    stage::{APP, Cluster},
};

/// Jobs with long runs: some of each node, three for each executor.
const LONG_JOBS: usize = 9;
const EXECUTORS: usize = 3;

/// How long the long runs take at least; they go on until the ledger lets them go.
fn length() -> Duration {
    Duration::from_secs(if is_soak() { 60 } else { 6 })
}

fn name_of(index: usize) -> String {
    format!("long-{index}")
}

/// Where a run's executions stand in the ledger.
fn id_of(run: &str) -> &str {
    run.rsplit('/').next().expect("a name")
}

async fn create_long(cluster: &Cluster) {
    let mut jobs = cluster.jobs(0).await;
    let ms = u64::try_from(length().as_millis()).expect("short");
    for index in 0..LONG_JOBS {
        ledger::create_job(&mut jobs, APP, &name_of(index), waiting(ms)).await;
    }
}

/// Starts a run of each long job, and waits until all are under way at three executors each.
async fn begin_long(cluster: &Cluster, node: usize) -> Vec<String> {
    let mut runs = Vec::new();
    for index in 0..LONG_JOBS {
        let executor = format!("e{}", index % EXECUTORS);
        runs.push(cluster.trigger(node, &name_of(index), &executor).await);
    }
    ledger::wait_for("all long runs are under way", || {
        runs.iter().all(|run| !cluster.ledger.of_run(id_of(run)).is_empty())
    })
    .await;
    runs
}

/// Each run was executed once, was under way when something was asked to end, and succeeded as its
/// first attempt.
async fn finished(cluster: &Cluster, runs: &[String], asked: Instant) {
    for run in runs {
        let ended = cluster.ended_within(0, run, length() + PATIENCE).await;
        assert_eq!((ended.state(), ended.attempt), (RunState::Succeeded, 1), "{ended:?}");
        let executions = cluster.ledger.of_run(id_of(run));
        assert_eq!(executions.len(), 1, "{executions:?}");
        let end = executions[0].ended.expect("it has ended");
        assert!(executions[0].began < asked && asked < end, "{executions:?}");
    }
}

fn first_attempts_alone(runs: &[Run]) {
    let again: Vec<_> = runs.iter().filter(|run| run.attempt != 1).collect();
    assert!(again.is_empty(), "an attempt was used up: {again:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_restarted_one_by_one_during_long_runs_fail_no_run_and_miss_no_fire() {
    let mut cluster = Cluster::start(3).await;
    let from = load::lasting_load(&cluster).await;
    create_long(&cluster).await;
    let mut rounds = Vec::new();
    for node in 0..3 {
        let runs = begin_long(&cluster, node).await;
        let asked = Instant::now();
        let status = tokio::task::block_in_place(|| cluster.nodes[node].terminate());
        assert!(status.success(), "{status}");
        println!("node {node} has ended after {:?}", asked.elapsed());
        cluster.ledger.let_go();
        tokio::task::block_in_place(|| cluster.nodes[node].restart());
        cluster.balanced(3).await;
        rounds.push((runs, asked));
    }
    for (runs, asked) in &rounds {
        finished(&cluster, runs, *asked).await;
    }
    first_attempts_alone(&settle(&cluster, 0, from).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_restarted_one_by_one_during_long_runs_fail_no_run_and_miss_no_fire() {
    let cluster = Cluster::start(3).await;
    let start = async |index: usize| {
        let id = format!("e{index}");
        let hand = cluster.hand(&id, 200, length() + PATIENCE);
        cluster.connected(&id).await;
        hand
    };
    let mut hands = Vec::new();
    for index in 0..EXECUTORS {
        hands.push(start(index).await);
    }
    let from = load::lasting_jobs(&cluster).await;
    create_long(&cluster).await;
    for (index, hand) in hands.iter_mut().enumerate() {
        let runs = begin_long(&cluster, index).await;
        let asked = Instant::now();
        hand.stop.cancel();
        cluster.drains(&format!("e{index}")).await;
        cluster.ledger.let_go();
        let ended = tokio::time::timeout(length() + PATIENCE, &mut hand.ended).await;
        ended.expect("it ends").expect("no panic").expect("it ends well");
        println!("executor {index} has ended after {:?}", asked.elapsed());
        *hand = start(index).await;
        finished(&cluster, &runs, asked).await;
    }
    first_attempts_alone(&settle(&cluster, 0, from).await);
}
