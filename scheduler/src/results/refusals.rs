//! Executors that say they can't run what they were sent: when has a run been refused enough?

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{Results, changes::Change, decide::What};
use crate::model::{
    ids::RunId,
    job::JobSpec,
    run::{OpenRun, RunState},
};

/// A run is given up only after so many refusals.
const REFUSALS_MIN: u32 = 3;
/// Runs whose refusals are remembered; the oldest are forgotten first and counted anew.
const RUNS_MAX: usize = 10_000;

/// Who refused which run.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    runs: HashMap<RunId, (u32, HashSet<Arc<str>>)>,
    order: VecDeque<RunId>,
}

impl Refusals {
    /// Notes a refusal; true when it was the last that counts: at least [`REFUSALS_MIN`], and one
    /// by every executor in `eligible`. Refusals at other nodes are not heard of here, so as many for
    /// each of those count for all: one that could take the run would have had its turn.
    fn note(&mut self, run: RunId, executor: &Arc<str>, eligible: &[Arc<str>]) -> bool {
        if !self.runs.contains_key(&run) {
            self.order.push_back(run);
            while self.order.len() > RUNS_MAX {
                if let Some(oldest) = self.order.pop_front() {
                    self.runs.remove(&oldest);
                }
            }
        }
        let (count, by) = self.runs.entry(run).or_default();
        *count += 1;
        by.insert(executor.clone());
        let all = REFUSALS_MIN.saturating_mul(u32::try_from(eligible.len()).unwrap_or(u32::MAX));
        let asked = |name| by.contains(name) || *count >= all;
        *count >= REFUSALS_MIN && eligible.iter().all(asked)
    }

    pub(super) fn forget(&mut self, run: RunId) {
        if self.runs.remove(&run).is_some() {
            self.order.retain(|other| *other != run);
        }
    }
}

impl Results {
    /// Turns a refusal into a failure once every eligible executor has refused.
    pub(super) fn judge_refusal(&mut self, change: &mut Change, run: &OpenRun, spec: &JobSpec) {
        let What::Refused(failure) = &change.what else { return };
        if run.state != RunState::Dispatched {
            return;
        }
        let labels = &spec.placement.required_labels;
        let eligible = self.reach.offering(run.app, &spec.handler, labels);
        if self.refusals.note(run.id, &change.origin.executor, &eligible) {
            change.what = What::Impossible(failure.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn run(n: u128) -> RunId {
        RunId::by_hand(DateTime::from_timestamp_nanos(0), n)
    }

    #[test]
    fn a_run_is_given_up_after_three_refusals_by_every_eligible_executor() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let both = [a.clone(), b.clone()];
        let mut refusals = Refusals::default();
        assert!(!refusals.note(run(1), &a, &both));
        assert!(!refusals.note(run(1), &a, &both));
        assert!(!refusals.note(run(1), &a, &both), "b was not asked yet");
        assert!(refusals.note(run(1), &b, &both));
        let mut elsewhere = Refusals::default();
        for _ in 0..5 {
            assert!(!elsewhere.note(run(2), &a, &both));
        }
        assert!(elsewhere.note(run(2), &a, &both), "b would have taken it by now");
        let mut alone = Refusals::default();
        assert!(!alone.note(run(1), &a, std::slice::from_ref(&a)));
        assert!(!alone.note(run(1), &a, std::slice::from_ref(&a)));
        assert!(alone.note(run(1), &a, std::slice::from_ref(&a)));
    }

    #[test]
    fn the_memory_of_refusals_is_bounded() {
        let a: Arc<str> = "a".into();
        let mut refusals = Refusals::default();
        for n in 0..RUNS_MAX as u128 + 50 {
            refusals.note(run(n), &a, &[]);
        }
        assert_eq!((refusals.runs.len(), refusals.order.len()), (RUNS_MAX, RUNS_MAX));
        refusals.forget(run(RUNS_MAX as u128));
        assert_eq!((refusals.runs.len(), refusals.order.len()), (RUNS_MAX - 1, RUNS_MAX - 1));
    }
}
