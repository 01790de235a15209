//! Settings of every connection to the database.

use std::time::Duration;

use rusqlite::{Connection, config::DbConfig};

use crate::store::Result;

/// How long a statement waits for a lock that a tool of the operator holds on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept prepared per connection; there are about 120.
const STATEMENTS_MAX: usize = 256;
/// Page cache per connection, in KiB (negative by SQLite's convention).
const CACHE_KIB: i64 = -65_536;
/// Pages in the WAL from which a commit moves them into the database: 16 MiB.
const CHECKPOINT_PAGES: i64 = 4096;
/// Bytes that the WAL file keeps once moved.
const WAL_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// Settings of every connection.
pub(super) fn set_up(conn: &Connection) -> Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Without it a statement with a bound LIMIT is prepared anew each time.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // This one answers with a row.
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cache_size", CACHE_KIB)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX)?;
    Ok(())
}
