//! One reader of the run event log for all who watch or wait on this node.
//!
//! It runs while anybody is subscribed. A hint wakes it early, a sweep finds the rest. A run that
//! is not due yet has no event until it is due and sent, or its owner says why it waits.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{
    clock::Clock,
    model::{ids::RunId, run::RunRecord},
    store::{
        SharedStore, StoreError, Topic,
        ops::{EventCursor, RunEvents},
    },
};

/// Batches that may wait for a slow watcher; beyond it the watcher reads the log itself.
pub const FEED_QUEUE_MAX: usize = 256;
/// Event rows read in one step.
pub const EVENT_ROWS_MAX: u32 = 16;
/// The log is read so often even if nobody said that it grew.
const SWEEP: Duration = Duration::from_secs(1);

/// A stretch of the event log with the runs as they stand after it.
#[derive(Debug)]
pub struct Batch {
    /// It begins after this place.
    pub after: EventCursor,
    /// It ends here.
    pub cursor: EventCursor,
    /// Runs that changed, in basic form.
    pub changed: Vec<RunRecord>,
    /// Runs whose row is gone.
    pub deleted: Vec<RunId>,
}

impl Batch {
    /// Whether it is about the run.
    pub fn is_about(&self, run: RunId) -> bool {
        self.changed.iter().any(|record| record.run.id == run) || self.deleted.contains(&run)
    }
}

/// See the module.
pub struct RunFeed {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    sender: broadcast::Sender<Arc<Batch>>,
    running: Mutex<bool>,
}

impl RunFeed {
    /// A feed that nobody watches yet.
    pub fn new(store: SharedStore, clock: Arc<dyn Clock>) -> Arc<Self> {
        let sender = broadcast::Sender::new(FEED_QUEUE_MAX);
        Arc::new(Self { store, clock, sender, running: Mutex::new(false) })
    }

    /// Batches from now on; the first one says where it begins. Starts the reader if need be.
    pub fn subscribe(self: &Arc<Self>) -> broadcast::Receiver<Arc<Batch>> {
        let receiver = self.sender.subscribe();
        let mut running = self.running.lock();
        if *running {
            return receiver;
        }
        *running = true;
        tokio::spawn(self.clone().read());
        receiver
    }

    /// Ends the reader when nobody is subscribed any more.
    fn over(&self) -> bool {
        let mut running = self.running.lock();
        if self.sender.receiver_count() == 0 {
            *running = false;
        }
        !*running
    }

    async fn read(self: Arc<Self>) {
        let mut hints = self.store.hints();
        let mut at: Option<EventCursor> = None;
        while !self.over() {
            if let Err(error) = self.step(&mut at).await {
                // A database that is away is told by others; the next sweep tries again.
                tracing::debug!(%error, "the run event log can't be read");
                at = at.filter(|_| !matches!(error, StoreError::NotFound(_)));
                self.clock.wait(SWEEP).await;
                continue;
            }
            tokio::select! {
                () = hint(&mut hints) => {}
                () = self.clock.wait(SWEEP) => {}
            }
        }
    }

    /// Reads the log to its present end.
    async fn step(&self, at: &mut Option<EventCursor>) -> Result<(), StoreError> {
        let mut after = match *at {
            Some(after) => after,
            None => {
                let cursor = self.store.run_events(None, 1).await?.cursor;
                let begin =
                    Batch { after: cursor, cursor, changed: Vec::new(), deleted: Vec::new() };
                // No receiver is no error: the reader ends by itself.
                let _ = self.sender.send(Arc::new(begin));
                *at = Some(cursor);
                cursor
            }
        };
        loop {
            let events = self.store.run_events(Some(after), EVENT_ROWS_MAX).await?;
            if events.cursor == after {
                return Ok(());
            }
            let batch = load(&self.store, after, events).await?;
            after = batch.cursor;
            *at = Some(after);
            let _ = self.sender.send(Arc::new(batch));
        }
    }
}

/// The runs of a stretch of the log, as they stand.
pub(super) async fn load(
    store: &SharedStore,
    after: EventCursor,
    events: RunEvents,
) -> Result<Batch, StoreError> {
    let RunEvents { changed, deleted, cursor } = events;
    let changed =
        if changed.is_empty() { Vec::new() } else { store.get_runs(&changed, false).await? };
    Ok(Batch { after, cursor, changed, deleted })
}

/// Waits for a hint that the log grew. A missed one counts as one.
async fn hint(hints: &mut broadcast::Receiver<Topic>) {
    loop {
        match hints.recv().await {
            Ok(Topic::RunEvents) | Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
