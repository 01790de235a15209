//! Chunks of log records under way: numbered, windowed, kept until acknowledged.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use clawjob_proto::v1::{AttemptRef, LogChunk};

use super::LogSink;
use crate::engine::Key;

/// Chunk size until a Welcome names another, in bytes.
const CHUNK_BYTES_DEFAULT: usize = 64 * 1024;
/// Window until a Welcome names another, in bytes.
const WINDOW_BYTES_DEFAULT: usize = 256 * 1024;

/// All attempts whose log is not acknowledged yet, under one window per session.
#[derive(Debug)]
pub(crate) struct Shipper {
    ships: HashMap<Key, Ship>,
    in_flight: usize,
    window: usize,
    chunk_max: usize,
}

#[derive(Debug)]
struct Ship {
    sink: Arc<LogSink>,
    next_seq: u64,
    /// Cut and not acknowledged, oldest first.
    kept: VecDeque<Kept>,
    /// How many of `kept` this session has sent.
    sent: usize,
}

#[derive(Debug)]
struct Kept {
    chunk: LogChunk,
    bytes: usize,
    last_seq: u64,
}

impl Default for Shipper {
    fn default() -> Self {
        Self {
            ships: HashMap::new(),
            in_flight: 0,
            window: WINDOW_BYTES_DEFAULT,
            chunk_max: CHUNK_BYTES_DEFAULT,
        }
    }
}

impl Shipper {
    pub(crate) fn add(&mut self, key: Key, sink: Arc<LogSink>) {
        self.ships.insert(key, Ship { sink, next_seq: 1, kept: VecDeque::new(), sent: 0 });
    }

    /// A new session has received nothing yet. Limits of 0 keep the old ones.
    pub(crate) fn on_session(&mut self, window: u32, chunk_max: u32) {
        if window > 0 {
            self.window = window as usize;
        }
        if chunk_max > 0 {
            self.chunk_max = chunk_max as usize;
        }
        self.in_flight = 0;
        for ship in self.ships.values_mut() {
            ship.sent = 0;
        }
    }

    /// The next chunk of an attempt that the window has room for.
    pub(crate) fn next_chunk(&mut self, key: &Key, fence: u64) -> Option<LogChunk> {
        let ship = self.ships.get_mut(key)?;
        let again = ship.kept.get(ship.sent).map(|kept| kept.bytes);
        let bytes = again.unwrap_or_else(|| ship.sink.next_bytes(self.chunk_max));
        if self.in_flight > 0 && self.in_flight + bytes > self.window {
            return None;
        }
        if again.is_none() {
            let cut = ship.sink.cut(self.chunk_max)?;
            let chunk =
                LogChunk { dropped: cut.dropped, records: cut.records, ..LogChunk::default() };
            ship.keep(chunk, cut.bytes);
        }
        let kept = ship.kept.get(ship.sent)?;
        ship.sent += 1;
        self.in_flight += kept.bytes;
        Some(LogChunk { r#ref: Some(key.to_ref(fence)), ..kept.chunk.clone() })
    }

    /// True when everything the attempt said has been sent in this session.
    pub(crate) fn is_sent(&self, key: &Key) -> bool {
        self.ships.get(key).is_none_or(|ship| ship.sent == ship.kept.len() && ship.sink.is_empty())
    }

    /// True when every record has been sent in this session; how many were dropped last may still
    /// have to be told.
    pub(crate) fn has_sent_records(&self, key: &Key) -> bool {
        let all_sent = |ship: &Ship| ship.sent == ship.kept.len() && !ship.sink.has_records();
        self.ships.get(key).is_none_or(all_sent)
    }

    /// Drops what the attempt still has unsent; the chunk to send tells how much that was. The
    /// attempt has ended, so the numbers given back are used for nothing else.
    pub(crate) fn give_up(&mut self, key: &Key, fence: u64) -> Option<LogChunk> {
        let ship = self.ships.get_mut(key)?;
        let mut dropped = ship.sink.give_up();
        for kept in ship.kept.drain(ship.sent..) {
            dropped += kept.chunk.records.len() as u64 + kept.chunk.dropped;
            ship.next_seq = ship.next_seq.min(kept.chunk.first_seq);
        }
        if dropped == 0 {
            return None;
        }
        ship.keep(LogChunk { dropped, ..LogChunk::default() }, 0);
        ship.sent += 1;
        let chunk = ship.kept.back()?.chunk.clone();
        Some(LogChunk { r#ref: Some(key.to_ref(fence)), ..chunk })
    }

    /// The scheduler has stored records up to `through_seq`.
    pub(crate) fn on_ack(&mut self, attempt: &AttemptRef, through_seq: u64) {
        let Some(ship) = self.ships.get_mut(&Key::of(attempt)) else { return };
        while ship.sent > 0 && ship.kept.front().is_some_and(|kept| kept.last_seq <= through_seq) {
            if let Some(kept) = ship.kept.pop_front() {
                ship.sent -= 1;
                self.in_flight = self.in_flight.saturating_sub(kept.bytes);
            }
        }
    }

    /// Number of the attempt's last record; 0 when it said nothing.
    pub(crate) fn last_seq(&self, key: &Key) -> u64 {
        self.ships.get(key).map_or(0, |ship| ship.next_seq - 1)
    }

    /// Forgets an attempt whose result is acknowledged.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some(ship) = self.ships.remove(key) {
            let sent = ship.kept.iter().take(ship.sent).map(|kept| kept.bytes).sum();
            self.in_flight = self.in_flight.saturating_sub(sent);
        }
    }
}

impl Ship {
    fn keep(&mut self, chunk: LogChunk, bytes: usize) {
        let first_seq = self.next_seq;
        self.next_seq += chunk.records.len() as u64;
        let last_seq = self.next_seq - 1;
        self.kept.push_back(Kept { chunk: LogChunk { first_seq, ..chunk }, bytes, last_seq });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;
    use clawjob_proto::v1::LogLevel;

    fn shipper(window: u32, chunk: u32) -> (Shipper, Key, Arc<LogSink>) {
        let mut shipper = Shipper::default();
        shipper.on_session(window, chunk);
        let key = Key::new("run", 1);
        let sink = Arc::new(LogSink::default());
        shipper.add(key.clone(), sink.clone());
        (shipper, key, sink)
    }

    fn say(sink: &LogSink, count: usize) {
        for i in 0..count {
            sink.push(LogLevel::Info, format!("{i:0>100}"), Vec::new(), time::now());
        }
    }

    #[test]
    fn the_window_holds_chunks_back_until_an_ack() {
        let (mut shipper, key, sink) = shipper(500, 300);
        say(&sink, 6);
        let first = shipper.next_chunk(&key, 1).unwrap();
        assert_eq!((first.first_seq, first.records.len()), (1, 2));
        let second = shipper.next_chunk(&key, 1).unwrap();
        assert_eq!(second.first_seq, 3);
        assert!(shipper.next_chunk(&key, 1).is_none());
        shipper.on_ack(&key.to_ref(1), 2);
        assert_eq!(shipper.next_chunk(&key, 1).unwrap().first_seq, 5);
        assert!(shipper.is_sent(&key));
        assert_eq!(shipper.last_seq(&key), 6);
    }

    #[test]
    fn a_new_session_gets_what_was_not_acknowledged_under_the_same_numbers() {
        let (mut shipper, key, sink) = shipper(10_000, 300);
        say(&sink, 4);
        shipper.next_chunk(&key, 1).unwrap();
        let second = shipper.next_chunk(&key, 1).unwrap();
        shipper.on_ack(&key.to_ref(1), 2);
        shipper.on_session(0, 0);
        assert!(!shipper.is_sent(&key));
        assert_eq!(shipper.next_chunk(&key, 1).unwrap(), second);
        assert!(shipper.next_chunk(&key, 1).is_none());
    }

    #[test]
    fn giving_up_counts_every_record_that_was_not_sent() {
        let (mut shipper, key, sink) = shipper(300, 300);
        say(&sink, 6);
        assert_eq!(shipper.next_chunk(&key, 1).unwrap().records.len(), 2);
        assert!(shipper.next_chunk(&key, 1).is_none());
        let last = shipper.give_up(&key, 1).unwrap();
        assert_eq!((last.first_seq, last.records.len(), last.dropped), (3, 0, 4));
        assert!(shipper.is_sent(&key));
        assert_eq!(shipper.last_seq(&key), 2);
    }

    #[test]
    fn a_count_goes_with_the_next_record_or_with_the_end() {
        let (mut shipper, key, sink) = shipper(100_000, 100_000);
        let start = time::now();
        let say = |count: u32, seconds: u64| {
            let now =
                time::Now { mono: start.mono + std::time::Duration::from_secs(seconds), ..start };
            for _ in 0..count {
                sink.push(LogLevel::Info, "x".to_owned(), Vec::new(), now);
            }
        };
        say(crate::logs::RECORDS_PER_SECOND_MAX + 5, 0);
        let first = shipper.next_chunk(&key, 1).unwrap();
        assert_eq!((first.records.len(), first.dropped), (1_000, 0));
        assert!(shipper.next_chunk(&key, 1).is_none());
        assert!(shipper.has_sent_records(&key) && !shipper.is_sent(&key));
        say(1, 2);
        let second = shipper.next_chunk(&key, 1).unwrap();
        assert_eq!((second.records.len(), second.dropped), (1, 5));
        assert!(shipper.is_sent(&key));
        say(crate::logs::RECORDS_PER_SECOND_MAX + 7, 4);
        shipper.next_chunk(&key, 1).unwrap();
        let last = shipper.give_up(&key, 1).unwrap();
        assert_eq!((last.records.len(), last.dropped), (0, 7));
    }

    #[test]
    fn forgetting_frees_the_window() {
        let (mut shipper, key, sink) = shipper(300, 300);
        say(&sink, 2);
        shipper.next_chunk(&key, 1).unwrap();
        shipper.forget(&key);
        assert_eq!(shipper.in_flight, 0);
    }
}
