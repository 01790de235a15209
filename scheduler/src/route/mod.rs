//! Which of the eligible executors gets a run: one pure file per strategy.
//!
//! An executor without a free slot is passed over, but for the consistent hash, whose runs wait for
//! the one executor that has their key.

mod busyover;
mod consistent_hash;
mod failover;
mod first;
mod last;
mod least_frequently_used;
mod least_loaded;
mod least_recently_used;
mod random;
mod round_robin;

use crate::model::{job::RouteStrategy, route::RouteCursor};

pub use consistent_hash::owner;

/// What a strategy may look at of an executor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice<'a> {
    /// Registration row: orders executors by age.
    pub row: i64,
    /// Its name in the app.
    pub name: &'a str,
    /// Runs of the handler that it can take now; one without any is never chosen.
    pub free: u32,
    /// Slots in use.
    pub used: u32,
    /// All its slots.
    pub slots: u32,
    /// Load of its processor, 0..1; 0 when it tells none.
    pub cpu: f32,
    /// A heartbeat of it is overdue.
    pub silent: bool,
}

impl Choice<'_> {
    fn key(&self) -> u64 {
        self.row.unsigned_abs()
    }
}

/// What the job says, what its route remembers, and a roll of the dice.
#[derive(Clone, Copy, Debug)]
pub struct RouteState<'a> {
    /// Where the job's route stands.
    pub cursor: &'a RouteCursor,
    /// Key of the consistent hash.
    pub key: &'a str,
    /// Share of slots or processor above which busyover passes an executor over; 0 means 1.
    pub busy_threshold: f32,
    /// 0..1.
    pub random: f64,
}

/// Picks one of `choices`, which are ordered by row; `None` when the run must wait.
pub fn pick(route: RouteStrategy, choices: &[Choice<'_>], state: RouteState<'_>) -> Option<usize> {
    match route {
        RouteStrategy::RoundRobin => round_robin::pick(choices, state.cursor.turn.unwrap_or(0)),
        RouteStrategy::Random => random::pick(choices, state.random),
        RouteStrategy::First => first::pick(choices),
        RouteStrategy::Last => last::pick(choices),
        RouteStrategy::ConsistentHash => consistent_hash::pick(choices, state.key),
        RouteStrategy::LeastFrequentlyUsed => least_frequently_used::pick(choices, state.cursor),
        RouteStrategy::LeastRecentlyUsed => least_recently_used::pick(choices, state.cursor),
        RouteStrategy::Failover => failover::pick(choices),
        RouteStrategy::Busyover => busyover::pick(choices, state.busy_threshold),
        RouteStrategy::LeastLoaded => least_loaded::pick(choices),
    }
}

/// Notes that `choices[chosen]` got a run; true when the route remembers it.
pub fn note(
    route: RouteStrategy,
    choices: &[Choice<'_>],
    chosen: usize,
    cursor: &mut RouteCursor,
) -> bool {
    let row = choices[chosen].key();
    match route {
        RouteStrategy::RoundRobin => cursor.turn = Some(row),
        RouteStrategy::LeastFrequentlyUsed | RouteStrategy::LeastRecentlyUsed => {
            let floor = least_frequently_used::floor(choices, cursor);
            cursor.count(row, choices.iter().map(Choice::key), floor);
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod testing {
    use super::*;

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    /// Executors `a`, `b`, … with rows 10, 20, … of four slots, so many of them free.
    pub(super) fn free(free: &[u32]) -> Vec<Choice<'static>> {
        let rows = free.iter().zip([10, 20, 30, 40]).zip(NAMES);
        rows.map(|((free, row), name)| Choice {
            row,
            name,
            free: *free,
            used: 4_u32.saturating_sub(*free),
            slots: 4,
            cpu: 0.0,
            silent: false,
        })
        .collect()
    }

    pub(super) fn go(route: RouteStrategy, choices: &[Choice<'_>], random: f64) -> Option<usize> {
        let cursor = RouteCursor { turn: Some(20), uses: None };
        let state = RouteState { cursor: &cursor, key: "job", busy_threshold: 0.0, random };
        pick(route, choices, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RouteStrategy as R;

    #[test]
    fn nobody_is_picked_when_all_are_full_or_none_is_there() {
        for route in [
            R::RoundRobin,
            R::Random,
            R::First,
            R::Last,
            R::ConsistentHash,
            R::LeastFrequentlyUsed,
            R::LeastRecentlyUsed,
            R::Failover,
            R::Busyover,
            R::LeastLoaded,
        ] {
            assert_eq!(testing::go(route, &testing::free(&[0, 0, 0, 0]), 0.9), None, "{route:?}");
            assert_eq!(testing::go(route, &[], 0.9), None, "{route:?}");
            let one = testing::free(&[1]);
            assert_eq!(testing::go(route, &one, 0.9), Some(0), "{route:?}");
        }
    }

    #[test]
    fn only_routes_that_go_by_earlier_runs_remember_them() {
        let choices = testing::free(&[1, 1]);
        let mut cursor = RouteCursor::default();
        assert!(!note(R::Random, &choices, 1, &mut cursor));
        assert_eq!(cursor, RouteCursor::default());
        assert!(note(R::RoundRobin, &choices, 1, &mut cursor));
        assert_eq!((cursor.turn, &cursor.uses), (Some(20), &None));
        assert!(note(R::LeastRecentlyUsed, &choices, 0, &mut cursor));
        assert_eq!(cursor.of(10).map(|used| (used.count, used.last)), Some((1, 1)));
    }
}
