//! Readings before and after a stretch of work, and what they say of one run.

use std::time::Instant;

use anyhow::Result;
use tokio_postgres::Client;

use crate::{
    host,
    row::{Cpu, Machine},
};

/// Whose figures are read.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Schedulers.
    pub schedulers: Vec<u32>,
    /// The Postgres server.
    pub postgres: Option<u32>,
    /// The swarm.
    pub swarm: u32,
}

/// Readings at the begin.
pub struct Meter {
    watched: Watched,
    began: Instant,
    cpu: [f64; 3],
    own: f64,
    machine: f64,
    pressure_us: u64,
    wal: i64,
}

/// What a stretch of work cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Seconds of CPU: schedulers, Postgres, swarm.
    pub cpu: [f64; 3],
    /// Bytes of write-ahead log.
    pub wal: i64,
    /// The machine meanwhile.
    pub machine: Machine,
    /// How long it took, seconds.
    pub took_s: f64,
}

impl Meter {
    /// Begins. `database` tells of the write-ahead log, where there is one.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn start(watched: Watched, database: Option<&Client>) -> Result<Self> {
        let wal = wal(database).await?;
        Ok(Self {
            began: Instant::now(),
            cpu: cpu(&watched),
            own: own(),
            machine: host::machine_cpu_seconds(),
            pressure_us: host::cpu_pressure_us(),
            watched,
            wal,
        })
    }

    /// What was used since the begin.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn stop(&self, database: Option<&Client>) -> Result<Cost> {
        let took_s = self.began.elapsed().as_secs_f64();
        let now = cpu(&self.watched);
        let used: [f64; 3] = std::array::from_fn(|index| now[index] - self.cpu[index]);
        let all = host::machine_cpu_seconds() - self.machine;
        let foreign = all - used.iter().sum::<f64>() - (own() - self.own);
        let waited_us = host::cpu_pressure_us().saturating_sub(self.pressure_us);
        let machine = Machine {
            pressure: waited_us as f64 / 1e6 / took_s,
            foreign_cores: (foreign / took_s).max(0.0),
            load: host::load_average(),
        };
        Ok(Cost { cpu: used, wal: wal(database).await? - self.wal, machine, took_s })
    }
}

impl Cost {
    /// The CPU of each of so many runs.
    #[must_use]
    pub fn per_run(&self, runs: u64) -> Cpu {
        let [scheduler_us, postgres_us, swarm_us] =
            self.cpu.map(|seconds| seconds * 1e6 / runs.max(1) as f64);
        Cpu { scheduler_us, postgres_us, swarm_us }
    }
}

fn own() -> f64 {
    host::cpu_seconds(std::process::id(), false)
}

fn cpu(watched: &Watched) -> [f64; 3] {
    let schedulers = watched.schedulers.iter().map(|pid| host::cpu_seconds(*pid, false)).sum();
    let postgres = watched.postgres.map_or(0.0, host::family_cpu_seconds);
    [schedulers, postgres, host::cpu_seconds(watched.swarm, false)]
}

async fn wal(database: Option<&Client>) -> Result<i64> {
    let Some(client) = database else { return Ok(0) };
    let sql = "SELECT (pg_current_wal_lsn() - '0/0')::bigint";
    Ok(client.query_one(sql, &[]).await?.get(0))
}
