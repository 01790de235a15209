//! What the contract has and this release does not: every such method says so.

use tonic::{Response, Status};

use super::status::ApiError;

/// UNIMPLEMENTED, naming what is missing.
pub(super) fn not_yet<T>(what: &str) -> Result<Response<T>, Status> {
    Err(ApiError::unimplemented(format!("{what} comes with a later release")).into())
}
