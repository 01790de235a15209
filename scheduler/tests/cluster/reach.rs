//! A run goes to whatever executor its owner picks, at whatever node that is connected.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clawjob_proto::v1::{
    Job, ListRunLogsRequest, Outcome, OverlapPolicy, Payload, RunState, Schedule, schedule::Trigger,
};
use nix::sys::signal::Signal;

use crate::{
    ledger, load,
    stage::{self, APP, Cluster},
};

fn note(ms: u64) -> Job {
    let data = format!("{{\"ms\":{ms}}}").into_bytes().into();
    let params = Payload { content_type: "application/json".to_owned(), data };
    Job {
        handler: "note".to_owned(),
        params: Some(params),
        overlap: OverlapPolicy::Allow.into(),
        ..Job::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_any_owner_run_at_executors_of_any_node() {
    const JOBS: usize = 24;
    let cluster = Cluster::start(3).await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..JOBS {
        ledger::create_job(&mut jobs, APP, &format!("j{index}"), note(0)).await;
    }
    let mut executors = Vec::new();
    for node in 0..3 {
        executors.push(cluster.executor(&format!("e{node}"), 100, &[node]));
        cluster.connected(&format!("e{node}")).await;
    }
    let watch = cluster.schema.connect().await;
    let sql = "SELECT count(DISTINCT p.node) FROM job j JOIN partition p ON p.id = j.partition";
    let owners: i64 = watch.query_one(sql, &[]).await.expect("owners").get(0);
    assert_eq!(owners, 3, "each node owns some of the jobs");
    let mut runs = Vec::new();
    for index in 0..JOBS {
        for node in 0..3 {
            let job = format!("j{index}");
            runs.push(cluster.trigger(index % 3, &job, &format!("e{node}")).await);
        }
    }
    for run in &runs {
        let ended = cluster.ended(0, run).await;
        assert_eq!((ended.state(), ended.attempt), (RunState::Succeeded, 1), "{ended:?}");
    }
    let counts = cluster.ledger.by_executor();
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [JOBS; 3], "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x53_round_robin_over_three_nodes_gives_each_executor_its_exact_share() {
    const RUNS: usize = 400;
    let cluster = Cluster::start(3).await;
    let mut executors = Vec::new();
    for index in 0..4 {
        executors.push(cluster.executor(&format!("e{index}"), 500, &[index % 3]));
        cluster.connected(&format!("e{index}")).await;
    }
    let mut jobs = cluster.jobs(0).await;
    ledger::create_job(&mut jobs, APP, "turns", note(0)).await;
    // The owner has heard of all four when a run reached each.
    for index in 0..4 {
        let run = cluster.trigger(0, "turns", &format!("e{index}")).await;
        cluster.ended(0, &run).await;
    }
    let before = cluster.ledger.by_executor();
    let mut nodes = [cluster.jobs(0).await, cluster.jobs(1).await, cluster.jobs(2).await];
    for run in 0..RUNS {
        stage::trigger(&mut nodes[run % 3], "turns", "").await;
    }
    ledger::wait_for("all runs", || cluster.ledger.len() == RUNS + 4).await;
    let counts = cluster.ledger.by_executor();
    for (executor, count) in &counts {
        let own = count - before.get(executor).copied().unwrap_or(0);
        assert!(own.abs_diff(RUNS / 4) <= 1, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn x53_round_robin_goes_on_at_the_next_owner_where_a_dead_one_was() {
    const JOBS: usize = 8;
    // Two shares of one more than there are executors: begun anew, one of these got four of ten.
    const RUNS: usize = 5;
    let cluster = Cluster::start(2).await;
    let mut executors = Vec::new();
    for index in 0..4 {
        executors.push(cluster.executor(&format!("e{index}"), 500, &[0]));
        cluster.connected(&format!("e{index}")).await;
    }
    cluster.balanced(2).await;
    let mut jobs = cluster.jobs(0).await;
    for job in 0..JOBS {
        ledger::create_job(&mut jobs, APP, &format!("j{job}"), note(0)).await;
        // Its owner has heard of all four when a run reached each.
        for index in 0..4 {
            let run = cluster.trigger(0, &format!("j{job}"), &format!("e{index}")).await;
            cluster.ended(0, &run).await;
        }
    }
    let mut started = 4 * JOBS;
    for half in 0..2 {
        for _ in 0..RUNS {
            for job in 0..JOBS {
                stage::trigger(&mut jobs, &format!("j{job}"), "").await;
            }
        }
        started += RUNS * JOBS;
        ledger::wait_for("all runs", || cluster.ledger.len() == started).await;
        if half == 0 {
            cluster.signal(1, Signal::SIGKILL);
        }
    }
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for execution in cluster.ledger.all() {
        *counts.entry((execution.job, execution.executor)).or_default() += 1;
    }
    assert_eq!(counts.len(), 4 * JOBS);
    // Besides the one that was named.
    assert!(counts.values().all(|count| (3..=4).contains(count)), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x32_a_job_that_skips_never_runs_twice_at_once_on_any_nodes() {
    let cluster = Cluster::start(3).await;
    let mut executors = Vec::new();
    for node in 0..3 {
        executors.push(cluster.executor(&format!("e{node}"), 20, &[node]));
    }
    load::create_probes(&cluster).await;
    load::all_known(&cluster, 0, 3).await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..6 {
        let trigger = Some(Trigger::Cron("* * * * * *".to_owned()));
        let schedules = vec![Schedule { trigger, ..Schedule::default() }];
        let overlap = OverlapPolicy::Skip.into();
        let job = Job { schedules, overlap, ..note(1_500) };
        ledger::create_job(&mut jobs, APP, &format!("skips-{index}"), job).await;
    }
    let all = || {
        let mut all = cluster.ledger.all();
        all.retain(|execution| execution.job.contains("/skips-"));
        all
    };
    ledger::wait_for("some runs", || all().len() >= 24).await;
    let all = all();
    let jobs: BTreeSet<&str> = all.iter().map(|execution| execution.job.as_str()).collect();
    for job in jobs {
        let mut own: Vec<_> = all.iter().filter(|execution| execution.job == job).collect();
        own.sort_by_key(|execution| execution.began);
        for pair in own.windows(2) {
            let ended = pair[0].ended.expect("the first has ended");
            assert!(ended <= pair[1].began, "two at once: {pair:?}");
        }
    }
    let used: BTreeSet<&str> = all.iter().map(|execution| execution.executor.as_str()).collect();
    assert_eq!(used.len(), 3, "all executors took part");
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_run_that_is_canceled_at_another_node_before_it_was_sent_never_starts() {
    let cluster = Cluster::start(3).await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..9 {
        ledger::create_job(&mut jobs, APP, &format!("j{index}"), note(0)).await;
    }
    let mut runs = Vec::new();
    for index in 0..9 {
        runs.push(cluster.trigger(index % 3, &format!("j{index}"), "").await);
    }
    for (index, run) in runs.iter().enumerate() {
        cluster.cancel((index + 1) % 3, run).await;
    }
    let executor = cluster.executor("e1", 10, &[0]);
    for run in &runs {
        assert_eq!(cluster.ended(2, run).await.state(), RunState::Canceled);
    }
    // One that is sent after them shows that the executor takes runs.
    let last = cluster.trigger(0, "j0", "").await;
    assert_eq!(cluster.ended(0, &last).await.state(), RunState::Succeeded);
    assert_eq!(cluster.ledger.len(), 1, "none of the canceled ones was executed");
    executor.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_reaches_a_run_at_another_node() {
    let cluster = Cluster::start(3).await;
    let mut jobs = cluster.jobs(0).await;
    let mut executors = Vec::new();
    for node in 0..3 {
        executors.push(cluster.executor(&format!("e{node}"), 10, &[node]));
        cluster.connected(&format!("e{node}")).await;
    }
    let mut runs = Vec::new();
    for index in 0..9 {
        let name = format!("long-{index}");
        ledger::create_job(&mut jobs, APP, &name, note(600_000)).await;
        runs.push(cluster.trigger(0, &name, &format!("e{}", index % 3)).await);
    }
    ledger::wait_for("all run", || cluster.ledger.len() == 9).await;
    for (index, run) in runs.iter().enumerate() {
        cluster.cancel(index / 3, run).await;
    }
    for run in &runs {
        let ended = cluster.ended(1, run).await;
        assert_eq!(ended.state(), RunState::Canceled, "{ended:?}");
        let outcome = ended.attempts.last().map(|attempt| attempt.outcome());
        assert_eq!(outcome, Some(Outcome::Canceled), "the executor itself stopped it: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r58_a_log_read_from_another_node_is_the_same_text() {
    let cluster = Cluster::start(3).await;
    let executor = cluster.executor("e1", 10, &[1]);
    let mut jobs = cluster.jobs(0).await;
    ledger::create_job(&mut jobs, APP, "logs", note(0)).await;
    let run = cluster.trigger(0, "logs", "").await;
    cluster.ended(0, &run).await;
    let mut texts = BTreeSet::new();
    for node in 0..3 {
        let request = ListRunLogsRequest { name: run.clone(), ..ListRunLogsRequest::default() };
        let page = cluster.runs(node).await.list_run_logs(request).await.expect("a page");
        let records = page.into_inner().records;
        texts.insert(format!("{records:?}"));
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    executor.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_take_turns_at_an_executor_that_is_always_busy() {
    const JOBS: usize = 12;
    let cluster = Cluster::start(3).await;
    let executor = cluster.executor("e1", 1, &[0]);
    cluster.connected("e1").await;
    let mut jobs = cluster.jobs(0).await;
    for index in 0..JOBS {
        ledger::create_job(&mut jobs, APP, &format!("j{index}"), note(100)).await;
    }
    for _ in 0..20 {
        for index in 0..JOBS {
            cluster.trigger(0, &format!("j{index}"), "").await;
        }
    }
    let watch = cluster.schema.connect().await;
    let sql = "SELECT count(DISTINCT p.node) FROM job j JOIN partition p ON p.id = j.partition
        WHERE 'apps/crowd/jobs/' || j.name = ANY($1)";
    ledger::wait_for("some runs", || cluster.ledger.len() >= 100).await;
    let served: BTreeSet<String> =
        cluster.ledger.all().into_iter().map(|execution| execution.job).collect();
    let served: Vec<String> = served.into_iter().collect();
    let owners: i64 = watch.query_one(sql, &[&served]).await.expect("owners").get(0);
    assert_eq!(owners, 3, "only {served:?} had a turn");
    executor.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_moves_between_nodes_keeps_its_runs() {
    let cluster = Cluster::start(2).await;
    let executor = cluster.executor("e1", 100, &[0, 1]);
    cluster.connected("e1").await;
    let mut jobs = cluster.jobs(0).await;
    ledger::create_lasting_jobs(&mut jobs, APP, 6).await;
    ledger::create_job(&mut jobs, APP, "long", note(8_000)).await;
    let run = cluster.trigger(0, "long", "").await;
    let from = chrono::Utc::now().timestamp() + 1;
    for _ in 0..4 {
        cluster.disconnect(&["e1"]).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    let ended = cluster.ended(1, &run).await;
    assert_eq!((ended.state(), ended.attempt), (RunState::Succeeded, 1), "{ended:?}");
    let until = chrono::Utc::now().timestamp() + 1;
    load::last_fires(&cluster, 6, until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(0).await, APP, from, until).await;
    ledger::check(&runs, &cluster.ledger, APP, 6, from, until);
    executor.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_alone_writes_nothing_for_others() {
    let cluster = Cluster::start(1).await;
    cluster.executor("e1", 100, &[0]);
    ledger::create_jobs(&mut cluster.jobs(0).await, APP, 10).await;
    ledger::wait_for("some runs", || cluster.ledger.len() >= 60).await;
    let watch = cluster.schema.connect().await;
    let written = async |table: &str| -> i64 {
        let sql = "SELECT n_tup_ins FROM pg_stat_user_tables
            WHERE schemaname = current_schema() AND relname = $1";
        watch.query_one(sql, &[&table]).await.expect("statistics").get(0)
    };
    cluster
        .until("the server has counted", async || (written("open_run").await > 50).then_some(()))
        .await;
    for table in ["run_inbox", "node_inbox", "session_load", "run_permit"] {
        assert_eq!(written(table).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: CLAWJOB_LOAD_BINARY names a release build"]
async fn how_late_runs_begin_at_another_node_than_their_owner_s() {
    let count: usize = std::env::var("CLAWJOB_LOAD_JOBS").map_or(300, |n| n.parse().expect("n"));
    let cluster = Cluster::start(3).await;
    let watch = cluster.schema.connect().await;
    cluster.executor("e1", 50_000, &[0]);
    cluster.connected("e1").await;
    ledger::create_jobs(&mut cluster.jobs(0).await, APP, count).await;
    let begin = chrono::Utc::now().timestamp() + 5;
    ledger::wait_for("half a minute of runs", || cluster.ledger.newest() > begin + 30).await;
    let sql = "SELECT 'apps/crowd/jobs/' || j.name FROM job j
        JOIN partition p ON p.id = j.partition JOIN executor e ON e.name = 'e1'
        WHERE p.node <> e.node";
    let rows = watch.query(sql, &[]).await.expect("jobs");
    let elsewhere: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    for (what, other) in [("at their owner's node", false), ("at another node", true)] {
        let all = cluster.ledger.all().into_iter();
        let mut late: Vec<i64> = all
            .filter(|run| run.fire > begin && elsewhere.contains(&run.job) == other)
            .map(|run| run.late_ms)
            .collect();
        late.sort_unstable();
        let at = |share: usize| late[late.len() * share / 1_000];
        println!(
            "{} runs {what}: p50 {} ms, p99 {} ms, p99.9 {} ms",
            late.len(),
            at(500),
            at(990),
            at(999)
        );
    }
}
