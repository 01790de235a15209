//! kill -9 of the scheduler at random moments loses and doubles nothing: checked from a ledger that
//! the executor keeps, against the fire times that the schedules name.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/node.rs"]
mod node;
#[path = "support/postgres.rs"]
mod postgres;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use clawjob_executor::{Ctx, Executor, Failure, Reconnect};
use clawjob_proto::v1::{
    CreateJobRequest, Job, ListRunsRequest, OverlapPolicy, Run, RunState, Schedule,
    job_service_client::JobServiceClient, run_service_client::RunServiceClient, schedule::Trigger,
};
use node::Node;
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio_util::sync::CancellationToken;

/// Jobs that fire each second.
const JOBS: usize = 20;
const APP: &str = "ledger";

/// What the executor saw: (job, fire time in seconds) with (run, attempt) of each execution.
type Ledger = Arc<Mutex<BTreeMap<(String, i64), Vec<(String, u32)>>>>;

fn kills() -> u32 {
    if std::env::var_os("CLAWJOB_SOAK").is_some() { 100 } else { 10 }
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_random_kills_on_sqlite_lose_and_double_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    torment(Node::start(dir.path(), &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_random_kills_on_postgres_lose_and_double_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let schema = postgres::Schema::create().await;
    torment(Node::start(dir.path(), &["--database", &schema.url])).await;
}

async fn torment(mut node: Node) {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let ledger: Ledger = Arc::default();
    let stop = CancellationToken::new();
    let executor = start_executor(&node, ledger.clone(), stop.clone()).await;
    create_jobs(&node).await;
    // The first fire has been seen: from here on all must be.
    wait_for(|| !ledger.lock().is_empty()).await;
    let from = chrono::Utc::now().timestamp() + 1;

    for _ in 0..kills() {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..2_500))).await;
        node.kill9();
        node.restart();
    }
    let until = chrono::Utc::now().timestamp() + 3;
    wait_for(|| {
        let ledger = ledger.lock();
        let newest = ledger.keys().map(|(_, at)| *at).max().unwrap_or(0);
        newest > until
    })
    .await;
    let runs = settled_runs(&node, from, until).await;
    stop.cancel();
    executor.await.expect("no panic").expect("it ends well");
    check(&runs, &ledger.lock(), from, until);
}

async fn start_executor(
    node: &Node,
    ledger: Ledger,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<Result<(), clawjob_executor::Error>> {
    let token = node.executor_token(APP).await;
    let quick = Duration::from_millis(50);
    let reconnect = Reconnect { first: quick, base: quick, cap: quick * 4, ..Reconnect::default() };
    let executor = Executor::builder()
        .endpoints([node.url()])
        .token(token)
        .app(APP)
        .executor_id("e1")
        .slots(500)
        .reconnect(reconnect)
        .handler("note", move |_: serde_json::Value, ctx: Ctx| {
            let ledger = ledger.clone();
            async move {
                let at = (ctx.job().to_owned(), ctx.fire_time().timestamp());
                ledger.lock().entry(at).or_default().push((ctx.run_id().to_owned(), ctx.attempt()));
                Ok::<_, Failure>(())
            }
        });
    tokio::spawn(executor.run_until(stop.cancelled_owned()))
}

async fn create_jobs(node: &Node) {
    let (channel, bearer) = node.admin().await;
    let mut client = JobServiceClient::with_interceptor(channel, bearer);
    for index in 0..JOBS {
        let schedule = Schedule {
            trigger: Some(Trigger::Cron("* * * * * *".to_owned())),
            ..Schedule::default()
        };
        let job = Job {
            handler: "note".to_owned(),
            schedules: vec![schedule],
            overlap: OverlapPolicy::Allow.into(),
            ..Job::default()
        };
        let request = CreateJobRequest {
            parent: format!("apps/{APP}"),
            job_id: format!("second-{index}"),
            job: Some(job),
            ..CreateJobRequest::default()
        };
        client.create_job(request).await.expect("created");
    }
}

/// All runs with a fire time in `[from, until]`, once none of them is open.
async fn settled_runs(node: &Node, from: i64, until: i64) -> Vec<Run> {
    loop {
        let runs = list_runs(node).await;
        let wanted: Vec<Run> =
            runs.into_iter().filter(|run| (from..=until).contains(&fire_second(run))).collect();
        if wanted.iter().all(|run| run.end_time.is_some()) {
            return wanted;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn list_runs(node: &Node) -> Vec<Run> {
    let (channel, bearer) = node.admin().await;
    let mut client = RunServiceClient::with_interceptor(channel, bearer);
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListRunsRequest {
            parent: format!("apps/{APP}"),
            page_size: 1_000,
            page_token,
            ..ListRunsRequest::default()
        };
        let page = client.list_runs(request).await.expect("listed").into_inner();
        all.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

fn fire_second(run: &Run) -> i64 {
    run.fire_time.expect("every run has one").seconds
}

fn check(
    runs: &[Run],
    ledger: &BTreeMap<(String, i64), Vec<(String, u32)>>,
    from: i64,
    until: i64,
) {
    let mut rows: BTreeMap<(String, i64), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        rows.entry((run.job.clone(), fire_second(run))).or_default().push(run);
    }
    let mut lost = BTreeSet::new();
    let mut doubled = BTreeSet::new();
    for index in 0..JOBS {
        for second in from..=until {
            let key = (format!("apps/{APP}/jobs/second-{index}"), second);
            match rows.get(&key).map_or(0, Vec::len) {
                0 => lost.insert(key.clone()),
                1 => false,
                _ => doubled.insert(key.clone()),
            };
            let executed = ledger.get(&key).map_or(0, Vec::len);
            let row = rows.get(&key).and_then(|rows| rows.first());
            if executed == 0 && row.is_some_and(|run| run.state() == RunState::Succeeded) {
                lost.insert(key.clone());
            }
            if executed > 1 {
                doubled.insert(key);
            }
        }
    }
    let fires = JOBS as i64 * (until - from + 1);
    println!("{fires} fire times: {} lost, {} doubled", lost.len(), doubled.len());
    let skipped: Vec<_> =
        runs.iter().filter(|run| run.state() != RunState::Succeeded).map(|run| &run.name).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(doubled.is_empty(), "doubled: {doubled:?}");
    assert!(skipped.is_empty(), "no restart took as long as a misfire: {skipped:?}");
}

async fn wait_for(condition: impl Fn() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it did not happen within a minute");
}
