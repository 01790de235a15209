//! Any with a free slot, all alike.

use super::Choice;

pub(super) fn pick(choices: &[Choice], random: f64) -> Option<usize> {
    let free: Vec<usize> = (0..choices.len()).filter(|i| choices[*i].free > 0).collect();
    let index = (random.clamp(0.0, 1.0) * free.len() as f64) as usize;
    free.get(index.min(free.len().checked_sub(1)?)).copied()
}
