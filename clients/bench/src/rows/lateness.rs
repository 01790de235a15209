//! B2: how late runs come to the executor, measured from their fire time on one clock.

use anyhow::Result;

use super::stage::{Database, Settings, Stage};
use crate::{
    load::{Load, Shape},
    row::Row,
};

/// Seconds of each paced part.
const SECONDS: u32 = 30;

pub(super) async fn measure(
    id: &'static str,
    settings: &Settings,
    database: Database,
) -> Result<Vec<Row>> {
    let herd = Load { shape: Shape::Herd, times: 3, period_ms: 5_000, ..Load::paced(10_000, 1) };
    let parts = if settings.quick {
        vec![("quick", Load::paced(100, 5))]
    } else {
        let paced = |rate| Load::paced(rate, SECONDS);
        vec![("slow", paced(1_000)), ("quick", paced(5_000)), ("herd", herd)]
    };
    let mut rows = Vec::new();
    for (app, load) in parts {
        let stage = Stage::start(settings, database, 1).await?;
        rows.push(stage.run(id, app, load).await?);
    }
    Ok(rows)
}
