//! `clawjob-torture`: several schedulers on one Postgres under faults, and a verdict.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand, ValueEnum as _};
use clawjob_bench::{
    host, node,
    torture::{self, Settings, executor, faults::Fault},
};
use tokio::signal::unix::{SignalKind, signal};

/// Starts schedulers, executors and Postgres, breaks them in a seeded order, and checks that no fire
/// time was lost or doubled. Ends with 1 when something was.
#[derive(Parser)]
#[command(name = "clawjob-torture", version)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// How long faults come, in minutes; parts of one are allowed.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// What decides which faults come when; drawn and printed when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Schedulers.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Executor processes.
    #[arg(long, default_value_t = 4)]
    executors: usize,
    /// Sessions of each executor process. One dials all schedulers; of several, each dials one only, as
    /// schedulers need that do not share executors.
    #[arg(long, default_value_t = 1)]
    sessions: u32,
    /// Jobs that fire each second and do nothing, beside the mixed ones.
    #[arg(long, default_value_t = 10)]
    pulses: u32,
    /// The faults to choose from; all when absent.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// The scheduler's program; the one beside this program when absent.
    #[arg(long)]
    scheduler: Option<PathBuf>,
    /// A setting of the schedulers, KEY=VALUE; may be repeated.
    #[arg(long)]
    set: Vec<String>,
    /// Keep logs and ledgers even when all is well.
    #[arg(long)]
    keep: bool,
}

#[derive(Subcommand)]
enum Command {
    /// An executor of the harness.
    #[command(hide = true)]
    Executor(executor::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match start(args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("clawjob-torture: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

async fn start(args: Args) -> Result<bool> {
    if let Some(Command::Executor(args)) = args.command {
        return executor::run(args).await.map(|()| true);
    }
    let all = || Fault::value_variants().to_vec();
    let settings = Settings {
        binary: node::binary(args.scheduler.as_deref())?,
        length: Duration::from_secs_f64((args.minutes * 60.0).clamp(1.0, 86_400.0)),
        seed: args.seed.unwrap_or_else(rand::random),
        nodes: args.nodes.max(1),
        executors: args.executors.max(1),
        sessions: args.sessions.max(1),
        pulses: args.pulses.max(1),
        faults: if args.faults.is_empty() { all() } else { args.faults },
        pause_ms: torture::PAUSE_MS,
        set: args.set,
        keep: args.keep,
    };
    println!("{}", host::describe());
    println!(
        "seed {}, {} schedulers, {} executors",
        settings.seed, settings.nodes, settings.executors
    );
    tokio::select! {
        verdict = torture::run(&settings) => Ok(verdict?.well),
        // What was started goes with the future.
        told = told_to_end() => {
            told?;
            bail!("told to end before its time; nothing was checked")
        }
    }
}

/// Returns at the first SIGINT or SIGTERM.
async fn told_to_end() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
