//! The client commands of `clawjob`.
