//! The `clawjob` binary.

fn main() {}
