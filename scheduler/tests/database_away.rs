//! A database that is restarted under a running scheduler, takes no writes for a while, or falls silent.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/node.rs"]
mod node;
#[path = "support/relay.rs"]
mod relay;
#[path = "support/postgres.rs"]
mod server;

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use chrono::DateTime;
use clawjob_proto::v1::{
    CreateJobRequest, GetClusterRequest, Job, ListRunsRequest, Run, RunState, Schedule,
    cluster_service_client::ClusterServiceClient, job_service_client::JobServiceClient,
    run_service_client::RunServiceClient, schedule::Trigger,
};
use clawjob_scheduler::{
    model::ids::{PartitionId, RunId},
    store::{
        ClusterStore as _, Result as Stored, Store as _, StoreError, Topic,
        postgres::{PostgresConfig, PostgresStore},
    },
};
use futures::future::join_all;
use node::Node;
use relay::Relay;
use tonic_types::StatusExt as _;

/// No step takes this long unless it hangs.
const STEP: Duration = Duration::from_secs(60);
/// How long the database is away.
const AWAY: Duration = Duration::from_secs(10);
/// What may be logged meanwhile: its share of 1 MB a minute.
const LOGGED_MAX: u64 = 1_000_000 * 10 / 60;
/// How often the owner may try meanwhile, and while the database starts: ten times a second.
const TRIES_MAX: u32 = 200;

async fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + STEP;
    while !is() {
        assert!(Instant::now() < end, "{what} does not come about");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// How often the owner has tried in vain before it went on, each time, by the logs in `dir`.
fn tries(dir: &Path) -> Vec<u32> {
    let files = std::fs::read_dir(dir).expect("readable").flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log"));
    let texts = logs.map(|log| std::fs::read_to_string(log.path()).expect("readable"));
    let text: String = texts.collect();
    let told = text.lines().filter(|line| line.contains("scheduling goes on"));
    let count = |line: &str| {
        let (_, after) = line.split_once("faults").expect("how many");
        let digits = after.chars().skip_while(|c| !c.is_ascii_digit());
        digits.take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
    };
    told.map(count).collect()
}

async fn runs(node: &Node) -> Vec<Run> {
    let (channel, bearer) = node.admin().await;
    let mut client = RunServiceClient::with_interceptor(channel, bearer);
    let request =
        ListRunsRequest { parent: "apps/a".to_owned(), page_size: 1000, ..Default::default() };
    client.list_runs(request).await.expect("a page").into_inner().runs
}

/// Makes a job of each second.
async fn create(node: &Node, id: &str) -> Result<(), tonic::Status> {
    let (channel, bearer) = node.admin().await;
    let each_second = Trigger::Interval(prost_types::Duration { seconds: 1, nanos: 0 });
    let schedule = Schedule { trigger: Some(each_second), ..Schedule::default() };
    let job = Job { handler: "h".to_owned(), schedules: vec![schedule], ..Job::default() };
    let request = CreateJobRequest {
        parent: "apps/a".to_owned(),
        job_id: id.to_owned(),
        job: Some(job),
        ..CreateJobRequest::default()
    };
    JobServiceClient::with_interceptor(channel, bearer).create_job(request).await.map(drop)
}

async fn problem(node: &Node) -> String {
    let (channel, bearer) = node.admin().await;
    let mut client = ClusterServiceClient::with_interceptor(channel, bearer);
    client.get_cluster(GetClusterRequest {}).await.expect("an answer").into_inner().problem
}

async fn until_problem(node: &Node, is: impl Fn(&str) -> bool) {
    let end = Instant::now() + STEP;
    loop {
        let problem = problem(node).await;
        if is(&problem) {
            return;
        }
        assert!(Instant::now() < end, "the problem stays {problem:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_read_only_is_named_with_the_remedy_until_it_takes_writes() {
    let database = server::Server::start(false);
    let url = database.tcp_url(database.port.expect("a private server"));
    let dir = tempfile::tempdir().expect("a directory");
    let set_log = format!("log.file={}", dir.path().join("log").display());
    let node = Node::start(&dir.path().join("data"), &["--database", &url, "--set", &set_log]);
    create(&node, "before").await.expect("made");
    let (operator, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let read_only = async |on: &str| {
        for sql in [
            format!("ALTER SYSTEM SET default_transaction_read_only = {on}"),
            "SELECT pg_reload_conf()".to_owned(),
        ] {
            operator.batch_execute(&sql).await.expect("set");
        }
    };
    read_only("on").await;
    until_problem(&node, |problem| {
        problem.contains("read only") && problem.contains("lead its address to the primary")
    })
    .await;
    let refused = create(&node, "meanwhile").await.expect_err("read only");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().expect("an ErrorInfo").reason, "STORAGE_READ_ONLY");
    until("a line in the log", || {
        let files = std::fs::read_dir(dir.path()).expect("readable").flatten();
        let mut logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log"));
        logs.any(|log| {
            let text = std::fs::read_to_string(log.path()).unwrap_or_default();
            text.contains("scheduling is interrupted") && text.contains("the database is read only")
        })
    })
    .await;
    read_only("off").await;
    until_problem(&node, str::is_empty).await;
    create(&node, "after").await.expect("made");
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_r59_a_restart_of_the_database_is_waited_out_quietly_and_jobs_go_on() {
    let mut database = server::Server::start(false);
    let port = database.port.expect("a private server");
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let set_log = format!("log.file={}", log.display());
    let url = database.tcp_url(port);
    let node = Node::start(&dir.path().join("data"), &["--database", &url, "--set", &set_log]);
    let done = Arc::new(AtomicUsize::new(0));
    let counter = done.clone();
    let work = move |_: serde_json::Value, _: clawjob_executor::Ctx| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, clawjob_executor::Failure>(()) }
    };
    let executor = clawjob_executor::Executor::builder()
        .endpoints([node.url()])
        .token(node.executor_token("a").await)
        .app("a")
        .handler("h", work);
    tokio::spawn(executor.run());
    create(&node, "j").await.expect("made");
    until("a first run", || done.load(Ordering::Relaxed) >= 3).await;

    let logged = || {
        let files = std::fs::read_dir(dir.path()).expect("readable").flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log"));
        logs.map(|file| file.metadata().map_or(0, |meta| meta.len())).sum::<u64>()
    };
    tokio::task::block_in_place(|| database.down());
    let before = logged();
    tokio::time::sleep(AWAY).await;
    let said = logged() - before;
    assert!(said < LOGGED_MAX, "{said} bytes were logged in {AWAY:?}");
    tokio::task::block_in_place(|| database.up());
    let so_far = done.load(Ordering::Relaxed);
    until("a run after the restart", || done.load(Ordering::Relaxed) >= so_far + 3).await;
    let tries = tries(dir.path());
    assert!(!tries.is_empty() && tries.iter().all(|tries| *tries < TRIES_MAX), "{tries:?}");

    // What passed meanwhile was made up for or recorded, and no fire time came twice.
    let runs = runs(&node).await;
    let mut seen = HashSet::new();
    for run in runs.iter().filter(|run| run.state() != RunState::Skipped) {
        let at = run.fire_time.as_ref().expect("a fire time").seconds;
        assert!(seen.insert(at), "second {at} came twice: {runs:#?}");
    }
    let covers = |run: &Run| {
        let from = run.fire_time.as_ref().expect("a fire time").seconds;
        let until = run.missed_until_time.as_ref().map_or(from, |until| until.seconds);
        from..=until
    };
    let first = runs.iter().map(|run| *covers(run).start()).min().expect("runs");
    let last = runs.iter().map(|run| *covers(run).end()).max().expect("runs");
    assert!(last - first > 10, "the outage lies between");
    for second in first..=last {
        assert!(runs.iter().any(|run| covers(run).contains(&second)), "second {second} is lost");
    }
}

/// Asks on connections of every pool at the same time, on several of each, in a statement and in a
/// transaction.
async fn ask_on_all(store: &PostgresStore) -> Vec<Stored<()>> {
    let now = DateTime::UNIX_EPOCH;
    let ask = |round: usize| async move {
        let name = format!("app-{round}-{}", uuid::Uuid::new_v4().simple());
        let asked = tokio::join!(
            async { store.database_time().await.map(drop) },
            async { store.ensure_app(&name[..20], now).await.map(drop) },
            async { store.list_nodes(now).await.map(drop) },
            async { store.end_events(1, &[]).await.map(drop) },
            async { store.take_handed("n").await.map(drop) },
        );
        [asked.0, asked.1, asked.2, asked.3, asked.4]
    };
    join_all((0..3).map(ask)).await.concat()
}

/// Waits until the store hears what another tells, again and again: it may not listen yet.
async fn until_heard(store: &PostgresStore, other: &PostgresStore) {
    let mut hints = store.hints();
    let run = RunId::by_hand(DateTime::UNIX_EPOCH, 1);
    let heard = async {
        loop {
            other.tell_owners(&[(run, Some(PartitionId(1)))]).await.expect("told");
            let hint = tokio::time::timeout(Duration::from_millis(200), hints.recv()).await;
            if let Ok(Ok(Topic::Inbox(PartitionId(1)))) = hint {
                return;
            }
        }
    };
    tokio::time::timeout(STEP, heard).await.expect("it hears again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_database_that_fell_silent_ends_and_its_connections_are_not_used_again() {
    let database = server::Server::start(false);
    let relay = Relay::to_host(&format!("127.0.0.1:{}", database.port.expect("its own"))).await;
    let url = database.tcp_url(relay.port());
    let store = PostgresStore::connect(PostgresConfig::new(url)).await.expect("connects");
    let direct = PostgresConfig::new(&database.url);
    let other = PostgresStore::connect(direct).await.expect("connects");
    until_heard(&store, &other).await;
    let ask = async || {
        let asked = tokio::time::timeout(STEP, ask_on_all(&store)).await;
        asked.expect("nothing waits for ever")
    };
    assert!(ask().await.iter().all(Result::is_ok), "connections of all pools are open");
    relay.cut();
    for answer in ask().await {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    relay.heal();
    // Those that nobody asked on while the way was cut are found out before they are used.
    let answers = ask().await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    until_heard(&store, &other).await;
}
