//! Any with a free slot, all alike.

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>], random: f64) -> Option<usize> {
    let free: Vec<usize> = (0..choices.len()).filter(|i| choices[*i].free > 0).collect();
    let index = (random.clamp(0.0, 1.0) * free.len() as f64) as usize;
    free.get(index.min(free.len().checked_sub(1)?)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::testing::free;

    #[test]
    fn the_roll_decides_among_those_with_a_free_slot() {
        for (slots, random, expected) in [
            ([1, 1, 1, 1], 0.0, Some(0)),
            ([1, 1, 1, 1], 0.5, Some(2)),
            ([1, 1, 1, 1], 1.0, Some(3)),
            ([1, 0, 0, 1], 0.4, Some(0)),
            ([1, 0, 0, 1], 0.6, Some(3)),
            ([0, 0, 0, 0], 0.5, None),
        ] {
            assert_eq!(pick(&free(&slots), random), expected, "{slots:?} {random}");
        }
    }

    #[test]
    fn all_with_a_free_slot_are_reached_alike_and_no_others() {
        let mut seen = [0; 4];
        for step in 0..400 {
            seen[pick(&free(&[1, 0, 1, 1]), f64::from(step) / 400.0).expect("some are free")] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!([seen[0], seen[2], seen[3]].iter().all(|n| (133..=134).contains(n)), "{seen:?}");
    }
}
