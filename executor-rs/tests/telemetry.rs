//! Tracing with a subscriber for the whole process, as a real executor has one.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use clawjob_conformance::Fake;
use clawjob_conformance::frames::command;
use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::{self, session_request::Frame as Up};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanProcessor};
use parking_lot::Mutex;
use tracing_subscriber::prelude::*;

#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for Spans {
    fn on_start(&self, _span: &mut opentelemetry_sdk::trace::Span, _cx: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: std::time::Duration) -> OTelSdkResult {
        Ok(())
    }
}

async fn chatty(_: (), _ctx: Ctx) -> Result<(), Failure> {
    tracing::info!(customer = 7, "in the handler");
    tracing::debug!("too quiet to be copied");
    let task = tracing::Instrument::in_current_span(async {
        tracing::warn!("in a task of the handler");
    });
    tokio::spawn(task).await?;
    tokio::spawn(async { tracing::warn!("in a task without a span") }).await?;
    Ok(())
}

#[tokio::test]
async fn c50_the_trace_is_continued_and_events_land_in_the_log() {
    let spans = Spans::default();
    let provider = SdkTracerProvider::builder().with_span_processor(spans.clone()).build();
    tracing_subscriber::registry()
        .with(clawjob_executor::log_layer())
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("test")))
        .init();

    let mut fake = Fake::start().await;
    let executor = Executor::builder()
        .endpoints([fake.url()])
        .app("demo")
        .executor_id("tester")
        .handler("chatty", chatty);
    let _running = tokio::spawn(executor.run_until(std::future::pending()));
    let mut session = fake.open().await;
    let traced = v1::RunCommand {
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        ..command("R1", "chatty", "")
    };
    session.begin(traced).await;
    let mut log = Vec::new();
    loop {
        match session.next().await.unwrap() {
            Up::LogChunk(chunk) => log.extend(chunk.records),
            Up::Result(_) => break,
            _ => {}
        }
    }
    let messages: Vec<&str> = log.iter().map(|record| record.message.as_str()).collect();
    assert_eq!(messages, ["in the handler", "in a task of the handler"]);
    assert_eq!(log[0].fields["customer"], "7");
    assert_eq!(log[1].level(), v1::LogLevel::Warn);

    let spans = spans.0.lock();
    let span = spans.iter().find(|span| span.name == "handler chatty").unwrap();
    assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(span.parent_span_is_remote);
}
