//! Python with gRPC, for clients that share nothing with this project but its contract.

#![allow(unreachable_pub, reason = "shared by test binaries")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The interpreter: the one that `make test` names, else the one that its setup left in the target
/// directory.
pub fn interpreter() -> PathBuf {
    if let Some(named) = std::env::var_os("CLAWJOB_TEST_PYTHON") {
        return named.into();
    }
    let target = Path::new(env!("CARGO_BIN_EXE_clawjob")).parent().and_then(Path::parent);
    let python = target.expect("target/profile/clawjob").join("test-venv/bin/python");
    assert!(
        python.is_file(),
        "{} is missing: run .ci/setup, or name a Python with grpcio, grpcio-tools and \
         grpcio-reflection in CLAWJOB_TEST_PYTHON",
        python.display()
    );
    python
}

/// Runs a program of clients/examples/python.
pub fn example(name: &str) -> Command {
    let program = root().join("clients/examples/python").join(name);
    let mut command = Command::new(interpreter());
    command.arg("-u").arg(program);
    command
}

/// Compiles the contract into Python modules under `out`.
pub fn compile_contract(out: &Path) {
    let proto = root().join("proto");
    let mut files: Vec<PathBuf> = std::fs::read_dir(proto.join("clawjob/v1"))
        .expect("the contract")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "proto"))
        .collect();
    files.sort();
    let compiled = Command::new(interpreter())
        .args(["-m", "grpc_tools.protoc"])
        .arg(format!("-I{}", proto.display()))
        .arg(format!("--python_out={}", out.display()))
        .arg(format!("--grpc_python_out={}", out.display()))
        .args(files)
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "the contract compiles: {said}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
