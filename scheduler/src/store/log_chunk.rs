//! How log records are stored, in both databases: a chunk is one JSON array of records, each
//! `[seq, time in µs, level 1–5, message, fields]`. What is compact is the shape, not the bytes:
//! the database's own pages are compressed by nobody, but can be read by any tool.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Result, StoreError,
    ops::{LogPage, LogQuery},
};
use crate::model::log::{LogLevel, LogRecord};

/// Bytes of encoded records kept of one attempt; what comes later is counted as dropped.
pub const ATTEMPT_LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Chunks that one page of a log looks at, whatever its filter leaves out.
pub const LOG_PAGE_CHUNKS_MAX: usize = 512;
/// Bytes of text after which a page of a log ends, however few records that are: a client takes
/// answers of 4 MiB.
pub const LOG_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// One record as stored.
#[derive(Serialize, Deserialize)]
struct Stored<'a>(
    u64,
    i64,
    u8,
    #[serde(borrow)] std::borrow::Cow<'a, str>,
    #[serde(default)] BTreeMap<String, String>,
);

/// Encodes records.
pub fn encode(records: &[LogRecord]) -> Result<Vec<u8>> {
    let stored: Vec<Stored<'_>> = records
        .iter()
        .map(|record| {
            Stored(
                record.seq,
                record.time.timestamp_micros(),
                record.level as u8,
                record.message.as_str().into(),
                record.fields.clone(),
            )
        })
        .collect();
    serde_json::to_vec(&stored).map_err(|e| StoreError::Internal(format!("can't encode logs: {e}")))
}

/// Decodes a chunk.
pub fn decode(bytes: &[u8]) -> Result<Vec<LogRecord>> {
    let stored: Vec<Stored<'_>> = serde_json::from_slice(bytes)
        .map_err(|e| StoreError::Corrupt(format!("a chunk of a log can't be read: {e}")))?;
    let record = |Stored(seq, time, level, message, fields)| LogRecord {
        seq,
        time: DateTime::from_timestamp_micros(time).unwrap_or(DateTime::<Utc>::UNIX_EPOCH),
        level: level_of(level),
        message: message.into_owned(),
        fields,
    };
    Ok(stored.into_iter().map(record).collect())
}

fn level_of(number: u8) -> LogLevel {
    match number {
        1 => LogLevel::Trace,
        2 => LogLevel::Debug,
        4 => LogLevel::Warn,
        5 => LogLevel::Error,
        _ => LogLevel::Info,
    }
}

/// Adds the records of a chunk that the query asks for to the page and moves `through_seq`.
/// Returns whether the page has room for more.
pub fn fill_page(page: &mut LogPage, query: &LogQuery, records: Vec<LogRecord>) -> bool {
    for record in records {
        if record.seq <= page.through_seq {
            continue;
        }
        if page.records.len() >= query.limit as usize || page.bytes >= LOG_PAGE_BYTES_MAX {
            return false;
        }
        page.through_seq = record.seq;
        if record.level >= query.min_level && record.message.contains(&query.contains) {
            let fields = record.fields.iter().map(|(key, value)| key.len() + value.len());
            page.bytes += record.message.len() + fields.sum::<usize>();
            page.records.push(record);
        }
    }
    true
}
