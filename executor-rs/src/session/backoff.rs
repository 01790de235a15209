//! How long to wait before the next dial.

use std::time::Duration;

use rand::Rng;

use crate::config::Reconnect;

/// Full jitter: each wait is drawn between nothing and a bound that doubles up to the cap.
#[derive(Debug)]
pub(super) struct Backoff {
    reconnect: Reconnect,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(reconnect: Reconnect) -> Self {
        Self { reconnect, failures: 0 }
    }

    /// The wait before the next dial, at least `floor`.
    pub(super) fn next(&mut self, floor: Option<Duration>, rng: &mut impl Rng) -> Duration {
        let bound = match self.failures.checked_sub(1) {
            None => self.reconnect.first,
            Some(n) => self.reconnect.base.saturating_mul(2_u32.saturating_pow(n)),
        };
        self.failures = self.failures.saturating_add(1);
        let wait = jitter(bound.min(self.reconnect.cap), rng);
        floor.map_or(wait, |floor| floor + wait)
    }

    /// The wait after a session that fell silent: none, unless sessions keep breaking. Those whom one
    /// scheduler leaves without an answer notice it at moments as spread as their heartbeats.
    pub(super) fn after_silence(&mut self, rng: &mut impl Rng) -> Duration {
        if self.failures > 0 {
            return self.next(None, rng);
        }
        self.failures = 1;
        Duration::ZERO
    }

    /// A session has ended after `lasted`.
    pub(super) fn on_session_end(&mut self, lasted: Duration) {
        if lasted >= self.reconnect.healthy_after {
            self.failures = 0;
        }
    }
}

/// A random time up to `bound`.
pub(super) fn jitter(bound: Duration, rng: &mut impl Rng) -> Duration {
    bound.mul_f64(rng.random_range(0.0..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn c33_waits_are_spread_and_capped() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(7);
        let (mut sums, rounds) = (vec![0.0; 20], 400);
        for _ in 0..rounds {
            let mut backoff = Backoff::new(Reconnect::default());
            for (n, sum) in sums.iter_mut().enumerate() {
                let wait = backoff.next(None, &mut rng);
                let bound = match n {
                    0 => 2.0,
                    n => (0.5 * 2_f64.powi(n as i32 - 1)).min(30.0),
                };
                assert!(wait.as_secs_f64() <= bound, "dial {n} waited {wait:?}");
                *sum += wait.as_secs_f64();
            }
        }
        // Full jitter: half of the bound on average, for the cap as for the first.
        for (n, half) in [(0, 1.0), (1, 0.25), (4, 2.0), (19, 15.0)] {
            let mean = sums[n] / f64::from(rounds);
            assert!((mean / half - 1.0).abs() < 0.15, "dial {n}: mean {mean}, expected {half}");
        }
    }

    #[test]
    fn only_a_healthy_session_makes_the_next_wait_a_first_one() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(7);
        let reconnect = Reconnect { first: Duration::ZERO, ..Reconnect::default() };
        let mut backoff = Backoff::new(reconnect);
        assert_eq!(backoff.next(None, &mut rng), Duration::ZERO);
        backoff.on_session_end(Duration::from_secs(59));
        assert_ne!(backoff.next(None, &mut rng), Duration::ZERO);
        backoff.on_session_end(Duration::from_secs(60));
        assert_eq!(backoff.next(None, &mut rng), Duration::ZERO);
        backoff.on_session_end(Duration::from_secs(60));
        assert_eq!(backoff.after_silence(&mut rng), Duration::ZERO);
        assert_ne!(backoff.after_silence(&mut rng), Duration::ZERO, "silence again");
        let floor = Duration::from_secs(9);
        assert!(backoff.next(Some(floor), &mut rng) >= floor);
    }
}
