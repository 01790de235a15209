//! The ClawJob scheduler.
