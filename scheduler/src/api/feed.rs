//! One reader of the run event log for all who watch or wait on this node.
//!
//! It runs while anybody is subscribed. A hint wakes it early, a sweep finds the rest. A run that
//! is planned ahead becomes QUEUED by the mere passing of time, without an event: the feed
//! remembers those it saw and tells of them when they are due.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
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
/// Planned runs remembered until they are due; more are told of by their next event only.
const PLANNED_MAX: usize = 50_000;
/// Runs that became due and are read in one step.
const DUE_BATCH_MAX: usize = 1024;

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
    pub fn names(&self, run: RunId) -> bool {
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
        let mut planned = Planned::default();
        while !self.over() {
            if let Err(error) = self.step(&mut at, &mut planned).await {
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

    /// Reads the log to its present end, and what became due.
    async fn step(
        &self,
        at: &mut Option<EventCursor>,
        planned: &mut Planned,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
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
                break;
            }
            let batch = load(&self.store, after, events).await?;
            planned.note(&batch.changed, now);
            after = batch.cursor;
            *at = Some(after);
            let _ = self.sender.send(Arc::new(batch));
        }
        let due = planned.due(now);
        if !due.is_empty() {
            let changed = self.store.get_runs(&due, false).await?;
            let batch = Batch { after, cursor: after, changed, deleted: Vec::new() };
            let _ = self.sender.send(Arc::new(batch));
        }
        Ok(())
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

/// Runs that were seen planned and not due.
#[derive(Default)]
struct Planned {
    queue: BinaryHeap<Reverse<(DateTime<Utc>, RunId)>>,
    known: HashSet<RunId>,
}

impl Planned {
    fn note(&mut self, changed: &[RunRecord], now: DateTime<Utc>) {
        for record in changed {
            let (id, due_at) = (record.run.id, record.run.due_at);
            if record.run.is_scheduled(now)
                && self.queue.len() < PLANNED_MAX
                && self.known.insert(id)
            {
                self.queue.push(Reverse((due_at, id)));
            }
        }
    }

    /// Takes those that are due by now.
    fn due(&mut self, now: DateTime<Utc>) -> Vec<RunId> {
        let mut due = Vec::new();
        while let Some(Reverse((at, id))) = self.queue.peek().copied()
            && at <= now
            && due.len() < DUE_BATCH_MAX
        {
            self.queue.pop();
            self.known.remove(&id);
            due.push(id);
        }
        due
    }
}
