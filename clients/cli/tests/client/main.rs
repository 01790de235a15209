//! The client commands end to end, against a server of the same contract that keeps all in memory.
#![allow(clippy::unwrap_used)]

mod alarms;
mod apply;
mod calendars;
mod errors;
mod fake;
mod fake_alarms;
mod fake_calendars;
mod fake_jobs;
mod fake_runs;
mod harness;
mod jobs;
mod runs;
