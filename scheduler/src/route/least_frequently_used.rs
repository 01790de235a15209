//! The one that got the fewest runs of the job; of equals the oldest registration. A newcomer is
//! taken for one with the lowest count of the others: else all runs would go to it until it had
//! caught up with executors that have been there for months.

use super::Choice;
use crate::model::route::RouteCursor;

pub(super) fn pick(choices: &[Choice<'_>], cursor: &RouteCursor) -> Option<usize> {
    let floor = floor(choices, cursor);
    let free = choices.iter().enumerate().filter(|(_, choice)| choice.free > 0);
    let count = |choice: &Choice<'_>| cursor.of(choice.key()).map_or(floor, |used| used.count);
    free.min_by_key(|(index, choice)| (count(choice), *index)).map(|(index, _)| index)
}

/// What a newcomer's count begins with.
pub(super) fn floor(choices: &[Choice<'_>], cursor: &RouteCursor) -> u64 {
    let counts = choices.iter().filter_map(|choice| cursor.of(choice.key()));
    counts.map(|used| used.count).min().unwrap_or(0)
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
    fn the_one_with_the_fewest_runs_of_the_job_is_picked() {
        for (slots, counts, expected) in [
            ([1, 1, 1, 1], [Some(3), Some(2), Some(5), Some(2)], Some(1)),
            ([1, 0, 1, 1], [Some(3), Some(2), Some(5), Some(2)], Some(3)),
            ([1, 1, 1, 1], [None, None, None, None], Some(0)),
            // The third is new: it stands beside the one with the lowest count, which is older.
            ([1, 1, 1, 1], [Some(9), Some(7), None, Some(8)], Some(1)),
            ([1, 0, 1, 1], [Some(9), Some(7), None, Some(8)], Some(2)),
            ([0, 0, 0, 0], [Some(1), Some(1), Some(1), Some(1)], None),
        ] {
            let uses = counts.iter().zip([10, 20, 30, 40]);
            let uses = uses.filter_map(|(count, row)| Some(Use { row, count: (*count)?, last: 1 }));
            let cursor = RouteCursor { turn: None, uses: Some(Arc::new(uses.collect())) };
            assert_eq!(pick(&free(&slots), &cursor), expected, "{slots:?} {counts:?}");
        }
    }

    #[test]
    fn a_newcomer_takes_its_share_and_no_more() {
        let (mut counts, mut cursor) = ([0; 4], RouteCursor::default());
        for run in 0..700 {
            let all = free(if run < 300 { &[1, 1, 1] } else { &[1, 1, 1, 1] });
            let chosen = pick(&all, &cursor).expect("all are free");
            note(RouteStrategy::LeastFrequentlyUsed, &all, chosen, &mut cursor);
            counts[chosen] += 1;
        }
        assert_eq!(counts, [200, 200, 200, 100]);
    }
}
