//! Acks of runs, written lazily: most runs end before theirs is due, and save a write.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};

use super::Results;
use crate::{
    model::ids::AttemptRef,
    store::{RESULT_BATCH_MAX, ops::Ack},
    telemetry::metrics::metrics,
};

/// How long an ack waits for the result that would make it needless.
const ACK_WAIT: Duration = Duration::from_millis(50);

/// Acks that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Acks {
    waiting: HashMap<AttemptRef, DateTime<Utc>>,
    /// Monotonic time at which the oldest is due.
    due: Option<Duration>,
}

impl Acks {
    pub(super) fn put(&mut self, attempt: AttemptRef, at: DateTime<Utc>, elapsed: Duration) {
        self.waiting.entry(attempt).or_insert(at);
        self.due.get_or_insert(elapsed + ACK_WAIT);
    }

    /// The attempt ended or is being judged: its ack goes with that.
    pub(super) fn take(&mut self, attempt: AttemptRef) -> Option<DateTime<Utc>> {
        self.waiting.remove(&attempt)
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
        self.waiting.drain().map(|(attempt, at)| Ack { attempt, at }).collect()
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
