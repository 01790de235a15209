//! Jobs that fire each second while something is done to the cluster, and whether all came to a good
//! end.

use clawjob_proto::v1::{Job, OverlapPolicy, Payload, Run, RunState};

use crate::{
    ledger,
    stage::{APP, Cluster},
};

/// Jobs that fire each second.
pub(crate) const JOBS: usize = 20;

/// Whether long counts and long runs are to be whole.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("CLAWJOB_SOAK").is_some()
}

/// A job without a schedule whose runs take so long.
pub(crate) fn long(ms: u64) -> Job {
    let data = format!("{{\"ms\":{ms}}}").into_bytes().into();
    let params = Payload { content_type: "application/json".to_owned(), data };
    let overlap = OverlapPolicy::Allow.into();
    Job { handler: "note".to_owned(), params: Some(params), overlap, ..Job::default() }
}

/// Jobs of each second with executors that know all nodes; returns the first second that counts.
pub(crate) async fn load(cluster: &Cluster) -> i64 {
    let nodes: Vec<usize> = (0..cluster.nodes.len()).collect();
    for index in 0..3 {
        cluster.executor(&format!("e{index}"), 200, &nodes);
        cluster.connected(&format!("e{index}")).await;
    }
    begin(cluster).await
}

/// The jobs alone.
pub(crate) async fn begin(cluster: &Cluster) -> i64 {
    ledger::create_jobs(&mut cluster.jobs(0).await, APP, JOBS).await;
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    chrono::Utc::now().timestamp() + 1
}

/// Goes on for some seconds more and looks whether every fire time became one run that went well;
/// returns the runs.
pub(crate) async fn settle(cluster: &Cluster, node: usize, from: i64) -> Vec<Run> {
    let (runs, until) = rest(cluster, node, from).await;
    ledger::check(&runs, &cluster.ledger, APP, JOBS, from, until);
    let odd: Vec<_> = runs.iter().filter(|run| run.state() != RunState::Succeeded).collect();
    assert!(odd.is_empty(), "none was missed for long: {odd:#?}");
    runs
}

/// The same where fires may have been missed, which their policy decides: each became one run, or is
/// recorded as skipped.
pub(crate) async fn settle_with_misses(cluster: &Cluster, node: usize, from: i64) {
    let (runs, until) = rest(cluster, node, from).await;
    ledger::check_accounted(&runs, &cluster.ledger, APP, JOBS, from, until);
}

async fn rest(cluster: &Cluster, node: usize, from: i64) -> (Vec<Run>, i64) {
    let until = chrono::Utc::now().timestamp() + 3;
    ledger::wait_for("a last fire", || cluster.ledger.newest() > until).await;
    (ledger::settled_runs(&mut cluster.runs(node).await, APP, from, until).await, until)
}
