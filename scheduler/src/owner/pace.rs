//! How far apart rounds are where many runs come: what a statement, a commit and a round cost is shared
//! by the runs in them, and at a high rate little waiting brings many together.

use std::time::Duration;

/// Runs that are worth waiting for: what a statement costs besides its rows is then some fourteenth of them.
/// What comes while they are written is added, and all should have room in one batch of an owner.
const RUNS_WORTH: u32 = 200;
/// Beginnings of rounds are never kept further apart than this. Where fewer runs come in it than are
/// worth waiting for, each goes at once.
const APART_MAX: Duration = Duration::from_micros(12_500);

/// When the next round may begin, by how many runs the last ones sent.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the last round that sent something began, by the monotonic clock.
    began: Duration,
    next: Duration,
}

impl Pace {
    /// A round that began then has sent so many runs, all that had come due since the one before it; none
    /// says nothing.
    pub(super) fn sent(&mut self, began: Duration, runs: usize) {
        let Ok(runs @ 1..) = u32::try_from(runs) else { return };
        let since = began.saturating_sub(self.began);
        self.began = began;
        let apart = since.saturating_mul(RUNS_WORTH) / runs;
        self.next = if apart <= APART_MAX { began + apart } else { began };
    }

    /// How long runs are still left to gather.
    pub(super) fn wait(&self, elapsed: Duration) -> Duration {
        self.next.saturating_sub(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Rounds of a load of so many runs in a millisecond, each of which takes a millisecond; says how
    /// many runs the last ones had.
    fn runs_of_a_round(per_ms: usize) -> Vec<usize> {
        let (mut pace, mut at, mut before) = (Pace::default(), ms(1_000), ms(999));
        let mut rounds = Vec::new();
        for _ in 0..20 {
            let came = (at - before).as_millis();
            let runs = per_ms * usize::try_from(came).expect("a short time");
            pace.sent(at, runs);
            rounds.push(runs);
            before = at;
            let over = at + ms(1);
            at = over + pace.wait(over);
        }
        rounds.split_off(15)
    }

    #[test]
    fn at_a_high_rate_rounds_wait_for_many_runs_and_at_a_low_one_for_none() {
        assert_eq!(runs_of_a_round(5), [5; 5], "5,000 a second: each at once");
        assert_eq!(runs_of_a_round(20), [200; 5]);
        assert_eq!(runs_of_a_round(40), [200; 5]);
        assert_eq!(runs_of_a_round(500), [500; 5], "what comes in a round is more than enough");
    }

    #[test]
    fn after_many_runs_at_one_moment_nothing_waits() {
        let mut pace = Pace::default();
        pace.sent(ms(1_000), 10_000);
        pace.sent(ms(2_000), 10_000);
        assert_eq!(pace.wait(ms(2_001)), Duration::ZERO, "one round in a second, however large");
        pace.sent(ms(2_040), 1);
        assert_eq!(pace.wait(ms(2_040)), Duration::ZERO);
    }

    #[test]
    fn what_sends_nothing_says_nothing_of_the_rate() {
        let mut pace = Pace::default();
        pace.sent(ms(1_000), 25);
        pace.sent(ms(1_001), 50);
        assert_eq!(pace.wait(ms(1_002)), ms(3), "200 come in 4 ms");
        pace.sent(ms(1_002), 0);
        assert_eq!(pace.wait(ms(1_002)), ms(3));
        assert_eq!(pace.wait(ms(1_010)), Duration::ZERO);
    }
}
