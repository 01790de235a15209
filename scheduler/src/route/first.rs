//! The oldest registration with a free slot.

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>]) -> Option<usize> {
    choices.iter().position(|choice| choice.free > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::testing::free;

    #[test]
    fn the_oldest_with_a_free_slot_is_picked() {
        for (slots, expected) in [
            ([1, 1, 1, 1], Some(0)),
            ([0, 2, 1, 1], Some(1)),
            ([0, 0, 0, 1], Some(3)),
            ([0, 0, 0, 0], None),
        ] {
            assert_eq!(pick(&free(&slots)), expected, "{slots:?}");
        }
    }
}
