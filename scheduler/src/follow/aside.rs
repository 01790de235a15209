//! Ends that can't be followed up: tried again after a while, so that those behind them have their
//! turn.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, Utc};

use crate::telemetry::metrics;

/// First and longest wait before such an end is tried again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Ends that are remembered. More of them wait at the head of the queue, as all would otherwise.
const ASIDE_MAX: usize = 4_096;

/// What waits, by number, with its tries and its next one.
#[derive(Default)]
pub(super) struct Aside {
    waits: BTreeMap<u64, (u32, DateTime<Utc>)>,
}

impl Aside {
    /// The ends whose next try has not come.
    pub(super) fn waiting(&self, now: DateTime<Utc>) -> Vec<u64> {
        let waits = self.waits.iter().filter(|(_, (_, until))| *until > now);
        waits.map(|(seq, _)| *seq).collect()
    }

    /// The end could not be followed up just now; false when there is no room to remember it.
    pub(super) fn put(&mut self, seq: u64, now: DateTime<Utc>) -> bool {
        if self.waits.len() >= ASIDE_MAX && !self.waits.contains_key(&seq) {
            return false;
        }
        let (tries, until) = self.waits.entry(seq).or_insert((0, now));
        *until = now + (BACKOFF.0 * 2_u32.saturating_pow((*tries).min(16))).min(BACKOFF.1);
        *tries += 1;
        self.show();
        true
    }

    /// The ends were followed up, here or elsewhere.
    pub(super) fn settled(&mut self, seqs: impl IntoIterator<Item = u64>) {
        for seq in seqs {
            self.waits.remove(&seq);
        }
        self.show();
    }

    fn show(&self) {
        metrics().ends_aside.set(i64::try_from(self.waits.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_so_does_what_is_remembered() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
        let mut aside = Aside::default();
        let mut waited = Vec::new();
        for _ in 0..12 {
            assert!(aside.put(7, now));
            let wait =
                (0..).find(|seconds| aside.waiting(now + Duration::from_secs(*seconds)).is_empty());
            waited.push(wait.expect("it ends"));
        }
        assert_eq!(waited[..4], [1, 2, 4, 8]);
        assert_eq!(waited[11], 300);
        assert_eq!(aside.waiting(now), [7]);
        aside.settled([7]);
        assert!(aside.waiting(now).is_empty());
        let kept = (0..2 * ASIDE_MAX as u64).filter(|seq| aside.put(*seq, now)).count();
        assert_eq!(kept, ASIDE_MAX);
    }
}
