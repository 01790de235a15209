//! Streams that outlive their connection.

use std::{ops::ControlFlow, time::Duration};

use tonic::{Request, Response, Status, Streaming, transport::Channel};

use crate::{
    client::{self, Call},
    context::Context,
    error::CliError,
    render, time,
};

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
    /// The first call went through: from now on a loss is no reason to give up.
    pub(crate) fn opened(&mut self) {
        self.opened = true;
    }

    /// It brought something: the next loss begins with a short wait.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }

    /// Opens a stream and hands each message to `take`, which says whether that was the last one
    /// wanted. A stream that is lost or ends earlier is opened again, from where `place` has come.
    ///
    /// # Errors
    /// As [`Reconnect::after`], and those of `take`.
    pub(crate) async fn follow<P, Q: Clone, A>(
        &mut self,
        ctx: &mut Context<'_>,
        place: &mut P,
        request: impl Fn(&P) -> Q,
        rpc: impl AsyncFn(Channel, Request<Q>) -> Result<Response<Streaming<A>>, Status>,
        take: impl Fn(&mut Context<'_>, &mut P, A) -> Result<ControlFlow<()>, CliError>,
    ) -> Result<(), CliError> {
        loop {
            let mut stream = match ctx.client.call(Call::STREAM, request(place), &rpc).await {
                Ok(stream) => stream,
                Err(e) => {
                    self.after(ctx, e).await?;
                    continue;
                }
            };
            self.opened();
            loop {
                match stream.message().await {
                    Ok(Some(message)) => {
                        self.worked();
                        if take(ctx, place, message)?.is_break() {
                            return Ok(());
                        }
                    }
                    // The server ends each stream after a while; a short wait keeps one that ends
                    // each at once from being asked without pause.
                    Ok(None) => {
                        time::pause(self.wait()).await;
                        break;
                    }
                    Err(status) => {
                        self.after(ctx, status.into()).await?;
                        break;
                    }
                }
            }
        }
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
            CliError::Unreachable { .. } => true,
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
