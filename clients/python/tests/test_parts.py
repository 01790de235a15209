"""The small parts: waits, lanes, buffers, failures, times."""

from __future__ import annotations

import asyncio
import random
import socket
import statistics
from datetime import datetime, timedelta, timezone
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from clawjob import wire
from clawjob.config import Checked, Connection, Reconnect, Token
from clawjob.context import LogLevel
from clawjob.engine import Key
from clawjob.failure import Failure, cut_middle, describe, upper_snake
from clawjob.handle import Handle, Health, Stop
from clawjob.logs import LogSink
from clawjob.progress import Progress
from clawjob.session.backoff import Backoff
from clawjob.session.dial import TOKEN_FILE_WAIT, Fault, connect
from clawjob.session.outbox import CONTROL_FRAMES_MAX, DATA_FRAMES_MAX, Outbox
from clawjob.session.redial import Redial, Told
from clawjob.ship import Shipper
from clawjob.v1 import session_pb2 as pb
from clawjob.wake import Wake

HEARTBEAT = pb.SessionRequest(heartbeat=pb.Heartbeat())
CHUNK = pb.SessionRequest(log_chunk=pb.LogChunk())
GOODBYE = pb.SessionRequest(goodbye=pb.Goodbye())


def test_c33_waits_are_spread_and_capped() -> None:
    rng = random.Random(7)
    waits: list[list[float]] = [[] for _ in range(20)]
    for _ in range(400):
        backoff = Backoff(Reconnect())
        for number, column in enumerate(waits):
            bound = 2.0 if number == 0 else min(0.5 * 2.0 ** (number - 1), 30.0)
            column.append(backoff.next(None, rng))
            assert column[-1] <= bound
    # Full jitter: half of the bound on average, for the cap as for the first.
    for number, half in [(0, 1.0), (1, 0.25), (4, 2.0), (19, 15.0)]:
        assert statistics.mean(waits[number]) == pytest.approx(half, rel=0.15)


def test_only_a_healthy_session_makes_the_next_wait_a_first_one() -> None:
    rng = random.Random(7)
    backoff = Backoff(Reconnect(first=0.0))
    assert backoff.next(None, rng) == 0
    backoff.on_session_end(59)
    assert backoff.next(None, rng) > 0
    backoff.on_session_end(60)
    assert backoff.next(None, rng) == 0
    assert backoff.next(9.0, rng) >= 9


def test_waits_stay_finite_after_years_of_failures() -> None:
    backoff, rng = Backoff(Reconnect()), random.Random(7)
    assert max(backoff.next(None, rng) for _ in range(5000)) <= 30


def redial(*endpoints: str) -> Redial:
    settings = Checked(Connection(endpoints), "demo", "tester")
    return Redial(settings, lambda number, step: None, 0.0)


def test_after_a_failure_another_endpoint_of_our_own_is_dialed() -> None:
    dialer = redial("http://a:1", "http://b:1")
    dialer.know_peers(["http://peer:1"])
    dialer._last_failed = "http://a:1"
    assert {dialer.pick(random.Random(n)) for n in range(20)} == {"http://b:1"}


def test_after_a_silence_another_endpoint_is_dialed_at_once() -> None:
    rng = random.Random(7)
    dialer = redial("http://a:1", "http://b:1")
    dialer.know_peers(["http://peer:1"])
    dialer._opened = "http://a:1"
    dialer.on_silence()
    dialer.on_session_end(1000.0, 60.0, None, rng)
    assert dialer.next_wake() == 1000.0
    assert {dialer.pick(random.Random(n)) for n in range(20)} == {"http://b:1"}
    dialer.on_session_end(1000.0, 0.0, None, rng)
    assert (dialer.next_wake() or 0.0) > 1000.0, "it breaks again"


def test_who_has_one_endpoint_dials_any_after_a_silence() -> None:
    dialer = redial("http://a:1")
    dialer.know_peers(["http://peer:1"])
    dialer._opened = "http://a:1"
    dialer.on_silence()
    picked = {dialer.pick(random.Random(n)) for n in range(50)}
    assert picked == {"http://a:1", "http://peer:1"}


def test_a_fault_that_goes_on_is_told_once_a_minute() -> None:
    told = Told()
    assert told.is_news("no file", 0.0)
    assert not told.is_news("no file", 30.0)
    assert told.is_news("empty", 30.0)
    assert told.is_news("empty", 120.0)


@pytest.mark.parametrize(("content", "part"), [(None, "cannot be read"), (" \n", "is empty")])
def test_without_a_usable_token_nothing_is_dialed_and_the_file_is_given_time(
    tmp_path: Path, content: str | None, part: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        nobody.setblocking(False)
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        settings = Checked(Connection((url,), Token(file=path)), "demo", "tester")
        with pytest.raises(Fault) as fault:
            asyncio.run(connect(settings, url))
        with pytest.raises(BlockingIOError):
            nobody.accept()
    assert part in fault.value.message
    assert str(path) in fault.value.message
    assert (fault.value.permanent, fault.value.retry_after) == (None, TOKEN_FILE_WAIT)


def test_peers_without_our_scheme_are_not_trusted() -> None:
    dialer = redial("https://a:1")
    dialer.know_peers(["http://b:1", "https://c:1", "https://d:1/path"])
    assert dialer.peers == ["https://c:1"]


@pytest.mark.parametrize(
    ("reason", "reconnect", "permanent"),
    [
        (pb.Close.REASON_ERROR, False, False),
        (pb.Close.REASON_UNRESPONSIVE, False, False),
        (pb.Close.REASON_SUPERSEDED, False, True),
        (pb.Close.REASON_SUPERSEDED, True, False),
        (pb.Close.REASON_REVOKED, False, True),
        (pb.Close.REASON_PROTOCOL, False, True),
        (99, False, False),
    ],
)
def test_closes_are_for_good_by_reason(reason: int, reconnect: bool, permanent: bool) -> None:
    close = pb.Close(reason=reason, reconnect=reconnect)  # type: ignore[arg-type]
    assert (Fault.of_close(close).permanent is not None) == permanent


def test_c34_c35_only_the_named_codes_are_for_good() -> None:
    permanent = {"UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT"}
    permanent |= {"FAILED_PRECONDITION", "UNIMPLEMENTED"}
    for code in grpc.StatusCode:
        metadata = grpc.aio.Metadata()
        fault = Fault.of(grpc.aio.AioRpcError(code, metadata, metadata, "x"))
        assert (fault.permanent is not None) == (code.name in permanent), code


def rich(code: grpc.StatusCode, *parts: Message) -> grpc.aio.AioRpcError:
    """A status with details, as the scheduler sends them."""
    status = status_pb2.Status(code=code.value[0], message="x")
    for part in parts:
        status.details.add().Pack(part)
    trailers = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, "x")


@pytest.mark.parametrize(
    ("reason", "permanent"), [("PROTOCOL_VERSION_UNSUPPORTED", True), ("NODE_NOT_READY", False)]
)
def test_a_failed_precondition_of_another_reason_may_pass(reason: str, permanent: bool) -> None:
    error = rich(grpc.StatusCode.FAILED_PRECONDITION, details.ErrorInfo(reason=reason))
    assert (Fault.of(error).permanent is not None) == permanent


def test_the_wait_that_the_scheduler_asks_for_is_kept() -> None:
    retry = details.RetryInfo(retry_delay=wire.duration(4))
    fault = Fault.of(rich(grpc.StatusCode.RESOURCE_EXHAUSTED, retry))
    assert (fault.permanent, fault.retry_after) == (None, 4.0)


def test_control_goes_ahead_of_data_and_the_last_frame_comes_last() -> None:
    async def frames() -> list[pb.SessionRequest]:
        outbox = Outbox(lambda: None)
        outbox.data(CHUNK)
        outbox.control(HEARTBEAT)
        outbox.close(GOODBYE)
        out = []
        while (frame := await outbox.next()) is not None:
            out.append(frame)
        return out

    assert asyncio.run(frames()) == [HEARTBEAT, CHUNK, GOODBYE]


def test_both_lanes_are_bounded() -> None:
    async def fill() -> None:
        outbox = Outbox(lambda: None)
        for _ in range(CONTROL_FRAMES_MAX):
            assert outbox.control(HEARTBEAT)
        assert not outbox.control(HEARTBEAT)
        for _ in range(DATA_FRAMES_MAX):
            assert outbox.has_space()
            outbox.data(CHUNK)
        assert not outbox.has_space()

    asyncio.run(fill())


def say(sink: LogSink, text: str, mono: float = 0.0) -> None:
    sink.push(LogLevel.INFO, text, {}, 0, mono)


def test_records_beyond_the_rate_are_counted_at_their_place() -> None:
    sink = LogSink()
    for number in range(1007):
        say(sink, str(number))
    say(sink, "later", 1.0)
    first, second = sink.cut(10**9), sink.cut(10**9)
    assert first is not None
    assert (len(first.records), first.dropped) == (1000, 0)
    assert second is not None
    assert (len(second.records), second.dropped) == (1, 7)
    assert sink.is_empty()


def test_a_full_buffer_drops_the_oldest_and_counts_exactly() -> None:
    sink = LogSink()
    for _ in range(100):
        say(sink, "x" * 8192)
    records, dropped = sink.drain()
    assert len(records) + dropped == 100
    assert len(records) >= 30
    assert dropped > 0
    assert sink.take_bytes_dropped() >= dropped * 8192
    assert sink.take_bytes_dropped() == 0


def test_an_attempt_logs_ten_mebibytes_at_most() -> None:
    sink, kept = LogSink(), 0
    for number in range(700):
        say(sink, "x" * 16384, float(number))
        kept += len(sink.drain()[0])
    assert 630 <= kept <= 640


def test_texts_that_utf_8_cannot_carry_are_taken_all_the_same() -> None:
    sink = LogSink()
    sink.push(LogLevel.INFO, "lone \udcff surrogate", {"k\udcff": "v" * 5000}, 0, 0.0)
    (record,), _ = sink.drain()
    assert record.message == "lone ? surrogate"
    assert len(record.fields["k?"]) <= 1024


def shipper(window: int, chunk: int) -> tuple[Shipper, Key, LogSink]:
    ships, key, sink = Shipper(), Key("run", 1), LogSink()
    ships.on_session(window, chunk)
    ships.add(key, sink)
    return ships, key, sink


def seqs(ships: Shipper, key: Key) -> tuple[int, int] | None:
    chunk = ships.next_chunk(key, 1)
    return None if chunk is None else (chunk.first_seq, len(chunk.records))


def test_the_window_holds_chunks_back_until_an_ack() -> None:
    ships, key, sink = shipper(500, 300)
    for number in range(6):
        say(sink, f"{number:0100}")
    assert [seqs(ships, key) for _ in range(3)] == [(1, 2), (3, 2), None]
    ships.on_ack(key.to_ref(1), 2)
    assert seqs(ships, key) == (5, 2)
    assert ships.is_sent(key)
    assert ships.last_seq(key) == 6


def test_a_new_session_gets_what_was_not_acknowledged_under_the_same_numbers() -> None:
    ships, key, sink = shipper(10_000, 300)
    for number in range(4):
        say(sink, f"{number:0100}")
    assert [seqs(ships, key) for _ in range(2)] == [(1, 2), (3, 2)]
    ships.on_ack(key.to_ref(1), 2)
    ships.on_session(0, 0)
    assert not ships.is_sent(key)
    assert [seqs(ships, key) for _ in range(2)] == [(3, 2), None]


def test_giving_up_counts_every_record_that_was_not_sent() -> None:
    ships, key, sink = shipper(300, 300)
    for number in range(6):
        say(sink, f"{number:0100}")
    assert [seqs(ships, key) for _ in range(2)] == [(1, 2), None]
    last = ships.give_up(key, 1)
    assert last is not None
    assert (last.first_seq, len(last.records), last.dropped) == (3, 0, 4)
    assert ships.is_sent(key)
    assert ships.last_seq(key) == 2


def test_a_count_goes_with_the_next_record_or_with_the_end() -> None:
    ships, key, sink = shipper(100_000, 100_000)
    for count, mono in ((1005, 0.0), (1, 2.0), (1007, 4.0)):
        for _ in range(count):
            say(sink, "x", mono)
        chunk = ships.next_chunk(key, 1)
        assert chunk is not None
        assert (len(chunk.records), chunk.dropped) == {
            0.0: (1000, 0),
            2.0: (1, 5),
            4.0: (1000, 0),
        }[mono]
        assert ships.next_chunk(key, 1) is None
        assert ships.has_sent_records(key)
        assert ships.is_sent(key) == (mono == 2.0)
    last = ships.give_up(key, 1)
    assert last is not None
    assert (len(last.records), last.dropped) == (0, 7)


def test_forgetting_frees_the_window() -> None:
    ships, key, sink = shipper(300, 300)
    say(sink, "x" * 100)
    ships.next_chunk(key, 1)
    assert ships.in_flight > 0
    ships.forget(key)
    assert ships.in_flight == 0


def test_c47_only_the_newest_is_told_and_once_a_second() -> None:
    progress = Progress()
    assert progress.take(0.0) is None
    progress.set(0.1, "one")
    first = progress.take(0.0)
    assert isinstance(first, pb.Progress)
    assert first.message == "one"
    progress.set(0.2, "two")
    progress.set(7.0, "three")
    assert progress.take(0.5) == 1.0
    second = progress.take(1.0)
    assert isinstance(second, pb.Progress)
    assert (second.message, second.fraction) == ("three", 1.0)
    progress.set(float("nan"), "last")
    last = progress.take(1.0, last=True)
    assert isinstance(last, pb.Progress)
    assert not last.HasField("fraction")
    progress.tell_again()
    assert isinstance(progress.take(1.0), pb.Progress)


def test_the_wake_is_told_once_until_it_is_taken() -> None:
    told = []
    wake = Wake(lambda: told.append(1))
    key = Key("R", 1)
    wake.add(key, urgent=False)
    wake.add(key, urgent=True)
    assert (len(told), wake.take()) == (1, ([key], True))
    wake.add(key, urgent=False)
    assert (len(told), wake.take()) == (2, ([key], False))


def test_signals_ask_for_more_each_time_and_never_for_less() -> None:
    handle, seen = Handle(), []
    for ask in (handle.next_stop, handle.next_stop, lambda: handle.ask(Stop.DRAIN)):
        ask()
        seen.append(handle.stop)
    assert seen == [Stop.DRAIN, Stop.NOW, Stop.NOW]


def test_health_turns_red_after_a_minute_without_a_session() -> None:
    assert Health(False, 59).ok
    assert not Health(False, 60).ok
    assert Health(True, 3600).ok


def test_any_exception_keeps_its_type_message_and_causes() -> None:
    try:
        try:
            raise OSError("disk is full")
        except OSError as error:
            raise RuntimeError("cannot send the report") from error
    except RuntimeError as error:
        info = describe(error)
    assert (info.code, info.message, info.type) == (
        "HANDLER_ERROR",
        "cannot send the report",
        "RuntimeError",
    )
    assert "disk is full" in info.stack


def test_a_faulty_exception_is_told_all_the_same() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    info = describe(Broken())
    assert info.message == "Broken"


def test_a_failure_names_its_cause() -> None:
    try:
        try:
            raise KeyError("customer")
        except KeyError as error:
            raise Failure("no-such-customer", retry_after=timedelta(minutes=1)) from error
    except Failure as error:
        text, info = str(error), describe(error)
    assert text == "NO_SUCH_CUSTOMER"
    assert (info.type, info.retry_after) == ("KeyError", 60.0)


def test_codes_become_upper_snake_within_63_characters() -> None:
    assert upper_snake("rate-limited") == "RATE_LIMITED"
    assert upper_snake("") == "HANDLER_ERROR"
    assert upper_snake("größe") == "GR_SSE"
    assert len(upper_snake("x" * 99)) == 63


def test_long_texts_are_cut_in_the_middle_on_character_borders() -> None:
    cut = cut_middle("é" * 20_000 + "end", 16 * 1024)
    assert len(cut.encode()) <= 16 * 1024
    assert cut.startswith("é")
    assert cut.endswith("end")
    assert cut_middle("short", 16) == "short"


@pytest.mark.parametrize("seconds", [0.0, 0.1, 1.0, 59.999999999, 0.9999999999, 3e9])
def test_durations_keep_their_length(seconds: float) -> None:
    sent = pb.KillCommand(grace=wire.duration(seconds))
    assert wire.seconds(sent, "grace") == pytest.approx(seconds, abs=1e-9)


def test_spans_of_a_peer_are_bounded() -> None:
    eternal = pb.KillCommand()
    eternal.grace.seconds = 300_000_000_000
    assert wire.seconds(eternal, "grace") == wire.SPAN_MAX
    dialer = redial("http://a:1")
    dialer.tick = lambda now, rng: None  # type: ignore[method-assign]
    dialer.on_session_end(0.0, 1.0, 1e9, random.Random(7))
    at = dialer.next_wake()
    assert at is not None
    assert at < 310


def test_malformed_times_are_none() -> None:
    kill = pb.KillCommand()
    assert wire.seconds(kill, "grace") is None
    kill.grace.seconds = -1
    assert wire.seconds(kill, "grace") is None
    welcome = pb.Welcome()
    assert wire.utc(welcome, "server_time") is None
    welcome.server_time.seconds = 2**62
    assert wire.utc(welcome, "server_time") is None
    with pytest.raises(ValueError, match="has no time zone"):
        wire.timestamp_of(datetime(2026, 3, 1))
    at = datetime(2026, 3, 1, tzinfo=timezone.utc)
    welcome.server_time.CopyFrom(wire.timestamp_of(at))
    assert wire.utc(welcome, "server_time") == at
