//! The oldest registration with a free slot.

use super::Choice;

pub(super) fn pick(choices: &[Choice]) -> Option<usize> {
    choices.iter().position(|choice| choice.free > 0)
}
