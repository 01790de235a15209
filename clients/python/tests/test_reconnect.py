"""Lost sessions, refusals, moves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from clawjob import RefusedError, SupersededError
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration
from tests.conftest import Started
from tests.fake import Fake, command, soon, welcome
from tests.handlers import Gate

Start = Callable[..., Started]


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
    ],
)
def test_c34_permanent_codes_end_the_run_with_an_error(
    fake: Fake, start: Start, code: grpc.StatusCode
) -> None:
    # A refusal that comes before the Hello is written can look like a broken connection.
    fake.refusals = [(code, "no")] * 100
    with pytest.raises(RefusedError, match=f"{code.name}: no; "):
        start().end()
    assert fake.dials < 10


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ],
)
def test_c35_other_codes_are_tried_again(fake: Fake, start: Start, code: grpc.StatusCode) -> None:
    fake.refusals = [(code, "later")] * 2
    start()
    session = fake.open()
    session.end(code)
    fake.open().begin(command("R1", "echo", "1"))
    assert fake.dials == 4


def test_a_refusal_is_tried_again_when_asked_to(fake: Fake, start: Start) -> None:
    fake.refusals = [(grpc.StatusCode.UNAUTHENTICATED, "no")] * 100
    started = start(keep_trying_when_refused=True)
    soon("the refusal", lambda: fake.dials > 0)
    assert not started.running.wait(0.5)


class Silent:
    """Takes connections, passes bytes on until those so far are told to stand still."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._still = threading.Event()
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def _begin(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=target, args=args))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                self._begin(self._pump, source, sink, self._still)

    def _pump(self, source: socket.socket, sink: socket.socket, still: threading.Event) -> None:
        try:
            while data := source.recv(65536):
                if not still.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stand_still(self) -> None:
        """The connections so far pass nothing on any more, and stay open."""
        self._still.set()
        self._still = threading.Event()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
        for thread in self._threads:
            thread.join()


def test_c37_a_scheduler_that_stands_still_is_noticed(fake: Fake, start: Start, gate: Gate) -> None:
    way = Silent(fake.port)
    try:
        start([way.url])
        first = fake.open(heartbeat_timeout=duration(5.0))
        first.begin(command("R1", "gate"))
        way.stand_still()
        second = fake.accept()
        assert [a.ref.run_id for a in second.hello.attempts] == ["R1"]
        gate.open()
    finally:
        way.close()


def test_c38_a_draining_scheduler_is_left_only_when_the_next_session_is_open(
    fake: Fake, start: Start, gate: Gate
) -> None:
    other = Fake()
    try:
        start()
        old = fake.open()
        old.begin(command("R1", "gate"))
        drain = pb.SchedulerDrain(
            reason=pb.SchedulerDrain.REASON_SHUTDOWN,
            reconnect_within=duration(0.1),
            peer_endpoints=[other.url],
            closes_after=duration(2),
        )
        old.send(drain=drain)
        new = other.accept()
        old.heartbeat()
        new.send(welcome=pb.Welcome(resumed=True, session_epoch=2))
        assert old.goodbye().reason == "moved to a new session"
        old.end()
        gate.open()
        assert new.result().outcome == types.OUTCOME_SUCCEEDED
        assert fake.has_no_session()
    finally:
        other.crash()


def test_c38_the_close_of_the_old_session_may_come_before_the_new_welcome(
    fake: Fake, start: Start
) -> None:
    start()
    old = fake.open()
    old.send(drain=pb.SchedulerDrain(reconnect_within=duration(0.01)))
    new = fake.accept()
    old.close(pb.Close.REASON_SUPERSEDED, reconnect=False)
    soon("the end of the old one", old.ended.is_set)
    new.send(welcome=pb.Welcome(resumed=True))
    new.begin(command("R1", "echo", "1"))
    assert new.result().outcome == types.OUTCOME_SUCCEEDED


def test_c39_a_superseded_executor_stops_without_dialing_again(fake: Fake, start: Start) -> None:
    started = start()
    session = fake.open()
    session.begin(command("R1", "obedient"))
    session.close(pb.Close.REASON_SUPERSEDED, reconnect=False)
    with pytest.raises(SupersededError, match="by the test"):
        started.end()
    assert fake.dials == 1


@pytest.mark.parametrize(
    ("reason", "reconnect"),
    [
        (pb.Close.REASON_ERROR, False),
        (pb.Close.REASON_UNRESPONSIVE, False),
        (pb.Close.REASON_SUPERSEDED, True),
        (77, False),
    ],
)
def test_a_close_that_may_pass_is_followed_by_another_session(
    fake: Fake, start: Start, reason: int, reconnect: bool
) -> None:
    start()
    fake.open().close(reason, reconnect=reconnect)
    fake.open().heartbeat()


def test_c55_c56_loss_of_contact_stops_those_that_ask_for_it_and_no_others(
    fake: Fake, start: Start, gate: Gate
) -> None:
    app = start().app
    session = fake.open()
    stop = types.DISCONNECT_POLICY_STOP
    # Two seconds and the grace before the job's own three seconds are over.
    lost_after, grace = duration(3.0), duration(0.5)
    fenced = command(
        "R1", "obedient", disconnect_policy=stop, lost_after=lost_after, kill_grace=grace
    )
    session.begin(fenced)
    session.begin(command("R2", "gate"))
    session.answers = False
    port = fake.crash()
    # Long enough for the fence, by the executor's own word on how long it has been alone.
    soon("the fence", lambda: not app.health().connected and app.health().since >= 1.5)
    back = Fake(port)
    try:
        second = back.accept()
        held = {a.ref.run_id: a.finished for a in second.hello.attempts}
        assert held == {"R1": True, "R2": False}
        second.send(welcome=pb.Welcome(resumed=True))
        result = second.result()
        assert (result.outcome, result.failure.code) == (types.OUTCOME_FAILED, "DISCONNECTED")
        gate.open()
        assert second.result().outcome == types.OUTCOME_SUCCEEDED
    finally:
        back.crash()


def test_c57_a_session_is_renewed_before_its_credential_ends(
    fake: Fake, start: Start, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    start(token=None, token_file=token)
    first = fake.accept()
    assert first.metadata["authorization"] == "Bearer first"
    token.write_text("second\n")
    now = int(time.time())
    ends_soon = welcome(
        server_time=Timestamp(seconds=now), auth_expire_time=Timestamp(seconds=now + 1)
    )
    first.send(welcome=ends_soon)
    second = fake.accept()
    assert second.metadata["authorization"] == "Bearer second"
    second.send(welcome=pb.Welcome(resumed=True))
    assert first.goodbye().reason == "moved to a new session"


def test_c59_another_endpoint_of_the_list_is_tried(fake: Fake, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    start([f"http://127.0.0.1:{port}", fake.url])
    fake.open().heartbeat()
