//! `clawjob-bench`: one command per row of the table of bars.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use clawjob_bench::{
    host, hot, instructions, node, plot,
    row::{self, Row},
    rows::{Which, stage::Settings},
    swarm,
    torture::executor,
};

/// Measures a scheduler: starts a private Postgres, the scheduler's release binary and executors in
/// another process, prints figures, writes them as JSON.
#[derive(Parser)]
#[command(name = "clawjob-bench", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// The scheduler's program; the one beside this program when absent.
    #[arg(long, global = true)]
    scheduler: Option<PathBuf>,
    /// A short look for continuous integration: says only whether something was lost or doubled.
    #[arg(long, global = true)]
    quick: bool,
    /// How often to measure; the row in the middle is said at the end.
    #[arg(long, global = true, default_value_t = 1)]
    times: u32,
    /// Where to write JSON.
    #[arg(long, global = true, default_value = "target/clawjob-bench")]
    json: PathBuf,
    /// Say also what each statement cost Postgres, by pg_stat_statements.
    #[arg(long, global = true)]
    statements: bool,
    /// A setting of the scheduler, KEY=VALUE; may be repeated.
    #[arg(long, global = true)]
    set: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Row(Which),
    /// Instructions of the parts that each fire goes through, against a baseline.
    B10(instructions::Args),
    /// Draws the JSON of b6 or of a long run.
    Plot(plot::Args),
    /// The parts of b10, for callgrind.
    #[command(hide = true)]
    Hot,
    /// The executors of a measurement; reads its plan and orders from standard input.
    #[command(hide = true)]
    Swarm,
    /// An executor with a ledger, for b5.
    #[command(hide = true)]
    Executor(executor::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.command {
        Command::Swarm => swarm::run().map(|()| true),
        Command::Executor(executor) => keep_executing(executor.clone()),
        Command::B10(b10) => instructions::run(b10),
        Command::Plot(plot) => plot::run(plot).map(|()| true),
        Command::Hot => {
            hot::run_all();
            Ok(true)
        }
        Command::Row(which) => measure(&args, which),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("clawjob-bench: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

fn keep_executing(args: executor::Args) -> Result<bool> {
    tokio::runtime::Runtime::new()?.block_on(executor::run(args))?;
    Ok(true)
}

/// Returns whether nothing was lost or doubled.
fn measure(args: &Args, which: &Which) -> Result<bool> {
    let settings = Settings {
        binary: node::binary(args.scheduler.as_deref())?,
        quick: args.quick,
        set: args.set.clone(),
        statements: args.statements,
    };
    println!("{}", host::describe());
    let runtime = tokio::runtime::Runtime::new()?;
    let mut all: Vec<Vec<Row>> = Vec::new();
    for _ in 0..args.times {
        let rows = runtime.block_on(which.measure(&settings))?;
        rows.iter().for_each(Row::print);
        all.push(rows);
    }
    if args.times > 1 {
        println!("in the middle of {}:", args.times);
        for part in 0..all.first().map_or(0, Vec::len) {
            let same: Vec<Row> = all.iter().filter_map(|rows| rows.get(part)).cloned().collect();
            row::median(&same).iter().for_each(|row| row.print());
        }
    }
    let rows = all.concat();
    row::write(&args.json.join(format!("{}.json", which.name())), &rows)?;
    Ok(rows.iter().all(|row| row.lost == 0 && row.doubled == 0))
}
