//! Both programs as a user starts them: what is missing is said, with its remedy.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clawjob-bench")).args(args).output().expect("it starts")
}

fn torture(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clawjob-torture")).args(args).output().expect("it starts")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_scheduler_that_is_not_there_is_named_with_the_remedy() {
    for output in [bench(&["b1", "--scheduler", "/none"]), torture(&["--scheduler", "/none"])] {
        assert_eq!(output.status.code(), Some(1));
        let told = told(&output);
        assert!(told.contains("no scheduler at /none") && told.contains("--scheduler"), "{told}");
    }
}

#[test]
fn an_unknown_row_and_an_unknown_fault_are_refused_with_those_that_exist() {
    let row = bench(&["b99"]);
    assert_eq!(row.status.code(), Some(2), "{}", told(&row));
    let fault = torture(&["--faults", "flood"]);
    assert_eq!(fault.status.code(), Some(2));
    assert!(told(&fault).contains("node-kill9"), "{}", told(&fault));
}
