//! The ready-made agent: an executor whose handlers run commands (`shell`) and call URLs
//! (`http`), as far as its own configuration file allows. What the file does not name cannot be
//! run from outside; a file without a section leaves that handler off.
//!
//! ```yaml
//! app: ops
//! slots: 4
//! shell:
//!   commands:
//!     backup:
//!       program: /usr/local/bin/backup
//!       args: ["--database", "{database}"]
//!       cwd: /var/backups
//! http:
//!   targets:
//!     billing:
//!       url: https://billing.example.com/jobs/
//!       methods: [POST]
//! ```
//!
//! A job with the handler `shell` and the params
//! `{"command": "backup", "args": {"database": "orders"}}` then runs
//! `/usr/local/bin/backup --database orders`, without a shell in between.

mod config;
mod group;
mod http;
mod lines;
mod shell;
mod strays;

pub use config::{AgentConfig, AgentError, Command, HttpSection, ShellSection, Target, load};

use std::sync::Arc;

use crate::config::Settings;
use crate::error::Error;
use crate::executor::Executor;
use crate::handler::HandlerOptions;

/// Name of the handler that runs commands.
pub const SHELL: &str = "shell";
/// Name of the handler that calls URLs.
pub const HTTP: &str = "http";

/// Runs the agent until SIGTERM or SIGINT, as [`Executor::run`] does.
///
/// # Errors
/// As [`Executor::run`]; and an HTTP client that cannot be made.
pub async fn run(config: AgentConfig) -> Result<(), AgentError> {
    Ok(executor(config)?.run().await?)
}

/// The agent as an executor, to be run by the caller. The environment's settings
/// (`CLAWJOB_ENDPOINTS` and the others) win over the file's.
///
/// # Errors
/// Environment variables whose values cannot be used; an HTTP client that cannot be made.
pub fn executor(config: AgentConfig) -> Result<Executor, AgentError> {
    let environment = Settings::from_env(|name| std::env::var(name)).map_err(Error::Config)?;
    let mut executor = Executor::with(environment.or(config.settings()));
    if let Some(section) = config.shell {
        let section = Arc::new(section);
        let options = HandlerOptions::new().description(section.describe());
        executor = executor.handler_with(SHELL, options, move |params, ctx| {
            shell::run(section.clone(), params, ctx)
        });
    }
    if let Some(section) = config.http {
        let options = HandlerOptions::new().description(section.describe());
        let client = Arc::new(http::Client::new(section)?);
        executor = executor
            .handler_with(HTTP, options, move |params, ctx| http::run(client.clone(), params, ctx));
    }
    Ok(executor)
}
