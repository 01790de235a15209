//! The one writer: a thread that gathers the operations that wait, runs each in a savepoint of one
//! shared transaction, and answers only once that transaction is on disk.
//!
//! So a commit's fsync is shared by all callers that wait at that moment, and an operation that
//! fails takes nothing of its neighbours with it.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    closed,
    files::Files,
    rows::{at, us},
};
use crate::{
    model::ids::{PartitionId, RunId},
    store::{Result, StoreError, Topic},
};

/// Operations that may wait for the writer; callers beyond it wait to get in.
const WRITE_QUEUE_MAX: usize = 4096;
/// Operations that share one transaction.
const GROUP_OPS_MAX: usize = 128;
/// Rows changed by one transaction after which no further operation joins it: bounds how long the
/// first one waits for its answer.
const GROUP_ROWS_MAX: u64 = 8192;

/// What happened to a run, for watchers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Shown,
    Gone,
}

/// What an operation works on: the shared transaction, and notes of what it changed.
pub(super) struct Tx<'a> {
    conn: &'a Connection,
    hints: Vec<Topic>,
    changes: Vec<(RunId, Change)>,
    now: Option<DateTime<Utc>>,
}

impl<'a> Tx<'a> {
    /// A statement, prepared once per connection.
    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>> {
        Ok(self.conn.prepare_cached(sql)?)
    }

    /// The connection, for what reads and writes have in common.
    pub(super) fn conn(&self) -> &'a Connection {
        self.conn
    }

    /// Runs a statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// To be sent once the transaction is on disk.
    pub(super) fn hint(&mut self, topic: Topic) {
        self.hints.push(topic);
    }

    /// The caller's time: dates the event row.
    pub(super) fn note_time(&mut self, now: DateTime<Utc>) {
        self.now = self.now.max(Some(now));
    }

    /// The run was made or changed: watchers look at it again.
    pub(super) fn changed(&mut self, run: RunId) {
        self.changes.push((run, Change::Shown));
    }

    /// The run's row was removed.
    pub(super) fn deleted(&mut self, run: RunId) {
        self.changes.push((run, Change::Gone));
    }

    /// Leaves the run to the owner of its partition.
    pub(super) fn leave_in_inbox(&mut self, partition: PartitionId, run: RunId) -> Result<()> {
        self.execute(
            "INSERT OR IGNORE INTO run_inbox (partition, run_id) VALUES (?1, ?2)",
            params![partition.0, run.to_bytes()],
        )?;
        let topic = Topic::Inbox(partition);
        if !self.hints.contains(&topic) {
            self.hints.push(topic);
        }
        Ok(())
    }
}

/// Tells the caller: with the operation's own result if the transaction is on disk, else with the
/// error.
type Answer = Box<dyn FnOnce(Result<()>) + Send>;
/// Runs within its savepoint; says whether it is to be kept.
type Operation = Box<dyn FnOnce(&mut Tx<'_>) -> (bool, Answer) + Send>;

/// The way to the writer's thread.
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Operation>>>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Writer {
    /// Starts the thread on a connection that is set up for writing.
    pub(super) fn start(
        conn: Connection,
        files: Arc<Files>,
        hints: broadcast::Sender<Topic>,
    ) -> Result<Self> {
        let (queue, operations) = mpsc::channel(WRITE_QUEUE_MAX);
        let (end, ended) = oneshot::channel();
        let newest = conn
            .query_row("SELECT max(at) FROM run_event", [], |row| row.get::<_, Option<i64>>(0))?
            .unwrap_or(0);
        let thread = Thread { conn, files, hints, operations, newest: at(newest) };
        thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                thread.run();
                let _ = end.send(());
            })
            .map_err(|e| StoreError::Unavailable(format!("can't start the writer: {e}")))?;
        Ok(Self { queue: Mutex::new(Some(queue)), ended: Mutex::new(Some(ended)) })
    }

    /// Runs `operation` in the next transaction; returns once that is on disk.
    pub(super) async fn write<T, F>(&self, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let queue = self.queue.lock().clone().ok_or_else(closed)?;
        let (tell, told) = oneshot::channel();
        let boxed: Operation = Box::new(move |tx| {
            // A panic in here would end the writer for all; the savepoint undoes what it did.
            let result = catch_unwind(AssertUnwindSafe(|| operation(tx))).unwrap_or_else(|_| {
                Err(StoreError::Internal("an operation of the store panicked".to_owned()))
            });
            let keep = result.is_ok();
            let answer: Answer = Box::new(move |committed| {
                let _ = tell.send(committed.and(result));
            });
            (keep, answer)
        });
        queue.send(boxed).await.map_err(|_| closed())?;
        told.await.map_err(|_| closed())?
    }

    /// Lets the thread finish what waits, and waits for its end.
    pub(super) async fn close(&self) {
        drop(self.queue.lock().take());
        let ended = self.ended.lock().take();
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }
}

/// What the thread owns.
struct Thread {
    conn: Connection,
    files: Arc<Files>,
    hints: broadcast::Sender<Topic>,
    operations: mpsc::Receiver<Operation>,
    newest: DateTime<Utc>,
}

/// What came together in one transaction.
#[derive(Default)]
struct Group {
    answers: Vec<Answer>,
    hints: Vec<Topic>,
    changes: Vec<(RunId, Change)>,
}

impl Thread {
    fn run(mut self) {
        while let Some(first) = self.operations.blocking_recv() {
            let mut group = Group::default();
            let result = self.gather(first, &mut group);
            if let Err(error) = &result {
                tracing::error!(%error, "a transaction of the store failed");
                // Fails when SQLite rolled back by itself, which is as good.
                let _ = self.conn.execute_batch("ROLLBACK");
            } else {
                for topic in group.hints {
                    // Nobody may be listening.
                    let _ = self.hints.send(topic);
                }
            }
            for answer in group.answers {
                answer(result.clone());
            }
        }
    }

    /// One transaction: the first operation and those that wait behind it.
    fn gather(&mut self, first: Operation, group: &mut Group) -> Result<()> {
        let begun = self.conn.execute_batch("BEGIN IMMEDIATE");
        let rows_before = self.conn.total_changes();
        let mut next = Some(first);
        while let Some(operation) = next {
            self.run_one(operation, group)?;
            // Without a transaction the operation only learns that; no need to make others wait.
            let full = begun.is_err()
                || group.answers.len() >= GROUP_OPS_MAX
                || self.conn.total_changes() - rows_before >= GROUP_ROWS_MAX;
            next = if full { None } else { self.operations.try_recv().ok() };
        }
        begun?;
        self.record_changes(group)?;
        // As late as can be: what is committed into a removed file would be acknowledged for nothing.
        self.files.check()?;
        self.conn.execute_batch("COMMIT")?;
        Ok(())
    }

    /// One operation within its savepoint.
    fn run_one(&mut self, operation: Operation, group: &mut Group) -> Result<()> {
        let mut tx = Tx { conn: &self.conn, hints: Vec::new(), changes: Vec::new(), now: None };
        let begun = tx.execute("SAVEPOINT operation", []);
        let (keep, answer) = operation(&mut tx);
        group.answers.push(answer);
        begun?;
        let Tx { hints, changes, now, .. } = tx;
        if keep {
            for topic in hints {
                if !group.hints.contains(&topic) {
                    group.hints.push(topic);
                }
            }
            group.changes.extend(changes);
            self.newest = self.newest.max(now.unwrap_or(self.newest));
        } else {
            // After a full disk or an I/O error SQLite may have rolled all back: this fails then,
            // and the whole group is told so.
            self.conn.prepare_cached("ROLLBACK TO operation")?.execute([])?;
        }
        self.conn.prepare_cached("RELEASE operation")?.execute([])?;
        Ok(())
    }

    /// One event row for all runs that the transaction touched; the last word on a run counts.
    fn record_changes(&self, group: &mut Group) -> Result<()> {
        if group.changes.is_empty() {
            return Ok(());
        }
        let (mut shown, mut gone) = (Vec::new(), Vec::new());
        let mut seen = HashSet::with_capacity(group.changes.len());
        for (run, change) in group.changes.iter().rev() {
            if seen.insert(*run) {
                match change {
                    Change::Shown => shown.push(*run),
                    Change::Gone => gone.push(*run),
                }
            }
        }
        let bytes = |ids: &[RunId]| -> Vec<u8> {
            ids.iter().rev().flat_map(|run| run.to_bytes()).collect()
        };
        self.conn
            .prepare_cached("INSERT INTO run_event (at, changed, deleted) VALUES (?1, ?2, ?3)")?
            .execute(params![us(self.newest), bytes(&shown), bytes(&gone)])?;
        group.hints.push(Topic::RunEvents);
        Ok(())
    }
}

/// One row, if there is one.
pub(super) fn find<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    Ok(conn.prepare_cached(sql)?.query_row(params, read).optional()?)
}

/// All rows.
pub(super) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
