//! How an owner's partitions were last seen, so that a plan need not look: see migration V20.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::owner::Advances;

/// Partitions that were seen to be as their owner knows them, all at one count of changes.
#[derive(Default)]
pub(super) struct Seen(Mutex<At>);

#[derive(Default)]
struct At {
    count: i64,
    /// By the partition's id: its epoch and version of jobs.
    partitions: HashMap<i16, (i64, i64)>,
}

impl Seen {
    /// A count of changes at which all these partitions were as told here.
    pub(super) fn known(&self, told: &Advances) -> Option<i64> {
        let at = self.0.lock();
        let as_told = |(id, state)| at.partitions.get(&id) == Some(&state);
        told.states().all(as_told).then_some(at.count)
    }

    /// At that count they were so.
    pub(super) fn saw(&self, told: &Advances, count: i64) {
        let mut at = self.0.lock();
        if at.count != count {
            *at = At { count, partitions: HashMap::new() };
        }
        at.partitions.extend(told.states());
    }

    /// Nothing is known any more: the partitions are had by another session, perhaps of another server.
    pub(super) fn forget(&self) {
        *self.0.lock() = At::default();
    }
}
