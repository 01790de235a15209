"""The run's log on the wire, and progress."""

from __future__ import annotations

import time

from clawjob import App
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from tests.fake import Fake, Served, attempt, command
from tests.handlers import Gate


def until_result(session: Served) -> tuple[list[pb.LogChunk], pb.RunResult]:
    chunks: list[pb.LogChunk] = []

    def pick(frame: pb.SessionRequest) -> pb.RunResult | None:
        if frame.HasField("log_chunk"):
            chunks.append(frame.log_chunk)
        return frame.result if frame.HasField("result") else None

    return chunks, session.expect("a result", pick)


def test_c43_records_come_in_order_without_gaps_and_before_the_result(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "logs", '{"count":500}'))
    chunks, result = until_result(session)
    expected = 1
    for chunk in chunks:
        assert (chunk.first_seq, chunk.dropped) == (expected, 0)
        expected += len(chunk.records)
    texts = [record.message for chunk in chunks for record in chunk.records]
    assert texts == [f"line {number}" for number in range(1, 501)]
    assert result.last_log_seq == 500


def test_c44_c46_a_closed_window_holds_logs_back_but_not_the_result(fake: Fake, app: App) -> None:
    session = fake.open(log_window_bytes=4096, max_log_chunk_bytes=2048)
    session.begin(command("R1", "logs", '{"count":900}'))
    chunks, result = until_result(session)
    sent = sum(record.ByteSize() for chunk in chunks for record in chunk.records)
    assert sent <= 4096
    assert chunks[-1].dropped > 0
    told = sum(len(chunk.records) + chunk.dropped for chunk in chunks)
    assert told == 900
    assert result.outcome == types.OUTCOME_SUCCEEDED


def test_c44_an_ack_opens_the_window(fake: Fake, app: App, gate: Gate) -> None:
    session = fake.open(log_window_bytes=4096, max_log_chunk_bytes=2048)
    # A result waits for its log for a moment only, so it comes when all of that is here.
    session.begin(command("R1", "logs_then_gate", '{"count":900}'))
    seen = 0
    while seen < 900:
        chunk = session.log_chunk()
        seen += len(chunk.records)
        through = chunk.first_seq + len(chunk.records) - 1
        session.send(log_ack=pb.LogAck(ref=chunk.ref, through_seq=through))
    gate.open()
    assert (seen, session.result().last_log_seq) == (900, 900)


def test_c45_what_is_dropped_is_counted_exactly(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "logs", '{"count":1500}'))
    chunks, result = until_result(session)
    got = sum(len(chunk.records) for chunk in chunks)
    dropped = sum(chunk.dropped for chunk in chunks)
    assert got >= 1000
    assert got + dropped == 1500
    assert result.last_log_seq == got


def test_the_standard_logging_lands_in_the_runs_log(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "logging_handler"))
    chunks, _ = until_result(session)
    first, second = [record for chunk in chunks for record in chunk.records]
    assert (first.level, first.message) == (types.LOG_LEVEL_WARN, "rates are stale")
    assert first.fields == {"logger": "tests.handlers", "age": "3"}
    assert second.level == types.LOG_LEVEL_ERROR
    assert second.message.startswith("no rate\nTraceback")
    assert "KeyError: 'EUR'" in second.message


def test_c47_progress_is_told_once_a_second_at_most_and_the_newest_wins(
    fake: Fake, app: App
) -> None:
    session = fake.open()
    began = time.monotonic()
    session.begin(command("R1", "progress", '{"count":1000}'))
    told = [session.progress()]
    while told[-1].message != "step 1000":
        told.append(session.progress())
    assert told[-1].fraction == 1.0
    assert len(told) <= 2 + int(time.monotonic() - began)
    session.kill("R1")
    session.result()


def test_c47_a_new_session_is_told_again(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "progress", '{"count":1}'))
    session.progress()
    session.end()
    assert fake.open(resumed=True).progress().message == "step 1"


def test_unacknowledged_records_go_to_the_next_session(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "logs", '{"count":3}'))
    until_result(session)
    session.end()
    chunks, _ = until_result(fake.open(resumed=True))
    assert [len(chunk.records) for chunk in chunks] == [3]
    assert chunks[0].ref == attempt("R1")
