//! A few connections that only read; in WAL mode they wait for nobody.

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{closed, set_up};
use crate::store::{Result, StoreError};

/// Reads at the same time; further ones wait.
const READERS: usize = 4;

/// The connections that are free just now.
pub(super) struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

/// A connection in use; it goes back whatever happens to its user.
struct Lease {
    conn: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
}

impl Lease {
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let Some(conn) = &self.conn else { return Err(closed()) };
        let snapshot = conn.unchecked_transaction()?;
        read(&snapshot)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.free.lock().extend(self.conn.take());
    }
}

impl Readers {
    /// Opens the connections.
    pub(super) fn open(file: &Path) -> Result<Self> {
        let mut free = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let conn = Connection::open(file)?;
            set_up(&conn)?;
            conn.pragma_update(None, "query_only", true)?;
            free.push(conn);
        }
        let permits = Arc::new(Semaphore::new(READERS));
        Ok(Self { free: Arc::new(Mutex::new(free)), permits })
    }

    /// Runs `read` on one snapshot of what is committed.
    pub(super) async fn read<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let conn = self.free.lock().pop().ok_or_else(closed)?;
        let lease = Lease { conn: Some(conn), free: self.free.clone() };
        let task = spawn_blocking(move || {
            let result = lease.read(read);
            // The connection is back before the next reader may come for it.
            drop(lease);
            drop(permit);
            result
        });
        task.await.map_err(|e| StoreError::Internal(format!("a read of the store failed: {e}")))?
    }

    /// Waits for the reads under way and ends the connections.
    pub(super) async fn close(&self) {
        let all = u32::try_from(READERS).unwrap_or(u32::MAX);
        if let Ok(permits) = self.permits.acquire_many(all).await {
            self.permits.close();
            permits.forget();
        }
        self.free.lock().clear();
    }
}
