//! B1: how many fires a second, from due over a durable row and the stream to a durable result.
//! First at the rate of the bar, paced; then at twice that, where a scheduler that falls behind is
//! timed until it has caught up.

use std::path::PathBuf;

use anyhow::Result;
use clawjob_proto::v1::RouteStrategy;

use super::stage::{Database, Settings, Stage};
use crate::{load::Load, row::Row};

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Fires per second of the paced part.
    #[arg(long, default_value_t = 20_000)]
    pub rate: u32,
    /// Its length.
    #[arg(long, default_value_t = 60)]
    pub seconds: u32,
    /// A route that needs no memory of earlier runs, instead of the default.
    #[arg(long)]
    pub random_route: bool,
    /// Leave out the part at twice the rate.
    #[arg(long)]
    pub paced_only: bool,
    /// Draw a flame graph of the scheduler here, while the paced part runs, which then is the only
    /// one. Its figures are those of a watched scheduler.
    #[arg(long, value_name = "SVG")]
    pub profile: Option<PathBuf>,
}

pub(super) async fn measure(
    id: &'static str,
    settings: &Settings,
    database: Database,
    args: &Args,
) -> Result<Vec<Row>> {
    let route = if args.random_route { RouteStrategy::Random } else { RouteStrategy::Unspecified };
    let paced = |rate, seconds| Load { route, ..Load::paced(rate, seconds) };
    let parts = match (settings.quick, args.paced_only || args.profile.is_some()) {
        (true, _) => vec![("quick", paced(200, 8))],
        (false, true) => vec![("paced", paced(args.rate, args.seconds))],
        (false, false) => vec![
            ("paced", paced(args.rate, args.seconds)),
            ("ceiling", paced(args.rate * 2, args.seconds / 3)),
        ],
    };
    let mut rows = Vec::new();
    for (app, load) in parts {
        // Fresh: what is left of an earlier load must not weigh on this one.
        let mut stage = Stage::start(settings, database, 1).await?;
        stage.profile.clone_from(&args.profile);
        rows.push(stage.run(id, app, load).await?);
    }
    Ok(rows)
}
