//! B5b: all executors are connected to one of two schedulers that share the jobs, so that half of the
//! runs come from the other one.

use anyhow::Result;

use super::stage::{Database, Settings, Stage};
use crate::{load::Load, row::Row};

pub(super) async fn measure(settings: &Settings) -> Result<Vec<Row>> {
    let stage = Stage::start(settings, Database::Postgres, 2).await?;
    let load = if settings.quick { Load::paced(100, 3) } else { Load::paced(1_000, 30) };
    let mut row = stage.run_at(&stage.nodes[1..], "b5b", "remote", load).await?;
    row.what += "; executors at one of two schedulers";
    Ok(vec![row])
}
