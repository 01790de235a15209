//! How many new sessions a node takes per second, so that a storm of reconnects is spread.

use std::time::Duration;

/// A bucket of one second's credits.
#[derive(Debug)]
pub struct Admission {
    per_second: f64,
    credits: f64,
    at: Duration,
}

impl Admission {
    /// Admits `per_second`, at least 1.
    pub fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self { per_second, credits: per_second, at: Duration::ZERO }
    }

    /// Takes one credit; without one, says how long to wait for it.
    ///
    /// # Errors
    /// The wait until a credit is there again.
    pub fn admit(&mut self, elapsed: Duration) -> Result<(), Duration> {
        let passed = elapsed.saturating_sub(self.at).as_secs_f64();
        self.at = elapsed.max(self.at);
        self.credits = (self.credits + passed * self.per_second).min(self.per_second);
        if self.credits >= 1.0 {
            self.credits -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.credits) / self.per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s09_a_storm_of_1000_is_admitted_at_the_rate_and_no_faster() {
        let mut admission = Admission::new(100);
        let mut admitted = Vec::new();
        for ms in 0..12_000_u64 {
            let elapsed = Duration::from_millis(ms);
            if admitted.len() < 1_000 && admission.admit(elapsed).is_ok() {
                admitted.push(ms);
            }
        }
        assert_eq!(admitted.len(), 1_000);
        let in_first_second = admitted.iter().filter(|ms| **ms < 1_000).count();
        assert!((195..=200).contains(&in_first_second), "{in_first_second}");
        assert!((8_900..=9_100).contains(admitted.last().expect("admitted")));
    }

    #[test]
    fn the_wait_it_names_is_enough() {
        let mut admission = Admission::new(2);
        assert_eq!(admission.admit(Duration::ZERO), Ok(()));
        assert_eq!(admission.admit(Duration::ZERO), Ok(()));
        let wait = admission.admit(Duration::ZERO).expect_err("empty");
        assert_eq!(wait, Duration::from_millis(500));
        assert_eq!(admission.admit(wait), Ok(()));
    }
}
