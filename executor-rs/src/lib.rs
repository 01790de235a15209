//! The Rust SDK for ClawJob executors.
//!
//! An executor is a program that offers named handlers to one app. It dials the scheduler, keeps
//! one session open and runs what it is sent; it listens on no port.
//!
//! ```no_run
//! use clawjob_executor::{Ctx, Executor, Failure};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Hello {
//!     name: String,
//! }
//!
//! async fn hello(params: Hello, ctx: Ctx) -> Result<String, Failure> {
//!     tracing::info!(fire_time = %ctx.fire_time(), "saying hello");
//!     Ok(format!("Hello, {}!", params.name))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     Executor::from_env()?.slots(8).handler("hello", hello).run().await?;
//!     Ok(())
//! }
//! ```
//!
//! Where things are: [`Executor`] holds the settings and runs, [`Ctx`] is what a handler knows of
//! its run, [`Failure`] is how it fails, [`log_layer`] brings `tracing` events into the run's log,
//! and [`testing`] runs a handler without a scheduler.
//!
//! Inside, `engine` is the pure table of attempts (no I/O, no clock), `session` owns the
//! connection on a thread of its own, `runner` starts handlers on the caller's runtime, and `logs`
//! buffers what they say.

#[cfg(all(feature = "agent", unix))]
pub mod agent;
mod config;
mod ctx;
mod engine;
mod error;
mod executor;
mod failure;
mod handle;
mod handler;
mod log_layer;
mod logs;
mod progress;
mod runner;
mod session;
pub mod testing;
mod time;
mod trace;
mod wake;

pub use clawjob_proto::v1::LogLevel;
pub use config::{ClientIdentity, Reconnect};
pub use ctx::{Ctx, Shard, StopReason};
pub use error::{ConfigError, Error, Fault};
pub use executor::Executor;
pub use failure::{Failure, code};
pub use handle::{Handle, Health};
pub use handler::HandlerOptions;
pub use log_layer::{LogLayer, log_layer};
