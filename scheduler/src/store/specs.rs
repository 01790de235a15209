//! Specs that are in use, so that equal ones are one in memory and are read once.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::model::job::JobSpec;

/// Specs known before it is first looked for those that nobody uses any more.
const KNOWN_MAX: usize = 10_000;

/// The specs of jobs that owners hold, by a hash of their stored text.
pub(super) struct SharedSpecs {
    /// Two keyed hashes of 64 bits: no two texts of a database have both in common, by chance or made
    /// to.
    hashes: [RandomState; 2],
    known: Mutex<Known>,
}

struct Known {
    specs: HashMap<[u64; 2], Weak<JobSpec>>,
    /// So many specs make a sweep due: twice what the last one left.
    sweep_at: usize,
}

impl SharedSpecs {
    pub(super) fn new() -> Self {
        let known = Known { specs: HashMap::new(), sweep_at: KNOWN_MAX };
        Self { hashes: [RandomState::new(), RandomState::new()], known: Mutex::new(known) }
    }

    /// The spec of a stored text: the one that is in use, if there is one.
    pub(super) fn read(&self, text: &str) -> serde_json::Result<Arc<JobSpec>> {
        let key = [self.hashes[0].hash_one(text), self.hashes[1].hash_one(text)];
        let mut known = self.known.lock();
        if let Some(spec) = known.specs.get(&key).and_then(Weak::upgrade) {
            return Ok(spec);
        }
        let spec = Arc::new(serde_json::from_str(text)?);
        if known.specs.len() >= known.sweep_at {
            known.specs.retain(|_, spec| spec.strong_count() > 0);
            known.sweep_at = KNOWN_MAX.max(known.specs.len() * 2);
        }
        known.specs.insert(key, Arc::downgrade(&spec));
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(handler: usize) -> String {
        format!(r#"{{"handler": "h-{handler}"}}"#)
    }

    #[test]
    fn equal_texts_are_one_spec_as_long_as_it_is_in_use() {
        let shared = SharedSpecs::new();
        let one = shared.read(&text(1)).expect("a spec");
        let other = shared.read(&text(2)).expect("a spec");
        assert!(Arc::ptr_eq(&one, &shared.read(&text(1)).expect("a spec")));
        assert_eq!([&*one.handler, &*other.handler], ["h-1", "h-2"]);
        assert!(shared.read("{").is_err());
        drop(other);
        assert_eq!(shared.read(&text(2)).expect("a spec").handler, "h-2");
    }

    #[test]
    fn specs_that_nobody_uses_any_more_are_swept() {
        let shared = SharedSpecs::new();
        let kept = shared.read(&text(0)).expect("a spec");
        (1..=KNOWN_MAX).for_each(|handler| drop(shared.read(&text(handler))));
        assert_eq!(shared.known.lock().specs.len(), 2);
        assert!(Arc::ptr_eq(&kept, &shared.read(&text(0)).expect("a spec")));
    }
}
