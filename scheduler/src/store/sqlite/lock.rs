//! The data directory: made private, and held by one server at a time.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::store::{Result, StoreError};

/// Held by the server that uses the directory; its text is that server's process id.
const LOCK_FILE: &str = "clawjob.lock";
/// The database.
pub(super) const DATABASE_FILE: &str = "clawjob.db";
/// The directory is for its owner only.
const DIR_MODE: u32 = 0o700;
/// So are the files; SQLite gives its side files the database's mode.
const FILE_MODE: u32 = 0o600;
/// A process id is no longer than that; more in the file is not ours.
const PID_TEXT_MAX: u64 = 20;

/// Makes the directory if need be, locks it, and makes sure that the database file is private.
/// The lock lasts as long as the returned file is open.
pub(super) fn lock_dir(dir: &Path) -> Result<(File, PathBuf)> {
    let failed = |what: &str, error: std::io::Error| {
        StoreError::Unavailable(format!("{what} in data directory {}: {error}", dir.display()))
    };
    DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(dir)
        .map_err(|e| failed("can't work", e))?;
    let mut lock =
        open_private(&dir.join(LOCK_FILE)).map_err(|e| failed("can't open the lock", e))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(dir, lock)),
        Err(TryLockError::Error(error)) => return Err(failed("can't lock", error)),
    }
    lock.set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| write!(lock, "{}", std::process::id()))
        .map_err(|e| failed("can't write the lock", e))?;
    let database = dir.join(DATABASE_FILE);
    open_private(&database).map_err(|e| failed("can't open the database", e))?;
    Ok((lock, database))
}

fn open_private(file: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(file)
}

/// Says who holds the directory.
fn in_use(dir: &Path, lock: File) -> StoreError {
    let mut pid = String::new();
    // The other server may be about to write it: then it is not named.
    let _ = lock.take(PID_TEXT_MAX).read_to_string(&mut pid);
    let who = if pid.is_empty() { "another server".to_owned() } else { format!("process {pid}") };
    StoreError::Conflict(format!(
        "data directory {} is in use by {who}: stop it, or give this server a directory of its own",
        dir.display()
    ))
}
