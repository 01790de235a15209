//! Runs every scenario of the contract against the programs of SDKs and against the scheduler, and
//! prints a table of them.

#![allow(clippy::unwrap_used, reason = "a scenario ends at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "a black box is judged in real time")]

mod judge;
mod program;
mod scenarios;
mod server;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::judge::Judge;
use crate::program::Sdk;
use crate::server::Binary;
use crate::server::programs::{self, Ensemble, Pair};
use crate::table::Table;

/// What a one-file executor without an SDK must show.
const BASICS: [&str; 5] = ["C01", "C08", "C15", "C21", "C27"];

/// Longest that one scenario may take in all, the day of E03 not counted.
const SCENARIO_MAX: Duration = Duration::from_secs(240);

/// The scenarios of the contract, each as a black box.
#[derive(Parser)]
#[command(name = "clawjob-conformance", version)]
struct Args {
    /// A program of an SDK: NAME=COMMAND, words separated by spaces. All scenarios for executors.
    #[arg(long = "sdk", value_name = "NAME=COMMAND", value_parser = Sdk::parse)]
    sdks: Vec<Sdk>,
    /// A program without an SDK, as above: the basic scenarios only.
    #[arg(long = "example", value_name = "NAME=COMMAND", value_parser = Sdk::parse)]
    examples: Vec<Sdk>,
    /// The scheduler's binary: all scenarios for schedulers.
    #[arg(long, value_name = "PATH")]
    scheduler: Option<PathBuf>,
    /// The nightly report in one language: NAME=COMMAND. All of them serve one app.
    #[arg(long = "app", value_name = "NAME=COMMAND", value_parser = Sdk::parse)]
    apps: Vec<Sdk>,
    /// How many seconds the day of 50 jobs takes; all of it takes 1440.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    day: u64,
    /// Only these scenarios, by id: C01,S03.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    only: Vec<String>,
    /// How many scenarios run at once; each has processes and ports of its own.
    #[arg(long, value_name = "N", default_value_t = 8)]
    parallel: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let asked = |id: &str| args.only.is_empty() || args.only.iter().any(|only| only == id);
    let basic = |id: &str| asked(id) && BASICS.contains(&id);
    let mut judge = Judge::new(args.parallel, SCENARIO_MAX + Duration::from_secs(args.day));
    let mut table = Table::default();
    for sdk in &args.sdks {
        judge.add_all((&mut table, &sdk.name), scenarios::all(), asked, || sdk.subject());
    }
    for example in &args.examples {
        judge.add_all((&mut table, &example.name), scenarios::all(), basic, || example.subject());
    }
    if let Some(path) = &args.scheduler {
        let binary = || Binary::new(path);
        judge.add_all((&mut table, "scheduler"), server::all(), asked, binary);
        for sdk in &args.sdks {
            let pair = || Pair { binary: binary(), sdk: sdk.clone() };
            judge.add_all((&mut table, &sdk.name), programs::FOR_EACH, asked, pair);
        }
        if !args.apps.is_empty() {
            let (apps, day) = (&args.apps, Duration::from_secs(args.day));
            let ensemble = || Ensemble { binary: binary(), apps: apps.clone(), day };
            judge.add_all((&mut table, "scheduler"), programs::FOR_ALL, asked, ensemble);
        }
    }
    for (cell, verdict) in judge.verdicts().await {
        table.set(cell, verdict);
    }
    print!("{table}");
    if table.failed() == 0 && table.passed() > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
