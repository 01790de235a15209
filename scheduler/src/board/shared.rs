//! Compiled schedules that jobs share: equal schedules compile to the same thing.

use std::{collections::HashMap, sync::Arc};

use crate::model::schedule::{Compiled, Schedule};

/// Forms known before it is first looked for those that no job has any more.
const KNOWN_MAX: usize = 10_000;

/// The forms that are in use, and some that were.
pub(super) struct SharedSchedules {
    known: HashMap<Schedule, Arc<Compiled>>,
    /// So many forms make a sweep due. Twice what the last one left: where every job has a schedule
    /// of its own, a sweep for each new form would cost the square of their number.
    sweep_at: usize,
}

impl Default for SharedSchedules {
    fn default() -> Self {
        Self { known: HashMap::new(), sweep_at: KNOWN_MAX }
    }
}

impl SharedSchedules {
    /// The form of an equal schedule.
    pub(super) fn get(&self, schedule: &Schedule) -> Option<Arc<Compiled>> {
        self.known.get(schedule).cloned()
    }

    /// Shares a new form from now on.
    pub(super) fn put(&mut self, schedule: &Schedule, compiled: Compiled) -> Arc<Compiled> {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, shared| Arc::strong_count(shared) > 1);
            self.sweep_at = KNOWN_MAX.max(self.known.len() * 2);
        }
        let shared = Arc::new(compiled);
        self.known.insert(schedule.clone(), shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::schedule::Trigger;

    fn every(seconds: usize) -> Schedule {
        let period = Duration::from_secs(seconds as u64);
        Schedule { trigger: Trigger::Interval(period), ..Schedule::default() }
    }

    fn put(shared: &mut SharedSchedules, seconds: usize) -> Arc<Compiled> {
        let schedule = every(seconds);
        let compiled = schedule.compile().expect("a good schedule");
        shared.put(&schedule, compiled)
    }

    #[test]
    fn forms_that_no_job_has_any_more_are_swept_and_those_in_use_stay() {
        let mut shared = SharedSchedules::default();
        let kept = put(&mut shared, 1);
        (2..=KNOWN_MAX + 1).for_each(|seconds| drop(put(&mut shared, seconds)));
        assert_eq!(shared.known.len(), 2);
        assert!(shared.get(&every(1)).is_some_and(|form| Arc::ptr_eq(&form, &kept)));
        assert!(shared.get(&every(2)).is_none());
    }

    #[test]
    fn where_all_forms_are_in_use_a_sweep_comes_only_after_as_many_new_ones() {
        let mut shared = SharedSchedules::default();
        let kept: Vec<_> = (1..=KNOWN_MAX + 1).map(|s| put(&mut shared, s)).collect();
        assert_eq!((shared.known.len(), shared.sweep_at), (kept.len(), KNOWN_MAX * 2));
    }
}
