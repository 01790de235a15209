//! The executor that has the key: of all that are there, the one for which a hash of key and name is
//! the highest. So each executor's leaving moves only its own keys, each spread over the others, and
//! a newcomer takes only keys that are its own from then on.
//!
//! A full owner is waited for. Whoever asks for this route wants the runs of a key in one place,
//! where their cache, files or connection are; another executor would serve the run sooner and
//! break what the route is for.

use sha2::{Digest, Sha256};

use super::Choice;

pub(super) fn pick(choices: &[Choice<'_>], key: &str) -> Option<usize> {
    owner(choices, key).filter(|owner| choices[*owner].free > 0)
}

/// Which of the choices has the key, full or not; `None` when there are none.
pub fn owner(choices: &[Choice<'_>], key: &str) -> Option<usize> {
    let weights = choices.iter().map(|choice| weight(key, choice.name));
    weights.enumerate().max_by_key(|(_, weight)| *weight).map(|(index, _)| index)
}

/// By the executor's name, not its row: one that registers anew under its old name has its old
/// keys. The key's length keeps two pairs from having the same text.
fn weight(key: &str, name: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"clawjob route");
    hash.update((key.len() as u64).to_be_bytes());
    hash.update(key);
    hash.update(name);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::testing::free;

    fn named<'a>(names: &[&'a str]) -> Vec<Choice<'a>> {
        let one = free(&[1]);
        let rows = names.iter().enumerate();
        rows.map(|(index, name)| Choice { row: index as i64, name, ..one[0] }).collect()
    }

    fn name_of<'a>(choices: &[Choice<'a>], key: &str) -> &'a str {
        choices[pick(choices, key).expect("all are free")].name
    }

    #[test]
    fn the_owner_of_the_key_is_picked_or_waited_for() {
        let all = free(&[1, 1, 1, 1]);
        let keys = ["orders", "mail", "", "a/b", "日本"];
        for key in keys {
            let owner = owner(&all, key).expect("someone has it");
            assert_eq!(pick(&all, key), Some(owner), "{key}");
            assert_eq!(pick(&all, key), Some(owner), "{key} goes there again");
            let mut full = all.clone();
            full[owner].free = 0;
            assert_eq!(pick(&full, key), None, "{key} waits for its full owner");
            let mut others = all.clone();
            others.iter_mut().for_each(|choice| choice.free = 0);
            others[owner].free = 1;
            assert_eq!(pick(&others, key), Some(owner), "{key} cares for no other");
        }
        assert_eq!(owner(&[], "orders"), None);
    }

    #[test]
    fn an_executor_s_leaving_moves_only_its_own_keys() {
        let all = named(&["web-1", "web-2", "web-3", "web-4", "web-5"]);
        let keys: Vec<String> = (0..1_000).map(|n| format!("key-{n}")).collect();
        for gone in 0..all.len() {
            let mut rest = all.clone();
            let gone = rest.remove(gone).name;
            let mut moved_to = std::collections::HashMap::<&str, u32>::new();
            for key in &keys {
                let before = name_of(&all, key);
                let after = name_of(&rest, key);
                if before == gone {
                    *moved_to.entry(after).or_default() += 1;
                } else {
                    assert_eq!(after, before, "{key} moved though {before} stayed");
                }
            }
            let share: u32 = moved_to.values().sum();
            assert!((130..=270).contains(&share), "{gone} had {share} keys of 1,000");
            assert_eq!(moved_to.len(), 4, "they are spread over all that stayed: {moved_to:?}");
        }
    }

    #[test]
    fn the_order_and_rows_of_executors_do_not_matter() {
        let one = named(&["a", "b", "c"]);
        let other = named(&["c", "a", "b"]);
        for n in 0..100 {
            let key = format!("key-{n}");
            assert_eq!(name_of(&one, &key), name_of(&other, &key));
        }
    }
}
