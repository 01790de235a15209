//! Compiles `clawjob/v1/*.proto` with protox (no `protoc` needed) into messages, clients, servers
//! and the descriptor set that reflection and the JSON bridge serve.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<PathBuf> = fs::read_dir("clawjob/v1")?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ext| ext == "proto"));
    files.sort();
    println!("cargo:rerun-if-changed=clawjob");

    let set = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("descriptor.bin"), set.encode_to_vec())?;

    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    config.bytes(["."]);
    tonic_prost_build::configure()
        .codec_path("crate::codec::LeanCodec")
        .emit_rerun_if_changed(false)
        .compile_fds_with_config(set, config)?;
    Ok(())
}
