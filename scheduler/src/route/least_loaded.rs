//! The one with the most free slots; of equals the oldest registration.

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>]) -> Option<usize> {
    let most = choices.iter().map(|choice| choice.free).max().filter(|free| *free > 0)?;
    choices.iter().position(|choice| choice.free == most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::testing::free;

    #[test]
    fn the_one_with_the_most_free_slots_is_picked() {
        for (slots, expected) in [
            ([1, 3, 2, 0], Some(1)),
            ([2, 2, 2, 2], Some(0)),
            ([0, 1, 1, 4], Some(3)),
            ([0, 0, 0, 0], None),
        ] {
            assert_eq!(pick(&free(&slots)), expected, "{slots:?}");
        }
    }
}
