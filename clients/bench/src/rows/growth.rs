//! B6: the same number of fires a second from ever more schedules.

use anyhow::{Context as _, Result};

use super::{
    fill::{self, Schedules},
    stage::{Database, EXECUTORS, Settings, Stage},
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
const LEAD_PER_THOUSAND_US: i64 = 120_000;

pub(super) async fn measure(settings: &Settings) -> Result<Vec<Row>> {
    let sizes: &[u32] =
        if settings.quick { &[1_000] } else { &[1_000, 10_000, 100_000, 1_000_000] };
    let mut rows = Vec::new();
    for size in sizes {
        rows.push(of_size(settings, *size).await?);
    }
    Ok(rows)
}

async fn of_size(settings: &Settings, size: u32) -> Result<Row> {
    let mut stage = Stage::start(settings, Database::Postgres, 1).await?;
    let seconds = if settings.quick { 3 } else { SECONDS };
    // Each fires once in so many milliseconds as there are of them: a thousand a second in all.
    let load = Load { period_ms: i64::from(size) * 1_000 / RATE, ..Load::paced(size, 1_000_000) };
    let start_us = now_us() + LEAD_US + i64::from(size) / 1_000 * LEAD_PER_THOUSAND_US;
    let original = load.jobs(start_us).take(1);
    stage.admin.create_jobs(APP, original).await?;
    stage.nodes[0].kill9()?;
    let client = stage.client.as_ref().context("it runs on Postgres")?;
    fill::copies(client, APP, i64::from(size) - 1, Schedules::Shifted { start_us }).await?;
    stage.nodes[0].restart()?;
    let swarm = stage.swarm(APP, EXECUTORS).await?;
    let mut row = stage.window("b6", swarm, load.rate(), seconds, start_us).await?;
    row.what = format!("{size} schedules, {RATE} fires a second for {seconds} s");
    Ok(row)
}
