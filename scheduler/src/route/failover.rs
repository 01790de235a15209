//! The first in order of registration that is healthy. One whose heartbeat is overdue is passed
//! over while another has a free slot, long before its session counts as suspect.

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>]) -> Option<usize> {
    let healthy = choices.iter().position(|choice| choice.free > 0 && !choice.silent);
    healthy.or_else(|| choices.iter().position(|choice| choice.free > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::testing::free;

    #[test]
    fn the_first_healthy_one_is_picked() {
        for (slots, silent, expected) in [
            ([1, 1, 1], [false, false, false], Some(0)),
            ([1, 1, 1], [true, false, false], Some(1)),
            ([1, 0, 1], [true, false, false], Some(2)),
            // All that have a slot are silent: better one of them than none.
            ([0, 1, 1], [false, true, true], Some(1)),
            ([0, 0, 0], [false, false, false], None),
        ] {
            let mut choices = free(&slots);
            choices.iter_mut().zip(silent).for_each(|(choice, silent)| choice.silent = silent);
            assert_eq!(pick(&choices), expected, "{slots:?} {silent:?}");
        }
    }
}
