//! Each in turn, by age: the next one with a free slot after the one that was chosen last. The
//! cursor is that one's registration row, so it stays exact when executors come and go.

use super::Choice;

pub(super) fn pick(choices: &[Choice], cursor: u64) -> Option<usize> {
    let after = choices.iter().position(|choice| choice.row.unsigned_abs() > cursor).unwrap_or(0);
    let order = (after..choices.len()).chain(0..after);
    order.into_iter().find(|index| choices[*index].free > 0)
}
