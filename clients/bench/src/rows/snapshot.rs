//! B7: somebody holds a snapshot open, a backup or a forgotten session, and dead rows can't go.

use anyhow::{Context as _, Result};

use super::stage::{Database, Settings, Stage};
use crate::{load::Load, row::Row};

/// Fires per second.
const RATE: u32 = 2_000;
/// Seconds of one row.
const SECONDS: u32 = 60;

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How long the snapshot is held.
    #[arg(long, default_value_t = 10)]
    pub minutes: u32,
}

pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let stage = Stage::start(settings, Database::Postgres, 1).await?;
    let load = if settings.quick { Load::paced(100, 3) } else { Load::paced(RATE, SECONDS) };
    let minutes = if settings.quick { 1 } else { args.minutes };
    let mut rows = vec![stage.run("b7", "before", load).await?];
    let server = stage.postgres.as_ref().context("it runs on Postgres")?;
    let holder = server.connect().await?;
    holder
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM open_run")
        .await?;
    for minute in 1..=minutes {
        let mut row = stage.run("b7", &format!("minute-{minute}"), load).await?;
        row.what += &format!("; minute {minute} of a snapshot held open");
        rows.push(row);
    }
    holder.batch_execute("COMMIT").await?;
    Ok(rows)
}
