//! The ClawJob contract as Rust types: messages, gRPC clients and servers, and the descriptor set.
//!
//! The `.proto` files under `clawjob/v1` are the source; everything here is made from them.

/// Package `clawjob.v1`.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("clawjob.v1");
}

pub mod codec;
#[cfg(feature = "json")]
pub mod json;

/// The encoded `FileDescriptorSet` of the contract with all its imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// Major version of the session protocol: the package name's number.
pub const PROTOCOL_MAJOR: u32 = 1;
/// Minor version of the session protocol that this build speaks.
pub const PROTOCOL_MINOR: u32 = 0;

/// The code as the contract of gRPC writes it.
#[must_use]
pub fn code_word(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
