//! Each in turn, by age: the next one with a free slot after the one that was chosen last. The
//! turn is that one's registration row, so it stays exact when executors come and go.

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>], turn: u64) -> Option<usize> {
    let after = choices.iter().position(|choice| choice.key() > turn).unwrap_or(0);
    let order = (after..choices.len()).chain(0..after);
    order.into_iter().find(|index| choices[*index].free > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{job::RouteStrategy, route::RouteCursor},
        route::{note, testing::free},
    };

    #[test]
    fn the_next_by_age_with_a_free_slot_is_picked() {
        for (slots, turn, expected) in [
            ([1, 1, 1, 1], 0, Some(0)),
            ([1, 1, 1, 1], 10, Some(1)),
            ([1, 1, 1, 1], 40, Some(0)),
            ([1, 1, 0, 1], 20, Some(3)),
            ([1, 0, 0, 0], 10, Some(0)),
            // The executor chosen last is gone: the next by age takes over.
            ([1, 1, 1, 1], 25, Some(2)),
            ([0, 0, 0, 0], 20, None),
        ] {
            assert_eq!(pick(&free(&slots), turn), expected, "{slots:?} {turn}");
        }
    }

    #[test]
    fn x53_four_executors_get_exactly_a_quarter_each() {
        let all = free(&[1, 1, 1, 1]);
        let (mut counts, mut cursor) = ([0; 4], RouteCursor::default());
        for _ in 0..4_000 {
            let chosen = pick(&all, cursor.turn.unwrap_or(0)).expect("all are free");
            note(RouteStrategy::RoundRobin, &all, chosen, &mut cursor);
            counts[chosen] += 1;
        }
        assert_eq!(counts, [1_000; 4]);
    }
}
