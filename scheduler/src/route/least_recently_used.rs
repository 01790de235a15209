//! The one whose last run of the job is longest ago; one that never had any comes first, by age.

use super::Choice;
use crate::model::route::RouteCursor;

pub(super) fn pick(choices: &[Choice<'_>], cursor: &RouteCursor) -> Option<usize> {
    let free = choices.iter().enumerate().filter(|(_, choice)| choice.free > 0);
    let last = |choice: &Choice<'_>| cursor.of(choice.key()).map_or(0, |used| used.last);
    free.min_by_key(|(index, choice)| (last(choice), *index)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        model::{job::RouteStrategy, route::Use},
        route::{note, testing::free},
    };

    #[test]
    fn the_one_that_had_a_run_of_the_job_longest_ago_is_picked() {
        for (slots, lasts, expected) in [
            ([1, 1, 1, 1], [Some(8), Some(5), Some(7), Some(6)], Some(1)),
            ([1, 0, 1, 1], [Some(8), Some(5), Some(7), Some(6)], Some(3)),
            ([1, 1, 1, 1], [Some(8), Some(5), None, None], Some(2)),
            ([1, 1, 1, 1], [None, None, None, None], Some(0)),
            ([0, 0, 0, 0], [Some(1), Some(2), Some(3), Some(4)], None),
        ] {
            let uses = lasts.iter().zip([10, 20, 30, 40]);
            let uses = uses.filter_map(|(last, row)| Some(Use { row, count: 1, last: (*last)? }));
            let cursor = RouteCursor { turn: None, uses: Some(Arc::new(uses.collect())) };
            assert_eq!(pick(&free(&slots), &cursor), expected, "{slots:?} {lasts:?}");
        }
    }

    #[test]
    fn one_that_was_full_has_its_turn_as_soon_as_it_has_a_slot() {
        let mut cursor = RouteCursor::default();
        let mut order = Vec::new();
        for slots in [[1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 1], [1, 1, 1]] {
            let all = free(&slots);
            let chosen = pick(&all, &cursor).expect("one is free");
            note(RouteStrategy::LeastRecentlyUsed, &all, chosen, &mut cursor);
            order.push(chosen);
        }
        assert_eq!(order, [0, 2, 0, 1, 2]);
    }
}
