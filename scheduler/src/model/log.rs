//! Log records of a run.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// Severity, by the contract's numbers; an unknown one is shown as Info.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LogLevel {
    /// Finest.
    Trace = 1,
    /// Fine.
    Debug = 2,
    /// Normal.
    #[default]
    Info = 3,
    /// Something is off.
    Warn = 4,
    /// Something failed.
    Error = 5,
}

/// One record, with its number in the attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// 1, 2, 3 … within the attempt.
    pub seq: u64,
    /// When the executor wrote it.
    pub time: DateTime<Utc>,
    /// Severity.
    pub level: LogLevel,
    /// Text.
    pub message: String,
    /// Structured fields.
    pub fields: BTreeMap<String, String>,
}
