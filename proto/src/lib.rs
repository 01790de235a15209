//! The ClawJob contract as Rust types: messages, gRPC clients and servers, and the descriptor set.
//!
//! The `.proto` files under `clawjob/v1` are the source; everything here is made from them.

/// Package `clawjob.v1`.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("clawjob.v1");
}

#[cfg(feature = "json")]
pub mod json;

/// The encoded `FileDescriptorSet` of the contract with all its imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// Major version of the session protocol: the package name's number.
pub const PROTOCOL_MAJOR: u32 = 1;
/// Minor version of the session protocol that this build speaks.
pub const PROTOCOL_MINOR: u32 = 0;
