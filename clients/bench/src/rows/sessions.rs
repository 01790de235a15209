//! B4: what very many executors weigh on a scheduler, and how soon all are back after its death.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::stage::{Database, Settings, Stage};
use crate::{host, meter::Meter, row::Row};

const APP: &str = "crowd";
/// All are connected within this time.
const LIMIT: Duration = Duration::from_secs(180);
/// Sessions do nothing but send their heartbeats for so long.
const IDLE: Duration = Duration::from_secs(10);

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Executors.
    #[arg(long, default_value_t = 10_000)]
    pub executors: u32,
}

pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let executors = if settings.quick { 200 } else { args.executors };
    check_open_files(executors)?;
    let mut stage = Stage::start(settings, Database::Postgres, 1).await?;
    let (before, _) = host::resident_bytes(stage.nodes[0].pid());
    let begun = Instant::now();
    let mut swarm = stage.swarm(APP, executors).await?;
    let connected = begun.elapsed();
    let meter = Meter::start(stage.watched(&swarm), stage.client.as_ref()).await?;
    tokio::time::sleep(IDLE).await;
    let cost = meter.stop(stage.client.as_ref()).await?;
    // Of a session for a second, as if that were a run.
    let idle = cost.per_run(u64::from(executors) * IDLE.as_secs());
    let (resident, most) = host::resident_bytes(stage.nodes[0].pid());
    stage.nodes[0].kill9()?;
    swarm.wait("all cut off", LIMIT, |report| report.connected == 0).await?;
    stage.nodes[0].restart()?;
    let begun = Instant::now();
    swarm.connected(LIMIT).await?;
    let back = begun.elapsed();
    let each = resident.saturating_sub(before) as f64 / 1024.0 / f64::from(executors);
    let more = [
        ("kib_per_session", each),
        ("scheduler_us_per_session_and_s", idle.scheduler_us),
        ("postgres_us_per_session_and_s", idle.postgres_us),
        ("connected_s", connected.as_secs_f64()),
        ("back_after_restart_s", back.as_secs_f64()),
    ];
    Ok(vec![Row {
        id: "b4",
        what: format!("{executors} executors, idle; kill -9 and a start"),
        resident_mib: resident as f64 / 1_048_576.0,
        resident_most_mib: most as f64 / 1_048_576.0,
        machine: cost.machine,
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Row::default()
    }])
}

/// Each executor is a connection, here and in the scheduler, which inherits the bound.
fn check_open_files(executors: u32) -> Result<()> {
    const OTHERS: u64 = 500;
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let wanted = u64::from(executors) + OTHERS;
    if soft.is_some_and(|soft| soft < wanted) {
        bail!("too few files may be open here: run `ulimit -n {wanted}` first");
    }
    Ok(())
}
