"""KillCommand: answers, cancellation, abandonment."""

from __future__ import annotations

import pytest

from clawjob import App
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from tests.fake import Fake, attempt, command
from tests.handlers import Gate


@pytest.mark.parametrize("handler", ["obedient", "obedient_async"])
def test_c21_a_kill_cancels_the_handler_and_says_why(fake: Fake, app: App, handler: str) -> None:
    session = fake.open()
    session.begin(command("R1", handler))
    session.kill("R1", reason=types.KILL_REASON_REPLACED)
    assert session.kill_ack().status == pb.KillAck.STATUS_SIGNALED
    result = session.result()
    assert result.outcome == types.OUTCOME_CANCELED
    assert result.failure.code == "STOPPED"
    assert result.failure.message == "a newer run takes its place"


def test_c22_a_handler_that_ignores_its_kill_is_abandoned_after_the_grace(
    fake: Fake, app: App, gate: Gate
) -> None:
    session = fake.open()
    session.begin(command("R1", "gate"))
    gate.begun(1)
    session.kill("R1", grace=0.1)
    result = session.result()
    assert (result.outcome, result.failure.code) == (types.OUTCOME_CANCELED, "ABANDONED")
    session.ack(result)
    beat = session.heartbeat()
    assert (beat.abandoned_handlers, beat.free_slots) == (1, 3)
    gate.open()

    def free(frame: pb.SessionRequest) -> bool | None:
        return frame.heartbeat.free_slots == 4 or None

    session.expect("the slot", free)


def test_c23_c25_a_kill_before_its_run_leaves_a_tombstone(fake: Fake, app: App) -> None:
    session = fake.open()
    session.kill("R1")
    assert session.kill_ack().status == pb.KillAck.STATUS_NOT_FOUND
    session.begin(command("R1", "echo", "1"))
    result = session.result()
    assert (result.outcome, result.failure.code) == (types.OUTCOME_CANCELED, "STOPPED")


def test_c24_a_kill_after_the_end_is_answered_finished(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "echo", "1"))
    result = session.result()
    session.kill("R1")
    assert session.kill_ack().status == pb.KillAck.STATUS_FINISHED
    session.ack(result)
    session.kill("R1")
    assert session.kill_ack().status == pb.KillAck.STATUS_FINISHED


def test_c26_kill_and_finish_make_one_result(fake: Fake, app: App, gate: Gate) -> None:
    session = fake.open()
    session.begin(command("R1", "gate"))
    gate.begun(1)
    session.kill("R1")
    assert session.kill_ack().status == pb.KillAck.STATUS_SIGNALED
    gate.open()
    result = session.result()
    # It returned all the same: that is a success.
    assert result.outcome == types.OUTCOME_SUCCEEDED
    session.ack(result)
    session.begin(command("R2", "echo", "1"))
    assert session.result().ref.run_id == "R2"


def test_a_kill_for_an_earlier_dispatch_stops_nothing(fake: Fake, app: App, gate: Gate) -> None:
    session = fake.open()
    session.begin(command("R1", "gate", ref=attempt("R1", 1, 5)))
    session.kill("R1", fence=4)
    assert session.kill_ack().status == pb.KillAck.STATUS_NOT_FOUND
    gate.open()
    assert session.result().outcome == types.OUTCOME_SUCCEEDED
