//! The pen: the one session that holds the advisory locks of this node's partitions, and on which
//! everything is written that only their owner may write.
//!
//! Postgres itself is the fence: a statement can only commit while its session lives, and while it
//! lives it holds the locks. So the pen is thrown away at the first fault, and with it all
//! partitions: nothing is ever written as owner on a session whose locks are in doubt.
//!
//! Two more locks are shared ones and keep nobody out: one says that this node wants a share of the
//! partitions, the other that its process lives. Whoever reads `pg_locks` sees at once when a node
//! joins or dies.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::ClientWrapper;
use parking_lot::Mutex;
use tokio_postgres::{Row, types::ToSql};
use tokio_util::sync::CancellationToken;

use super::{
    error,
    session::{self, Role, Session},
    tls::Target,
};
use crate::{
    model::ids::{PARTITION_COUNT, PartitionId},
    store::{Result, StoreError, cluster::Survey},
};

/// Longest time of a statement on the pen, as seen from here; the server's own bound is shorter. One may
/// have to wait for another that is under way.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(6);
/// An idle pen's proof of life, and a new one's locks, must come within this time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// An idle pen is used this often, well within the server's `idle_session_timeout` of 5 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Number of the lock that all who want a share of the partitions hold together.
const OWNERS_LOCK: i32 = PARTITION_COUNT as i32;
/// Number of the lock under which owners write one after the other what they share.
const TURN_LOCK: i32 = OWNERS_LOCK + 1;
/// From here on, numbers of locks are those of nodes.
pub(super) const NODE_LOCK_MIN: i32 = 1 << 16;
/// Condition on `pg_locks l`: a granted lock of the class `$1`, a bigint.
pub(super) const OF_CLASS: &str = "l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 \
    AND l.classid::bigint = $1 \
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())";

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The connection that holds the locks, if there is one.
pub(super) struct Pen {
    target: Target,
    /// First key of the locks: random per schema, so that two clusters in one database don't meet.
    class: i32,
    /// Number of this node's own lock.
    node_lock: i32,
    held: Mutex<Option<Arc<Held>>>,
    opening: tokio::sync::Mutex<()>,
    /// This node wants no partitions any more.
    resigned: AtomicBool,
}

struct Held {
    session: Session,
    partitions: Mutex<HashSet<PartitionId>>,
    /// Operations that are under way.
    busy: AtomicUsize,
}

/// What a look at the locks shows.
pub(super) struct Seen {
    pub(super) survey: Survey,
    /// This node has just joined.
    pub(super) joined: bool,
    /// No other node's process holds a lock that says that it lives.
    pub(super) alone: bool,
}

/// The pen in the hand of whoever may write with it just now.
pub(super) struct Turn<'a>(&'a ClientWrapper);

impl Turn<'_> {
    /// Runs one statement.
    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>> {
        let statement = self.0.prepare_cached(sql).await.map_err(error::db)?;
        self.0.query(&statement, params).await.map_err(error::db)
    }
}

/// Throws the pen away unless the operation it guards came to a good end; so a caller that stops
/// waiting in the middle leaves no pen of unknown state either.
struct Doubt<'a> {
    pen: &'a Pen,
    held: &'a Arc<Held>,
    cleared: bool,
}

impl<'a> Doubt<'a> {
    fn new(pen: &'a Pen, held: &'a Arc<Held>) -> Self {
        held.busy.fetch_add(1, Ordering::Relaxed);
        Self { pen, held, cleared: false }
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.held.busy.fetch_sub(1, Ordering::Relaxed);
        if !self.cleared {
            self.pen.discard(self.held);
        }
    }
}

impl Pen {
    pub(super) fn new(target: Target, class: i32, node_lock: i32) -> Self {
        Self {
            target,
            class,
            node_lock,
            held: Mutex::new(None),
            opening: tokio::sync::Mutex::new(()),
            resigned: AtomicBool::new(false),
        }
    }

    /// The class of the locks, as `pg_locks` shows it.
    pub(super) fn class(&self) -> i64 {
        i64::from(self.class.cast_unsigned())
    }

    /// Who holds which locks of the class. Opens the pen if need be.
    pub(super) async fn survey(&self) -> Result<Seen> {
        let _one_at_a_time = self.opening.lock().await;
        let (held, joined) = match self.current() {
            Ok(held) => (held, false),
            Err(_) => (self.open().await?, true),
        };
        let sql = format!(
            "SELECT least(l.objid::bigint, $3), count(*) FROM pg_locks l
            WHERE {OF_CLASS} AND (l.objid::bigint <= $2 OR l.objid::bigint >= $3) GROUP BY 1"
        );
        let (owners_lock, nodes_from) = (i64::from(OWNERS_LOCK), i64::from(NODE_LOCK_MIN));
        let params: Params<'_> = &[&self.class(), &owners_lock, &nodes_from];
        let rows = self.run(&held, STATEMENT_TIMEOUT, &sql, params).await?;
        let (mut survey, mut nodes) = (Survey::default(), 0);
        for row in &rows {
            let number: i64 = row.try_get(0).map_err(error::db)?;
            let count: i64 = row.try_get(1).map_err(error::db)?;
            if number == owners_lock {
                survey.owners = u32::try_from(count).unwrap_or(u32::MAX);
            } else if number == nodes_from {
                nodes = count;
            } else if let Ok(id) = u16::try_from(number) {
                survey.locked.push(PartitionId(id));
            }
        }
        survey.locked.sort_unstable();
        Ok(Seen { survey, joined, alone: nodes <= 1 })
    }

    /// From now on this node wants no share.
    pub(super) async fn resign(&self) -> Result<()> {
        if self.resigned.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Ok(held) = self.current() else { return Ok(()) };
        let sql = "SELECT pg_advisory_unlock_shared($1, $2)";
        let params: Params<'_> = &[&self.class, &OWNERS_LOCK];
        self.run(&held, STATEMENT_TIMEOUT, sql, params).await.map(|_| ())
    }

    /// The partitions held, for statements that must touch no others.
    pub(super) fn partitions(&self) -> Vec<i16> {
        let held = self.held.lock().clone();
        let mut ids: Vec<i16> = held.map_or_else(Vec::new, |held| {
            held.partitions.lock().iter().map(|partition| partition.0 as i16).collect()
        });
        ids.sort_unstable();
        ids
    }

    /// Runs one statement as owner. Any fault costs all partitions.
    pub(super) async fn write(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>> {
        let held = self.current()?;
        self.run(&held, STATEMENT_TIMEOUT, sql, params).await
    }

    /// Like [`Self::write`], for the statement that proves that `wanted` are still held.
    pub(super) async fn check(
        &self,
        wanted: &[PartitionId],
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let held = self.current()?;
        if !wanted.iter().all(|partition| held.partitions.lock().contains(partition)) {
            return Err(StoreError::Unavailable("a partition is not held any more".to_owned()));
        }
        self.run(&held, STATEMENT_TIMEOUT, sql, params).await
    }

    /// Does several statements as owner, in one transaction and while no other owner does the same:
    /// each statement sees what those before were committed with.
    pub(super) async fn in_turn<T>(
        &self,
        work: impl AsyncFnOnce(&Turn<'_>) -> Result<T>,
    ) -> Result<T> {
        let held = self.current()?;
        let mut doubt = Doubt::new(self, &held);
        let turn = Turn(&held.session.client);
        let turn = async {
            turn.0.batch_execute("BEGIN").await.map_err(error::db)?;
            let sql = "SELECT pg_advisory_xact_lock($1, $2)";
            turn.query(sql, &[&self.class, &TURN_LOCK]).await?;
            let done = work(&turn).await?;
            turn.0.batch_execute("COMMIT").await.map_err(error::db)?;
            Result::Ok(done)
        };
        let late = |_| StoreError::Unavailable(format!("no answer within {STATEMENT_TIMEOUT:?}"));
        let done = tokio::time::timeout(STATEMENT_TIMEOUT, turn).await.map_err(late)??;
        doubt.cleared = true;
        Ok(done)
    }

    /// Locks those of `want` that are free and not held yet, opening the pen if need be. `sql` gets
    /// the lock class as `$1` and the candidates as `$2`, both int, locks and returns the
    /// partition's number first.
    pub(super) async fn take(
        &self,
        want: &[PartitionId],
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let _one_at_a_time = self.opening.lock().await;
        let held = match self.current() {
            Ok(held) => held,
            Err(_) => self.open().await?,
        };
        let missing: Vec<i32> = {
            let partitions = held.partitions.lock();
            let mut missing: Vec<i32> = want
                .iter()
                .filter(|partition| !partitions.contains(partition))
                .map(|partition| i32::from(partition.0))
                .collect();
            missing.sort_unstable();
            missing.dedup();
            missing
        };
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&self.class, &missing];
        all.extend_from_slice(params);
        let rows = self.run(&held, STATEMENT_TIMEOUT, sql, &all).await?;
        // What was locked and can't be read would be held by nobody's knowledge.
        let ids = rows.iter().map(|row| row.try_get(0).map_err(error::db));
        let taken: Vec<i16> = ids.collect::<Result<_>>().inspect_err(|_| self.discard(&held))?;
        let ids = taken.into_iter().map(|id| PartitionId(id.unsigned_abs()));
        held.partitions.lock().extend(ids);
        Ok(rows)
    }

    /// Gives locks back. Returns whether any were held.
    pub(super) async fn release(&self, partitions: &[PartitionId]) -> Result<bool> {
        let Ok(held) = self.current() else { return Ok(false) };
        let ids: Vec<i32> = {
            let mut mine = held.partitions.lock();
            // From here on no statement names them, whatever comes of the unlocking.
            partitions
                .iter()
                .filter(|partition| mine.remove(partition))
                .map(|partition| i32::from(partition.0))
                .collect()
        };
        if ids.is_empty() {
            return Ok(false);
        }
        let sql = "SELECT pg_advisory_unlock($1, p) FROM unnest($2::int[]) AS p";
        self.run(&held, STATEMENT_TIMEOUT, sql, &[&self.class, &ids]).await.map(|_| true)
    }

    /// Cuts the connection; the server frees the locks.
    pub(super) fn close(&self) {
        if let Some(held) = self.held.lock().take() {
            held.session.cut.abort();
        }
    }

    /// Keeps an idle pen alive, and notices the death of one that nobody uses, until `stop`. On one in use
    /// it would only wait behind a statement that has a time limit of its own.
    pub(super) async fn keep(&self, stop: CancellationToken) {
        while tokio::time::timeout(KEEPALIVE_INTERVAL, stop.cancelled()).await.is_err() {
            if let Ok(held) = self.current()
                && held.busy.load(Ordering::Relaxed) == 0
                && let Err(fault) = self.run(&held, CHECK_TIMEOUT, "SELECT 1", &[]).await
            {
                tracing::warn!(error = %fault, "the session that held the partitions is gone");
            }
        }
    }

    fn current(&self) -> Result<Arc<Held>> {
        let held = self.held.lock().clone();
        match held {
            Some(held) if !held.session.client.is_closed() => Ok(held),
            Some(held) => {
                self.discard(&held);
                Err(lost())
            }
            None => Err(lost()),
        }
    }

    async fn open(&self) -> Result<Arc<Held>> {
        let session = session::open(&self.target, Role::Pen).await?;
        let held =
            Arc::new(Held { session, partitions: Mutex::default(), busy: AtomicUsize::new(0) });
        *self.held.lock() = Some(held.clone());
        let mut locks = vec![self.node_lock];
        if !self.resigned.load(Ordering::Relaxed) {
            locks.push(OWNERS_LOCK);
        }
        // Shared ones, which nobody takes otherwise: there is nothing to wait for.
        let sql = "SELECT pg_advisory_lock_shared($1, n) FROM unnest($2::int[]) AS n";
        self.run(&held, CHECK_TIMEOUT, sql, &[&self.class, &locks]).await?;
        Ok(held)
    }

    async fn run(
        &self,
        held: &Arc<Held>,
        limit: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let mut doubt = Doubt::new(self, held);
        let turn = Turn(&held.session.client);
        let late = |_| StoreError::Unavailable(format!("no answer within {limit:?}"));
        let rows = tokio::time::timeout(limit, turn.query(sql, params)).await.map_err(late)??;
        doubt.cleared = true;
        Ok(rows)
    }

    fn discard(&self, held: &Arc<Held>) {
        held.session.cut.abort();
        let mut current = self.held.lock();
        if current.as_ref().is_some_and(|now| Arc::ptr_eq(now, held)) {
            *current = None;
        }
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("this node holds no partition: its session is gone".to_owned())
}
