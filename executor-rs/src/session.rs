//! The session with the scheduler, on a thread and a runtime of its own: a handler that blocks
//! its runtime stops neither a heartbeat nor an answer.

use std::collections::BTreeMap;

use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::oneshot;

use crate::config::Checked;
use crate::error::Error;
use crate::handle::Handle;
use crate::handler::Registry;

mod backoff;
mod dial;
mod driver;
mod ending;
mod hello;
mod link;
mod outbox;
mod pump;
mod redial;

/// What the session's thread starts from.
pub(crate) struct Start {
    pub(crate) settings: Checked,
    pub(crate) limits: BTreeMap<String, u32>,
    pub(crate) registry: Registry,
    pub(crate) handle: Handle,
    /// Where handlers run.
    pub(crate) runtime: Runtime,
    /// Whether SIGTERM and SIGINT end the executor.
    pub(crate) signals: bool,
    /// Told when it is over.
    pub(crate) done: oneshot::Sender<Result<(), Error>>,
}

/// Starts the thread.
///
/// # Errors
/// The system gives no thread or no timer.
pub(crate) fn spawn(start: Start) -> Result<(), Error> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Thread(e.to_string()))?;
    std::thread::Builder::new()
        .name("clawjob-session".to_owned())
        .spawn(move || runtime.block_on(run(start)))
        .map_err(|e| Error::Thread(e.to_string()))?;
    Ok(())
}

async fn run(start: Start) {
    if start.signals {
        tokio::spawn(watch_signals(start.handle.clone()));
    }
    let done = driver::Driver::new(&start).run().await;
    // Whoever waited may have gone; then nobody wants to know.
    let _ = start.done.send(done);
}

/// Turns SIGTERM and SIGINT into wishes: the first drains, the next ones cancel.
#[cfg(unix)]
async fn watch_signals(handle: Handle) {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(term), Ok(int)) => (term, int),
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "signals cannot be watched: they will not drain");
                return;
            }
        };
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        handle.next_stop();
    }
}

/// Turns Ctrl-C into wishes: the first drains, the next ones cancel.
#[cfg(not(unix))]
async fn watch_signals(handle: Handle) {
    while tokio::signal::ctrl_c().await.is_ok() {
        handle.next_stop();
    }
}
