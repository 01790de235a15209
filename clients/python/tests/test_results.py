"""Results: kept, sent again, forgotten; resuming a session."""

from __future__ import annotations

from collections.abc import Callable

from clawjob import App
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from tests.conftest import Started
from tests.fake import Fake, attempt, command, soon
from tests.handlers import Gate


def test_c27_a_result_is_kept_across_a_reconnect_until_its_ack(fake: Fake, app: App) -> None:
    first = fake.open()
    first.begin(command("R1", "echo", "1", command_seq=7))
    result = first.result()
    first.end()
    second = fake.accept()
    assert [(a.ref.run_id, a.finished) for a in second.hello.attempts] == [("R1", True)]
    assert second.hello.last_command_seq == 7
    second.send(welcome=pb.Welcome(resumed=True))
    again = second.result()
    assert again == result
    second.ack(again)
    second.begin(command("R2", "echo", "2"))
    assert second.result().ref.run_id == "R2"
    second.end()
    assert [a.ref.run_id for a in fake.accept().hello.attempts] == ["R2"]


def test_c28_a_stale_ack_makes_it_forget_the_result(fake: Fake, app: App) -> None:
    first = fake.open()
    first.begin(command("R1", "echo", "1"))
    first.ack(first.result(), pb.ResultAck.STATUS_STALE)
    first.heartbeat()
    first.end()
    assert not fake.accept().hello.attempts


def test_an_ack_of_a_lower_fence_leaves_the_result_open(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "echo", "1", ref=attempt("R1", 1, 3)))
    result = session.result()
    result.ref.fence = 2
    session.ack(result)
    session.end()
    assert [a.ref.fence for a in fake.accept().hello.attempts] == [3]


def test_c31_results_the_scheduler_knows_are_not_sent_again(fake: Fake, app: App) -> None:
    first = fake.open()
    first.begin(command("R1", "echo", "1"))
    first.result()
    first.end()
    second = fake.open(resumed=True, known_results=[attempt("R1")])
    second.begin(command("R2", "echo", "2"))
    assert second.result().ref.run_id == "R2"


def test_c29_c36_a_run_survives_the_death_of_the_scheduler(
    fake: Fake, start: Callable[..., Started], gate: Gate
) -> None:
    start()
    first = fake.open()
    first.begin(command("R1", "gate"))
    gate.begun(1)
    port = fake.crash()
    back = Fake(port)
    try:
        second = back.accept()
        assert second.hello.resume_token == "resume"
        assert second.hello.instance_id == first.hello.instance_id
        assert [(a.ref.run_id, a.finished) for a in second.hello.attempts] == [("R1", False)]
        second.send(welcome=pb.Welcome(resumed=True))
        gate.open()
        assert second.result().outcome == types.OUTCOME_SUCCEEDED
        assert gate.count == 1
    finally:
        back.crash()


def test_c30_kills_of_the_welcome_are_applied(fake: Fake, app: App) -> None:
    first = fake.open()
    first.begin(command("R1", "obedient"))
    first.end()
    kill = pb.KillCommand(ref=attempt("R1"), reason=types.KILL_REASON_STALE_ATTEMPT)
    second = fake.open(resumed=True, kills=[kill])
    assert second.kill_ack().status == pb.KillAck.STATUS_SIGNALED
    assert second.result().outcome == types.OUTCOME_CANCELED


def test_c60_a_hello_with_a_thousand_attempts_stays_small(
    fake: Fake, start: Callable[..., Started], gate: Gate
) -> None:
    start(slots=1000)
    first = fake.open()
    gate.open()
    for number in range(1000):
        first.run(command(f"01J0000000000000000000{number:04}", "gate"))
    soon("all to have run", lambda: gate.count == 1000)
    for _ in range(1000):
        first.result()
    first.end()
    second = fake.accept()
    assert len(second.hello.attempts) == 1000
    assert second.hello.ByteSize() < 100_000
