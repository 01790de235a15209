//! From when on fire times have no rows but this owner's, so that nobody need look for one.
//!
//! A partition that was taken just now may have rows of an earlier owner, a job that was changed those
//! that its change made: up to that moment, by anybody's clock. And a fire time may come twice to its
//! owner, when an earlier one of its job was refused, or its partition goes back to look for those of a
//! job that was changed.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    model::ids::{JobId, PartitionId},
    store::ops::PartitionRow,
};

/// Rows that others wrote may be of fire times this much later than their owner's clock shows; clocks
/// differ by much less.
const FRESH_AFTER: TimeDelta = TimeDelta::seconds(10);

#[derive(Default)]
pub(super) struct Fresh {
    partitions: HashMap<PartitionId, DateTime<Utc>>,
    /// Jobs that were changed, until a fire time of theirs can be fresh again; none before it was looked
    /// at the clock.
    jobs: HashMap<JobId, Option<DateTime<Utc>>>,
    /// Some job waits for a look at the clock.
    changed: bool,
}

impl Fresh {
    /// The partition was taken just now.
    pub(super) fn taken(&mut self, partition: PartitionId) {
        self.partitions.remove(&partition);
    }

    /// The partition is another owner's.
    pub(super) fn gave(&mut self, partition: PartitionId) {
        self.partitions.remove(&partition);
        self.jobs.retain(|job, _| job.partition() != partition);
    }

    /// Fire times of the partition may come again up to there.
    pub(super) fn goes_back(&mut self, partition: PartitionId, from: DateTime<Utc>) {
        if let Some(bound) = self.partitions.get_mut(&partition) {
            *bound = (*bound).max(from);
        }
    }

    /// The job was changed before it was loaded just now, or is about to change.
    pub(super) fn changed(&mut self, job: JobId) {
        self.jobs.insert(job, None);
        self.changed = true;
    }

    /// Looks at the clock, and at how far the partitions held are planned, before fire times are taken.
    pub(super) fn note<'a>(
        &mut self,
        held: impl ExactSizeIterator<Item = &'a PartitionRow> + Clone,
        now: DateTime<Utc>,
    ) {
        if self.partitions.len() == held.len() && !self.changed {
            return;
        }
        let from =
            |row: &PartitionRow| now.max(row.planned_until).max(row.served_until) + FRESH_AFTER;
        for row in held.clone() {
            self.partitions.entry(row.id).or_insert_with(|| from(row));
        }
        if std::mem::take(&mut self.changed) {
            let rows: HashMap<PartitionId, &PartitionRow> = held.map(|row| (row.id, row)).collect();
            self.jobs.retain(|job, until| {
                let Some(row) = rows.get(&job.partition()) else { return false };
                // All fire times up to there have rows, and none comes again.
                *until.get_or_insert_with(|| from(row)) > row.planned_until
            });
        }
    }

    /// Whether the job's fire time can't have a row of anybody else.
    pub(super) fn is_fresh(&self, job: JobId, fire: DateTime<Utc>) -> bool {
        let partition = self.partitions.get(&job.partition());
        let changed = self.jobs.get(&job);
        partition.is_some_and(|from| fire > *from)
            && changed.is_none_or(|from| from.is_some_and(|from| fire > from))
    }
}
