//! The SDK against a scripted scheduler over loopback. Scenarios carry their number in the
//! contract; times are a tenth of the contract's defaults, given through the Welcome.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[cfg(all(unix, feature = "agent"))]
mod agent;
mod fake;
mod handlers;
mod kills;
mod logs;
mod opening;
mod progress;
mod reconnect;
mod results;
mod runs;
mod shutdown;
#[cfg(all(unix, feature = "agent"))]
mod signals;
mod tls;
