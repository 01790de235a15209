"""A scheduler that does what the test says."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import session_pb2_grpc
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration

T = TypeVar("T")

#: Longest wait for anything that must happen, in seconds.
PATIENCE = 60.0


def soon(what: str, happened: Callable[[], bool]) -> None:
    """Waits for something that must happen."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.005)


def attempt(run_id: str, number: int = 1, fence: int = 1) -> types.AttemptRef:
    return types.AttemptRef(run_id=run_id, attempt=number, fence=fence)


def json_payload(text: str) -> types.Payload:
    return types.Payload(content_type="application/json", data=text.encode())


def welcome(**fields: Any) -> pb.Welcome:
    """A Welcome with all times at a tenth, but for the patience with a scheduler that is slow to
    answer: a busy machine is no part of most scenarios."""
    given = {
        "session_id": "s",
        "session_epoch": 1,
        "resume_token": "resume",
        "node_id": "node",
        "heartbeat_interval": duration(0.5),
        "heartbeat_timeout": duration(15.0),
        "lost_after": duration(6.0),
        "run_ack_timeout": duration(0.5),
        "max_frame_bytes": 1024 * 1024,
        "max_output_bytes": 256 * 1024,
        "max_log_chunk_bytes": 64 * 1024,
        "log_window_bytes": 256 * 1024,
    }
    return pb.Welcome(**{**given, **fields})


def command(run_id: str, handler: str, params: str = "", **fields: Any) -> pb.RunCommand:
    """A command for attempt 1 of a run. A handler that obeys has time enough to."""
    given: dict[str, Any] = {
        "ref": attempt(run_id),
        "job": "apps/demo/jobs/j",
        "run": f"apps/demo/runs/{run_id}",
        "handler": handler,
        "fire_time": Timestamp(seconds=1_700_000_000),
        "kill_grace": duration(30.0),
        "max_attempts": 3,
    }
    if params:
        given["params"] = json_payload(params)
    return pb.RunCommand(**{**given, **fields})


class Served:
    """One session as the scheduler sees it. Heartbeats are acknowledged unless told otherwise."""

    def __init__(self, hello: pb.Hello, context: grpc.ServicerContext) -> None:
        self.hello = hello
        self.metadata: dict[str, Any] = dict(context.invocation_metadata())
        self.answers = True
        self.ended = threading.Event()
        self._down: queue.SimpleQueue[pb.SessionResponse | tuple[Any, str] | None]
        self._down = queue.SimpleQueue()
        self._up: queue.SimpleQueue[pb.SessionRequest | None] = queue.SimpleQueue()

    def send(self, **frame: Any) -> None:
        self._down.put(pb.SessionResponse(**frame))

    def run(self, command: pb.RunCommand) -> None:
        self.send(run=command)

    def kill(self, run_id: str, fence: int = 1, grace: float = 30.0, **fields: Any) -> None:
        given = {"ref": attempt(run_id, 1, fence), "grace": duration(grace)}
        given["reason"] = types.KILL_REASON_USER  # type: ignore[assignment]
        self.send(kill=pb.KillCommand(**{**given, **fields}))

    def ack(self, result: pb.RunResult, status: int = pb.ResultAck.STATUS_COMMITTED) -> None:
        self.send(result_ack=pb.ResultAck(ref=result.ref, status=status))  # type: ignore[arg-type]

    def close(self, reason: int, *, reconnect: bool) -> None:
        self.send(close=pb.Close(reason=reason, message="by the test", reconnect=reconnect))  # type: ignore[arg-type]

    def end(self, code: grpc.StatusCode | None = None, details: str = "by the test") -> None:
        """Ends the stream, with a status if one is given."""
        self._down.put(None if code is None else (code, details))

    def next(self) -> pb.SessionRequest | None:
        """The next frame; None at the end of the stream."""
        return self._up.get(timeout=PATIENCE)

    def expect(self, what: str, pick: Callable[[pb.SessionRequest], T | None]) -> T:
        """The next frame that `pick` wants; others are passed over."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                frame = self._up.get(timeout=max(end - time.monotonic(), 0.001))
            except queue.Empty:
                raise AssertionError(f"waited {PATIENCE} s for {what}") from None
            assert frame is not None, f"the stream ended before {what}"
            found = pick(frame)
            if found is not None:
                return found

    def _arm(self, name: str) -> Any:
        return self.expect(name, lambda f: getattr(f, name) if f.HasField(name) else None)

    def run_ack(self) -> pb.RunAck:
        return self._arm("run_ack")  # type: ignore[no-any-return]

    def kill_ack(self) -> pb.KillAck:
        return self._arm("kill_ack")  # type: ignore[no-any-return]

    def result(self) -> pb.RunResult:
        return self._arm("result")  # type: ignore[no-any-return]

    def heartbeat(self) -> pb.Heartbeat:
        return self._arm("heartbeat")  # type: ignore[no-any-return]

    def capacity(self) -> pb.Capacity:
        return self._arm("capacity")  # type: ignore[no-any-return]

    def progress(self) -> pb.Progress:
        return self._arm("progress")  # type: ignore[no-any-return]

    def log_chunk(self) -> pb.LogChunk:
        return self._arm("log_chunk")  # type: ignore[no-any-return]

    def goodbye(self) -> pb.Goodbye:
        return self._arm("goodbye")  # type: ignore[no-any-return]

    def begin(self, command: pb.RunCommand) -> None:
        """Starts a run and waits until it was accepted."""
        self.run(command)
        ack = self.run_ack()
        assert ack.status == pb.RunAck.STATUS_ACCEPTED, ack

    def frames(self, requests: Iterator[pb.SessionRequest]) -> None:
        """Takes frames up until the stream ends."""
        try:
            for request in requests:
                if request.HasField("heartbeat") and self.answers:
                    ack = pb.HeartbeatAck(seq=request.heartbeat.seq)
                    self.send(heartbeat_ack=ack)
                self._up.put(request)
        except grpc.RpcError:
            pass
        self._up.put(None)

    def responses(self, context: grpc.ServicerContext) -> Iterator[pb.SessionResponse]:
        while isinstance(response := self._down.get(), pb.SessionResponse):
            yield response
        if response is not None:
            context.abort(*response)

    def on_end(self) -> None:
        self.ended.set()
        self._down.put(None)


class Fake(session_pb2_grpc.ExecutorServiceServicer):
    """A server on a port of its own."""

    def __init__(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self._sessions: queue.SimpleQueue[Served] = queue.SimpleQueue()
        self.refusals: list[tuple[grpc.StatusCode, str]] = []
        self.dials = 0
        #: Headers are held back until the Hello has come.
        self.late_headers = False
        self._server = grpc.server(ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
        session_pb2_grpc.add_ExecutorServiceServicer_to_server(self, self._server)
        address = f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        self.scheme = "http" if credentials is None else "https"
        self._server.start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def Session(
        self, request_iterator: Iterator[pb.SessionRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.SessionResponse]:
        self.dials += 1
        if self.refusals:
            context.abort(*self.refusals.pop(0))
        if not self.late_headers:
            context.send_initial_metadata(())
        first = next(request_iterator)
        assert first.HasField("hello"), first
        session = Served(first.hello, context)
        context.add_callback(session.on_end)
        threading.Thread(target=session.frames, args=(request_iterator,), daemon=True).start()
        self._sessions.put(session)
        yield from session.responses(context)

    def accept(self) -> Served:
        """The next session, its Hello read, without a Welcome yet."""
        return self._sessions.get(timeout=PATIENCE)

    def open(self, **fields: Any) -> Served:
        """The next session, welcomed."""
        session = self.accept()
        session.send(welcome=welcome(**fields))
        return session

    def has_no_session(self) -> bool:
        """No further session has come so far."""
        return self._sessions.empty()

    def crash(self) -> int:
        """Goes away with all its sessions."""
        self._server.stop(None).wait(PATIENCE)
        return self.port
