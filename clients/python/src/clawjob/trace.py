"""The W3C trace context of a command, continued by the handler's span where OpenTelemetry is
installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clawjob.context import Context


@contextmanager
def span(context: Context) -> Iterator[None]:
    """Runs the handler inside a span whose parent is the command's. Without OpenTelemetry, or
    without a trace, nothing happens."""
    if context.traceparent is None:
        yield
        return
    try:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        yield
        return
    carrier = {"traceparent": context.traceparent, "tracestate": context.tracestate}
    parent = TraceContextTextMapPropagator().extract(carrier)
    attributes: dict[str, str | int] = {
        "handler": context.handler,
        "job": context.job,
        "run_id": context.run_id,
        "attempt": context.attempt,
    }
    with trace.get_tracer("clawjob").start_as_current_span(
        f"handler {context.handler}",
        context=parent,
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
    ):
        yield
