//! Values and rules: no I/O, no async, no clock.

pub mod schedule;
