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

#: Time for a connection to come about, in seconds.
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
#: How soon a lost connection is tried again, in milliseconds: at first, and at the latest.
RECONNECT_FIRST_MS, RECONNECT_LAST_MS = 100, 5_000

_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_FIRST_MS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_LAST_MS),
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
]


def new_request_id() -> str:
    """A new id under which a change may be sent twice and happens once."""
    return str(uuid.uuid4())


class Transport:
    """Calls one cluster. May be used from several threads."""

    def __init__(self, connection: Connection) -> None:
        """Connects only with the first call."""
        self._connection = connection
        self._lock = threading.Lock()
        self._current = 0
        #: One for each endpoint that was used.
        self._channels: dict[str, grpc.Channel] = {}

    def close(self) -> None:
        """Ends the connections and all streams over them."""
        with self._lock:
            channels, self._channels = self._channels, {}
        for channel in channels.values():
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
        pause = ROUND_PAUSE
        for number in range(ROUNDS_MAX):
            if number > 0:
                time.sleep(pause)
                pause *= 2
            for _ in self._connection.endpoints:
                url, channel = self._pick()
                sent = repeatable
                try:
                    if not repeatable:
                        _probe(channel)
                        sent = True
                    return rpc(channel)
                except grpc.RpcError as error:
                    last = status_details(error)
                    away = last.code is grpc.StatusCode.UNAVAILABLE
                    if not away or (sent and not repeatable):
                        raise api_error(last) from error
                    last.message = f"{url}: {last.message}"
                    pause = min(last.retry_after or pause, ROUND_PAUSE_MAX)
                    self._turn(url)
        assert last is not None
        raise api_error(last)

    def _pick(self) -> tuple[str, grpc.Channel]:
        """The current endpoint and its channel, which connects by itself."""
        with self._lock:
            url = self._connection.endpoints[self._current]
            channel = self._channels.get(url)
            if channel is None:
                channel = self._channels[url] = self._open(url)
            return url, channel

    def _open(self, url: str) -> grpc.Channel:
        target, secure = target_of(url)
        if secure:
            tls = credentials(self._connection)
            return grpc.secure_channel(target, tls, options=_OPTIONS)
        return grpc.insecure_channel(target, options=_OPTIONS)

    def _turn(self, url: str) -> None:
        """Goes on to the endpoint after this one, if nobody has yet."""
        with self._lock:
            if self._connection.endpoints[self._current] == url:
                self._current = (self._current + 1) % len(self._connection.endpoints)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        out = [("clawjob-client", f"python/{VERSION}")]
        token = self._connection.token
        text = token.read() if token is not None else ""
        if text:
            out.append(("authorization", f"Bearer {text}"))
        return tuple(out)


def _probe(channel: grpc.Channel) -> None:
    """Makes sure of the connection, so that a call that must not be repeated is not sent in vain.
    Raises grpc.RpcError with UNAVAILABLE when there is none."""
    check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    try:
        check(b"", timeout=CONNECT_TIMEOUT)
    except grpc.RpcError as error:
        # Any other answer is an answer.
        if status_details(error).code is grpc.StatusCode.UNAVAILABLE:
            raise


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
