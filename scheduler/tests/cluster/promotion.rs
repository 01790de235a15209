//! The database's primary dies, and its synchronous standby takes its place.

use std::time::{Duration, Instant};

use crate::{
    ledger,
    load::{JOBS, at_most, load, settle_with_misses},
    relay::Relay,
    replicas::{self, Replicas},
    server::Schema,
    stage::{APP, Cluster},
};

/// From when the new primary takes connections, each job runs again within this time.
const GAP_MAX: Duration = Duration::from_secs(5);

/// Fails over in the middle of the load; `moved` makes the address follow, before the standby is
/// promoted.
async fn fail_over(mut replicas: Replicas, url: String, moved: impl FnOnce()) {
    let cluster = Cluster::start_on(Schema::only(url), 3).await;
    let from = load(&cluster).await;
    let seen = cluster.ledger.newest();
    ledger::wait_for("some seconds of fires", || cluster.ledger.newest() > seen + 3).await;
    assert!(replicas.is_synchronous().await);
    tokio::task::block_in_place(|| replicas.kill_primary());
    moved();
    let promoted = replicas.promote().await;
    println!("all share again after {:?}", cluster.balanced(3).await);
    settle_with_misses(&cluster, 0, from).await;
    let gap = (0..JOBS).map(|job| first_since(&cluster, job, promoted) - promoted).max();
    let gap = gap.expect("there are jobs");
    println!("from when the new primary took connections, a job stood still for up to {gap:?}");
    assert!(gap <= at_most(GAP_MAX), "{gap:?}");
}

/// When a job first ran since.
fn first_since(cluster: &Cluster, job: usize, since: Instant) -> Instant {
    let job = format!("apps/{APP}/jobs/{}", ledger::name_of(job));
    let all = cluster.ledger.all().into_iter();
    let begins = all.filter(|execution| execution.job == job).map(|execution| execution.began);
    begins.filter(|began| *began >= since).min().expect("it goes on")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_promoted_behind_one_address_loses_and_doubles_nothing() {
    let replicas = Replicas::start().await;
    let [primary, standby] = replicas.ports.map(|port| format!("127.0.0.1:{port}"));
    let relay = Relay::to_host(&primary).await;
    let url = replicas::url(&[relay.port()], "");
    // For a while it leads to a server that is read only.
    fail_over(replicas, url, || relay.lead_to(&standby)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_promoted_among_several_hosts_loses_and_doubles_nothing() {
    let replicas = Replicas::start().await;
    let [primary, standby] = replicas.ports;
    // The one that is read only comes first, as it may in anybody's list.
    let url = replicas::url(&[standby, primary], "&target_session_attrs=read-write");
    fail_over(replicas, url, || {}).await;
}
