"""The admin client's connection: endpoints tried in turn, the token, and repeats where they do no
harm."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from clawjob.channel import KEEPALIVE, Status, credentials, status_details
from clawjob.client.errors import ApiError, UnavailableError, api_error
from clawjob.config import Connection, target_of
from clawjob.version import VERSION

A = TypeVar("A", bound=Message)

#: Time for TCP and TLS to come about, in seconds.
CONNECT_TIMEOUT = 5.0
#: Time for an answer, unless the call asks the server to wait, in seconds.
CALL_TIMEOUT = 30.0
#: How often all endpoints are tried before giving up.
ROUNDS_MAX = 3
#: Wait before the second round in seconds; it doubles for the third.
ROUND_PAUSE = 0.25
#: The longest wait a server can ask for between two rounds, in seconds.
ROUND_PAUSE_MAX = 5.0
#: Largest answer in bytes: a page of 1,000 jobs may carry 256 KiB of params each.
ANSWER_BYTES_MAX = 320 * 1024 * 1024
#: First wait after a lost stream in seconds; it doubles with each that brings nothing.
FOLLOW_PAUSE = 0.25
#: Longest wait after a lost stream, in seconds.
FOLLOW_PAUSE_MAX = 10.0

_LOG = logging.getLogger("clawjob.client")
_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
]


def new_request_id() -> str:
    """A new id under which a change may be sent twice and happens once."""
    return str(uuid.uuid4())


class Transport:
    """Calls one cluster. May be used from several threads."""

    def __init__(self, connection: Connection, client_name: str = "python") -> None:
        """Connects only with the first call."""
        self._connection = connection
        self._client_name = client_name
        self._lock = threading.Lock()
        self._current = 0
        self._channel: grpc.Channel | None = None

    def close(self) -> None:
        """Ends the connection and all streams over it."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def call(
        self,
        method: str,
        request: Message,
        answer: type[A],
        *,
        repeatable: bool,
        wait: float = 0.0,
    ) -> A:
        """Calls a method. One that is not `repeatable` is sent once, though other endpoints are
        tried to connect. `wait` is how long the server may take beyond the usual, in seconds.

        Raises the ApiError of the last answer.
        """

        def rpc(channel: grpc.Channel) -> A:
            stub = channel.unary_unary(
                f"/clawjob.v1.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            out: A = stub(request, timeout=CALL_TIMEOUT + wait, metadata=self._metadata())
            return out

        got: A = self._rounds(rpc, repeatable)
        return got

    def stream(self, method: str, request: Message, answer: type[A]) -> Iterator[A]:
        """Opens a stream of answers; it raises grpc.RpcError when it breaks."""

        def rpc(channel: grpc.Channel) -> Any:
            stub = channel.unary_stream(
                f"/clawjob.v1.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            return stub(request, metadata=self._metadata())

        out: Iterator[A] = self._rounds(rpc, True)
        return out

    def _rounds(self, rpc: Callable[[grpc.Channel], Any], repeatable: bool) -> Any:
        last: Status | None = None
        refusals: dict[str, str] = {}
        pause = ROUND_PAUSE
        for number in range(ROUNDS_MAX):
            if number > 0:
                time.sleep(pause)
                pause *= 2
            for _ in self._connection.endpoints:
                channel = self._connected(refusals)
                if channel is None:
                    continue
                try:
                    return rpc(channel)
                except grpc.RpcError as error:
                    last = status_details(error)
                    if not repeatable or last.code is not grpc.StatusCode.UNAVAILABLE:
                        raise api_error(last) from error
                    pause = min(last.retry_after or pause, ROUND_PAUSE_MAX)
                    self.turn()
        if last is not None:
            raise api_error(last)
        tried = "; ".join(f"{url}: {why}" for url, why in refusals.items())
        text = f"no scheduler can be reached: {tried}"
        raise UnavailableError(Status(grpc.StatusCode.UNAVAILABLE, text))

    def _connected(self, refusals: dict[str, str]) -> grpc.Channel | None:
        """The open connection, or a new one to the current endpoint; None when it refuses."""
        with self._lock:
            channel = self._channel
            if channel is None:
                url = self._connection.endpoints[self._current]
                channel = self._channel = self._open(url)
        if _is_ready(channel, CONNECT_TIMEOUT):
            return channel
        with self._lock:
            url = self._connection.endpoints[self._current]
        refusals[url] = "no connection"
        self.turn()
        return None

    def _open(self, url: str) -> grpc.Channel:
        target, secure = target_of(url)
        if secure:
            tls = credentials(self._connection)
            return grpc.secure_channel(target, tls, options=_OPTIONS)
        return grpc.insecure_channel(target, options=_OPTIONS)

    def turn(self) -> None:
        """Goes on to the next endpoint. Streams of other callers end with the old connection."""
        with self._lock:
            channel, self._channel = self._channel, None
            self._current = (self._current + 1) % len(self._connection.endpoints)
        if channel is not None:
            channel.close()

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        out = [("clawjob-client", f"{self._client_name}/{VERSION}")]
        token = self._connection.token
        text = token.read() if token is not None else ""
        if text:
            out.append(("authorization", f"Bearer {text}"))
        return tuple(out)


def _is_ready(channel: grpc.Channel, timeout: float) -> bool:
    """Whether the channel connects in time; a refusal is not waited out."""
    known = threading.Event()
    states: list[grpc.ChannelConnectivity] = []

    def on_state(state: grpc.ChannelConnectivity) -> None:
        if state in (
            grpc.ChannelConnectivity.READY,
            grpc.ChannelConnectivity.TRANSIENT_FAILURE,
            grpc.ChannelConnectivity.SHUTDOWN,
        ):
            states.append(state)
            known.set()

    channel.subscribe(on_state, try_to_connect=True)
    try:
        known.wait(timeout)
    finally:
        channel.unsubscribe(on_state)
    return bool(states) and states[-1] is grpc.ChannelConnectivity.READY


class Follow:
    """Decides whether and when a lost stream is opened again."""

    def __init__(self) -> None:
        self._worked_once = False
        self._pause = FOLLOW_PAUSE

    def worked(self) -> None:
        """The stream brought something: the next loss begins with a short wait."""
        self._worked_once = True
        self._pause = FOLLOW_PAUSE

    def at_end(self) -> None:
        """The stream ended in order; a short wait keeps a server that ends each at once from being
        asked without pause."""
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, FOLLOW_PAUSE_MAX)

    def after(self, error: grpc.RpcError | UnavailableError) -> None:
        """Waits after a loss. Raises it when another try could not help, or when none has ever
        worked."""
        known: ApiError = (
            error if isinstance(error, UnavailableError) else api_error(status_details(error))
        )
        lost = known.code is grpc.StatusCode.UNAVAILABLE
        if not lost or not self._worked_once:
            raise known from error
        _LOG.info("connection lost, trying again: %s", known)
        self.at_end()
