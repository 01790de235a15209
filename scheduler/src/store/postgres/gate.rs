//! What an owner knows of changes of jobs, so that a plan need not look: see migration V20.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::owner::Advances;

/// So many gates there are: more nodes than these share some, and one that finds its gate in use has locks
/// of jobs instead.
const GATE_COUNT: i32 = 16;

/// A node's gate, and when its partitions were seen to be as it knows them.
pub(super) struct Gate {
    pub(super) number: i32,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The count of changes then.
    count: i64,
    /// By the partition's id: its epoch and version of jobs.
    partitions: HashMap<i16, (i64, i64)>,
}

impl Gate {
    /// The gate of the node whose own lock has that number.
    pub(super) fn of(node_lock: i32) -> Self {
        Self { number: node_lock.rem_euclid(GATE_COUNT), seen: Mutex::default() }
    }

    /// A count of changes at which all these partitions were as told here.
    pub(super) fn known(&self, told: &Advances) -> Option<i64> {
        let seen = self.seen.lock();
        let as_told = |(id, state)| seen.partitions.get(&id) == Some(&state);
        told.states().all(as_told).then_some(seen.count)
    }

    /// At that count they were so.
    pub(super) fn saw(&self, told: &Advances, count: i64) {
        let mut seen = self.seen.lock();
        if seen.count != count {
            *seen = Seen { count, partitions: HashMap::new() };
        }
        seen.partitions.extend(told.states());
    }

    /// Nothing is known any more: the partitions are had by another session, perhaps of another server.
    pub(super) fn forget(&self) {
        *self.seen.lock() = Seen::default();
    }
}
