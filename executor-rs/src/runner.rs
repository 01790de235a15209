//! Starts handlers on the caller's runtime and tells how they ended.

use std::any::Any;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError};
use tracing::Instrument as _;

use crate::ctx::{Ctx, Shared};
use crate::engine::{Ending, Key};
use crate::handler::{Call, Returned};
use crate::log_layer::SINK;
use crate::trace;

/// A handler's end on its way to the session's thread.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) key: Key,
    pub(crate) ending: Ending,
}

/// Where handlers run. The channel holds one entry per handler that has just ended; a full one
/// makes the ended handlers' tasks wait, nothing else.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    runtime: Handle,
    ended: mpsc::Sender<Ended>,
}

impl Runner {
    pub(crate) fn new(runtime: Handle, ended: mpsc::Sender<Ended>) -> Self {
        Self { runtime, ended }
    }

    /// Starts a handler; the returned handle drops it at its next `.await`.
    pub(crate) fn start(&self, key: Key, call: Call, shared: Arc<Shared>) -> AbortHandle {
        let task = self.runtime.spawn(execute(call, shared));
        let abort = task.abort_handle();
        let ended = self.ended.clone();
        self.runtime.spawn(async move {
            let ending = ending(task.await);
            // The session's thread may be gone, and with it everybody who would want to know.
            let _ = ended.send(Ended { key, ending }).await;
        });
        abort
    }
}

/// Runs a handler inside its span and with its log.
pub(crate) async fn execute(call: Call, shared: Arc<Shared>) -> Returned {
    let log = shared.log.clone();
    let run = async move {
        let span = span(&shared);
        call(Ctx::new(shared)).instrument(span).await
    };
    SINK.scope(log, run).await
}

fn span(shared: &Shared) -> tracing::Span {
    let command = shared.command();
    let (run_id, attempt) =
        command.r#ref.as_ref().map_or(("", 0), |r| (r.run_id.as_str(), r.attempt));
    let span = tracing::info_span!(
        "handler",
        otel.name = %format_args!("handler {}", command.handler),
        otel.kind = "consumer",
        handler = command.handler,
        job = command.job,
        run_id,
        attempt,
    );
    trace::continue_from(&span, &command.traceparent, &command.tracestate);
    span
}

/// How a handler's task ended.
pub(crate) fn ending(joined: Result<Returned, JoinError>) -> Ending {
    match joined {
        Ok(returned) => Ending::Returned(returned),
        Err(error) if error.is_panic() => Ending::Panicked(panic_text(&*error.into_panic())),
        Err(_) => Ending::Dropped,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked".to_owned())
}
