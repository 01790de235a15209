//! This node: its row, its clock against the database's, the partitions it holds.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    board::{Adoption, Board},
    clock::Clock,
    model::{
        ids::{JobId, PARTITION_COUNT, PartitionId},
        job::Job,
        schedule::Trigger,
    },
    store::{
        Result, SharedStore,
        ops::{NodeRow, PartitionRow, RunScope},
    },
    telemetry::metrics,
};

/// Above this the clocks differ so much that an operator should look.
const OFFSET_WARN: TimeDelta = TimeDelta::seconds(2);
/// A measurement whose round trip took longer than this says too little about the offset.
const ROUND_TRIP_MAX: TimeDelta = TimeDelta::milliseconds(250);

/// Takes and holds partitions.
pub struct Ownership {
    store: SharedStore,
    board: Arc<Board>,
    node: String,
}

impl Ownership {
    /// For the node of that id.
    pub fn new(store: SharedStore, board: Arc<Board>, node: String) -> Self {
        Self { store, board, node }
    }

    /// Takes every partition that is not held and is free, with its jobs and open runs. Returns
    /// how many were taken.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn take(&self, now: DateTime<Utc>) -> Result<usize> {
        let held: Vec<PartitionId> = self.board.partitions().iter().map(|row| row.id).collect();
        let want: Vec<PartitionId> =
            (0..PARTITION_COUNT).map(PartitionId).filter(|id| !held.contains(id)).collect();
        if want.is_empty() {
            return Ok(0);
        }
        let taken = self.store.take_partitions(&self.node, &want, now).await?;
        if taken.is_empty() {
            return Ok(0);
        }
        let count = taken.len();
        self.adopt(taken).await?;
        Ok(count)
    }

    async fn adopt(&self, partitions: Vec<PartitionRow>) -> Result<()> {
        let all: Vec<_> = partitions.iter().map(|row| (row.id, 0)).collect();
        let jobs = self.store.load_jobs(&all).await?;
        let ids = partitions.iter().map(|row| row.id).collect();
        let open = self.store.load_open_runs(&RunScope::Partitions(ids)).await?;
        let remember = |job: &&Job| job.spec.placement.route.remembers();
        let remember: Vec<JobId> = jobs.iter().filter(remember).map(|job| job.id).collect();
        let cursors = self.store.load_cursors(&remember).await?;
        let delayed: Vec<JobId> = jobs.iter().filter(|job| is_delayed(job)).map(|j| j.id).collect();
        let last_ends = self.store.last_ends(&delayed).await?;
        self.board.adopt(Adoption { partitions, jobs, open, cursors, last_ends });
        Ok(())
    }

    /// Forgets what was held, here and in the store.
    pub async fn give_up(&self) {
        let held: Vec<PartitionId> = self.board.partitions().iter().map(|row| row.id).collect();
        self.board.clear();
        if let Err(fault) = self.store.release_partitions(&held).await {
            tracing::debug!(%fault, "partitions could not be given back; their locks end by themselves");
        }
    }
}

fn is_delayed(job: &Job) -> bool {
    job.spec.schedules.iter().any(|schedule| matches!(schedule.trigger, Trigger::Delay(_)))
}

/// Keeps this node's row and the clock's correction.
pub struct Presence {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    row: NodeRow,
}

impl Presence {
    /// For the node that `row` describes.
    pub fn new(store: SharedStore, clock: Arc<dyn Clock>, row: NodeRow) -> Self {
        Self { store, clock, row }
    }

    /// Measures the offset to the database's clock and corrects this node's by it.
    ///
    /// # Errors
    /// The store's.
    pub async fn measure_clock(&mut self) -> Result<()> {
        let before = self.clock.now();
        let began = self.clock.elapsed();
        let theirs = self.store.database_time().await?;
        let round_trip = self.clock.elapsed() - began;
        self.row.database_latency = round_trip;
        let round_trip = TimeDelta::from_std(round_trip).unwrap_or(TimeDelta::MAX);
        if round_trip > ROUND_TRIP_MAX {
            return Ok(());
        }
        // What is left to correct, beyond the correction in force.
        let rest = theirs - (before + round_trip / 2);
        let offset = self.row.clock_offset_us + rest.num_microseconds().unwrap_or(0);
        self.row.clock_offset_us = offset;
        self.clock.correct(TimeDelta::microseconds(offset));
        if TimeDelta::microseconds(offset).abs() > OFFSET_WARN {
            tracing::warn!(
                offset_ms = offset / 1000,
                "the machine's clock is off the database's; fire times follow the database"
            );
        }
        Ok(())
    }

    /// Sets the gauges of the clock's offset and the database's round trip.
    pub fn show(&self) {
        let offset = TimeDelta::microseconds(self.row.clock_offset_us);
        metrics().clock_offset.set(metrics::seconds(offset));
        metrics().database_latency.set(self.row.database_latency.as_secs_f64());
    }

    /// Writes this node's row.
    ///
    /// # Errors
    /// The store's.
    pub async fn refresh(&mut self, board: &Board, sessions: usize) -> Result<()> {
        let now = self.clock.now();
        self.row.last_seen_at = now;
        self.row.sessions = u32::try_from(sessions).unwrap_or(u32::MAX);
        self.row.partitions = board.partitions().iter().map(|row| row.id).collect();
        let oldest = board.oldest_waiting();
        self.row.lag = oldest.and_then(|due| (now - due).to_std().ok()).unwrap_or_default();
        self.store.put_node(&self.row).await
    }
}
