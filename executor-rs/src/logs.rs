//! The log of each attempt on its way to the scheduler: a bounded buffer that handlers write to
//! ([`LogSink`]) and the windowed shipping of it in chunks ([`Shipper`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clawjob_proto::v1::{LogLevel, LogRecord};
use parking_lot::Mutex;
use prost::Message as _;

use crate::failure::cut_middle;
use crate::time::{Now, timestamp};
use crate::wake::Waker;

mod ship;
pub(crate) use ship::Shipper;

/// Records that one attempt may log in a second; later ones of that second are dropped.
pub(crate) const RECORDS_PER_SECOND_MAX: u32 = 1_000;
/// Bytes that one attempt may log in all; later records are dropped.
pub(crate) const ATTEMPT_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Bytes of one attempt that wait to be sent; beyond it the oldest are dropped.
const BUFFER_BYTES_MAX: usize = 256 * 1024;
/// Bytes waiting that make a chunk at once.
const CHUNK_BYTES: usize = 48 * 1024;
/// Longest message of a record, in bytes; a longer one is cut in the middle.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Most fields of a record; the rest are left out.
const FIELDS_MAX: usize = 32;
/// Longest field value, in bytes; a longer one is cut in the middle.
const FIELD_BYTES_MAX: usize = 1024;

/// Where a handler's log records go until they are sent.
#[derive(Debug, Default)]
pub(crate) struct LogSink {
    buffer: Mutex<Buffer>,
    waker: Option<Waker>,
    bytes_dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Buffer {
    records: VecDeque<Waiting>,
    /// Bytes of `records`.
    bytes: usize,
    /// Dropped after the last record.
    tail_dropped: u64,
    /// Bytes taken so far.
    taken: usize,
    second: Option<Instant>,
    in_second: u32,
}

#[derive(Debug)]
struct Waiting {
    record: LogRecord,
    bytes: usize,
    /// Dropped just before this one.
    dropped: u64,
}

/// Records cut off for one chunk.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Cut {
    pub(crate) records: Vec<LogRecord>,
    pub(crate) bytes: usize,
    pub(crate) dropped: u64,
}

impl LogSink {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker: Some(waker), ..Self::default() }
    }

    /// Takes a record, or counts it as dropped when a bound is passed.
    pub(crate) fn push(
        &self,
        level: LogLevel,
        message: String,
        fields: Vec<(String, String)>,
        now: Now,
    ) {
        let record = LogRecord {
            time: Some(timestamp(now.wall)),
            level: level.into(),
            message: cut_middle(message, MESSAGE_BYTES_MAX),
            fields: fields
                .into_iter()
                .take(FIELDS_MAX)
                .map(|(name, value)| (name, cut_middle(value, FIELD_BYTES_MAX)))
                .collect(),
        };
        let bytes = record.encoded_len();
        let mut buffer = self.buffer.lock();
        if !buffer.admit(bytes, now.mono) {
            buffer.tail_dropped += 1;
            self.count_dropped(bytes);
        } else {
            let dropped = std::mem::take(&mut buffer.tail_dropped);
            buffer.records.push_back(Waiting { record, bytes, dropped });
            buffer.bytes += bytes;
            while buffer.bytes > BUFFER_BYTES_MAX {
                let Some(lost) = buffer.drop_oldest() else { break };
                self.count_dropped(lost);
            }
        }
        let urgent = buffer.bytes >= CHUNK_BYTES;
        drop(buffer);
        if let Some(waker) = &self.waker {
            waker.list(urgent);
        }
    }

    fn count_dropped(&self, bytes: usize) {
        self.bytes_dropped.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The way back onto the list of attempts with something to send.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }

    /// Bytes dropped since the last call.
    pub(crate) fn take_bytes_dropped(&self) -> u64 {
        self.bytes_dropped.swap(0, Ordering::Relaxed)
    }

    /// True when neither a record nor a count of dropped ones waits.
    pub(crate) fn is_empty(&self) -> bool {
        let buffer = self.buffer.lock();
        buffer.records.is_empty() && buffer.tail_dropped == 0
    }

    /// True when a record waits.
    pub(crate) fn has_records(&self) -> bool {
        !self.buffer.lock().records.is_empty()
    }

    /// Bytes of the next chunk of at most `max` bytes, without cutting it.
    fn next_bytes(&self, max: usize) -> usize {
        let buffer = self.buffer.lock();
        buffer.span(max).1
    }

    /// Cuts the next chunk. One record is cut off even when it is larger than `max`. What was
    /// dropped last waits for a record to come with, whose number tells a repetition apart.
    fn cut(&self, max: usize) -> Option<Cut> {
        let mut buffer = self.buffer.lock();
        let (count, bytes) = buffer.span(max);
        if count == 0 {
            return None;
        }
        let dropped = buffer.records.front().map_or(0, |waiting| waiting.dropped);
        let records = buffer.records.drain(..count).map(|waiting| waiting.record).collect();
        buffer.bytes -= bytes;
        Some(Cut { records, bytes, dropped })
    }

    /// Drops all that waits and returns how many records were dropped and not told of yet.
    fn give_up(&self) -> u64 {
        let mut buffer = self.buffer.lock();
        while let Some(lost) = buffer.drop_oldest() {
            self.count_dropped(lost);
        }
        std::mem::take(&mut buffer.tail_dropped)
    }

    /// Everything that waits, with the number of records dropped; for the test harness.
    pub(crate) fn drain(&self) -> (Vec<LogRecord>, u64) {
        let mut records = Vec::new();
        let mut dropped = 0;
        while let Some(cut) = self.cut(usize::MAX) {
            records.extend(cut.records);
            dropped += cut.dropped;
        }
        dropped += self.give_up();
        (records, dropped)
    }
}

impl Buffer {
    /// Whether the rate and the size of the attempt's log leave room for another record.
    fn admit(&mut self, bytes: usize, now: Instant) -> bool {
        let same_second = self.second.is_some_and(|at| now < at + Duration::from_secs(1));
        if !same_second {
            self.second = Some(now);
            self.in_second = 0;
        }
        if self.in_second >= RECORDS_PER_SECOND_MAX || self.taken + bytes > ATTEMPT_BYTES_MAX {
            return false;
        }
        self.in_second += 1;
        self.taken += bytes;
        true
    }

    /// How many records, and bytes, the next chunk takes: a gap starts a new chunk, since a chunk
    /// tells of the records dropped before its first only.
    fn span(&self, max: usize) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for waiting in &self.records {
            if count > 0 && (waiting.dropped > 0 || bytes + waiting.bytes > max) {
                break;
            }
            count += 1;
            bytes += waiting.bytes;
        }
        (count, bytes)
    }

    fn drop_oldest(&mut self) -> Option<usize> {
        let lost = self.records.pop_front()?;
        self.bytes -= lost.bytes;
        match self.records.front_mut() {
            Some(next) => next.dropped += lost.dropped + 1,
            None => self.tail_dropped += lost.dropped + 1,
        }
        Some(lost.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    fn say(sink: &LogSink, text: &str, now: Now) {
        sink.push(LogLevel::Info, text.to_owned(), Vec::new(), now);
    }

    #[test]
    fn records_beyond_the_rate_are_counted_at_their_place() {
        let sink = LogSink::default();
        let now = time::now();
        for i in 0..RECORDS_PER_SECOND_MAX + 7 {
            say(&sink, &i.to_string(), now);
        }
        let later = Now { mono: now.mono + Duration::from_secs(1), ..now };
        say(&sink, "later", later);
        let first = sink.cut(usize::MAX).unwrap();
        assert_eq!((first.records.len(), first.dropped), (1_000, 0));
        let second = sink.cut(usize::MAX).unwrap();
        assert_eq!((second.records.len(), second.dropped), (1, 7));
        assert!(sink.is_empty());
    }

    #[test]
    fn a_full_buffer_drops_the_oldest_and_counts_exactly() {
        let sink = LogSink::default();
        let now = time::now();
        let text = "x".repeat(8 * 1024);
        for _ in 0..100 {
            say(&sink, &text, now);
        }
        let (records, dropped) = sink.drain();
        assert_eq!(records.len() as u64 + dropped, 100);
        assert!(records.len() >= 30 && dropped > 0);
        assert!(sink.take_bytes_dropped() >= dropped * 8 * 1024);
    }

    #[test]
    fn an_attempt_logs_ten_mebibytes_at_most() {
        let sink = LogSink::default();
        let start = time::now();
        let text = "x".repeat(MESSAGE_BYTES_MAX);
        let mut kept = 0;
        for i in 0..700_u64 {
            let now = Now { mono: start.mono + Duration::from_secs(i), ..start };
            say(&sink, &text, now);
            kept += sink.drain().0.len();
        }
        assert!((630..=640).contains(&kept), "{kept}");
    }
}
