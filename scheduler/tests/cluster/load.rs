//! Jobs that fire each second while something is done to the cluster, and whether all came to a good
//! end.

use std::time::Duration;

use clawjob_proto::v1::{Job, OverlapPolicy, Payload, Run, RunState};

use crate::{
    ledger,
    stage::{self, APP, Cluster},
};

/// Jobs that fire each second.
pub(crate) const JOBS: usize = 20;
/// Jobs whose runs show whom their owners know: so many that each node owns some.
const PROBES: usize = 16;
/// On a busy machine only what stands still takes longer.
const STANDSTILL: Duration = Duration::from_secs(30);

/// Whether long counts and long runs are to be whole.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("CLAWJOB_SOAK").is_some()
}

/// The longest that something may take: in a soak what is promised, elsewhere what only a standstill
/// exceeds.
pub(crate) fn at_most(promised: Duration) -> Duration {
    if is_soak() { promised } else { STANDSTILL }
}

/// A job without a schedule whose runs take so long.
pub(crate) fn long(ms: u64) -> Job {
    note(format!("{{\"ms\":{ms}}}"))
}

/// The same, and until the ledger lets them go.
pub(crate) fn waiting(ms: u64) -> Job {
    note(format!("{{\"ms\":{ms},\"waits\":true}}"))
}

fn note(params: String) -> Job {
    let data = params.into_bytes().into();
    let params = Payload { content_type: "application/json".to_owned(), data };
    let overlap = OverlapPolicy::Allow.into();
    Job { handler: "note".to_owned(), params: Some(params), overlap, ..Job::default() }
}

/// Makes the jobs that [`all_known`] probes with.
pub(crate) async fn create_probes(cluster: &Cluster) {
    let mut jobs = cluster.jobs(0).await;
    for probe in 0..PROBES {
        ledger::create_job(&mut jobs, APP, &format!("probe-{probe}"), long(0)).await;
    }
}

/// Waits until the owners have heard of the executors `e0` to the last of so many: a run of each probe
/// has reached each. Nothing else may run meanwhile.
pub(crate) async fn all_known(cluster: &Cluster, node: usize, executors: usize) {
    let all = cluster.ledger.len() + PROBES * executors;
    let mut jobs = cluster.jobs(node).await;
    for executor in 0..executors {
        let id = format!("e{executor}");
        cluster.connected(&id).await;
        for probe in 0..PROBES {
            stage::trigger(&mut jobs, &format!("probe-{probe}"), &id).await;
        }
    }
    ledger::wait_for("all probes have run", || cluster.ledger.len() == all).await;
}

/// Jobs of each second with executors that know all nodes; returns the first second that counts.
pub(crate) async fn load(cluster: &Cluster) -> i64 {
    staff(cluster).await;
    ledger::create_jobs(&mut cluster.jobs(0).await, APP, JOBS).await;
    begun(cluster).await
}

/// The same with jobs that make up for all that they miss, however slow the machine is.
pub(crate) async fn lasting_load(cluster: &Cluster) -> i64 {
    staff(cluster).await;
    lasting_jobs(cluster).await
}

/// Those jobs alone.
pub(crate) async fn lasting_jobs(cluster: &Cluster) -> i64 {
    ledger::create_lasting_jobs(&mut cluster.jobs(0).await, APP, JOBS).await;
    begun(cluster).await
}

async fn staff(cluster: &Cluster) {
    let nodes: Vec<usize> = (0..cluster.nodes.len()).collect();
    for index in 0..3 {
        cluster.executor(&format!("e{index}"), 200, &nodes);
        cluster.connected(&format!("e{index}")).await;
    }
}

async fn begun(cluster: &Cluster) -> i64 {
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    chrono::Utc::now().timestamp() + 1
}

/// Goes on for some seconds more and looks whether every fire time of jobs that make up for what they
/// miss became one run that went well; returns the runs.
pub(crate) async fn settle(cluster: &Cluster, node: usize, from: i64) -> Vec<Run> {
    let (runs, until) = rest(cluster, node, from).await;
    ledger::check(&runs, &cluster.ledger, APP, JOBS, from, until);
    let odd: Vec<_> = runs.iter().filter(|run| run.state() != RunState::Succeeded).collect();
    assert!(odd.is_empty(), "none was missed: {odd:#?}");
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
    last_fires(cluster, JOBS, until).await;
    (ledger::settled_runs(&mut cluster.runs(node).await, APP, from, until).await, until)
}

/// Waits until each of the jobs that fire each second has come past `until`: whoever is late has caught
/// up.
pub(crate) async fn last_fires(cluster: &Cluster, jobs: usize, until: i64) {
    ledger::wait_for("a last fire of each job", || cluster.ledger.newest_of_all(APP, jobs) > until)
        .await;
}
