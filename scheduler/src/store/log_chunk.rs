//! How log records are stored, in both databases: a chunk is one JSON array of records, each
//! `[seq, time in µs, level 1–5, message, fields]`. What is compact is the shape, not the bytes:
//! the database's own pages are compressed by nobody, but can be read by any tool.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Result, StoreError,
    ops::{LogAppend, LogPage, LogQuery},
};
use crate::model::log::{LogLevel, LogRecord};

/// Bytes of encoded records kept of one attempt; what comes later is counted as dropped.
pub const ATTEMPT_LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// What a log says where its attempt goes on elsewhere.
pub const SEAM: &str = "the executor stopped; the attempt was begun again from here";
/// Chunks that one page of a log looks at, whatever its filter leaves out.
pub const LOG_PAGE_CHUNKS_MAX: usize = 512;
/// Bytes of text after which a page of a log ends, however few records that are: a client takes
/// answers of 4 MiB.
pub const LOG_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Records that one chunk counts as dropped before it stops counting: a sender may say any number,
/// and the sum over all chunks of a log must be one that databases have.
pub const CHUNK_DROPPED_MAX: u64 = 1 << 40;

/// One record as stored.
#[derive(Serialize, Deserialize)]
struct Stored<'a>(
    u64,
    i64,
    u8,
    #[serde(borrow)] std::borrow::Cow<'a, str>,
    #[serde(default)] BTreeMap<String, String>,
);

/// How far the log of an attempt reaches, as its last chunk tells.
///
/// An attempt whose executor stopped goes on under a later dispatch, which counts its records from
/// 1 again. Readers see one log: what a later dispatch wrote goes behind what the earlier one did,
/// each number raised by the same base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// First number of the last chunk; None without any chunk.
    pub last_chunk: Option<u64>,
    /// Number of the last record, stored or dropped.
    pub last_seq: u64,
    /// Encoded bytes of all chunks.
    pub bytes: u64,
    /// The dispatch whose records the last chunk has; 0 where that was not kept.
    pub fence: u64,
    /// What was added to that dispatch's own numbers.
    pub base: u64,
}

/// What an append leads to.
#[derive(Debug)]
pub enum Step {
    /// All of it is stored already, or of a dispatch that another has taken over from.
    Nothing,
    /// Nothing to store: the last chunk takes the count, and the numbers of what was dropped.
    Count {
        /// Which chunk.
        first_seq: u64,
        /// The log now ends here.
        last_seq: u64,
        /// So many more were dropped.
        dropped: u64,
    },
    /// A chunk to insert.
    Insert(NewChunk),
}

/// A chunk to insert, in the numbers of readers.
#[derive(Debug)]
pub struct NewChunk {
    /// Number of its first record.
    pub first_seq: u64,
    /// Number of its last record, stored or dropped.
    pub last_seq: u64,
    /// Records of the executor in it.
    pub count: u64,
    /// Records dropped just before it, and those that found no room.
    pub dropped: u64,
    /// Encoded bytes of all chunks up to this one.
    pub bytes: u64,
    /// The dispatch that wrote it.
    pub fence: u64,
    /// What was added to the dispatch's own numbers.
    pub base: u64,
    /// Encoded.
    pub records: Vec<u8>,
}

impl Reach {
    /// Up to where the records of a dispatch are stored, in its own numbers.
    pub fn through(&self, fence: u64) -> u64 {
        let own = self.fence == 0 || self.fence == fence;
        if own { self.last_seq.saturating_sub(self.base) } else { 0 }
    }

    /// Works out what is new in an append that arrived at `now`, and moves on.
    ///
    /// # Errors
    /// Records that can't be encoded.
    pub fn add(&mut self, append: &LogAppend, now: DateTime<Utc>) -> Result<Step> {
        let fence = append.attempt.fence;
        if fence < self.fence {
            return Ok(Step::Nothing);
        }
        let goes_on = self.fence > 0 && fence > self.fence;
        let base = if goes_on { self.last_seq.saturating_add(1) } else { self.base };
        let number = |record: &LogRecord| base.saturating_add(record.seq);
        let known = append.records.partition_point(|record| number(record) <= self.last_seq);
        let fresh = append.records.get(known..).unwrap_or_default();
        // A chunk whose begin is stored came before, and what was dropped before it is counted.
        let mut dropped = if known == 0 { append.dropped.min(CHUNK_DROPPED_MAX) } else { 0 };
        if fresh.is_empty() && dropped == 0 {
            return Ok(Step::Nothing);
        }
        let seam = goes_on.then(|| seam(fresh.first().map_or(now, |record| record.time)));
        let mut records = encode(base, seam.iter().chain(fresh))?;
        let full = self.bytes + records.len() as u64 > ATTEMPT_LOG_BYTES_MAX;
        if full {
            dropped += fresh.len() as u64;
        }
        let last_seq = fresh.last().map_or(self.last_seq, number);
        self.last_seq = if goes_on { last_seq.max(base) } else { last_seq };
        if let Some(first_seq) = self.last_chunk.filter(|_| full || fresh.is_empty())
            && !goes_on
        {
            return Ok(Step::Count { first_seq, last_seq: self.last_seq, dropped });
        }
        if full {
            records = encode(base, seam.iter())?;
        }
        let first = seam.as_ref().or(fresh.first());
        let first_seq = first.map_or(0, number);
        self.last_chunk = Some(first_seq);
        self.bytes += records.len() as u64;
        (self.fence, self.base) = (fence, base);
        Ok(Step::Insert(NewChunk {
            first_seq,
            last_seq: self.last_seq,
            count: if full { 0 } else { fresh.len() as u64 },
            dropped,
            bytes: self.bytes,
            fence,
            base,
            records,
        }))
    }
}

/// The scheduler's own line where an attempt goes on under another dispatch; it has the number
/// before that dispatch's first.
fn seam(time: DateTime<Utc>) -> LogRecord {
    LogRecord {
        seq: 0,
        time,
        level: LogLevel::Info,
        message: SEAM.to_owned(),
        fields: BTreeMap::new(),
    }
}

/// Encodes records, their numbers raised by `base`.
fn encode<'a>(base: u64, records: impl Iterator<Item = &'a LogRecord>) -> Result<Vec<u8>> {
    let stored: Vec<Stored<'_>> = records
        .map(|record| {
            Stored(
                base.saturating_add(record.seq),
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
