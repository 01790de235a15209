//! What a swarm has seen: each (job, fire time), and how late.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Lateness is told up to an hour, microseconds.
const LATE_MAX_US: u64 = 3_600_000_000;

/// Counts of a swarm.
pub(super) struct Tally {
    /// By number of the job, then by fire time in milliseconds: how often it came. A table for each
    /// job, since one of millions would stop the swarm for as long as it takes to grow.
    seen: HashMap<u32, HashMap<i64, u32>>,
    fires: u64,
    doubled: u64,
    lateness_us: Histogram<u64>,
    /// The same since the last lap.
    lap_us: Histogram<u64>,
    earliest_us: i64,
    per_second: BTreeMap<i64, u32>,
    per_fire_second: BTreeMap<i64, u32>,
    acked: u64,
    first_us: i64,
    last_us: i64,
    last_ack_us: i64,
}

/// What a swarm says it has seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Executors with a session.
    pub connected: u32,
    /// Fire times that came at least once.
    pub fires: u64,
    /// Executions beyond the first of a fire time.
    pub doubled: u64,
    /// Results that the scheduler has on disk.
    pub acked: u64,
    /// From the fire time to when the command was read, microseconds: p50, p99, p999, the most.
    pub late_us: [u64; 4],
    /// How much before its fire time the earliest command came, microseconds.
    pub early_us: i64,
    /// When the first and the last command came, microseconds since 1970.
    pub first_us: i64,
    /// See `first_us`.
    pub last_us: i64,
    /// When the last result was acknowledged.
    pub last_ack_us: i64,
    /// Commands in each second since 1970.
    pub per_second: BTreeMap<i64, u32>,
    /// Fire times in each second since 1970 that came.
    pub per_fire_second: BTreeMap<i64, u32>,
}

/// What came between two laps.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Lap {
    /// Commands that came.
    pub runs: u64,
    /// As in [`Report`].
    pub late_us: [u64; 4],
}

/// p50, p99, p999 and the most.
fn quantiles(late_us: &Histogram<u64>) -> [u64; 4] {
    let at = |quantile| late_us.value_at_quantile(quantile);
    [at(0.5), at(0.99), at(0.999), late_us.max()]
}

impl Tally {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            seen: HashMap::new(),
            fires: 0,
            doubled: 0,
            lateness_us: Histogram::new_with_max(LATE_MAX_US, 3)?,
            lap_us: Histogram::new_with_max(LATE_MAX_US, 3)?,
            earliest_us: 0,
            per_second: BTreeMap::new(),
            per_fire_second: BTreeMap::new(),
            acked: 0,
            first_us: 0,
            last_us: 0,
            last_ack_us: 0,
        })
    }

    /// A command came: `job` is its resource name, which ends in the job's number.
    pub(super) fn came(&mut self, job: &str, fire_us: i64, now_us: i64) {
        let number = job.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let times = self.seen.entry(number).or_default().entry(fire_us / 1_000).or_default();
        *times += 1;
        if *times == 1 {
            self.fires += 1;
            *self.per_fire_second.entry(fire_us / 1_000_000).or_default() += 1;
        } else {
            self.doubled += 1;
        }
        self.earliest_us = self.earliest_us.max(fire_us - now_us);
        let late_us = u64::try_from(now_us - fire_us).unwrap_or(0);
        self.lateness_us.saturating_record(late_us);
        self.lap_us.saturating_record(late_us);
        *self.per_second.entry(now_us / 1_000_000).or_default() += 1;
        if self.first_us == 0 {
            self.first_us = now_us;
        }
        self.last_us = now_us;
    }

    /// A result is on disk.
    pub(super) fn acked(&mut self, now_us: i64) {
        self.acked += 1;
        self.last_ack_us = now_us;
    }

    /// What came since the last lap; the next one begins.
    pub(super) fn lap(&mut self) -> Lap {
        let lap = Lap { runs: self.lap_us.len(), late_us: quantiles(&self.lap_us) };
        self.lap_us.reset();
        lap
    }

    pub(super) fn report(&self, connected: u32) -> Report {
        Report {
            connected,
            fires: self.fires,
            doubled: self.doubled,
            acked: self.acked,
            late_us: quantiles(&self.lateness_us),
            early_us: self.earliest_us,
            first_us: self.first_us,
            last_us: self.last_us,
            last_ack_us: self.last_ack_us,
            per_second: self.per_second.clone(),
            per_fire_second: self.per_fire_second.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fire_time_that_came_twice_is_counted_once_and_as_doubled() {
        let mut tally = Tally::new().unwrap();
        tally.came("apps/a/jobs/j-1", 1_000_000, 1_002_000);
        tally.came("apps/a/jobs/j-2", 1_000_000, 1_003_000);
        tally.came("apps/a/jobs/j-1", 2_000_000, 2_001_000);
        tally.came("apps/a/jobs/j-1", 1_000_000, 2_900_000);
        let report = tally.report(3);
        assert_eq!((report.connected, report.fires, report.doubled), (3, 3, 1));
        assert_eq!((report.first_us, report.last_us), (1_002_000, 2_900_000));
        assert!(report.late_us[3] >= 1_899_000 && report.late_us[0] < 4_000);
        assert_eq!(report.per_second, [(1, 2), (2, 2)].into());
    }

    #[test]
    fn a_lap_tells_of_what_came_since_the_one_before() {
        let mut tally = Tally::new().unwrap();
        tally.came("apps/a/jobs/j-1", 1_000_000, 1_900_000);
        assert_eq!(tally.lap().runs, 1);
        tally.came("apps/a/jobs/j-1", 2_000_000, 2_001_000);
        let lap = tally.lap();
        assert!(lap.runs == 1 && lap.late_us[3] < 2_000, "{lap:?}");
        assert_eq!((tally.lap().runs, tally.report(1).fires), (0, 2));
    }
}
