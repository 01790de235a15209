//! A row of figures: what a measurement says, for people and as JSON.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Others may use this many cores before a row says that it is void.
const FOREIGN_CORES_MAX: f64 = 0.15;

/// CPU of one run, microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Of all schedulers.
    pub scheduler_us: f64,
    /// Of Postgres.
    pub postgres_us: f64,
    /// Of the executors.
    pub swarm_us: f64,
}

/// From the fire time to when the executor has read the command, milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Late {
    /// Half of the runs were no later.
    pub p50_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// 999 of 1,000.
    pub p999_ms: f64,
    /// The latest.
    pub max_ms: f64,
    /// How much before its time the earliest came: clocks that are not in step.
    pub early_ms: f64,
}

/// What the rest of the machine did meanwhile.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Machine {
    /// Share of the time in which some task waited for a CPU, 0..1.
    pub pressure: f64,
    /// Cores that processes used which were not of the measurement.
    pub foreign_cores: f64,
    /// Load average at the end.
    pub load: f64,
}

/// One measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Of the table of bars, such as `b1`.
    pub id: &'static str,
    /// What was done.
    pub what: String,
    /// Fire times in all.
    pub runs: u64,
    /// From the first fire time until the last result was on disk, seconds.
    pub took_s: f64,
    /// Runs per second over that time.
    pub rate: f64,
    /// How late runs came.
    pub late: Late,
    /// What a run cost.
    pub cpu: Cpu,
    /// Write-ahead log of a run, bytes; 0 on SQLite.
    pub wal_bytes: f64,
    /// Resident memory of the first scheduler at the end, MiB, and the most it had.
    pub resident_mib: f64,
    /// See `resident_mib`.
    pub resident_most_mib: f64,
    /// Fire times that never came.
    pub lost: u64,
    /// Executions beyond the first of a fire time.
    pub doubled: u64,
    /// The machine meanwhile.
    pub machine: Machine,
    /// What else this measurement is about, with its unit in the name.
    pub more: BTreeMap<String, f64>,
    /// What went on meanwhile: by name with its unit, points of (seconds since the begin, value).
    pub series: Series,
}

/// Figures over time.
pub type Series = BTreeMap<String, Vec<(f64, f64)>>;

impl Row {
    /// Whether others used so much of the machine that the figures of time mean little.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.machine.foreign_cores > FOREIGN_CORES_MAX
    }

    /// The row for people.
    pub fn print(&self) {
        let machine = &self.machine;
        println!("{}: {}", self.id, self.what);
        if self.runs > 0 {
            self.print_runs();
        }
        if self.resident_mib > 0.0 {
            println!(
                "  resident {:.0} MiB (most {:.0})",
                self.resident_mib, self.resident_most_mib
            );
        }
        for (name, value) in &self.more {
            println!("  {name} {value:.3}");
        }
        println!(
            "  pressure {:.0} %  foreign {:.2} cores  load {:.1}{}",
            machine.pressure * 100.0,
            machine.foreign_cores,
            machine.load,
            if self.is_void() { "  VOID: others used the machine" } else { "" }
        );
    }

    fn print_runs(&self) {
        let Self { late, cpu, .. } = self;
        println!("  runs {} in {:.1} s: {:.0}/s", self.runs, self.took_s, self.rate);
        println!(
            "  late ms: p50 {:.1}  p99 {:.1}  p999 {:.1}  max {:.1}  early {:.1}",
            late.p50_ms, late.p99_ms, late.p999_ms, late.max_ms, late.early_ms
        );
        println!(
            "  CPU us/run: scheduler {:.1}  Postgres {:.1}  swarm {:.1};  WAL {:.0} B/run",
            cpu.scheduler_us, cpu.postgres_us, cpu.swarm_us, self.wal_bytes
        );
        println!("  lost {}  doubled {}", self.lost, self.doubled);
    }
}

/// Writes the rows of one command as JSON, with the machine they were seen on.
///
/// # Errors
/// The file can't be written.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let document = serde_json::json!({ "machine": crate::host::describe(), "rows": rows });
    std::fs::write(path, serde_json::to_string_pretty(&document)?)?;
    Ok(())
}

/// The row in the middle by rate of those that are not void, or of all when all are.
#[must_use]
pub fn median(rows: &[Row]) -> Option<&Row> {
    let clean: Vec<&Row> = rows.iter().filter(|row| !row.is_void()).collect();
    let mut sorted = if clean.is_empty() { rows.iter().collect() } else { clean };
    sorted.sort_by(|a, b| a.late.p99_ms.total_cmp(&b.late.p99_ms));
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}
