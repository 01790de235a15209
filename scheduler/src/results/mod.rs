//! What sessions report → states of runs, in batches.
//!
//! One [`Results`] takes all events of the hub's sessions off their channel. A result is
//! acknowledged to its executor only once the store has it; while the store is out of reach the
//! batch in hand is tried again and the channel fills up, which stops the reading of executors and
//! loses nothing. An executor's ack of a run is written lazily, and not at all when the result
//! comes first.

mod acks;
mod batch;
mod changes;
mod decide;
mod elsewhere;
mod finished;
mod refusals;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod unknown;

use std::{future::Future, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    fleet::Reach,
    hub::{
        Hub,
        event::{Charged, EventReceiver, Origin},
        session::AckStatus,
    },
    model::{
        ids::{AttemptRef, JobId, RunId},
        job::JobSpec,
        run::{OpenRun, RunState},
    },
    store::SharedStore,
    telemetry::metrics::metrics,
};
use acks::Acks;
use elsewhere::Elsewhere;
use refusals::Refusals;

/// How long the first event of a batch waits for others.
pub const BATCH_WAIT: Duration = Duration::from_millis(3);
/// Events taken in hand at once; a batch of them is written in statements of at most
/// [`crate::store::RESULT_BATCH_MAX`] rows.
pub const EVENT_BATCH_MAX: usize = 1_024;
/// Waits between tries while the store is out of reach.
const STORE_RETRY_MIN: Duration = Duration::from_millis(50);
const STORE_RETRY_MAX: Duration = Duration::from_secs(2);
/// Batches still written after the stop was asked for.
const BATCHES_AT_STOP_MAX: usize = 256;

/// Where the policies of a run's job are known already.
pub trait Specs: Send + Sync + 'static {
    /// The spec of the run's revision, if it is in memory.
    fn spec(&self, run: &OpenRun) -> Option<Arc<JobSpec>>;
}

/// Who must know at once what became of a run; others find it in the run inbox.
pub trait RunListener: Send + Sync + 'static {
    /// The run ended.
    fn ended(&self, run: RunId, job: JobId, state: RunState, at: DateTime<Utc>);

    /// The run waits again; the row as it is now, QUEUED or RETRY_WAIT.
    fn put_back(&self, run: OpenRun);

    /// The executor has the attempt.
    fn acked(&self, attempt: AttemptRef, at: DateTime<Utc>);

    /// Whether another node's owner must hear of the run; of one that is open its job need not be
    /// known. Never, where one owner has all.
    fn is_elsewhere(&self, _run: RunId, _job: Option<JobId>) -> bool {
        false
    }
}

/// Turns events of sessions into states of runs.
pub struct Results {
    store: SharedStore,
    reach: Arc<Reach>,
    hub: Arc<Hub>,
    specs: Arc<dyn Specs>,
    listener: Arc<dyn RunListener>,
    clock: Arc<dyn Clock>,
    elsewhere: Elsewhere,
    acks: Acks,
    refusals: Refusals,
    stop: CancellationToken,
}

/// A result or another event could not be written and never will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GivenUp;

impl Results {
    /// For the events of this node's sessions. `stop` ends [`Results::run`], and the waiting for a store that is
    /// out of reach.
    pub fn new(
        store: SharedStore,
        reach: Arc<Reach>,
        specs: Arc<dyn Specs>,
        listener: Arc<dyn RunListener>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Self {
        let (acks, refusals) = (Acks::default(), Refusals::default());
        let (hub, elsewhere) = (reach.hub().clone(), Elsewhere::default());
        Self { store, reach, hub, specs, listener, clock, elsewhere, acks, refusals, stop }
    }

    /// Runs until `stop`, then writes what waits and returns.
    pub async fn run(mut self, mut events: EventReceiver) {
        while let Some(batch) = self.collect(&mut events).await {
            self.process(batch).await;
            self.flush_acks(false).await;
            self.tell_owners().await;
        }
        for _ in 0..BATCHES_AT_STOP_MAX {
            if self.step(&mut events).await == 0 {
                break;
            }
        }
        self.flush_acks(true).await;
        self.tell_owners().await;
    }

    /// Writes what waits now, up to one batch; says how many events that were. For whoever drives
    /// time by hand.
    pub async fn step(&mut self, events: &mut EventReceiver) -> usize {
        let mut batch = Vec::new();
        while batch.len() < EVENT_BATCH_MAX
            && let Ok(charged) = events.try_recv()
        {
            batch.push(charged);
        }
        let count = batch.len();
        self.process(batch).await;
        self.flush_acks(false).await;
        self.tell_owners().await;
        count
    }

    /// The next batch, which is empty when acks are due; None when it is time to stop.
    async fn collect(&self, events: &mut EventReceiver) -> Option<Vec<Charged>> {
        let mut batch = Vec::new();
        let acks_due = async {
            match self.acks.wait() {
                Some(wait) => self.clock.wait(wait.saturating_sub(self.clock.elapsed())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            count = events.recv_many(&mut batch, EVENT_BATCH_MAX) => {
                if count == 0 {
                    return None;
                }
            }
            () = acks_due => return Some(batch),
        }
        let full = self.clock.wait(BATCH_WAIT);
        tokio::pin!(full);
        while batch.len() < EVENT_BATCH_MAX {
            let room = EVENT_BATCH_MAX - batch.len();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = &mut full => break,
                count = events.recv_many(&mut batch, room) => if count == 0 { break },
            }
        }
        Some(batch)
    }

    /// Repeats a store operation for as long as the store is out of reach. Another error, or the
    /// stop, gives it up.
    async fn persist<T, F>(&self, what: &'static str, op: impl Fn() -> F) -> Result<T, GivenUp>
    where
        F: Future<Output = crate::store::Result<T>>,
    {
        let mut wait = STORE_RETRY_MIN;
        loop {
            match op().await {
                Ok(answer) => return Ok(answer),
                Err(fault) if fault.passes() && !self.stop.is_cancelled() => {
                    metrics().store_errors.inc();
                    tracing::warn!(what, %fault, "the store can't be written; trying again");
                    tokio::select! {
                        () = self.clock.wait(wait) => {}
                        () = self.stop.cancelled() => {}
                    }
                    wait = (wait * 2).min(STORE_RETRY_MAX);
                }
                Err(fault) => {
                    tracing::error!(what, %fault, "what executors reported could not be written");
                    return Err(GivenUp);
                }
            }
        }
    }

    fn ack_result(&self, origin: &Origin, attempt: AttemptRef, status: AckStatus) {
        self.hub.ack_result(origin.app, &origin.executor, attempt, status);
    }
}
