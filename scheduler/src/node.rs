//! This node: its row, its clock against the database's, the partitions it holds.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::try_join_all;
use rand::seq::SliceRandom as _;

use crate::{
    board::{Adoption, Board},
    clock::Clock,
    model::{
        ids::{JobId, PARTITION_COUNT, PartitionId},
        job::Job,
    },
    store::{
        Result, SharedStore,
        ops::{NodeRow, PartitionRow, Plan, RunScope},
    },
    telemetry::metrics,
};

/// Above this the clocks differ so much that an operator should look.
const OFFSET_WARN: TimeDelta = TimeDelta::seconds(2);
/// A measurement whose round trip took longer than this says too little about the offset.
const ROUND_TRIP_MAX: TimeDelta = TimeDelta::milliseconds(250);

/// Jobs read at once when partitions are taken, about.
const READ_AT_ONCE: usize = 20_000;
/// Readings at the same time: while the database makes one, another is taken in.
const READERS: usize = 2;

/// Partitions given away in one step: the jobs of a step are without an owner until another node
/// has taken and read them.
const GIVEN_AT_ONCE_MAX: usize = 8;

/// Takes and holds partitions.
pub struct Ownership {
    store: SharedStore,
    board: Arc<Board>,
    node: String,
    resigned: bool,
    /// Taken, and not read yet; the last is read first.
    unread: Vec<PartitionRow>,
}

/// What makes shares even.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Partitions to be given away.
    pub give: Vec<PartitionId>,
    /// Free ones to be taken.
    pub take: Vec<PartitionId>,
    /// More are to be given away soon.
    pub more: bool,
}

impl Ownership {
    /// For the node of that id.
    pub fn new(store: SharedStore, board: Arc<Board>, node: String) -> Self {
        Self { store, board, node, resigned: false, unread: Vec::new() }
    }

    /// The next step towards an even share.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn step(&self) -> Result<Step> {
        let survey = self.store.survey().await?;
        let held = self.held();
        let all = usize::from(PARTITION_COUNT);
        let share = match self.resigned {
            true => 0,
            false => all.div_ceil(survey.owners.max(1) as usize),
        };
        if held.len() > share {
            let give: Vec<_> = held[share..].iter().copied().take(GIVEN_AT_ONCE_MAX).collect();
            let more = held.len() - give.len() > share;
            return Ok(Step { give, take: Vec::new(), more });
        }
        let free = (0..PARTITION_COUNT).map(PartitionId);
        let mut free: Vec<PartitionId> = free
            .filter(|id| held.binary_search(id).is_err())
            .filter(|id| survey.locked.binary_search(id).is_err())
            .collect();
        // Those who take at the same time seldom want the same.
        free.shuffle(&mut rand::rng());
        free.truncate(share - held.len());
        Ok(Step { give: Vec::new(), take: free, more: false })
    }

    /// All partitions held, in order, read or not.
    fn held(&self) -> Vec<PartitionId> {
        let mut held: Vec<PartitionId> = self.board.partitions().iter().map(|row| row.id).collect();
        held.extend(self.unread.iter().map(|row| row.id));
        held.sort_unstable();
        held
    }

    /// Takes those of the partitions that are free, and begins to read their jobs and open runs. Returns
    /// how many these were.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn take(&mut self, want: &[PartitionId], now: DateTime<Utc>) -> Result<usize> {
        if want.is_empty() {
            return Ok(0);
        }
        let taken = self.store.take_partitions(&self.node, want, now).await?;
        let count = taken.len();
        if count > 0 {
            tracing::info!(partitions = count, "partitions taken");
            self.unread.extend(taken);
            // What was served just now fires soon again: it is read first.
            self.unread.sort_by_key(|row| row.served_until);
            self.read_on().await?;
        }
        Ok(count)
    }

    /// Writes how far the partitions were served, so that their next owner sees no gap, and gives
    /// them away.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn give(&mut self, partitions: &[PartitionId], now: DateTime<Utc>) -> Result<()> {
        self.unread.retain(|row| !partitions.contains(&row.id));
        let advances = self.board.standing(partitions);
        self.store.plan(&Plan { advances, ..Plan::default() }, now).await?;
        self.board.release(partitions);
        self.store.release_partitions(partitions).await?;
        tracing::info!(partitions = partitions.len(), "partitions given to other nodes");
        Ok(())
    }

    /// Whether partitions that were taken are not all on the board yet.
    pub fn is_reading(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Brings partitions that were taken onto the board, a bounded number of jobs: those that are there
    /// already need not wait for the others, and what is read lies in memory twice until it is there.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn read_on(&mut self) -> Result<()> {
        let mut read = 0;
        // How many jobs a partition has shows with the first.
        let mut at_once = READERS;
        while read < READ_AT_ONCE && !self.unread.is_empty() {
            let left = self.unread.len().saturating_sub(at_once);
            let parts = self.unread[left..].chunks(at_once.div_ceil(READERS));
            let read_now = parts.map(|partitions| self.adopt(partitions.to_vec()));
            let jobs = try_join_all(read_now).await?.into_iter().sum::<usize>();
            self.unread.truncate(left);
            read += jobs;
            at_once = (at_once * READ_AT_ONCE / jobs.max(1)).max(READERS);
        }
        Ok(())
    }

    /// Returns how many jobs they have.
    async fn adopt(&self, partitions: Vec<PartitionRow>) -> Result<usize> {
        let all: Vec<_> = partitions.iter().map(|row| (row.id, 0)).collect();
        let jobs = self.store.load_jobs(&all).await?;
        let ids = partitions.iter().map(|row| row.id).collect();
        let open = self.store.load_open_runs(&RunScope::Partitions(ids)).await?;
        let counts = |job: &&Job| job.spec.placement.route.counts();
        let counting: Vec<JobId> = jobs.iter().filter(counts).map(|job| job.id).collect();
        let uses = self.store.load_uses(&counting).await?;
        let delayed: Vec<JobId> =
            jobs.iter().filter(|job| job.spec.is_delayed()).map(|j| j.id).collect();
        let last_ends = self.store.last_ends(&delayed).await?;
        let count = jobs.len();
        self.board.adopt(Adoption { partitions, jobs, open, uses, last_ends });
        Ok(count)
    }

    /// Wants no share any more.
    pub fn resign(&mut self) {
        self.resigned = true;
    }

    /// Gives everything away at once: the process ends, or is to do without.
    pub async fn leave(&mut self, now: DateTime<Utc>) {
        self.resign();
        let held = self.held();
        let left = async {
            self.store.resign().await?;
            self.give(&held, now).await
        };
        if let Err(fault) = left.await {
            tracing::debug!(%fault, "partitions could not be given away in order");
            self.give_up().await;
        }
    }

    /// Forgets what was held, here and in the store: all that the store may hold, which is more than
    /// the board has when a takeover failed half-way.
    pub async fn give_up(&mut self) {
        self.unread.clear();
        self.board.clear();
        let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
        if let Err(fault) = self.store.release_partitions(&all).await {
            tracing::debug!(%fault, "partitions could not be given back; their locks end by themselves");
        }
    }
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

    /// Measures the offset to the database's clock and corrects this node's as far as the answer
    /// contradicts it.
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
        let offset = self.row.clock_offset_us + excess(theirs, before, round_trip);
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

    /// This node gives its work away; true when the row said otherwise.
    pub fn drain(&mut self) -> bool {
        !std::mem::replace(&mut self.row.draining, true)
    }

    /// Whether the row names other partitions than are held.
    pub fn holds_others(&self, board: &Board) -> bool {
        let held = board.partitions();
        !held.iter().map(|row| row.id).eq(self.row.partitions.iter().copied())
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

/// How far a clock is off that showed `before` when the database was asked for its own: the least
/// that the answer allows. It was given at some moment of the round trip, and on a busy machine not
/// in its middle; a correction within these bounds would move a clock that may well be right.
fn excess(theirs: DateTime<Utc>, before: DateTime<Utc>, round_trip: TimeDelta) -> i64 {
    let (least, most) = (theirs - (before + round_trip), theirs - before);
    TimeDelta::zero().clamp(least, most).num_microseconds().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_moved_only_as_far_as_the_answer_contradicts_it() {
        let before = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
        let ms = TimeDelta::milliseconds;
        let asked = |theirs| excess(before + theirs, before, ms(80));
        // Given early or late in the round trip: the clocks may be the same.
        assert_eq!([asked(ms(0)), asked(ms(1)), asked(ms(80))], [0, 0, 0]);
        assert_eq!(asked(ms(85)), 5_000, "the database's is ahead by 5 ms at least");
        assert_eq!(asked(ms(-3)), -3_000, "it is behind by 3 ms at least");
    }
}
