//! One file per row of the table of bars.

mod ceiling;
mod edits;
mod failover;
mod fill;
mod growth;
mod lateness;
mod long;
mod memory;
mod remote;
mod samples;
mod sessions;
mod snapshot;
pub mod stage;
mod statements;
mod tables;

use anyhow::Result;
use clap::Subcommand;

use crate::row::Row;
use stage::{Database, Settings};

/// The rows.
#[derive(Clone, Debug, Subcommand)]
pub enum Which {
    /// Fires per second, from due to a durable result.
    B1(ceiling::Args),
    /// How late runs come, at 1,000 and 5,000 a second, and 10,000 at one moment.
    B2,
    /// Memory of a million schedules, and the first fire after a start.
    B3(memory::Args),
    /// Memory of ten thousand sessions, and how soon all are back after a restart.
    B4(sessions::Args),
    /// Gaps when one of three schedulers dies, stands still or is cut off.
    B5(failover::Args),
    /// Executors at another scheduler than the jobs' owner.
    B5b,
    /// The same fires a second from a thousand to a million schedules.
    B6(growth::Args),
    /// A snapshot that is held open.
    B7(snapshot::Args),
    /// Edits of jobs while others fire.
    B8,
    /// B1 and B2 on the embedded database.
    B9(ceiling::Args),
    /// A long time at one rate: memory, tables, dead rows, lateness over time.
    Long(long::Args),
}

impl Which {
    /// Its name in the table.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::B1(_) => "b1",
            Self::B2 => "b2",
            Self::B3(_) => "b3",
            Self::B4(_) => "b4",
            Self::B5(_) => "b5",
            Self::B5b => "b5b",
            Self::B6(_) => "b6",
            Self::B7(_) => "b7",
            Self::B8 => "b8",
            Self::B9(_) => "b9",
            Self::Long(_) => "long",
        }
    }

    /// Measures it.
    ///
    /// # Errors
    /// Something does not start, or was gone before the end.
    pub async fn measure(&self, settings: &Settings) -> Result<Vec<Row>> {
        match self {
            Self::B1(args) => ceiling::measure("b1", settings, Database::Postgres, args).await,
            Self::B2 => lateness::measure("b2", settings, Database::Postgres).await,
            Self::B3(args) => memory::measure(settings, args).await,
            Self::B4(args) => sessions::measure(settings, args).await,
            Self::B5(args) => failover::measure(settings, args).await,
            Self::B5b => remote::measure(settings).await,
            Self::B6(args) => growth::measure(settings, args).await,
            Self::B7(args) => snapshot::measure(settings, args).await,
            Self::B8 => edits::measure(settings).await,
            Self::Long(args) => long::measure(settings, args).await,
            Self::B9(args) => {
                let mut rows = ceiling::measure("b9", settings, Database::Sqlite, args).await?;
                rows.extend(lateness::measure("b9", settings, Database::Sqlite).await?);
                Ok(rows)
            }
        }
    }
}
