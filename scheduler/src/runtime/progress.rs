//! Does scheduling go on? A server whose loop hangs, whose database is away, or whose partitions
//! are locked by somebody who does nothing would otherwise look well and fire nothing.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    api::health::Health,
    board::Board,
    clock::Clock,
    model::ids::PARTITION_COUNT,
    store::{SharedStore, StoreError, ops::NodeRow},
    telemetry::metrics,
};

/// Without progress for so long the node is not ready.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// A database that takes no writes lets a round end well now and then: a full disk in what room
/// others leave, a read-only one while there is nothing to write. Only after so long without a
/// complaint it takes them again.
const WRITES_AFTER: Duration = Duration::from_secs(15);
/// It is looked this often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A node that wrote its row within this time is alive.
const NODE_SEEN: TimeDelta = TimeDelta::seconds(30);
/// Longest wait for the list of nodes.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// When the owner's loop last ended a round well, and when all partitions last had a living owner.
/// Monotonic: a wall clock that is set tells nothing about progress.
pub(super) struct Progress {
    seen: Mutex<Seen>,
}

struct Seen {
    round: Duration,
    covered: Duration,
    /// What ended the last round before its time.
    fault: Option<StoreError>,
    refused: Option<Refused>,
}

/// The database takes no writes.
struct Refused {
    since: Duration,
    last: Duration,
    fault: StoreError,
}

impl Progress {
    /// Counts from `elapsed`.
    pub(super) fn new(elapsed: Duration) -> Arc<Self> {
        let seen = Seen { round: elapsed, covered: elapsed, fault: None, refused: None };
        Arc::new(Self { seen: Mutex::new(seen) })
    }

    /// The owner's loop has ended a round, or a fault has.
    pub(super) fn round(&self, elapsed: Duration, fault: Option<&StoreError>) {
        let mut seen = self.seen.lock();
        if fault.is_none() {
            seen.round = elapsed;
        }
        if seen.fault.as_ref() != fault {
            seen.fault = fault.cloned();
        }
        if let Some(fault) = fault.filter(|fault| fault.takes_no_writes()) {
            let since = seen.refused(elapsed).map_or(elapsed, |refused| refused.since);
            seen.refused = Some(Refused { since, last: elapsed, fault: fault.clone() });
        }
    }

    /// What keeps the owner's loop from ending its rounds.
    fn fault(&self, elapsed: Duration) -> Option<StoreError> {
        let seen = self.seen.lock();
        seen.refused(elapsed).map(|refused| &refused.fault).or(seen.fault.as_ref()).cloned()
    }

    /// Every partition has a living owner.
    fn covered(&self, elapsed: Duration) {
        self.seen.lock().covered = elapsed;
    }

    /// How long ago the older of both was, or for how long there have been no writes.
    fn age(&self, elapsed: Duration) -> Duration {
        let seen = self.seen.lock();
        let refused = seen.refused(elapsed).map_or(elapsed, |refused| refused.since);
        elapsed.saturating_sub(seen.round.min(seen.covered).min(refused))
    }
}

impl Seen {
    /// The refusal to write, while there are complaints.
    fn refused(&self, elapsed: Duration) -> Option<&Refused> {
        let lasts = |refused: &&Refused| elapsed.saturating_sub(refused.last) < WRITES_AFTER;
        self.refused.as_ref().filter(lasts)
    }
}

/// Looks after the progress, and tells health and metrics.
pub(super) struct Watch {
    pub(super) progress: Arc<Progress>,
    pub(super) store: SharedStore,
    pub(super) board: Arc<Board>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) health: Arc<Health>,
}

impl Watch {
    pub(super) async fn run(self, stop: CancellationToken) {
        loop {
            self.look().await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.wait(LOOK_EVERY) => {}
            }
        }
    }

    /// One look.
    pub(super) async fn look(&self) {
        if self.all_are_owned().await {
            self.progress.covered(self.clock.elapsed());
        }
        let age = self.progress.age(self.clock.elapsed());
        metrics().progress_age.set(age.as_secs_f64());
        let gone = self.store.check_storage().await.err();
        let stalled = age >= STALLED_AFTER || gone.is_some();
        let fault = self.progress.fault(self.clock.elapsed());
        let problem = gone.as_ref().or(fault.as_ref()).map(StoreError::brief);
        self.health.set_problem(problem);
        if stalled != self.health.is_stalled() {
            match (stalled, gone) {
                (true, Some(fault)) => tracing::error!("not ready: {fault}"),
                (true, None) => tracing::error!(
                    seconds = age.as_secs(),
                    fault = fault.as_ref().map(tracing::field::display),
                    "scheduling makes no progress: this node is not ready until it goes on"
                ),
                (false, _) => tracing::info!("scheduling makes progress again"),
            }
            self.health.set_stalled(stalled).await;
        }
    }

    /// Whether this node and others that are alive hold all partitions.
    async fn all_are_owned(&self) -> bool {
        let held = self.board.partitions().len();
        if held >= usize::from(PARTITION_COUNT) {
            return true;
        }
        let now = self.clock.now();
        let list = tokio::time::timeout(LIST_TIMEOUT, self.store.list_nodes(now)).await;
        matches!(list, Ok(Ok(nodes)) if held + held_by_living(&nodes, now, &self.board) >=
            usize::from(PARTITION_COUNT))
    }
}

/// Partitions that living nodes hold and this one does not.
fn held_by_living(nodes: &[NodeRow], now: DateTime<Utc>, board: &Board) -> usize {
    let own: Vec<_> = board.partitions().iter().map(|row| row.id).collect();
    let living = nodes.iter().filter(|node| !node.gone && now - node.last_seen_at < NODE_SEEN);
    let mut others: Vec<_> = living.flat_map(|node| &node.partitions).collect();
    others.sort_unstable();
    others.dedup();
    others.into_iter().filter(|id| !own.contains(id)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::health::Phase, clock::ManualClock, model::ids::PartitionId, store::sqlite::SqliteStore,
    };

    struct Fixture {
        watch: Watch,
        clock: Arc<ManualClock>,
        store: SharedStore,
        _dir: tempfile::TempDir,
    }

    impl Fixture {
        async fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let store: SharedStore = SqliteStore::open(dir.path()).expect("a store");
            let start = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
            let clock = ManualClock::new(start);
            let health = Health::new().await;
            health.set(Phase::Serving).await;
            let watch = Watch {
                progress: Progress::new(clock.elapsed()),
                store: store.clone(),
                board: Arc::new(Board::default()),
                clock: clock.clone(),
                health,
            };
            Self { watch, clock, store, _dir: dir }
        }

        /// Another node with all partitions was seen just now.
        async fn other_node_is_alive(&self) {
            let now = self.clock.now();
            let row = NodeRow {
                id: "other".to_owned(),
                version: String::new(),
                advertise_address: String::new(),
                draining: false,
                gone: false,
                started_at: now,
                last_seen_at: now,
                sessions: 0,
                partitions: (0..PARTITION_COUNT).map(PartitionId).collect(),
                clock_offset_us: 0,
                lag: Duration::ZERO,
                database_latency: Duration::ZERO,
            };
            self.store.put_node(&row).await.expect("written");
        }

        /// Five seconds pass, in which the loop ends a round or hangs.
        async fn five_seconds(&self, goes_on: bool) -> bool {
            self.clock.advance(Duration::from_secs(5));
            if goes_on {
                self.watch.progress.round(self.clock.elapsed(), None);
            }
            self.watch.look().await;
            self.watch.health.is_ready()
        }
    }

    /// One test, since the metric is the process's.
    #[tokio::test]
    async fn x44_no_progress_for_30_s_makes_the_node_unready_and_a_metric_tells() {
        a_loop_that_hangs().await;
        locks_held_by_somebody_who_is_not_seen().await;
        a_database_without_writes(StoreError::Full("pg_wal".to_owned())).await;
        a_database_without_writes(StoreError::ReadOnly("25006".to_owned())).await;
    }

    async fn a_loop_that_hangs() {
        let f = Fixture::new().await;
        let mut ready = Vec::new();
        for _ in 0..7 {
            f.other_node_is_alive().await;
            ready.push(f.five_seconds(false).await);
        }
        assert_eq!(ready, [true, true, true, true, true, false, false]);
        assert!(metrics().text().contains("clawjob_progress_age_seconds 3"), "the metric tells");
        f.other_node_is_alive().await;
        assert!(f.five_seconds(true).await, "it goes on");
    }

    async fn a_database_without_writes(refused: StoreError) {
        let f = Fixture::new().await;
        let mut ready = Vec::new();
        for _ in 0..8 {
            f.other_node_is_alive().await;
            f.watch.progress.round(f.clock.elapsed(), Some(&refused));
            // What comes of it tells less.
            let lost = StoreError::Unavailable("its session is gone".to_owned());
            f.watch.progress.round(f.clock.elapsed(), Some(&lost));
            // Some rounds end well all the same.
            ready.push(f.five_seconds(true).await);
            assert_eq!(f.watch.health.problem(), Some(refused.brief()));
        }
        assert_eq!(ready.iter().position(|ready| !ready), Some(5), "{ready:?}: after 30 s");
        for _ in 0..2 {
            f.other_node_is_alive().await;
            f.five_seconds(true).await;
        }
        assert!(f.watch.health.is_ready(), "it is written again");
        assert_eq!(f.watch.health.problem(), None);
    }

    /// A standby's own rounds are well: it just gets no partition.
    async fn locks_held_by_somebody_who_is_not_seen() {
        let f = Fixture::new().await;
        f.other_node_is_alive().await;
        let mut ready = Vec::new();
        for _ in 0..13 {
            ready.push(f.five_seconds(true).await);
        }
        let turned = ready.iter().position(|ready| !ready).expect("it turns bad");
        assert!((10..=12).contains(&turned), "{ready:?}: silent for 30 s, then 30 s more");
        f.other_node_is_alive().await;
        assert!(f.five_seconds(true).await, "somebody schedules again");
    }
}
