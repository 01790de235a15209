//! How many new sessions a node takes per second, so that a storm of reconnects is spread.

use std::time::Duration;

/// Longest wait for one's turn: less than executors wait for an answer. Whoever had to wait longer is sent
/// away, and waits by rules of its own, which are made for a node that does not answer: all are back
/// sooner if few are.
const TURN_MAX: Duration = Duration::from_secs(4);

/// A bucket of one second's credits, which can be owed.
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

    /// Takes one credit, and says how long to wait for one's turn.
    ///
    /// # Errors
    /// That were longer than [`TURN_MAX`]: how much.
    pub fn admit(&mut self, elapsed: Duration) -> Result<Duration, Duration> {
        let passed = elapsed.saturating_sub(self.at).as_secs_f64();
        self.at = elapsed.max(self.at);
        self.credits = (self.credits + passed * self.per_second).min(self.per_second);
        let turn = Duration::from_secs_f64((1.0 - self.credits).max(0.0) / self.per_second);
        if turn > TURN_MAX {
            return Err(turn - TURN_MAX);
        }
        self.credits -= 1.0;
        Ok(turn)
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
            if admitted.len() < 1_000
                && let Ok(turn) = admission.admit(elapsed)
            {
                admitted.push(elapsed + turn);
            }
        }
        assert_eq!(admitted.len(), 1_000);
        let second = Duration::from_secs(1);
        let in_first_second = admitted.iter().filter(|at| **at < second).count();
        assert!((195..=200).contains(&in_first_second), "{in_first_second}");
        let last = admitted.last().expect("admitted").as_millis();
        assert!((8_900..=9_100).contains(&last), "{last}");
    }

    #[test]
    fn s09_of_those_that_come_at_one_moment_as_many_wait_as_have_their_turn_soon() {
        let mut admission = Admission::new(100);
        let turns: Vec<_> = (0..1_000).map(|_| admission.admit(Duration::ZERO)).collect();
        assert!(turns[..100].iter().all(|turn| *turn == Ok(Duration::ZERO)));
        assert_eq!(turns[100], Ok(Duration::from_millis(10)));
        assert_eq!((turns[499], turns[500]), (Ok(TURN_MAX), Err(Duration::from_millis(10))));
        assert!(turns[500..].iter().all(Result::is_err));
    }

    #[test]
    fn the_wait_it_names_is_enough() {
        let mut admission = Admission::new(2);
        let turns: Vec<_> = (0..10).map(|_| admission.admit(Duration::ZERO)).collect();
        assert_eq!(turns.last(), Some(&Ok(TURN_MAX)));
        let wait = admission.admit(Duration::ZERO).expect_err("so many wait already");
        assert_eq!(wait, Duration::from_millis(500));
        assert_eq!(admission.admit(wait), Ok(TURN_MAX));
    }
}
