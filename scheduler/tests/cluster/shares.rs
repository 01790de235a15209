//! Partitions are shared evenly by the nodes that live.

use clawjob_proto::v1::{DrainNodeRequest, GetServerInfoRequest, node::State};

use crate::{
    ledger, load,
    stage::{APP, Cluster},
};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_balanced_after_a_join_and_after_a_death() {
    let mut cluster = Cluster::start(1).await;
    cluster.join();
    println!("a second node has its share after {:?}", cluster.balanced(2).await);
    cluster.join();
    println!("a third node has its share after {:?}", cluster.balanced(3).await);
    cluster.nodes[1].kill9();
    println!("a dead node's share is taken after {:?}", cluster.balanced(2).await);
    cluster.nodes[0].terminate();
    println!("a node that ends has given its share after {:?}", cluster.balanced(1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_who_holds_what() {
    let mut cluster = Cluster::start(3).await;
    for node in 0..3 {
        // What a node shows may be of a moment ago, when two of them had it all.
        cluster
            .until("all have an even share, and it is shown", async || {
                let shares = cluster.shares(node).await;
                let even = shares.values().all(|share| (20..=22).contains(share));
                let all = shares.len() == 3 && shares.values().sum::<usize>() == 64;
                (all && even).then_some(())
            })
            .await;
    }
    cluster.nodes[2].kill9();
    cluster
        .until("the dead node is shown as gone", async || {
            let seen = cluster.seen_by(0).await;
            let gone = seen.iter().filter(|node| node.state() == State::Gone).count();
            let shares = cluster.shares(0).await;
            (gone == 1 && shares.len() == 2 && shares.values().sum::<usize>() == 64).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_after_each_of_20_changes_of_the_owner_scheduling_goes_on_in_time() {
    const JOBS: usize = 8;
    // A busy machine makes runs late, but not as late as one whose jobs nobody has.
    const LATE_MAX_MS: i64 = 30_000;
    let mut cluster = Cluster::start(2).await;
    let executor = cluster.executor("e1", 500, &[0, 1]);
    ledger::create_lasting_jobs(&mut cluster.jobs(0).await, APP, JOBS).await;
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    let from = chrono::Utc::now().timestamp() + 1;
    for change in 0..20 {
        let node = change % 2;
        cluster.nodes[node].terminate();
        let seen = chrono::Utc::now().timestamp();
        ledger::wait_for("a fire after the change", || cluster.ledger.newest() > seen).await;
        cluster.nodes[node].restart();
        cluster.balanced(2).await;
    }
    let until = chrono::Utc::now().timestamp() + 2;
    load::last_fires(&cluster, JOBS, until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(0).await, APP, from, until).await;
    ledger::check(&runs, &cluster.ledger, APP, JOBS, from, until);
    let all = cluster.ledger.all().into_iter();
    let counted = all.filter(|execution| (from..=until).contains(&execution.fire));
    let late = counted.map(|execution| execution.late_ms).max().expect("there are some");
    println!("the latest run began {late} ms after its fire time");
    assert!(late <= LATE_MAX_MS, "{late}");
    executor.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_drained_gives_its_jobs_and_its_sessions_to_the_others() {
    let cluster = Cluster::start(2).await;
    cluster.executor("e1", 10, &[0, 1]);
    ledger::create_lasting_jobs(&mut cluster.jobs(0).await, APP, 4).await;
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    let from = chrono::Utc::now().timestamp() + 1;
    let info = cluster.admin(0).await.get_server_info(GetServerInfoRequest {}).await;
    let name = format!("nodes/{}", info.expect("an answer").into_inner().node_id);
    let request = DrainNodeRequest { name: name.clone() };
    let node =
        cluster.admin(1).await.drain_node(request.clone()).await.expect("asked").into_inner();
    assert_eq!((node.name.as_str(), node.state()), (name.as_str(), State::Draining));
    println!("the other node has all after {:?}", cluster.balanced(1).await);
    cluster
        .until("its session has moved", async || {
            let seen = cluster.seen_by(1).await;
            let drained = seen.iter().find(|node| node.name == name)?;
            let moved = drained.sessions == 0 && drained.state() == State::Draining;
            let there = seen.iter().any(|node| node.sessions == 1);
            (moved && there).then_some(())
        })
        .await;
    let until = chrono::Utc::now().timestamp() + 2;
    load::last_fires(&cluster, 4, until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(1).await, APP, from, until).await;
    ledger::check(&runs, &cluster.ledger, APP, 4, from, until);

    let info = cluster.admin(1).await.get_server_info(GetServerInfoRequest {}).await;
    let last = format!("nodes/{}", info.expect("an answer").into_inner().node_id);
    let refused = cluster.admin(1).await.drain_node(DrainNodeRequest { name: last }).await;
    assert_eq!(refused.expect_err("refused").code(), tonic::Code::FailedPrecondition);
}
