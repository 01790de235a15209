//! Streams that outlive their connection.

use std::time::Duration;

use crate::{client, context::Context, error::CliError, render, time};

/// First wait after a lost connection; it doubles with each that brings nothing.
const WAIT_FIRST: Duration = Duration::from_millis(250);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Decides whether and when a lost stream is opened again.
#[derive(Debug, Default)]
pub(crate) struct Reconnect {
    opened: bool,
    failures: u32,
}

impl Reconnect {
    /// The stream was opened: from now on a loss is no reason to give up.
    pub(crate) fn opened(&mut self) {
        self.opened = true;
    }

    /// The stream brought something: the next loss begins with a short wait.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }

    /// The stream ended in order; a short wait keeps a server that ends each at once from being
    /// asked without pause.
    pub(crate) async fn at_end(&mut self) {
        time::pause(self.wait()).await;
    }

    /// Tells of the loss and waits.
    ///
    /// # Errors
    /// The loss itself, when another try could not help, or when none has ever worked.
    pub(crate) async fn after(
        &mut self,
        ctx: &mut Context<'_>,
        error: CliError,
    ) -> Result<(), CliError> {
        let lost = match &error {
            CliError::Unreachable(_) => true,
            CliError::Status(status) => client::is_transient(status),
            _ => false,
        };
        if !lost || !self.opened {
            return Err(error);
        }
        if self.failures == 0 {
            ctx.term.remark(&format!("connection lost ({}); trying again", render::brief(&error)));
        }
        time::pause(self.wait()).await;
        Ok(())
    }

    fn wait(&mut self) -> Duration {
        let wait = WAIT_FIRST.saturating_mul(1 << self.failures.min(10)).min(WAIT_MAX);
        self.failures += 1;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_anew_when_it_worked() {
        let mut reconnect = Reconnect::default();
        assert_eq!(reconnect.wait(), WAIT_FIRST);
        assert_eq!(reconnect.wait(), 2 * WAIT_FIRST);
        for _ in 0..100 {
            assert!(reconnect.wait() <= WAIT_MAX);
        }
        reconnect.worked();
        assert_eq!(reconnect.wait(), WAIT_FIRST);
    }
}
