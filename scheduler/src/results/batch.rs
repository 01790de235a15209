//! One batch of events, sorted by what must be done about them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Results, changes::Change, decide::What, finished::Finished};
use crate::{
    hub::event::{Charged, Decline, EventKind, Origin, SessionEvent},
    model::{
        ids::AttemptRef,
        run::{CODE_INVALID_PARAMS, Outcome},
    },
    store::{
        RESULT_BATCH_MAX,
        ops::{LogAppend, ProgressRow},
    },
};

/// Log chunks in one statement.
const LOG_BATCH_MAX: usize = 128;

/// The events of a batch by kind, each in the order they came.
#[derive(Default)]
pub(super) struct Sorted {
    succeeded: Vec<Finished>,
    changes: Vec<Change>,
    logs: Vec<(Arc<Origin>, LogAppend)>,
    progress: HashMap<AttemptRef, ProgressRow>,
    unknown: Vec<(Arc<Origin>, AttemptRef)>,
}

impl Results {
    /// Writes a batch and answers the executors.
    pub(super) async fn process(&mut self, batch: Vec<Charged>) {
        if batch.is_empty() {
            return;
        }
        let mut sorted = Sorted::default();
        let mut shares = Vec::with_capacity(batch.len());
        let mut ended = HashSet::new();
        for charged in batch {
            let (event, share) = charged.into_parts();
            shares.push(share);
            self.sort(event, &mut ended, &mut sorted);
        }
        // Logs first: a run that is shown as ended has its log.
        self.write_logs(sorted.logs).await;
        self.write_progress(sorted.progress).await;
        self.end_succeeded(sorted.succeeded).await;
        let mut changes = sorted.changes;
        while !changes.is_empty() {
            let later = changes.split_off(changes.len().min(RESULT_BATCH_MAX));
            self.apply_changes(changes).await;
            changes = later;
        }
        self.settle_unknown(sorted.unknown).await;
    }

    fn sort(
        &mut self,
        event: SessionEvent,
        ended: &mut HashSet<(i64, AttemptRef)>,
        sorted: &mut Sorted,
    ) {
        let SessionEvent { origin, attempt, kind } = event;
        match kind {
            EventKind::Acked { at } => {
                self.acks.put(&origin, attempt, at, self.clock.elapsed());
                self.listener.acked(attempt, at);
            }
            EventKind::Finished { acked_at, received_at, result } => {
                let acked_at = self.acks.take(&origin, attempt).or(acked_at);
                // Sent twice within one batch: one answer is enough.
                if !ended.insert((origin.row, attempt)) {
                    return;
                }
                let finished = Finished { origin, attempt, acked_at, received_at, result };
                if finished.result.outcome == Outcome::Succeeded {
                    sorted.succeeded.push(finished);
                } else {
                    let origin = finished.origin.clone();
                    let what = What::Result(Box::new(finished));
                    sorted.changes.push(Change { origin, attempt, what });
                }
            }
            EventKind::Progress { fraction, message, checkpoint } => {
                let earlier = sorted.progress.remove(&attempt).and_then(|row| row.checkpoint);
                let checkpoint = checkpoint.or(earlier);
                let row = ProgressRow { attempt, fraction, message, checkpoint };
                sorted.progress.insert(attempt, row);
            }
            EventKind::Logs { records, dropped } => {
                sorted.logs.push((origin, LogAppend { attempt, records, dropped }));
            }
            EventKind::Unknown => sorted.unknown.push((origin, attempt)),
            EventKind::Declined { .. }
            | EventKind::NotHeld
            | EventKind::Lost { .. }
            | EventKind::KillNotFound => {
                if let Some(what) = meaning(kind) {
                    sorted.changes.push(Change { origin, attempt, what });
                }
            }
        }
    }

    /// Appends log records, then frees the executors' windows.
    async fn write_logs(&self, logs: Vec<(Arc<Origin>, LogAppend)>) {
        let (origins, appends): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
        for (origins, appends) in origins.chunks(LOG_BATCH_MAX).zip(appends.chunks(LOG_BATCH_MAX)) {
            let now = self.clock.now();
            let stored = self.persist("run logs", || self.store.append_logs(appends, now)).await;
            let stored = stored.unwrap_or_default();
            for (index, (origin, append)) in origins.iter().zip(appends).enumerate() {
                let last = append.records.last().map_or(0, |record| record.seq);
                // Records that can never be stored must not close the window for those to come.
                let through = stored.get(index).copied().unwrap_or(0).max(last);
                self.hub.ack_logs(origin.app, &origin.executor, append.attempt, through);
            }
        }
    }

    async fn write_progress(&self, progress: HashMap<AttemptRef, ProgressRow>) {
        if progress.is_empty() {
            return;
        }
        let rows: Vec<ProgressRow> = progress.into_values().collect();
        // Only the newest counts: what can't be written now is overtaken soon.
        let _ = self.persist("progress", || self.store.save_progress(&rows)).await;
    }
}

/// What an event without a result says about the run.
fn meaning(kind: EventKind) -> Option<What> {
    let not_held = |why, retry_after| What::NotHeld { why, retry_after };
    Some(match kind {
        EventKind::Declined { why, .. } => match why {
            Decline::Busy { retry_after } => not_held("the executor was busy", retry_after),
            Decline::Draining => not_held("the executor was leaving", None),
            Decline::Rejected(failure) if failure.code == CODE_INVALID_PARAMS => {
                What::Impossible(failure)
            }
            Decline::Rejected(failure) => What::Refused(failure),
        },
        EventKind::NotHeld => not_held("the executor did not receive it", None),
        EventKind::Lost { why } => What::Lost(why),
        EventKind::KillNotFound => What::KillNotFound,
        _ => return None,
    })
}
