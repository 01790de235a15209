//! The database's files, watched: SQLite goes on writing into files that were removed, and all that
//! would be gone with the process.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::store::{Result, StoreError};

/// Where the files are, and which they were when they were opened.
pub(super) struct Files {
    opened: Vec<(PathBuf, Identity)>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Files {
    /// The database and its log, both open by now.
    ///
    /// # Errors
    /// `Unavailable` when one can't be looked at.
    pub(super) fn of(database: &Path) -> Result<Self> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let identify = |path: PathBuf| match identity(&path) {
            Ok(identity) => Ok((path, identity)),
            Err(fault) => Err(StoreError::Unavailable(format!("{}: {fault}", path.display()))),
        };
        let opened = [database.to_owned(), log.into()].into_iter().map(identify);
        Ok(Self { opened: opened.collect::<Result<_>>()? })
    }

    /// Whether they are still the ones that were opened.
    ///
    /// # Errors
    /// `Removed`, with the remedy.
    pub(super) fn check(&self) -> Result<()> {
        let changed = |(path, opened): &&(PathBuf, Identity)| identity(path).ok() != Some(*opened);
        let Some((path, _)) = self.opened.iter().find(changed) else { return Ok(()) };
        Err(StoreError::Removed(format!(
            "{} was removed or replaced while this server (process {}) runs; it answers reads from \
             the removed file until it ends, and writes nothing: save the jobs with `clawjob \
             export`, stop the server, put the files back from a backup, and start it again",
            path.display(),
            std::process::id()
        )))
    }
}

fn identity(path: &Path) -> std::io::Result<Identity> {
    let file = path.metadata()?;
    Ok((file.dev(), file.ino()))
}
