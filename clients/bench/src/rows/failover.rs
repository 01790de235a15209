//! B5: three schedulers, 2,000 fires a second, one of them dies, stands still or is cut off, or
//! Postgres restarts. The torture harness with one fault of a kind after the other.

use std::{ops::Range, time::Duration};

use anyhow::{Result, bail};

use super::stage::Settings;
use crate::{
    host,
    row::{Machine, Row},
    torture::{self, Line, faults::Fault},
};

/// The faults of the bar.
const FAULTS: [Fault; 5] =
    [Fault::NodeKill9, Fault::NodeStop10, Fault::LockSession, Fault::PostgresCrash, Fault::NodeCut];
/// Time for all of them.
const LENGTH: Duration = Duration::from_secs(180);
/// Pause after each, milliseconds: until all nodes are there again with their shares and executors, so that
/// a gap is of one fault alone.
const PAUSE_MS: Range<u64> = 12_000..15_000;

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Jobs that fire each second.
    #[arg(long, default_value_t = 2_000)]
    pub pulses: u32,
    /// Sessions of each executor process.
    #[arg(long, default_value_t = 1)]
    pub sessions: u32,
}

/// A row for each kind of fault, beside the harness's own table.
pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let torture = torture::Settings {
        binary: settings.binary.clone(),
        length: if settings.quick { Duration::from_secs(20) } else { LENGTH },
        pause_ms: if settings.quick { torture::PAUSE_MS } else { PAUSE_MS },
        seed: rand::random(),
        nodes: 3,
        executors: 4,
        sessions: args.sessions,
        pulses: if settings.quick { 10 } else { args.pulses },
        faults: FAULTS.to_vec(),
        set: settings.set.clone(),
        keep: false,
    };
    let outcome = torture::run(&torture).await?;
    if !outcome.well {
        bail!("a promise was broken, see above");
    }
    Ok(outcome.lines.into_iter().map(row).collect())
}

fn row((fault, line): (Fault, Line)) -> Row {
    let more = [
        ("times", f64::from(line.count)),
        ("longest_gap_s", line.gap_s),
        ("later_than_1_s", line.late as f64),
    ];
    Row {
        id: "b5",
        what: format!("{fault:?}"),
        lost: line.lost as u64,
        doubled: line.doubled as u64,
        machine: Machine { load: host::load_average(), ..Machine::default() },
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Row::default()
    }
}
