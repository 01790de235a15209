//! The spans of a run: plan → dispatch → handler → result, one trace each.
//!
//! The trace id is the run's id, and the id of a dispatch's span is computed from its fence. So
//! whoever meets the run later, on whatever node, continues the same trace without a stored id.

use std::{
    cell::Cell,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Utc};
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{Span as _, SpanBuilder, SpanContext, TraceContextExt as _, TraceState, Tracer as _},
};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer};
use sha2::{Digest, Sha256};

use crate::model::ids::{AttemptRef, RunId};

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

thread_local! {
    /// Ids for the next span that this thread starts.
    static NEXT: Cell<(Option<TraceId>, Option<SpanId>)> = const { Cell::new((None, None)) };
}

/// Random ids, but for spans whose ids follow from their run.
#[derive(Debug, Default)]
pub struct RunIds(RandomIdGenerator);

impl IdGenerator for RunIds {
    fn new_trace_id(&self) -> TraceId {
        NEXT.get().0.unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        NEXT.get().1.unwrap_or_else(|| self.0.new_span_id())
    }
}

/// Spans of runs go out through this tracer from now on; without one nothing is made.
pub fn export_through(tracer: SdkTracer) {
    // The first one stays: a process has one exporter.
    let _ = TRACER.set(tracer);
}

/// Whether spans of runs are exported: what they would say need not be gathered otherwise.
pub fn exporting() -> bool {
    TRACER.get().is_some()
}

/// The span id of a dispatch; fence 0 is the plan, the trace's root.
pub fn span_id(run: RunId, fence: u64) -> [u8; 8] {
    let mut hash = Sha256::new();
    hash.update(run.to_bytes());
    hash.update(fence.to_be_bytes());
    let digest = hash.finalize();
    let mut id = [0_u8; 8];
    id.copy_from_slice(&digest[..8]);
    id
}

/// W3C trace context that a dispatch carries to the executor.
pub fn traceparent(attempt: AttemptRef) -> String {
    let trace = u128::from_be_bytes(attempt.run.trace_id());
    let span = u64::from_be_bytes(span_id(attempt.run, attempt.fence));
    format!("00-{trace:032x}-{span:016x}-01")
}

/// The run's row was made: the root of its trace.
pub fn planned(run: RunId, job: &str, at: DateTime<Utc>, trigger: &'static str) {
    let ids =
        (Some(TraceId::from_bytes(run.trace_id())), Some(SpanId::from_bytes(span_id(run, 0))));
    emit("plan", ids, &Context::new(), at, at, || {
        vec![
            KeyValue::new("clawjob.job", job.to_owned()),
            KeyValue::new("clawjob.trigger", trigger),
        ]
    });
}

/// The run was due at `due` and sent at `at`.
pub fn dispatched(
    attempt: AttemptRef,
    job: &str,
    executor: &str,
    due: DateTime<Utc>,
    at: DateTime<Utc>,
) {
    let ids = (None, Some(SpanId::from_bytes(span_id(attempt.run, attempt.fence))));
    emit("dispatch", ids, &parent(attempt.run, 0), due.min(at), at, || {
        vec![
            KeyValue::new("clawjob.run", attempt.run.to_string()),
            KeyValue::new("clawjob.job", job.to_owned()),
            KeyValue::new("clawjob.executor", executor.to_owned()),
            KeyValue::new("clawjob.attempt", i64::from(attempt.attempt)),
        ]
    });
}

/// The attempt's result came at `received` and was stored at `at`.
pub fn result(
    attempt: AttemptRef,
    state: &'static str,
    received: DateTime<Utc>,
    at: DateTime<Utc>,
) {
    emit("result", (None, None), &parent(attempt.run, attempt.fence), received, at, || {
        vec![
            KeyValue::new("clawjob.run", attempt.run.to_string()),
            KeyValue::new("clawjob.state", state),
        ]
    });
}

fn parent(run: RunId, fence: u64) -> Context {
    Context::new().with_remote_span_context(SpanContext::new(
        TraceId::from_bytes(run.trace_id()),
        SpanId::from_bytes(span_id(run, fence)),
        TraceFlags::SAMPLED,
        true,
        TraceState::NONE,
    ))
}

fn emit(
    name: &'static str,
    ids: (Option<TraceId>, Option<SpanId>),
    parent: &Context,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    attributes: impl FnOnce() -> Vec<KeyValue>,
) {
    let Some(tracer) = TRACER.get() else { return };
    let builder = SpanBuilder::from_name(name)
        .with_start_time(system_time(from))
        .with_attributes(attributes());
    NEXT.set(ids);
    let mut span = tracer.build_with_context(builder, parent);
    NEXT.set((None, None));
    span.end_with_timestamp(system_time(to));
}

fn system_time(at: DateTime<Utc>) -> SystemTime {
    let us = u64::try_from(at.timestamp_micros()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_micros(us)
}
