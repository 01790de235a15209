//! The next fire times of all jobs, in lists by the minute: a list is put in order only once its minute
//! comes, so that a job that fires tomorrow costs four bytes until then.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use chrono::{DateTime, Utc};

use super::{
    moment::Moment,
    table::{Jobs, Slot},
};
use crate::model::ids::PartitionId;

/// How long a time one list is for, in microseconds: a minute.
const LIST_US: i64 = 60_000_000;
/// A list that is full gets room for so many more jobs at least.
const ROOM_MIN: usize = 4;

/// Next fire times. Those that no longer match their job's `next` fall through.
#[derive(Default)]
pub(super) struct FireQueue {
    /// Of the minutes that have begun, the earliest first.
    near: BinaryHeap<Reverse<(Moment, Slot)>>,
    /// Minutes before this one have begun.
    begun: i64,
    /// Of the others, by the minute since 1970.
    later: BTreeMap<i64, List>,
}

/// Jobs that fire within one minute.
struct List {
    /// The first of their fire times.
    first: Moment,
    slots: Vec<Slot>,
}

impl List {
    /// Grows by an eighth: twice as much room as there are jobs would be megabytes, of a million.
    fn push(&mut self, slot: Slot) {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact((self.slots.len() / 8).max(ROOM_MIN));
        }
        self.slots.push(slot);
    }
}

impl FireQueue {
    /// The first fire time of all.
    pub(super) fn next(&self) -> Option<DateTime<Utc>> {
        let near = self.near.peek().map(|entry| entry.0.0);
        let later = self.later.first_key_value().map(|(_, list)| list.first);
        near.or(later)?.get()
    }

    /// The job at the slot fires next then.
    pub(super) fn push(&mut self, at: Moment, slot: Slot) {
        let minute = at.spans(LIST_US);
        if minute < self.begun {
            self.near.push(Reverse((at, slot)));
            return;
        }
        let list = self.later.entry(minute);
        let list = list.or_insert_with(|| List { first: at, slots: Vec::new() });
        list.first = list.first.min(at);
        list.push(slot);
    }

    /// Takes the first fire time out, unless it is after `until`.
    pub(super) fn pop(&mut self, until: Moment, jobs: &Jobs) -> Option<(Moment, Slot)> {
        while self.near.is_empty() {
            let list = self.later.first_entry().filter(|list| list.get().first <= until)?;
            let (minute, list) = list.remove_entry();
            self.begun = minute + 1;
            let next = |slot: Slot| jobs.at(slot).map(|entry| entry.next);
            let in_it = list.slots.iter().filter_map(|slot| Some(Reverse((next(*slot)?, *slot))));
            self.near = in_it.filter(|entry| entry.0.0.spans(LIST_US) == minute).collect();
        }
        let first = self.near.peek().filter(|entry| entry.0.0 <= until)?.0;
        self.near.pop();
        Some(first)
    }

    /// All jobs that may have a fire time before `now`.
    pub(super) fn passed(&self, now: Moment) -> impl Iterator<Item = Slot> {
        let near = self.near.iter().filter(move |entry| entry.0.0 < now).map(|entry| entry.0.1);
        let lists = self.later.range(..=now.spans(LIST_US));
        near.chain(lists.flat_map(|(_, list)| list.slots.iter().copied()))
    }

    /// Jobs that fire up to `until`, those of the minutes that have begun, in no order. Costs as much as
    /// there are of them.
    pub(super) fn soon(&self, until: Moment) -> impl Iterator<Item = Slot> {
        let heap = self.near.as_slice();
        let mut open = vec![0];
        std::iter::from_fn(move || {
            loop {
                let index: usize = open.pop()?;
                // What is below one that comes later comes later still.
                let Some(Reverse((_, slot))) = heap.get(index).filter(|entry| entry.0.0 <= until)
                else {
                    continue;
                };
                open.extend([2 * index + 1, 2 * index + 2]);
                return Some(*slot);
            }
        })
    }

    /// Forgets the jobs of partitions that are given away.
    pub(super) fn release(&mut self, gone: impl Fn(PartitionId) -> bool) {
        self.near.retain(|entry| !gone(entry.0.1.partition()));
        self.later.retain(|_, list| {
            list.slots.retain(|slot| !gone(slot.partition()));
            !list.slots.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::TimeDelta;

    use super::*;
    use crate::model::ids::JobId;

    #[test]
    fn those_that_fire_soon_are_found_wherever_they_are() {
        let begin = DateTime::UNIX_EPOCH;
        let at = |ms: i64| Moment::from(begin + TimeDelta::milliseconds(ms));
        let mut queue = FireQueue { begun: i64::MAX, ..FireQueue::default() };
        // Each of 101 times, in an order that leaves the heap's own.
        let times: Vec<i64> = (0..101).map(|n| n * 37 % 101).collect();
        for ms in &times {
            queue.push(at(*ms), slot(*ms));
        }
        for until in [-1, 0, 1, 50, 100, 1_000] {
            let found: Vec<Slot> = queue.soon(at(until)).collect();
            let wanted: BTreeSet<Slot> = (0..=until.min(100)).map(slot).collect();
            assert_eq!(found.len(), wanted.len(), "each once");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
        }
    }

    fn slot(number: i64) -> Slot {
        Slot::new(JobId(number).partition(), number as u32)
    }
}
