//! When and how often a failed attempt is repeated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// First wait unless the job says otherwise.
pub const INITIAL_BACKOFF_DEFAULT: Duration = Duration::from_secs(1);
/// Growth per attempt unless the job says otherwise.
pub const MULTIPLIER_DEFAULT: f64 = 2.0;
/// Longest wait unless the job says otherwise.
pub const MAX_BACKOFF_DEFAULT: Duration = Duration::from_secs(300);
/// Random share of the wait unless the job says otherwise.
pub const JITTER_DEFAULT: f32 = 0.2;
/// Losses of an executor that a run survives unless the job says otherwise.
pub const MAX_LOST_DEFAULT: u32 = 3;

/// When a failed attempt is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicy {
    /// Attempts in all; 1 means no retry.
    pub max_attempts: u32,
    /// Wait before the second attempt.
    pub initial_backoff: Duration,
    /// Factor per further attempt.
    pub multiplier: f64,
    /// Longest wait.
    pub max_backoff: Duration,
    /// Failure codes that are never retried.
    pub non_retryable_codes: Vec<String>,
    /// Share of the wait that is random, 0..1.
    pub jitter: f32,
    /// How often an attempt may be lost with its executor; counted apart from `max_attempts`.
    pub max_lost: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            initial_backoff: INITIAL_BACKOFF_DEFAULT,
            multiplier: MULTIPLIER_DEFAULT,
            max_backoff: MAX_BACKOFF_DEFAULT,
            non_retryable_codes: Vec::new(),
            jitter: JITTER_DEFAULT,
            max_lost: MAX_LOST_DEFAULT,
        }
    }
}

impl RetryPolicy {
    /// The wait after an attempt ended, of a run that had lost `lost_before` attempts then. A
    /// failure's wait grows with the failures only, a loss's (`lost`) with the losses only.
    pub fn wait(&self, attempt: u32, lost_before: u32, lost: bool, random: f64) -> Duration {
        let number =
            if lost { lost_before.saturating_add(1) } else { attempt.saturating_sub(lost_before) };
        self.backoff(number, random)
    }

    /// The wait after attempt number `attempt` (1-based) failed; `random` in 0..1 sets the jitter:
    /// the wait lies within ± jitter of the backoff, then under `max_backoff`.
    pub fn backoff(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        // A growth beyond all numbers times no wait at all is no number.
        let growth = self.multiplier.max(1.0).powi(exponent).min(f64::MAX);
        let base = self.initial_backoff.as_secs_f64() * growth;
        let cap = self.max_backoff.as_secs_f64();
        let spread = f64::from(self.jitter.clamp(0.0, 1.0)) * (2.0 * random - 1.0);
        let wait = (base.min(cap) * (1.0 + spread)).clamp(0.0, cap);
        Duration::from_secs_f64(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_by_the_multiplier_up_to_its_cap() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let waits: Vec<u64> = [1, 2, 3, 9, 10, 4_000_000_000]
            .map(|attempt| policy.backoff(attempt, 0.5).as_secs())
            .to_vec();
        assert_eq!(waits, [1, 2, 4, 256, 300, 300]);
    }

    #[test]
    fn jitter_stays_within_its_share_and_under_the_cap() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.backoff(1, 0.0).as_millis(), 799);
        assert_eq!(policy.backoff(1, 1.0).as_millis(), 1_200);
        assert_eq!(policy.backoff(20, 1.0), policy.max_backoff);
    }

    #[test]
    fn no_wait_stays_no_wait_however_many_attempts_there_were() {
        let policy = RetryPolicy {
            initial_backoff: Duration::ZERO,
            multiplier: 100.0,
            ..RetryPolicy::default()
        };
        for attempt in [1, 2, 1_000, u32::MAX] {
            assert_eq!(policy.backoff(attempt, 1.0), Duration::ZERO, "{attempt}");
        }
    }

    #[test]
    fn losses_and_failures_each_have_a_wait_of_their_own() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let wait = |attempt, lost_before, lost| policy.wait(attempt, lost_before, lost, 0.5);
        // Attempts 1 and 2 were lost, 3 and 4 failed, 5 was lost.
        assert_eq!(wait(1, 0, true).as_secs(), 1);
        assert_eq!(wait(2, 1, true).as_secs(), 2);
        assert_eq!(wait(3, 2, false).as_secs(), 1);
        assert_eq!(wait(4, 2, false).as_secs(), 2);
        assert_eq!(wait(5, 2, true).as_secs(), 4);
    }
}
