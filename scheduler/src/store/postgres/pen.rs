//! The pen: the one session that holds the advisory locks of this node's partitions, and on which
//! everything is written that only their owner may write.
//!
//! Postgres itself is the fence: a statement can only commit while its session lives, and while it
//! lives it holds the locks. So the pen is thrown away at the first fault, and with it all
//! partitions: nothing is ever written as owner on a session whose locks are in doubt.

use std::{collections::HashSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_postgres::{Row, types::ToSql};
use tokio_util::sync::CancellationToken;

use super::{
    error,
    session::{self, Role, Session},
    tls::Target,
};
use crate::{
    model::ids::PartitionId,
    store::{Result, StoreError},
};

/// Longest time of a statement on the pen, as seen from here; the server's own bound is shorter.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(6);
/// The pen's proof of life must come within this time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// An idle pen is used this often, well within the server's `idle_session_timeout` of 5 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The connection that holds the locks, if there is one.
pub(super) struct Pen {
    target: Target,
    /// First key of the locks: random per schema, so that two clusters in one database don't meet.
    class: i32,
    held: Mutex<Option<Arc<Held>>>,
    opening: tokio::sync::Mutex<()>,
}

struct Held {
    session: Session,
    partitions: Mutex<HashSet<PartitionId>>,
}

/// Throws the pen away unless the operation it guards came to a good end; so a caller that stops
/// waiting in the middle leaves no pen of unknown state either.
struct Doubt<'a> {
    pen: &'a Pen,
    held: &'a Arc<Held>,
    cleared: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if !self.cleared {
            self.pen.discard(self.held);
        }
    }
}

impl Pen {
    pub(super) fn new(target: Target, class: i32) -> Self {
        Self { target, class, held: Mutex::new(None), opening: tokio::sync::Mutex::new(()) }
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
        self.run(&held, CHECK_TIMEOUT, sql, params).await
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
        let mut partitions = held.partitions.lock();
        for row in &rows {
            let id: i16 = row.try_get(0).map_err(error::db)?;
            partitions.insert(PartitionId(id.unsigned_abs()));
        }
        Ok(rows)
    }

    /// Gives locks back.
    pub(super) async fn release(&self, partitions: &[PartitionId]) -> Result<()> {
        let Ok(held) = self.current() else { return Ok(()) };
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
            return Ok(());
        }
        let sql = "SELECT pg_advisory_unlock($1, p) FROM unnest($2::int[]) AS p";
        self.run(&held, STATEMENT_TIMEOUT, sql, &[&self.class, &ids]).await.map(|_| ())
    }

    /// Cuts the connection; the server frees the locks.
    pub(super) fn close(&self) {
        if let Some(held) = self.held.lock().take() {
            held.session.cut.abort();
        }
    }

    /// Keeps an idle pen alive, and notices the death of one that nobody uses, until `stop`.
    pub(super) async fn keep(&self, stop: CancellationToken) {
        while tokio::time::timeout(KEEPALIVE_INTERVAL, stop.cancelled()).await.is_err() {
            if let Ok(held) = self.current()
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
        let held = Arc::new(Held { session, partitions: Mutex::new(HashSet::new()) });
        *self.held.lock() = Some(held.clone());
        Ok(held)
    }

    async fn run(
        &self,
        held: &Arc<Held>,
        limit: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let mut doubt = Doubt { pen: self, held, cleared: false };
        let client = &held.session.client;
        let work = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, params).await
        };
        let rows = tokio::time::timeout(limit, work)
            .await
            .map_err(|_| StoreError::Unavailable(format!("no answer within {limit:?}")))?
            .map_err(error::db)?;
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
