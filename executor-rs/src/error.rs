//! What `run()` and the settings can end with.

use std::fmt;

/// One thing wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The setting: an environment variable or a method of [`crate::Executor`].
    pub field: String,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// Everything that is wrong with the settings, all at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// At least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the executor's settings have {} fault(s)", self.faults.len())?;
        for fault in &self.faults {
            write!(f, "\n  {}: {}", fault.field, fault.message)?;
        }
        Ok(())
    }
}

/// Why `run()` gave up. Lost connections and servers that are down are no reason: those are tried
/// again for ever.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The scheduler refused this executor in a way that trying again cannot change.
    #[error("the scheduler refuses this executor: {code}: {message}{hint}")]
    Refused {
        /// The gRPC code's name, such as `Unauthenticated`.
        code: String,
        /// The scheduler's words.
        message: String,
        /// What to do about it; begins with "; " or is empty.
        hint: String,
    },
    /// Another process took over this executor's id.
    #[error("another process serves as this executor now: {0}; give each process an id of its own")]
    Superseded(String),
    /// The session's thread could not be started or ended unexpectedly.
    #[error("the session thread failed: {0}")]
    Thread(String),
}
