//! What the table remembers of attempts that it no longer holds: results that were acknowledged,
//! and kills that came before their command.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use clawjob_proto::v1;
use prost::Message as _;

use super::Key;
use super::attempt::Attempt;

/// How long an acknowledged attempt is remembered.
const REMEMBER: Duration = Duration::from_secs(3600);
/// Most acknowledged attempts remembered.
const REMEMBERED_MAX: usize = 10_000;
/// Bytes of results remembered.
const REMEMBERED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How long a kill of an unknown attempt is remembered.
const TOMBSTONE: Duration = Duration::from_secs(600);
/// Most tombstones kept; the oldest go first.
const TOMBSTONES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Memory {
    results: HashMap<Key, Remembered>,
    order: VecDeque<(Instant, Key)>,
    bytes: usize,
    tombstones: HashMap<Key, (Instant, u64)>,
    graves: VecDeque<(Instant, Key)>,
}

#[derive(Debug)]
struct Remembered {
    until: Instant,
    fence: u64,
    bytes: usize,
    result: v1::RunResult,
}

impl Memory {
    /// Keeps an acknowledged attempt; the oldest make room.
    pub(super) fn remember(&mut self, now: Instant, key: &Key, attempt: Attempt) {
        let fence = attempt.fence;
        let Some(result) = attempt.into_result() else { return };
        let (until, bytes) = (now + REMEMBER, result.encoded_len());
        self.bytes += bytes;
        self.results.insert(key.clone(), Remembered { until, fence, bytes, result });
        self.order.push_back((until, key.clone()));
        while self.order.len() > REMEMBERED_MAX || self.bytes > REMEMBERED_BYTES_MAX {
            let Some((until, key)) = self.order.pop_front() else { break };
            self.drop_result(until, &key);
        }
    }

    /// Takes a remembered attempt out again: its result and fence.
    pub(super) fn recall(&mut self, key: &Key) -> Option<(v1::RunResult, u64)> {
        let remembered = self.results.remove(key)?;
        self.bytes -= remembered.bytes;
        Some((remembered.result, remembered.fence))
    }

    pub(super) fn knows(&self, key: &Key) -> bool {
        self.results.contains_key(key)
    }

    /// Notes a kill of an attempt that is not known here.
    pub(super) fn bury(&mut self, now: Instant, key: Key, fence: u64) {
        self.tombstones.insert(key.clone(), (now + TOMBSTONE, fence));
        self.graves.push_back((now + TOMBSTONE, key));
        while self.graves.len() > TOMBSTONES_MAX {
            let Some((until, key)) = self.graves.pop_front() else { break };
            self.drop_tombstone(until, &key);
        }
    }

    /// True when this dispatch was killed before it came. A later dispatch was decided on after
    /// the kill, so it runs.
    pub(super) fn exhume(&mut self, key: &Key, fence: u64) -> bool {
        self.tombstones.remove(key).is_some_and(|(_, killed)| killed == 0 || fence <= killed)
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((until, key)) = pop_due(&mut self.order, now) {
            self.drop_result(until, &key);
        }
        while let Some((until, key)) = pop_due(&mut self.graves, now) {
            self.drop_tombstone(until, &key);
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let first = |queue: &VecDeque<(Instant, Key)>| queue.front().map(|(until, _)| *until);
        [first(&self.order), first(&self.graves)].into_iter().flatten().min()
    }

    /// An entry that was recalled and remembered anew has a later end and stays.
    fn drop_result(&mut self, until: Instant, key: &Key) {
        if self.results.get(key).is_some_and(|remembered| remembered.until == until) {
            self.recall(key);
        }
    }

    fn drop_tombstone(&mut self, until: Instant, key: &Key) {
        if self.tombstones.get(key).is_some_and(|(at, _)| *at == until) {
            self.tombstones.remove(key);
        }
    }
}

fn pop_due(queue: &mut VecDeque<(Instant, Key)>, now: Instant) -> Option<(Instant, Key)> {
    let due = queue.front().is_some_and(|(until, _)| *until <= now);
    if due { queue.pop_front() } else { None }
}
