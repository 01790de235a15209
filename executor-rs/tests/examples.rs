//! The tests that stand in the examples. They run from here, so that a test run builds the examples
//! as the programs that they are.

#![allow(dead_code, reason = "nobody calls their main")]

#[path = "../examples/first.rs"]
mod first;
#[path = "../examples/nightly_report.rs"]
mod nightly_report;
