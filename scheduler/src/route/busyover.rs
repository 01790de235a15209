//! The first in order of registration with a free slot whose load is not above the threshold; when
//! all are busy the run waits. The load is the larger of the used share of slots and the processor's
//! as the executor reported it.

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>], threshold: f32) -> Option<usize> {
    let threshold = if threshold > 0.0 { threshold } else { 1.0 };
    choices.iter().position(|choice| choice.free > 0 && load(choice) <= threshold)
}

fn load(choice: &Choice<'_>) -> f32 {
    let used = choice.used as f32 / choice.slots.max(1) as f32;
    used.max(choice.cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::testing::free;

    #[test]
    fn the_first_whose_load_is_not_above_the_threshold_is_picked() {
        for (slots, cpu, threshold, expected) in [
            ([1, 2, 4], [0.0, 0.0, 0.0], 0.0, Some(0)),
            ([0, 1, 4], [0.0, 0.0, 0.0], 0.0, Some(1)),
            // Used shares are 3/4, 2/4 and 0.
            ([1, 2, 4], [0.0, 0.0, 0.0], 0.5, Some(1)),
            ([1, 2, 4], [0.0, 0.0, 0.0], 0.49, Some(2)),
            ([1, 2, 4], [0.0, 0.6, 0.1], 0.5, Some(2)),
            ([1, 2, 4], [0.0, 0.6, 0.9], 0.5, None),
            ([4, 4, 4], [0.2, 0.3, 0.1], 0.15, Some(2)),
            ([0, 0, 0], [0.0, 0.0, 0.0], 0.9, None),
        ] {
            let mut choices = free(&slots);
            choices.iter_mut().zip(cpu).for_each(|(choice, cpu)| choice.cpu = cpu);
            assert_eq!(pick(&choices, threshold), expected, "{slots:?} {cpu:?} {threshold}");
        }
    }
}
