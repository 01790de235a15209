//! Acks of runs, written lazily: most runs end before theirs is due, and save a write.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};

use super::Results;
use crate::{
    hub::event::Origin,
    model::ids::AttemptRef,
    store::{RESULT_BATCH_MAX, ops::Ack},
    telemetry::metrics::metrics,
};

/// How long an ack waits for the result that would make it needless.
const ACK_WAIT: Duration = Duration::from_millis(50);
/// When one is written, so are those that have waited this long: not each moment has a statement of its
/// own, and the results of the newest, which may be under way, still save the write.
const ACK_WAIT_MIN: Duration = Duration::from_millis(25);
/// More never wait: all are written.
const ACKS_WAITING_MAX: usize = 16 * RESULT_BATCH_MAX;

/// Acks that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Acks {
    waiting: HashMap<AttemptRef, (Arc<Origin>, DateTime<Utc>)>,
    /// In the order in which they came, with the monotonic time of that; some were taken since.
    order: VecDeque<(Duration, AttemptRef)>,
}

impl Acks {
    pub(super) fn put(
        &mut self,
        origin: &Arc<Origin>,
        attempt: AttemptRef,
        at: DateTime<Utc>,
        elapsed: Duration,
    ) {
        if let Entry::Vacant(place) = self.waiting.entry(attempt) {
            place.insert((origin.clone(), at));
            self.order.push_back((elapsed, attempt));
        }
    }

    /// The attempt ended or is being judged: its ack goes with that. What one executor says does
    /// not take another's ack.
    pub(super) fn take(&mut self, origin: &Origin, attempt: AttemptRef) -> Option<DateTime<Utc>> {
        let own = self.waiting.get(&attempt).is_some_and(|(from, _)| from.row == origin.row);
        let taken = if own { self.waiting.remove(&attempt) } else { None };
        while self.order.front().is_some_and(|(_, first)| !self.waiting.contains_key(first)) {
            self.order.pop_front();
        }
        taken.map(|(_, at)| at)
    }

    /// Monotonic time at which some must be written; None when none waits.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.order.front().map(|(came, _)| *came + ACK_WAIT)
    }

    fn due(&mut self, all: bool, elapsed: Duration) -> Vec<Ack> {
        let all = all || self.waiting.len() > ACKS_WAITING_MAX;
        if !all && self.wait().is_none_or(|due| elapsed < due) {
            return Vec::new();
        }
        let mut due = Vec::new();
        while let Some((came, attempt)) = self.order.front().copied()
            && (all || came + ACK_WAIT_MIN <= elapsed)
        {
            self.order.pop_front();
            if let Some((origin, at)) = self.waiting.remove(&attempt) {
                due.push(Ack { attempt, by: origin.executor_ref(), at });
            }
        }
        due
    }
}

impl Results {
    /// Writes acks that are due, or all.
    pub(super) async fn flush_acks(&mut self, all: bool) {
        let due = self.acks.due(all, self.clock.elapsed());
        for acks in due.chunks(RESULT_BATCH_MAX) {
            metrics().batch("ack", acks.len());
            // Those it leaves out have ended or were taken back meanwhile.
            let written = self.persist("acks of runs", || self.store.ack_runs(acks)).await;
            for acked in written.unwrap_or_default() {
                self.changed(acked.run, None);
            }
        }
    }
}
