//! The `tracing` layer that copies what a handler says into its run's log.

use std::sync::Arc;

use clawjob_proto::v1::LogLevel;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::logs::LogSink;
use crate::time;

tokio::task_local! {
    /// The log of the attempt that the current task works for.
    pub(crate) static SINK: Arc<LogSink>;
}

/// Copies `tracing` events of a handler into its run's log. Made by [`log_layer`].
#[derive(Debug, Clone)]
pub struct LogLayer {
    max_level: Level,
}

/// The layer to add to the subscriber, so that `tracing` events inside a handler land in the log
/// of its run. Events of tasks that a handler spawns land there too when the task is instrumented
/// with a span of the handler (`.in_current_span()`).
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let subscriber = tracing_subscriber::registry()
///     .with(tracing_subscriber::fmt::layer())
///     .with(clawjob_executor::log_layer());
/// # drop(subscriber);
/// ```
pub fn log_layer() -> LogLayer {
    LogLayer { max_level: Level::INFO }
}

impl LogLayer {
    /// The most verbose level that is copied; INFO when not set.
    #[must_use]
    pub fn max_level(mut self, level: Level) -> Self {
        self.max_level = level;
        self
    }
}

struct SpanSink(Arc<LogSink>);

impl<S> Layer<S> for LogLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, _attrs: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Ok(sink) = SINK.try_with(Arc::clone) else { return };
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().replace(SpanSink(sink));
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if *event.metadata().level() > self.max_level {
            return;
        }
        let sink = SINK.try_with(Arc::clone).ok().or_else(|| {
            ctx.event_scope(event)?
                .find_map(|span| span.extensions().get::<SpanSink>().map(|s| s.0.clone()))
        });
        let Some(sink) = sink else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        if event.metadata().target() != event.metadata().module_path().unwrap_or_default() {
            fields.rest.push(("target".to_owned(), event.metadata().target().to_owned()));
        }
        sink.push(level(*event.metadata().level()), fields.message, fields.rest, time::now());
    }
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::TRACE => LogLevel::Trace,
        Level::DEBUG => LogLevel::Debug,
        Level::INFO => LogLevel::Info,
        Level::WARN => LogLevel::Warn,
        Level::ERROR => LogLevel::Error,
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: Vec<(String, String)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            self.rest.push((field.name().to_owned(), value));
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}
