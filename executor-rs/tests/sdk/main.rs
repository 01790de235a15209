//! What the contract's scenarios (clients/conformance) cannot see from outside: what the API says
//! of a session's end, its handle, its runtime, the agent.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[cfg(all(unix, feature = "agent"))]
mod agent;
mod handlers;
mod reconnect;
mod runtime;
mod shutdown;
#[cfg(all(unix, feature = "agent"))]
mod signals;
