//! The newest registration with a free slot.

use super::Choice;

pub(super) fn pick(choices: &[Choice]) -> Option<usize> {
    choices.iter().rposition(|choice| choice.free > 0)
}
