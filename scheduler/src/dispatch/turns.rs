//! Whose turn it is, where nobody remembers.
//!
//! The turn of round robin is written nowhere: it is kept in memory, and to a new owner the job's
//! newest dispatch tells it, before the job's next run is sent.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Dispatcher, place::Placement};
use crate::{
    model::ids::JobId,
    store::{OWNER_BATCH_MAX, Result},
};

/// Where a statement is needed, it reads the turns of all jobs that fire within this time, as far as they
/// fit: of very many jobs that fire one after another, each would otherwise wait for a statement.
const AHEAD: TimeDelta = TimeDelta::seconds(1);

impl Dispatcher {
    /// Finds executors for waiting runs. Turns that are not known are read first, once for each job,
    /// so this comes to an end.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub(super) async fn place(&self, now: DateTime<Utc>) -> Result<Placement> {
        loop {
            let placement = self.place_permitted(now).await?;
            if placement.unread.is_empty() {
                return Ok(placement);
            }
            self.read_turns(placement.unread, now).await?;
        }
    }

    /// Reads the turns of jobs, and of others with them.
    async fn read_turns(&self, mut jobs: Vec<JobId>, now: DateTime<Utc>) -> Result<()> {
        let room = jobs.len().next_multiple_of(OWNER_BATCH_MAX) - jobs.len();
        jobs.extend(self.board.unread_turns(now + AHEAD, room));
        jobs.sort_unstable();
        jobs.dedup();
        for jobs in jobs.chunks(OWNER_BATCH_MAX) {
            let mut turns: Vec<_> = jobs.iter().map(|job| (*job, 0)).collect();
            for (job, executor) in self.store.last_dispatches(jobs, now).await? {
                if let Ok(index) = turns.binary_search_by_key(&job, |(job, _)| *job) {
                    turns[index].1 = executor;
                }
            }
            self.board.turns_read(&turns);
        }
        Ok(())
    }
}
