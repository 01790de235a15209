//! Scenarios that play the executor against the real scheduler: S by their numbers in the contract,
//! V for an executor whose release is apart, B for what is too large, E for SDKs together with it.

mod admin;
mod bounds;
mod ends;
mod node;
#[path = "../../../../scheduler/tests/support/postgres.rs"]
mod postgres;
pub(crate) mod programs;
mod raw;
mod sessions;
mod states;
mod storm;
mod versions;

use std::path::{Path, PathBuf};

use crate::judge::{self, Scenario, Words};

/// All of them, in the order of their ids.
pub(crate) fn all() -> Vec<&'static Scenario<Binary>> {
    let parts = [
        sessions::SCENARIOS,
        ends::SCENARIOS,
        storm::SCENARIOS,
        states::SCENARIOS,
        versions::SCENARIOS,
        bounds::SCENARIOS,
    ];
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    let place = |kind: char| "SVB".find(kind);
    all.sort_by_key(|scenario| {
        let id = scenario.id();
        (id.chars().next().and_then(place), id)
    });
    all
}

/// The scheduler's binary as the subject of one scenario.
pub(crate) struct Binary {
    path: PathBuf,
    words: Words,
}

impl Binary {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), words: Words::default() }
    }
}

impl judge::Subject for Binary {
    fn words(&self) -> Words {
        self.words.clone()
    }
}
