"""The trace of the dispatch goes on in the handler's span."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from clawjob import App
from tests.fake import Fake, command


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_c50_the_handlers_span_continues_the_trace(
    fake: Fake, app: App, spans: InMemorySpanExporter
) -> None:
    session = fake.open()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    session.begin(command("R1", "echo", "1", traceparent=parent))
    session.result()
    (span,) = spans.get_finished_spans()
    assert span.name == "handler echo"
    assert span.context is not None
    assert span.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    assert span.parent is not None
    assert span.parent.span_id == 0xB7AD6B7169203331
    assert (span.attributes or {})["run_id"] == "R1"


def test_runs_without_a_trace_make_no_span(
    fake: Fake, app: App, spans: InMemorySpanExporter
) -> None:
    spans.clear()
    session = fake.open()
    for number, traceparent in enumerate(["", "nonsense"]):
        session.begin(command(f"R{number}", "echo", "1", traceparent=traceparent))
        assert session.result().output.data == b"1"
    assert all(span.parent is None for span in spans.get_finished_spans())
