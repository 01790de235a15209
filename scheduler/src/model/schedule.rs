//! When a job fires.
