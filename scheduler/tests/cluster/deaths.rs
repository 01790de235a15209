//! What dies costs neither a fire time nor a run.

use std::time::Duration;

use clawjob_proto::v1::{Job, OverlapPolicy, Payload, RunState};
use nix::sys::signal::Signal;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    ledger,
    server::{Schema, Server},
    stage::{APP, Cluster},
};

/// Jobs that fire each second.
const JOBS: usize = 20;

fn rounds(soak: usize) -> usize {
    if std::env::var_os("CLAWJOB_SOAK").is_some() { soak } else { soak / 10 }
}

fn long(ms: u64) -> Job {
    let data = format!("{{\"ms\":{ms}}}").into_bytes().into();
    let params = Payload { content_type: "application/json".to_owned(), data };
    let overlap = OverlapPolicy::Allow.into();
    Job { handler: "note".to_owned(), params: Some(params), overlap, ..Job::default() }
}

/// Jobs of each second with executors that know all nodes; returns the first second that counts.
async fn load(cluster: &Cluster) -> i64 {
    let nodes: Vec<usize> = (0..cluster.nodes.len()).collect();
    for index in 0..3 {
        cluster.executor(&format!("e{index}"), 200, &nodes);
        cluster.connected(&format!("e{index}")).await;
    }
    ledger::create_jobs(&mut cluster.jobs(0).await, APP, JOBS).await;
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    chrono::Utc::now().timestamp() + 1
}

/// Goes on for some seconds more and looks whether every fire time became one run.
async fn settle(cluster: &Cluster, node: usize, from: i64) {
    let until = chrono::Utc::now().timestamp() + 3;
    ledger::wait_for("a last fire", || cluster.ledger.newest() > until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(node).await, APP, from, until).await;
    ledger::check(&runs, &cluster.ledger, APP, JOBS, from, until);
    let odd: Vec<_> = runs.iter().filter(|run| run.state() != RunState::Succeeded).collect();
    assert!(odd.is_empty(), "none was missed for long: {odd:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_x3_r19_random_kills_of_three_nodes_lose_and_double_nothing() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::start(3).await;
    let from = load(&cluster).await;
    for _ in 0..rounds(100) {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..2_500))).await;
        let node = random.random_range(0..3);
        cluster.nodes[node].kill9();
        cluster.nodes[node].restart();
    }
    settle(&cluster, 0, from).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_under_way_survive_the_death_of_their_executor_s_node() {
    let mut cluster = Cluster::start(3).await;
    cluster.executor("e1", 50, &[1, 2]);
    cluster.connected("e1").await;
    let mut jobs = cluster.jobs(0).await;
    let mut runs = Vec::new();
    for index in 0..9 {
        let name = format!("long-{index}");
        ledger::create_job(&mut jobs, APP, &name, long(6_000)).await;
        runs.push(cluster.trigger(0, &name, "").await);
    }
    ledger::wait_for("all run", || cluster.ledger.len() == 9).await;
    cluster.nodes[1].kill9();
    cluster.balanced(2).await;
    for run in &runs {
        let ended = cluster.ended(0, run).await;
        assert_eq!((ended.state(), ended.attempt), (RunState::Succeeded, 1), "{ended:?}");
    }
    assert_eq!(cluster.ledger.len(), 9, "none was executed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_a_node_that_is_frozen_and_thawed_doubles_nothing() {
    let cluster = Cluster::start(3).await;
    let from = load(&cluster).await;
    for round in 0..rounds(20) {
        let node = round % 3;
        cluster.signal(node, Signal::SIGSTOP);
        tokio::time::sleep(Duration::from_secs(10)).await;
        println!("the others share after {:?}", cluster.balanced(2).await);
        cluster.signal(node, Signal::SIGCONT);
        println!("it shares again after {:?}", cluster.balanced(3).await);
    }
    // While nobody had them the frozen node's jobs may have missed fire times, which their policy
    // decides.
    let until = chrono::Utc::now().timestamp() + 3;
    ledger::wait_for("a last fire", || cluster.ledger.newest() > until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(0).await, APP, from, until).await;
    let mut seen = std::collections::BTreeMap::new();
    for run in runs.iter().filter(|run| run.state() == RunState::Succeeded) {
        *seen.entry((run.job.clone(), ledger::fire_second(run))).or_insert(0) += 1;
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    for index in 0..JOBS {
        let job = format!("apps/{APP}/jobs/{}", ledger::name_of(index));
        let own: Vec<_> = runs.iter().filter(|run| run.job == job).collect();
        for second in from..=until {
            let covers = own.iter().any(|run| {
                let first = ledger::fire_second(run);
                let last = run.missed_until_time.as_ref().map_or(first, |until| until.seconds);
                (first..=last).contains(&second)
            });
            assert!(covers, "second {second} of {job} is neither run nor recorded");
        }
    }
    let mut executed = std::collections::BTreeMap::new();
    for execution in cluster.ledger.all() {
        *executed.entry((execution.job, execution.fire)).or_insert(0) += 1;
    }
    assert!(executed.values().all(|count| *count == 1), "{executed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_a_restart_of_the_database_is_survived_by_all_nodes() {
    let mut server = Server::start(false);
    let schema = Schema::create_on(&server).await;
    let cluster = Cluster::start_on(schema, 3).await;
    let from = load(&cluster).await;
    tokio::task::block_in_place(|| {
        server.down();
        server.up();
    });
    println!("all share again after {:?}", cluster.balanced(3).await);
    settle(&cluster, 0, from).await;
}
