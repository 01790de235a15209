//! Values that are one in memory as long as somebody uses them: of very many jobs, most are alike.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, Weak},
};

/// Values known before it is first looked for those that nobody uses any more.
const KNOWN_MAX: usize = 10_000;

/// The values in use, each by what it was made of.
pub struct Shared<K, V> {
    known: HashMap<K, Weak<V>>,
    /// So many make a sweep due. Twice what the last one left: where all are in use, a sweep for each new
    /// one would cost the square of their number.
    sweep_at: usize,
}

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self { known: HashMap::new(), sweep_at: KNOWN_MAX }
    }
}

impl<K: Hash + Eq, V> Shared<K, V> {
    /// The value of that key, if it is in use.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.known.get(key).and_then(Weak::upgrade)
    }

    /// Shares a value from now on, in place of an earlier one of the key.
    pub fn put(&mut self, key: K, value: V) -> Arc<V> {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, value| value.strong_count() > 0);
            self.sweep_at = KNOWN_MAX.max(self.known.len() * 2);
        }
        let value = Arc::new(value);
        self.known.insert(key, Arc::downgrade(&value));
        value
    }
}

/// What stands for a value as a key.
pub type Fingerprint = [u64; 2];

/// Makes fingerprints: two keyed hashes of 64 bits. No two values of a process have both in common, by
/// chance or made to.
#[derive(Default)]
pub struct Fingerprints([RandomState; 2]);

impl Fingerprints {
    /// The fingerprint of a value: the same for all that are equal.
    pub fn of(&self, value: &(impl Hash + ?Sized)) -> Fingerprint {
        [self.0[0].hash_one(value), self.0[1].hash_one(value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_as_long_as_it_is_in_use() {
        let mut shared = Shared::default();
        let kept = shared.put("kept", 1);
        drop(shared.put("dropped", 2));
        assert!(shared.get(&"kept").is_some_and(|value| Arc::ptr_eq(&value, &kept)));
        assert!(shared.get(&"dropped").is_none());
        assert_eq!(*shared.put("kept", 3), 3);
    }

    #[test]
    fn values_that_nobody_uses_any_more_are_swept_and_those_in_use_stay() {
        let mut shared = Shared::default();
        let kept = shared.put(0, 0);
        (1..=KNOWN_MAX).for_each(|key| drop(shared.put(key, key)));
        assert_eq!(shared.known.len(), 2);
        assert!(shared.get(&0).is_some_and(|value| Arc::ptr_eq(&value, &kept)));
    }

    #[test]
    fn where_all_are_in_use_a_sweep_comes_only_after_as_many_new_ones() {
        let mut shared = Shared::default();
        let kept: Vec<_> = (0..=KNOWN_MAX).map(|key| shared.put(key, key)).collect();
        assert_eq!((shared.known.len(), shared.sweep_at), (kept.len(), KNOWN_MAX * 2));
    }

    #[test]
    fn fingerprints_tell_equal_values_from_others() {
        let fingerprints = Fingerprints::default();
        assert_eq!(fingerprints.of("one"), fingerprints.of(&"one".to_owned()));
        assert_ne!(fingerprints.of("one"), fingerprints.of("two"));
        let [first, second] = fingerprints.of("one");
        assert_ne!(first, second, "each has a key of its own");
    }
}
