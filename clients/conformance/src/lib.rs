//! A scheduler that does what a scenario says, for black-box scenarios and for an SDK's own tests.
//!
//! [`Fake`] listens on a port of its own, [`Session`] is one session as the scheduler sees it, and
//! [`frames`] makes what goes down. Everything panics at the first surprise and says what was
//! awaited, so that a scenario reads as a list of what happens.

#![allow(clippy::unwrap_used, reason = "a scenario ends at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "a black box is judged in real time")]

mod codec;
mod fake;
pub mod frames;
mod relay;
mod session;
mod wire;

use std::future::Future;
use std::time::Duration;

pub use codec::FrameCodec;
pub use fake::Fake;
pub use relay::Relay;
pub use session::Session;

/// Longest wait for anything that must happen, on a busy machine too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits something that must happen within [`PATIENCE`].
///
/// # Panics
/// When it does not; the message names `what`.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} for {what}"),
    }
}
