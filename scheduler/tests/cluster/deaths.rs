//! What dies costs neither a fire time nor a run.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use clawjob_proto::v1::RunState;
use nix::sys::signal::Signal;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    ledger,
    load::{at_most, is_soak, lasting_load, load, long, settle, settle_with_misses},
    server::{Schema, Server},
    stage::{APP, Cluster, Manner},
};

fn rounds(soak: usize) -> usize {
    if is_soak() { soak } else { soak / 10 }
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_x3_r19_random_kills_of_three_nodes_lose_and_double_nothing() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::start(3).await;
    let from = lasting_load(&cluster).await;
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
    // While nobody had them the frozen node's jobs may have missed fire times.
    settle_with_misses(&cluster, 0, from).await;
}

/// Has the executors connect anew until all are at the first node.
async fn gather(cluster: &Cluster) {
    let watch = cluster.schema.connect().await;
    let sql = "SELECT e.name FROM executor e JOIN node n ON n.id = e.node
        WHERE e.disconnected_at IS NULL AND n.advertise_address <> $1";
    let home = cluster.nodes[0].url();
    cluster
        .until("all executors are at one node", async || {
            let rows = watch.query(sql, &[&home]).await.expect("executors");
            let elsewhere: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
            cluster.disconnect(&elsewhere).await;
            for index in 0..3 {
                cluster.connected(&format!("e{index}")).await;
            }
            elsewhere.is_empty().then_some(())
        })
        .await;
}

/// The longest that one of the jobs did not run, over its second, since `since`.
fn longest_gap(cluster: &Cluster, since: Instant) -> Duration {
    let mut last: BTreeMap<String, Instant> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    for execution in cluster.ledger.all().into_iter().filter(|run| run.began >= since) {
        let before = last.insert(execution.job, execution.began);
        longest = longest.max(before.map_or(Duration::ZERO, |before| execution.began - before));
    }
    longest.saturating_sub(Duration::from_secs(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_of_a_node_that_stands_still_are_soon_with_another() {
    const GAP_MAX: Duration = Duration::from_secs(8);
    let cluster = Cluster::start_as(Schema::create().await, 2, Manner::Default).await;
    let from = load(&cluster).await;
    gather(&cluster).await;
    let (since, seen) = (Instant::now(), cluster.ledger.newest());
    ledger::wait_for("each job has run", || cluster.ledger.newest() > seen + 2).await;
    cluster.signal(0, Signal::SIGSTOP);
    let stopped = chrono::Utc::now().timestamp();
    ledger::wait_for("the others go on", || cluster.ledger.newest() > stopped + 12).await;
    cluster.signal(0, Signal::SIGCONT);
    settle_with_misses(&cluster, 1, from).await;
    let gap = longest_gap(&cluster, since);
    println!("a job stood still for up to {gap:?}");
    assert!(gap <= at_most(GAP_MAX), "{gap:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_a_restart_of_the_database_is_survived_by_all_nodes() {
    let mut server = Server::start(false);
    let schema = Schema::create_on(&server).await;
    let cluster = Cluster::start_on(schema, 3).await;
    let from = lasting_load(&cluster).await;
    tokio::task::block_in_place(|| {
        server.down();
        server.up();
    });
    println!("all share again after {:?}", cluster.balanced(3).await);
    settle(&cluster, 0, from).await;
}
