//! B6: the same number of fires a second from ever more schedules.

use anyhow::{Context as _, Result, bail};

use super::{
    fill::{self, Schedules},
    stage::{Database, EXECUTORS, Settings, Stage},
    tables,
};
use crate::{load::Load, now_us, row::Row};

const APP: &str = "growing";
/// Fires per second at every size.
const RATE: i64 = 1_000;
/// Seconds measured.
const SECONDS: u32 = 30;
/// From the begin of a copy to the first fire time, microseconds: some for the copying of each
/// thousand, and some for the start.
const LEAD_US: i64 = 25_000_000;
const LEAD_PER_THOUSAND_US: i64 = 200_000;

/// Schedules of a row each.
const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Leave out sizes above this.
    #[arg(long, default_value_t = 1_000_000)]
    pub most: u32,
}

pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let most = if settings.quick { SIZES[0] } else { args.most };
    let mut rows = Vec::new();
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        rows.push(of_size(settings, size).await?);
    }
    Ok(rows)
}

async fn of_size(settings: &Settings, size: u32) -> Result<Row> {
    let mut stage = Stage::start(settings, Database::Postgres, 1).await?;
    let seconds = if settings.quick { 3 } else { SECONDS };
    // Each fires once in so many milliseconds as there are of them: a thousand a second in all.
    let load = Load { period_ms: i64::from(size) * 1_000 / RATE, ..Load::paced(size, 1_000_000) };
    let lead_us = LEAD_US + i64::from(size) / 1_000 * LEAD_PER_THOUSAND_US;
    // A whole second: its fires are counted by seconds.
    let start_us = (now_us() + lead_us) / 1_000_000 * 1_000_000;
    let original = load.jobs(start_us).take(1);
    stage.admin.create_jobs(APP, original).await?;
    stage.nodes[0].kill9()?;
    let client = stage.client.as_ref().context("it runs on Postgres")?;
    fill::copies(client, APP, i64::from(size) - 1, Schedules::Shifted { start_us }).await?;
    stage.nodes[0].restart()?;
    let swarm = stage.swarm(APP, EXECUTORS).await?;
    if now_us() > start_us {
        bail!(
            "{size} schedules were not there after {} s; is the machine busy?",
            lead_us / 1_000_000
        );
    }
    let mut row = stage.window("b6", swarm, load.rate(), seconds, start_us).await?;
    row.what = format!("{size} schedules, {RATE} fires a second for {seconds} s");
    let client = stage.client.as_ref().context("it runs on Postgres")?;
    let more = [("schedules", f64::from(size))].into_iter().chain(tables::sizes(client).await?);
    row.more = more.map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(row)
}
