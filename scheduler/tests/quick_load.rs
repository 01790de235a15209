//! A quick load: a thousand jobs that fire each second, on Postgres. Prints figures and asserts only
//! that nothing was lost or doubled. Run with a release binary:
//! `CLAWJOB_LOAD_BINARY=target/release/clawjob cargo test --test quick_load -- --ignored --nocapture`

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

#[path = "support/node.rs"]
mod node;
#[path = "support/postgres.rs"]
mod postgres;

use std::{
    collections::HashMap,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::{
    CreateJobRequest, Job, OverlapPolicy, Schedule, job_service_client::JobServiceClient,
    schedule::Trigger,
};
use hdrhistogram::Histogram;
use node::Node;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

const JOBS: usize = 1_000;
const SECONDS: u64 = 60;
const APP: &str = "load";

#[derive(Default)]
struct Seen {
    runs: HashMap<(String, i64), u32>,
    lateness_us: Vec<u64>,
    counting: bool,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of a minute; see the head of this file"]
async fn a_thousand_jobs_each_second_on_postgres() {
    let server = postgres::Server::start(true);
    let schema = postgres::Schema::create_on(&server).await;
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(dir.path(), &["--database", &schema.url, "--set", "log.level=warn"]);
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let stop = CancellationToken::new();
    let token = node.executor_token(APP).await;
    let executor = Executor::builder()
        .endpoints([node.url()])
        .token(token)
        .app(APP)
        .executor_id("e1")
        .slots(2_000)
        .handler("note", {
            let seen = seen.clone();
            move |_: serde_json::Value, ctx: Ctx| {
                note(&seen, &ctx);
                async { Ok::<_, Failure>(()) }
            }
        });
    let executor = tokio::spawn(executor.run_until(stop.clone().cancelled_owned()));
    create_jobs(&node).await;
    tokio::time::sleep(Duration::from_secs(5)).await;

    seen.lock().counting = true;
    let (began, node_cpu, database_cpu) = (Instant::now(), cpu_of(node.pid()), postgres_cpu());
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let took = began.elapsed().as_secs_f64();
    let (node_cpu, database_cpu) = (cpu_of(node.pid()) - node_cpu, postgres_cpu() - database_cpu);
    seen.lock().counting = false;
    report(&seen.lock(), took, node_cpu, database_cpu);
    stop.cancel();
    executor.await.expect("no panic").expect("it ends well");
}

fn note(seen: &Mutex<Seen>, ctx: &Ctx) {
    let late = chrono::Utc::now() - ctx.fire_time();
    let mut seen = seen.lock();
    if seen.counting {
        seen.lateness_us.push(u64::try_from(late.num_microseconds().unwrap_or(0)).unwrap_or(0));
        *seen.runs.entry((ctx.job().to_owned(), ctx.fire_time().timestamp())).or_default() += 1;
    }
}

async fn create_jobs(node: &Node) {
    let (channel, bearer) = node.admin().await;
    let mut client = JobServiceClient::with_interceptor(channel, bearer);
    for index in 0..JOBS {
        let trigger = Some(Trigger::Cron("* * * * * *".to_owned()));
        let job = Job {
            handler: "note".to_owned(),
            schedules: vec![Schedule { trigger, ..Schedule::default() }],
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

fn report(seen: &Seen, took: f64, node_cpu: f64, database_cpu: f64) {
    let mut late = Histogram::<u64>::new(3).expect("three digits");
    for us in &seen.lateness_us {
        late.record(*us).expect("it fits");
    }
    let runs = seen.lateness_us.len() as f64;
    let ms = |quantile| late.value_at_quantile(quantile) as f64 / 1_000.0;
    let pressure = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    println!("fires/s {:.0}", runs / took);
    println!("lateness ms p50 {:.1} p99 {:.1} max {:.1}", ms(0.5), ms(0.99), ms(1.0));
    println!("scheduler CPU us/run {:.0}", node_cpu * 1e6 / runs);
    println!("postgres CPU us/run {:.0}", database_cpu * 1e6 / runs);
    println!("pressure {}", pressure.lines().next().unwrap_or_default());
    // The first and the last second are cut by the counting itself.
    let seconds: Vec<i64> = seen.runs.keys().map(|(_, second)| *second).collect();
    let (first, last) = (seconds.iter().min(), seconds.iter().max());
    let (first, last) = (*first.expect("runs") + 1, *last.expect("runs") - 1);
    let whole = seen.runs.iter().filter(|((_, second), _)| (first..=last).contains(second));
    let (count, doubled) = whole.fold((0, 0), |(n, d), (_, times)| (n + 1, d + (times - 1)));
    let expected = JOBS as i64 * (last - first + 1);
    println!("lost {} doubled {doubled}", expected - count);
    assert_eq!((expected - count, doubled), (0, 0));
}

/// Seconds of CPU of a process.
fn cpu_of(pid: u32) -> f64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|t| t.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0
}

/// Seconds of CPU of all Postgres processes of this machine.
fn postgres_cpu() -> f64 {
    let mut sum = 0.0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(pid) = name.parse::<u32>() else { continue };
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim() == "postgres" {
            sum += cpu_of(pid);
        }
    }
    sum
}
