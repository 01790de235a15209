"""Hello, Welcome, heartbeats."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from clawjob import App
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration
from tests.conftest import Started
from tests.fake import Fake, attempt, command, soon, welcome
from tests.handlers import Gate


def test_c01_c03_hello_comes_first_and_announces_everything(fake: Fake, app: App) -> None:
    session = fake.accept()
    hello = session.hello
    assert (hello.protocol_major, hello.protocol_minor) == (1, 0)
    assert (hello.app, hello.executor_id, hello.slots) == ("demo", "tester", 4)
    assert hello.labels == {"zone": "a"}
    assert hello.sdk.language == "python"
    assert hello.instance_id
    assert hello.resume_token == ""
    assert set(hello.features) == {"checkpoint", "drain", "log", "progress", "shard"}
    assert session.metadata["authorization"] == "Bearer secret"
    assert session.metadata["clawjob-client"].startswith("python/")
    handlers = {handler.name: handler for handler in hello.handlers}
    assert handlers["gate"].description == "waits to be let through"
    assert handlers["logging_handler"].description == "Fetches the rates."
    schema = json.loads(handlers["block"].params_schema)
    assert schema["properties"] == {"ms": {"type": "integer"}}
    assert schema["required"] == ["ms"]


def test_c02_hello_does_not_wait_for_headers(fake: Fake, start: Callable[..., Started]) -> None:
    fake.late_headers = True
    start()
    session = fake.open()
    assert session.heartbeat().seq == 1


def test_c04_the_heartbeat_interval_of_the_welcome_is_kept(fake: Fake, app: App) -> None:
    session = fake.accept()
    began = time.monotonic()
    session.send(welcome=welcome(heartbeat_interval=duration(0.1)))
    for _ in range(11):
        session.heartbeat()
    # Ten intervals less a tenth at least, and far less than ten of the contract's 5 s.
    assert 0.85 < time.monotonic() - began < 30.0


def test_c05_heartbeats_list_running_and_finished_attempts(
    fake: Fake, app: App, gate: Gate
) -> None:
    session = fake.open(heartbeat_interval=duration(0.1))
    session.begin(command("R1", "gate"))
    session.begin(command("R2", "echo", "1"))
    session.result()

    def both(frame: pb.SessionRequest) -> pb.Heartbeat | None:
        return frame.heartbeat if len(frame.heartbeat.attempts) == 2 else None

    beat = session.expect("both attempts", both)
    assert {(a.ref.run_id, a.finished) for a in beat.attempts} == {("R1", False), ("R2", True)}
    assert beat.free_slots == 3
    gate.open()


def test_c06_heartbeats_and_answers_go_on_while_handlers_block(
    fake: Fake, app: App, gate: Gate
) -> None:
    session = fake.open(heartbeat_interval=duration(0.1))
    session.begin(command("R1", "gate"))
    session.begin(command("R2", "block_async"))
    session.begin(command("R3", "spin"))
    gate.begun(3)
    for _ in range(4):
        session.heartbeat()
    session.begin(command("R4", "echo", "1"))
    assert session.result().ref.run_id == "R4"
    gate.open()


def test_c07_a_missing_heartbeat_ack_makes_it_reconnect(fake: Fake, app: App) -> None:
    first = fake.open(heartbeat_timeout=duration(1.5))
    first.answers = False
    second = fake.open()
    assert second.hello.resume_token == "resume"
    soon("the end of the first session", first.ended.is_set)


def test_c32_each_process_has_an_instance_id_of_its_own(
    fake: Fake, start: Callable[..., Started]
) -> None:
    start()
    first = fake.open()
    start(executor_id="other")
    second = fake.open()
    assert first.hello.instance_id != second.hello.instance_id


def test_c51_c53_frames_of_a_later_contract_are_passed_over(fake: Fake, app: App) -> None:
    session = fake.open()
    session.send()
    later = pb.SessionResponse.FromString(b"\xa2\x06\x02\x08\x01")  # field 100, a message
    session._down.put(later)
    extended = pb.RunCommand.FromString(
        command("R1", "echo", "1").SerializeToString() + b"\xa0\x3e\x07"  # field 1004
    )
    session.begin(extended)
    assert session.result().output.data == b"1"


ETERNAL = Duration(seconds=315_576_000_000)
NEGATIVE = Duration(seconds=-1)
MALFORMED = Duration(seconds=1, nanos=-5)

ODD_FRAMES = [
    pb.SessionResponse(run=pb.RunCommand()),
    pb.SessionResponse(
        run=pb.RunCommand(ref=types.AttemptRef(), handler="x" * 1000, command_seq=2**63)
    ),
    pb.SessionResponse(kill=pb.KillCommand()),
    pb.SessionResponse(
        kill=pb.KillCommand(ref=types.AttemptRef(fence=2**63), grace=NEGATIVE, reason=-7)  # type: ignore[arg-type]
    ),
    pb.SessionResponse(log_ack=pb.LogAck()),
    pb.SessionResponse(log_ack=pb.LogAck(ref=attempt("R1"), through_seq=2**63)),
    pb.SessionResponse(result_ack=pb.ResultAck()),
    pb.SessionResponse(result_ack=pb.ResultAck(ref=attempt("R1"), status=77)),  # type: ignore[arg-type]
    pb.SessionResponse(heartbeat_ack=pb.HeartbeatAck()),
    pb.SessionResponse(welcome=pb.Welcome(session_id="again")),
    pb.SessionResponse(
        drain=pb.SchedulerDrain(reason=55, reconnect_within=ETERNAL)  # type: ignore[arg-type]
    ),
]


def test_odd_frames_do_no_harm(fake: Fake, app: App) -> None:
    session = fake.accept()
    odd_welcome = pb.Welcome(
        heartbeat_interval=NEGATIVE,
        heartbeat_timeout=MALFORMED,
        lost_after=ETERNAL,
        auth_expire_time=Timestamp(seconds=-1, nanos=-1),
        peer_endpoints=["", "http://", "ftp://x", "\x00"],
        kills=[pb.KillCommand()],
        known_results=[types.AttemptRef()],
    )
    session.send(welcome=odd_welcome)
    for frame in ODD_FRAMES:
        session._down.put(frame)
    assert session.run_ack().status == pb.RunAck.STATUS_REJECTED
    assert session.kill_ack().status == pb.KillAck.STATUS_NOT_FOUND
    odd = command(
        "R1",
        "echo",
        "1",
        timeout=ETERNAL,
        kill_grace=ETERNAL,
        lost_after=ETERNAL,
        lateness=MALFORMED,
        disconnect_policy=types.DISCONNECT_POLICY_STOP,
        fire_time=Timestamp(seconds=2**60),
        traceparent="z" * 10_000,
        tracestate="=",
    )
    session.begin(odd)
    assert session.result().outcome == types.OUTCOME_SUCCEEDED
    assert fake.dials == 1


def test_a_clock_that_differs_is_told_of_once_a_session(
    fake: Fake, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    session = fake.accept()
    an_hour_ahead = Timestamp(seconds=int(time.time()) + 3600)
    told_the_time = welcome(heartbeat_interval=duration(0.05), server_time=an_hour_ahead)
    session.send(welcome=told_the_time)
    for _ in range(4):
        session.heartbeat()
    told = [record for record in caplog.records if "clock" in record.getMessage()]
    assert len(told) == 1
    offset = re.search(r"this machine's clock is (\S+) s ahead", told[0].getMessage())
    assert offset is not None, told[0].getMessage()
    # As exact as the answer was quick.
    assert float(offset[1]) == pytest.approx(-3600, abs=60)


def test_the_health_tells_of_the_session(fake: Fake, app: App) -> None:
    assert not app.health().connected
    session = fake.open()
    soon("a session", lambda: app.health().connected)
    session.end()
    soon("its loss", lambda: not app.health().connected)
    assert app.health().ok
