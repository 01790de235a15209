//! How the targets of deliveries fare, in this process's memory: who hangs gets no further ones
//! for a while, so that places are left for the others. Pure: time is a parameter.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};

/// First and longest pause of a target that does not answer; it doubles from one to the other.
const REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Targets that are remembered; beyond it those whose rest is over are forgotten.
const RESTING_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, Default)]
struct Target {
    in_flight: u32,
    silences: u32,
    rests_until: Option<DateTime<Utc>>,
}

/// What is known of targets.
#[derive(Debug, Default)]
pub(super) struct Targets {
    known: HashMap<String, Target>,
}

impl Targets {
    /// A delivery to the target is on its way.
    pub(super) fn begin(&mut self, target: &str) {
        self.known.entry(target.to_owned()).or_default().in_flight += 1;
    }

    /// It ended. A target that answers, whatever it says, is well again.
    pub(super) fn end(&mut self, target: &str, answered: bool, now: DateTime<Utc>) {
        let state = self.known.entry(target.to_owned()).or_default();
        state.in_flight = state.in_flight.saturating_sub(1);
        // A silence counts for as long as the longest rest lasts after its own.
        let old = state.rests_until.is_none_or(|until| now >= until + REST.1);
        if answered || old {
            state.silences = 0;
        }
        if answered {
            state.rests_until = None;
            if state.in_flight == 0 {
                self.known.remove(target);
            }
            return;
        }
        let rest = REST.0 * 2_u32.saturating_pow(state.silences.min(16));
        state.silences = state.silences.saturating_add(1);
        state.rests_until = Some(now + rest.min(REST.1));
        if self.known.len() > RESTING_MAX {
            self.forget(now);
        }
    }

    /// Targets that get nothing now: deliveries to them are under way, or they rest.
    pub(super) fn without(&self, now: DateTime<Utc>) -> Vec<String> {
        let rests = |state: &Target| {
            // A clock that was set back must not make anybody rest for long.
            state.rests_until.is_some_and(|until| now < until && until <= now + REST.1)
        };
        let busy = self.known.iter().filter(|(_, state)| state.in_flight > 0 || rests(state));
        busy.map(|(target, _)| target.clone()).collect()
    }

    /// Drops those whose rest is over, or, where all rest, the one whose rest ends first.
    fn forget(&mut self, now: DateTime<Utc>) {
        self.known.retain(|_, state| {
            state.in_flight > 0 || state.rests_until.is_some_and(|until| now < until)
        });
        if self.known.len() > RESTING_MAX {
            let idle = self.known.iter().filter(|(_, state)| state.in_flight == 0);
            let first = idle.min_by_key(|(_, state)| state.rests_until).map(|(t, _)| t.clone());
            first.map(|target| self.known.remove(&target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
    }

    #[test]
    fn a_target_that_does_not_answer_rests_longer_each_time() {
        let mut targets = Targets::default();
        let mut now = at(0);
        for rest in [2, 4, 8, 16, 32, 60, 60] {
            targets.begin("a");
            assert_eq!(targets.without(now), ["a"], "one at a time");
            targets.end("a", false, now);
            assert_eq!(targets.without(now + Duration::from_secs(rest - 1)), ["a"]);
            now += Duration::from_secs(rest);
            assert!(targets.without(now).is_empty(), "{rest}");
        }
        targets.begin("a");
        targets.end("a", true, now);
        assert!(targets.without(now).is_empty());
        assert!(targets.known.is_empty(), "nothing is left to remember");
    }

    #[test]
    fn a_silence_of_long_ago_does_not_count() {
        let mut targets = Targets::default();
        for seconds in [0, 10, 20] {
            targets.begin("a");
            targets.end("a", false, at(seconds));
        }
        assert_eq!(targets.without(at(27)), ["a"], "the third rest is of 8 s");
        targets.begin("a");
        targets.end("a", false, at(3600));
        assert_eq!(targets.without(at(3601)), ["a"]);
        assert!(targets.without(at(3602)).is_empty(), "as after the first");
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nobody_rest_for_long() {
        let mut targets = Targets::default();
        targets.begin("a");
        targets.end("a", false, at(3600));
        assert!(targets.without(at(0)).is_empty());
    }

    #[test]
    fn the_memory_of_resting_targets_is_bounded() {
        let mut targets = Targets::default();
        for n in 0..=RESTING_MAX {
            let target = format!("t{n}");
            targets.begin(&target);
            targets.end(&target, false, at(0));
        }
        assert_eq!(targets.known.len(), RESTING_MAX);
    }
}
