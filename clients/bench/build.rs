//! Says which compiler and profile made the program: a count of instructions is of one of each.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = Command::new(compiler).arg("--version").output();
    let told = told.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo:rustc-env=BENCH_COMPILER={}", told.unwrap_or_default());
    println!("cargo:rustc-env=BENCH_PROFILE={}", env::var("PROFILE").unwrap_or_default());
}
