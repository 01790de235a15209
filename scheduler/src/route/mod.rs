//! Which of the eligible executors gets a run: one pure file per strategy.

mod first;
mod last;
mod least_loaded;
mod random;
mod round_robin;

use crate::model::job::RouteStrategy;

/// What a strategy may look at of an executor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Registration row: orders executors by age.
    pub row: i64,
    /// Free slots for the run's handler; one without any is never chosen.
    pub free: u32,
    /// All its slots.
    pub slots: u32,
}

/// What a strategy may remember and roll.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteState {
    /// Row of the executor chosen last by round robin; 0 before the first.
    pub cursor: u64,
    /// 0..1.
    pub random: f64,
}

/// Picks one of `choices`, which are ordered by row; `None` when no one has a free slot.
pub fn pick(route: RouteStrategy, choices: &[Choice], state: RouteState) -> Option<usize> {
    match route {
        RouteStrategy::Random => random::pick(choices, state.random),
        RouteStrategy::First | RouteStrategy::Failover => first::pick(choices),
        RouteStrategy::Last => last::pick(choices),
        RouteStrategy::LeastLoaded => least_loaded::pick(choices),
        // The API refuses the strategies that are not built; a job from a newer server goes round.
        RouteStrategy::RoundRobin
        | RouteStrategy::ConsistentHash
        | RouteStrategy::LeastFrequentlyUsed
        | RouteStrategy::LeastRecentlyUsed
        | RouteStrategy::Busyover => round_robin::pick(choices, state.cursor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(free: &[u32]) -> Vec<Choice> {
        let rows = free.iter().zip([10, 20, 30, 40]);
        rows.map(|(free, row)| Choice { row, free: *free, slots: 4 }).collect()
    }

    fn go(route: RouteStrategy, free: &[u32], cursor: u64, random: f64) -> Option<usize> {
        pick(route, &choices(free), RouteState { cursor, random })
    }

    #[test]
    fn each_strategy_picks_by_its_rule() {
        use RouteStrategy as R;
        let table = [
            (R::RoundRobin, [1, 1, 1, 1], 0, Some(0)),
            (R::RoundRobin, [1, 1, 1, 1], 10, Some(1)),
            (R::RoundRobin, [1, 1, 1, 1], 40, Some(0)),
            (R::RoundRobin, [1, 1, 0, 1], 20, Some(3)),
            (R::RoundRobin, [1, 0, 0, 0], 10, Some(0)),
            // The executor chosen last is gone: the next by age takes over.
            (R::RoundRobin, [1, 1, 1, 1], 25, Some(2)),
            (R::First, [0, 2, 1, 1], 0, Some(1)),
            (R::Failover, [1, 2, 1, 1], 0, Some(0)),
            (R::Last, [1, 1, 1, 0], 0, Some(2)),
            (R::LeastLoaded, [1, 3, 2, 0], 0, Some(1)),
            (R::LeastLoaded, [2, 2, 2, 2], 0, Some(0)),
        ];
        for (route, free, cursor, expected) in table {
            assert_eq!(go(route, &free, cursor, 0.0), expected, "{route:?} {free:?} {cursor}");
        }
    }

    #[test]
    fn nobody_is_picked_when_all_are_full_or_none_is_there() {
        use RouteStrategy as R;
        for route in [R::RoundRobin, R::Random, R::First, R::Last, R::LeastLoaded] {
            assert_eq!(go(route, &[0, 0, 0, 0], 20, 0.9), None, "{route:?}");
            assert_eq!(go(route, &[], 20, 0.9), None, "{route:?}");
        }
    }

    #[test]
    fn round_robin_over_four_executors_is_exact() {
        let all = choices(&[1, 1, 1, 1]);
        let mut counts = [0; 4];
        let mut cursor = 0;
        for _ in 0..4_000 {
            let state = RouteState { cursor, random: 0.0 };
            let chosen = pick(RouteStrategy::RoundRobin, &all, state).expect("all are free");
            cursor = all[chosen].row as u64;
            counts[chosen] += 1;
        }
        assert_eq!(counts, [1_000; 4]);
    }

    #[test]
    fn random_reaches_all_free_executors_and_only_those() {
        let mut seen = [0; 4];
        for step in 0..400 {
            let random = f64::from(step) / 400.0;
            seen[go(RouteStrategy::Random, &[1, 0, 1, 1], 0, random).expect("some are free")] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!(seen[0] > 100 && seen[2] > 100 && seen[3] > 100, "{seen:?}");
    }
}
