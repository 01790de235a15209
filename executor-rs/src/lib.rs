//! The Rust SDK for ClawJob executors.
