//! The long run: whether memory, tables, dead rows and lateness stay where they are after a while.

use std::time::Duration;

use anyhow::Result;

use super::stage::{Database, Settings, Stage};
use crate::{load::Load, row::Row};

/// From one sample to the next.
const EVERY: Duration = Duration::from_secs(10);

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Fires per second.
    #[arg(long, default_value_t = 3_000)]
    pub rate: u32,
    /// Its length.
    #[arg(long, default_value_t = 30)]
    pub minutes: u32,
}

pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let mut stage = Stage::start(settings, Database::Postgres, 1).await?;
    let (load, every) = if settings.quick {
        (Load::paced(100, 6), Duration::from_secs(2))
    } else {
        (Load::paced(args.rate, args.minutes * 60), EVERY)
    };
    stage.sample_every = Some(every);
    Ok(vec![stage.run("long", "long", load).await?])
}
