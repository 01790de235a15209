//! How long lists and the clean-up take with ten million runs.

use std::time::Instant;

use clawjob_scheduler::store::{
    Store as _,
    postgres::{PostgresConfig, PostgresStore},
};

use crate::{fill, keep, list, questions, server};

/// Statements that take longer are shown with their plan, milliseconds.
const SLOW_MS: u32 = 100;
/// Each question is asked so often; the median is shown, and the first time beside it.
const TRIES: usize = 5;

fn runs() -> i64 {
    std::env::var("CLAWJOB_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000_000)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of minutes and gigabytes"]
async fn ten_million_runs() {
    let server = server::Server::start(false);
    let schema = server::Schema::create_on(&server).await;
    let url = format!(
        "{}%20-csession_preload_libraries%3Dauto_explain%20-cauto_explain.log_min_duration%3D{SLOW_MS}\
         %20-cauto_explain.log_analyze%3Don%20-cauto_explain.log_buffers%3Don\
         %20-clog_min_messages%3Dlog",
        schema.url
    );
    let store = PostgresStore::connect(PostgresConfig::new(&url)).await.expect("connects");
    let began = Instant::now();
    let filled = fill::fill(&schema, &*store, runs()).await;
    println!("{} runs written in {:.0?}", runs(), began.elapsed());
    for (name, question) in questions(&filled) {
        let mut took = Vec::new();
        for _ in 0..TRIES {
            let began = Instant::now();
            store.list_runs(&question).await.expect("a page");
            took.push(began.elapsed());
        }
        let first = took[0];
        took.sort_unstable();
        println!("list {name:<40} first {first:>9.1?} median {:>9.1?}", took[TRIES / 2]);
    }
    let id = store.list_runs(&list(vec![])).await.expect("a page")[0].run.id;
    let began = Instant::now();
    store.get_run(id).await.expect("found");
    println!("detail {:.1?}", began.elapsed());

    filled.keep_runs(&schema, filled.big_job, 365).await;
    filled.keep_runs(&schema, filled.quiet_job, 1).await;
    prune(&store, "a tenth is kept for long, the rest for 20 days", 20).await;
    filled.keep_runs(&schema, filled.big_job, 1).await;
    prune(&store, "whole days, and a big job's row by row", 10).await;
    println!("plans of what took longer than {SLOW_MS} ms:");
    println!("{}", server.log());
}

/// Steps until there is nothing left to do, at most for the time that shows their kind.
async fn prune(store: &PostgresStore, what: &str, days: u64) {
    const STEPS_MAX: usize = 2_000;
    let mut took = Vec::new();
    let began = Instant::now();
    loop {
        let step = Instant::now();
        let more = store.prune(&keep(days), fill::base()).await.expect("a step");
        took.push(step.elapsed());
        if !more || took.len() >= STEPS_MAX {
            break;
        }
    }
    took.sort_unstable();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    println!(
        "prune ({what}): {} steps in {:.0?}, median {median:.1?}, longest {longest:.1?}",
        took.len(),
        began.elapsed()
    );
}
