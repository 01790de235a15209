"""The end: drain, cancel, last words."""

from __future__ import annotations

from collections.abc import Callable

from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from tests.conftest import Started
from tests.fake import Fake, command
from tests.handlers import Gate

Start = Callable[..., Started]


def test_c40_a_drain_lets_handlers_finish_and_says_goodbye(
    fake: Fake, start: Start, gate: Gate
) -> None:
    started = start()
    session = fake.open()
    session.begin(command("R1", "gate"))
    gate.begun(1)
    started.app.drain()
    session.expect("a drain", lambda f: f.drain if f.HasField("drain") else None)
    session.run(command("R2", "echo", "1"))
    assert session.run_ack().status == pb.RunAck.STATUS_DRAINING
    gate.open()
    result = session.result()
    assert result.outcome == types.OUTCOME_SUCCEEDED
    session.ack(result)
    assert session.goodbye().reason == "shutdown"
    assert session.next() is None
    session.end()
    started.end()


def test_c41_a_second_wish_cancels_at_once(fake: Fake, start: Start) -> None:
    started = start()
    session = fake.open()
    session.begin(command("R1", "obedient"))
    started.app.drain()
    started.app.cancel_now()
    result = session.result()
    assert (result.outcome, result.failure.code) == (types.OUTCOME_CANCELED, "SHUTDOWN")
    session.ack(result)
    session.goodbye()
    session.end()
    started.end()


def test_c42_what_runs_at_the_end_of_the_grace_is_reported_as_shut_down(
    fake: Fake, start: Start, gate: Gate
) -> None:
    started = start(shutdown_grace=0.1)
    session = fake.open()
    session.begin(command("R1", "gate"))
    gate.begun(1)
    started.app.drain()
    result = session.result()
    assert (result.outcome, result.failure.code) == (types.OUTCOME_CANCELED, "SHUTDOWN")
    session.ack(result)
    session.goodbye()
    session.end()
    started.end()


def test_the_end_is_bounded_without_a_scheduler(fake: Fake, start: Start) -> None:
    started = start()
    session = fake.open()
    session.begin(command("R1", "obedient"))
    fake.crash()
    started.app.cancel_now()
    started.end()


def test_an_app_may_run_again(fake: Fake, start: Start, gate: Gate) -> None:
    started = start()
    first = fake.open()
    first.heartbeat()
    started.app.drain()
    first.goodbye()
    first.end()
    started.end()
    with started.app.start():
        second = fake.open()
        assert second.hello.instance_id != first.hello.instance_id
        second.heartbeat()
