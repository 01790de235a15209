//! The W3C trace context of a command, continued by the handler's span.

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Makes the command's span the parent of `span`. Without an OpenTelemetry layer, or with a trace
/// context that cannot be read, nothing happens.
pub(crate) fn continue_from(span: &tracing::Span, traceparent: &str, tracestate: &str) {
    let Some(parent) = parse(traceparent, tracestate) else { return };
    let context = opentelemetry::Context::new().with_remote_span_context(parent);
    if let Err(error) = span.set_parent(context) {
        tracing::trace!(%error, "the trace is not continued");
    }
}

/// Version 00 of the header, and later versions as far as they begin alike.
fn parse(traceparent: &str, tracestate: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    };
    if !hex(version, 2) || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    if !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & 1),
        true,
        tracestate.parse::<TraceState>().unwrap_or_default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_parent_is_read() {
        let parent =
            parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b").unwrap();
        assert_eq!(parent.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id().to_string(), "b7ad6b7169203331");
        assert!(parent.is_remote() && parent.is_sampled());
        assert_eq!(parent.trace_state().header(), "a=b");
    }

    #[test]
    fn malformed_parents_are_passed_over() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ] {
            assert!(parse(text, "").is_none(), "{text}");
        }
    }
}
