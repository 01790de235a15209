//! Executors as processes of their own against a real server: killed, cut off, behind a way that
//! leads only outwards, drained under load.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/lines.rs"]
mod lines;
#[path = "support/node.rs"]
mod node;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/relay.rs"]
mod relay;

#[path = "executors/agents.rs"]
mod agents;
#[path = "executors/ends.rs"]
mod ends;
#[path = "executors/fleet.rs"]
mod fleet;
#[path = "executors/raw.rs"]
mod raw;
#[path = "executors/refused.rs"]
mod refused;
