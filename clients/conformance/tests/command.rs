//! The runner as a command.

use std::process::Command;

fn runner(args: &[&str]) -> (bool, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_clawjob-conformance"))
        .args(args)
        .output()
        .expect("it runs");
    (ran.status.success(), String::from_utf8(ran.stdout).expect("text"))
}

#[test]
fn a_run_without_a_subject_has_shown_nothing_and_fails() {
    let (success, table) = runner(&[]);
    assert!(!success && table.ends_with("\n0 passed, 0 failed\n"), "{table}");
}

#[test]
fn a_scheduler_that_does_not_start_fails_its_scenarios_with_its_words() {
    let (success, table) = runner(&["--scheduler", "/bin/false", "--only", "S01,B05"]);
    assert!(!success && table.ends_with("\n0 passed, 2 failed\n"), "{table}");
    assert!(table.contains("S01 scheduler FAILED") && table.contains("before it listened"));
}
