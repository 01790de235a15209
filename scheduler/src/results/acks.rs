//! Acks of runs, written lazily: most runs end before theirs is due, and save a write.

use std::{collections::HashMap, sync::Arc, time::Duration};

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

/// Acks that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Acks {
    waiting: HashMap<AttemptRef, (Arc<Origin>, DateTime<Utc>)>,
    /// Monotonic time at which the oldest is due.
    due: Option<Duration>,
}

impl Acks {
    pub(super) fn put(
        &mut self,
        origin: &Arc<Origin>,
        attempt: AttemptRef,
        at: DateTime<Utc>,
        elapsed: Duration,
    ) {
        self.waiting.entry(attempt).or_insert_with(|| (origin.clone(), at));
        self.due.get_or_insert(elapsed + ACK_WAIT);
    }

    /// The attempt ended or is being judged: its ack goes with that. What one executor says does
    /// not take another's ack.
    pub(super) fn take(&mut self, origin: &Origin, attempt: AttemptRef) -> Option<DateTime<Utc>> {
        let own = self.waiting.get(&attempt).is_some_and(|(from, _)| from.row == origin.row);
        if own { self.waiting.remove(&attempt).map(|(_, at)| at) } else { None }
    }

    /// When some must be written; None when none waits.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.due
    }

    fn due(&mut self, all: bool, elapsed: Duration) -> Vec<Ack> {
        let now = all || self.due.is_some_and(|due| elapsed >= due);
        if !now && self.waiting.len() < RESULT_BATCH_MAX {
            return Vec::new();
        }
        self.due = None;
        let waiting = self.waiting.drain();
        waiting
            .map(|(attempt, (origin, at))| Ack { attempt, by: origin.executor_ref(), at })
            .collect()
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
