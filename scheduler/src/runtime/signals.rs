//! What stops a process from outside.

use anyhow::Result;
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Server, start};
use crate::config::Config;

/// SIGTERM, SIGINT and SIGQUIT, from when this was made: whoever stops a process that is still starting
/// is heard, too.
pub struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Begins to listen; a signal that can't be is told of and goes on doing what it did.
    pub fn listen() -> Self {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::quit()];
        let heard = kinds.into_iter().filter_map(|kind| {
            signal(kind)
                .inspect_err(|fault| tracing::warn!(%fault, "a signal can't be waited for"))
                .ok()
        });
        Self(heard.collect())
    }

    /// Resolves once one has come.
    pub async fn heard(&mut self) {
        let mut each: FuturesUnordered<_> = self.0.iter_mut().map(Signal::recv).collect();
        if each.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Starts a server unless a signal stops it first.
///
/// # Errors
/// The start's.
pub async fn start_unless(stop: &mut StopSignals, config: &Config) -> Result<Option<Server>> {
    tokio::select! {
        server = start(config) => server.map(Some),
        () = stop.heard() => {
            tracing::info!("stopped before it had started");
            Ok(None)
        }
    }
}
