//! The executors' own book: a line when an attempt begins and one when it ends, written before the
//! scheduler hears of either. `kill -9` of the writer loses no line that was written.

use std::{
    collections::HashMap,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::now_us;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Line {
    /// An attempt begins.
    Began {
        /// Microseconds since 1970.
        at: i64,
        /// The process.
        pid: u32,
        /// Resource name of the job.
        job: String,
        /// Id of the run.
        run: String,
        /// Its number.
        attempt: u32,
        /// The fire time, microseconds since 1970.
        fire: i64,
    },
    /// It ended.
    Ended {
        /// Microseconds since 1970.
        at: i64,
        /// Id of the run.
        run: String,
        /// Its number.
        attempt: u32,
        /// With success.
        well: bool,
    },
}

/// Where an executor writes.
pub(super) struct Ledger(File);

impl Ledger {
    /// Opens the file, or goes on in it.
    ///
    /// # Errors
    /// It can't be opened.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self(File::options().create(true).append(true).open(path)?))
    }

    /// Writes a line with one call, so that no two mix and none is there by half.
    ///
    /// # Errors
    /// It can't be written: then the attempt must not go on.
    pub(super) fn write(&self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        Ok((&self.0).write_all(text.as_bytes())?)
    }
}

/// One attempt as its executor saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    /// The process.
    pub(super) pid: u32,
    /// Resource name of the job.
    pub(super) job: String,
    /// Id of the run.
    pub(super) run: String,
    /// Number of the attempt.
    pub(super) attempt: u32,
    /// The fire time, microseconds since 1970.
    pub(super) fire: i64,
    /// When it began, the same.
    pub(super) began: i64,
    /// When it ended, if it did.
    pub(super) ended: Option<i64>,
    /// With success.
    pub(super) well: bool,
}

/// All that the executors wrote, in the order of their beginnings. An attempt that a killed process
/// left behind ended when the process did (`killed`: pid and instant).
///
/// # Errors
/// A file can't be read, or a line is none.
pub(super) fn read(files: &[PathBuf], killed: &[(u32, i64)]) -> Result<Vec<Execution>> {
    let mut all = Vec::new();
    for path in files {
        // An executor that never had a run has written nothing.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        take(&text, &mut all).with_context(|| format!("reading {}", path.display()))?;
    }
    for execution in all.iter_mut().filter(|execution| execution.ended.is_none()) {
        let end = killed.iter().find(|(pid, _)| *pid == execution.pid);
        execution.ended = end.map(|(_, at)| *at);
    }
    all.sort_by_key(|execution| execution.began);
    Ok(all)
}

fn take(text: &str, all: &mut Vec<Execution>) -> Result<()> {
    let mut open: HashMap<(String, u32), usize> = HashMap::new();
    for line in text.lines() {
        match serde_json::from_str(line)? {
            Line::Began { at: began, pid, job, run, attempt, fire } => {
                open.insert((run.clone(), attempt), all.len());
                let (ended, well) = (None, false);
                all.push(Execution { pid, job, run, attempt, fire, began, ended, well });
            }
            Line::Ended { at, run, attempt, well } => {
                let begun = open.remove(&(run, attempt)).and_then(|index| all.get_mut(index));
                let begun = begun.context("an attempt ended that had not begun")?;
                (begun.ended, begun.well) = (Some(at), well);
            }
        }
    }
    Ok(())
}

/// A line for the begin of an attempt.
#[must_use]
pub(super) fn began(job: &str, run: &str, attempt: u32, fire: i64) -> Line {
    let (job, run) = (job.to_owned(), run.to_owned());
    Line::Began { at: now_us(), pid: std::process::id(), job, run, attempt, fire }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_of_a_killed_process_ended_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let ledger = Ledger::open(&path).unwrap();
        ledger.write(&began("apps/a/jobs/x", "r1", 1, 5)).unwrap();
        let ended = Line::Ended { at: 7, run: "r1".to_owned(), attempt: 1, well: true };
        ledger.write(&ended).unwrap();
        ledger.write(&began("apps/a/jobs/x", "r2", 1, 6)).unwrap();
        let me = std::process::id();
        let read = read(&[path, dir.path().join("none")], &[(me, 99)]).unwrap();
        let ends: Vec<_> = read.iter().map(|e| (e.run.as_str(), e.ended, e.well)).collect();
        assert_eq!(ends, [("r1", Some(7), true), ("r2", Some(99), false)]);
    }
}
