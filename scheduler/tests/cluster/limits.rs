//! Limits of an app hold over all owners of its jobs.

use std::collections::BTreeMap;

use clawjob_proto::v1::{App, Job, OverlapPolicy, Payload, UpdateAppRequest};
use prost_types::FieldMask;

use crate::{
    ledger::{self, Execution},
    stage::{APP, Cluster},
};

const JOBS: usize = 12;

fn job(ms: u64) -> Job {
    let data = format!("{{\"ms\":{ms}}}").into_bytes().into();
    let params = Payload { content_type: "application/json".to_owned(), data };
    let overlap = OverlapPolicy::Allow.into();
    Job { handler: "note".to_owned(), params: Some(params), overlap, ..Job::default() }
}

/// How many ran at once at most.
fn most_at_once(executions: &[Execution]) -> usize {
    let mut moments = Vec::new();
    for execution in executions {
        moments.push((execution.began, 1));
        // One that still runs counts to the end.
        moments.extend(execution.ended.map(|ended| (ended, -1)));
    }
    moments.sort_unstable();
    let mut now = 0_i32;
    let mut most = 0;
    for (_, step) in moments {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).expect("never below nothing")
}

/// Sets the limits, and waits until every owner has learned of them: with limits it counts what is
/// under way, and writes that down.
async fn set_limits(cluster: &Cluster, max: u32, note: u32) {
    let app = App {
        name: format!("apps/{APP}"),
        max_concurrency: max,
        handler_max_concurrency: [("note".to_owned(), note)].into(),
        ..App::default()
    };
    let paths = vec!["max_concurrency".to_owned(), "handler_max_concurrency".to_owned()];
    let request = UpdateAppRequest { app: Some(app), update_mask: Some(FieldMask { paths }) };
    cluster.admin(0).await.update_app(request).await.expect("set");
    let watch = cluster.schema.connect().await;
    cluster
        .until("all owners count", async || {
            let sql = "SELECT count(*) FROM partition WHERE counted_epoch <> epoch";
            let left: i64 = watch.query_one(sql, &[]).await.expect("partitions").get(0);
            (left == 0).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_s_limit_holds_over_all_owners_and_deaths_and_keeps_nobody_out() {
    let mut cluster = Cluster::start(3).await;
    for node in 0..3 {
        cluster.executor(&format!("e{node}"), 50, &[node, (node + 1) % 3]);
        cluster.connected(&format!("e{node}")).await;
    }
    set_limits(&cluster, 3, 0).await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..JOBS {
        ledger::create_job(&mut jobs, APP, &format!("j{index}"), job(100)).await;
    }
    let rounds = 8;
    for round in 0..rounds {
        for index in 0..JOBS {
            cluster.trigger(0, &format!("j{index}"), "").await;
        }
        if round == 3 {
            cluster.nodes[2].kill9();
            cluster.nodes[2].restart();
        }
    }
    let all = JOBS * rounds;
    ledger::wait_for("all runs", || {
        let ended = cluster.ledger.all();
        ended.len() >= all && ended.iter().all(|execution| execution.ended.is_some())
    })
    .await;
    let executions = cluster.ledger.all();
    let most = most_at_once(&executions);
    println!("{} executions, at most {most} at once", executions.len());
    assert!(most <= 3, "{most} at once");
    assert!(most > 1, "the limit is made use of");
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    executions.iter().for_each(|execution| *runs.entry(&execution.run).or_default() += 1);
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_s_limit_holds_over_all_owners() {
    let cluster = Cluster::start(3).await;
    cluster.executor("e0", 50, &[0]);
    cluster.connected("e0").await;
    set_limits(&cluster, 0, 1).await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..JOBS {
        ledger::create_job(&mut jobs, APP, &format!("j{index}"), job(30)).await;
    }
    for index in 0..JOBS {
        cluster.trigger(0, &format!("j{index}"), "").await;
    }
    ledger::wait_for("all runs", || cluster.ledger.len() == JOBS).await;
    assert_eq!(most_at_once(&cluster.ledger.all()), 1);
}
