//! Configuration files of any content.

use clawjob_scheduler::config;
use proptest::{prelude::*, sample::select};

use crate::{fuzz::fuzz, stage::corpus};

const SAMPLE: &str = include_str!("../../../deploy/clawjob.yaml");

/// Values and other pieces that a mistaken hand may leave in a file.
const PIECES: [&str; 22] = [
    "",
    "null",
    "~",
    "5",
    "-1",
    "1e400",
    "0x10",
    "yes",
    "\"",
    "'",
    "[",
    "{",
    "- a",
    "&a [*a]",
    "*a",
    "!!binary x",
    "? :",
    ": :",
    "\t",
    "90s",
    "postgres://u:p@h/d",
    "log: {level: loud}",
];

fn load(text: &str, name: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("written");
    let env = std::iter::empty();
    if let Err(faults) = config::load(Some(&path), env, &[]) {
        assert!(!faults.0.is_empty(), "{text}");
        assert!(faults.0.iter().all(|fault| !fault.fault.is_empty()), "{faults}");
    }
}

fn edited() -> BoxedStrategy<String> {
    let lines: Vec<&'static str> = SAMPLE.lines().collect();
    let edit = (0..lines.len(), select(&PIECES[..]), 0..3_u8);
    prop::collection::vec(edit, 1..4)
        .prop_map(move |edits| {
            let mut text: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            for (at, piece, how) in edits {
                match (how, text[at].split_once(':')) {
                    (0, Some((key, _))) => text[at] = format!("{key}: {piece}"),
                    (1, _) => text[at] = piece.to_owned(),
                    _ => text[at].push_str(piece),
                }
            }
            text.join("\n")
        })
        .boxed()
}

#[test]
fn a_configuration_is_read_or_its_faults_are_told() {
    for kept in corpus("config") {
        load(kept["text"].as_str().expect("a text"), "kept.yaml");
    }
    fuzz("tests/data/fuzz/config.txt", 1500, |config| {
        let texts = prop_oneof![6 => edited(), 1 => "(?s).{0,80}", 1 => "\\PC{0,80}"];
        proptest!(config, |(text in texts, toml in any::<bool>())| {
            load(&text, if toml { "a.toml" } else { "a.yaml" });
        });
    });
}
