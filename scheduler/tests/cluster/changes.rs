//! What is changed at one node holds at all.

use std::{collections::BTreeMap, time::Duration};

use clawjob_proto::v1::{
    GetJobRequest, OverlapPolicy, Schedule, UpdateJobRequest, schedule::Trigger,
};

use crate::{
    ledger, load,
    server::Schema,
    stage::{APP, Cluster, Manner},
};

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_job_saved_at_another_node_runs_once_for_each_fire_time() {
    let cluster = Cluster::start(3).await;
    for node in 0..3 {
        cluster.executor(&format!("e{node}"), 50, &[node]);
        cluster.connected(&format!("e{node}")).await;
    }
    ledger::create_lasting_jobs(&mut cluster.jobs(0).await, APP, 6).await;
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    let from = chrono::Utc::now().timestamp() + 1;
    for round in 0..12 {
        let mut client = cluster.jobs(round % 3).await;
        let name = format!("apps/{APP}/jobs/{}", ledger::name_of(round % 6));
        let found = client.get_job(GetJobRequest { name }).await.expect("found");
        let mut job = found.into_inner();
        job.description = format!("saved {round} times");
        let request = UpdateJobRequest { job: Some(job), ..UpdateJobRequest::default() };
        client.update_job(request).await.expect("saved");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let until = chrono::Utc::now().timestamp() + 2;
    load::last_fires(&cluster, 6, until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(1).await, APP, from, until).await;
    ledger::check(&runs, &cluster.ledger, APP, 6, from, until);
}

#[tokio::test(flavor = "multi_thread")]
async fn r77_counters_survive_a_change_of_the_owner() {
    const JOBS: usize = 6;
    const EXECUTORS: usize = 4;
    // None of the executors is to be passed over because it was silent for a moment.
    let schema = Schema::create().await;
    let mut cluster = Cluster::start_as(schema, 2, Manner::Default).await;
    for executor in 0..EXECUTORS {
        cluster.executor(&format!("e{executor}"), 200, &[0, 1]);
    }
    load::create_probes(&cluster).await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..JOBS {
        // Nothing but its turn decides, whoever owns the job.
        let trigger = Some(Trigger::Cron("0 0 1 1 *".to_owned()));
        let schedules = vec![Schedule { trigger, ..Schedule::default() }];
        let overlap = OverlapPolicy::Allow.into();
        let job = clawjob_proto::v1::Job {
            handler: "note".to_owned(),
            schedules,
            overlap,
            ..Default::default()
        };
        ledger::create_job(&mut jobs, APP, &format!("turns-{index}"), job).await;
    }
    for round in 0..6 {
        // Every owner hears of all executors before it counts.
        load::all_known(&cluster, 1, EXECUTORS).await;
        let sent = cluster.ledger.len() + 2 * JOBS;
        for index in 0..JOBS {
            for _ in 0..2 {
                cluster.trigger(1, &format!("turns-{index}"), "").await;
            }
        }
        ledger::wait_for("all runs", || cluster.ledger.len() == sent).await;
        if round % 2 == 0 {
            cluster.nodes[0].kill9();
            cluster.balanced(1).await;
        } else {
            cluster.nodes[0].restart();
            cluster.balanced(2).await;
        }
    }
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let all = cluster.ledger.all().into_iter();
    for execution in all.filter(|execution| execution.job.contains("/turns-")) {
        *counts.entry((execution.job, execution.executor)).or_default() += 1;
    }
    assert_eq!(counts.len(), JOBS * EXECUTORS, "{counts:?}");
    // Twelve runs of each job over the executors.
    for (key, count) in &counts {
        assert_eq!(*count, 12 / EXECUTORS, "{key:?} of {counts:?}");
    }
}
