//! The one with the most free slots; of equals the oldest registration.

use super::Choice;

pub(super) fn pick(choices: &[Choice]) -> Option<usize> {
    let most = choices.iter().map(|choice| choice.free).max().filter(|free| *free > 0)?;
    choices.iter().position(|choice| choice.free == most)
}
