"""Opening a session: connection, credentials, Hello and Welcome."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from clawjob.channel import KEEPALIVE, credentials, status_details
from clawjob.config import Checked, Token, target_of
from clawjob.errors import ClawJobError, RefusedError, SupersededError
from clawjob.session.outbox import Outbox
from clawjob.version import VERSION
from clawjob.wire import pb

#: Longest time for TCP and TLS, in seconds.
CONNECT_TIMEOUT = 5.0
#: Longest time from Hello to Welcome, in seconds.
WELCOME_TIMEOUT = 10.0
#: Largest message taken, in bytes: above the contract's bound of 1 MiB, so that a raised bound on
#: the other side does not end the session.
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
#: How long to wait before the token's file is looked at again when it could not be used, in
#: seconds: somebody has to put it there.
TOKEN_FILE_WAIT = 5.0
#: Reason of a refusal for a protocol version that is not spoken.
VERSION_UNSUPPORTED = "PROTOCOL_VERSION_UNSUPPORTED"

_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    # Each session has a connection of its own, since unread streams would fill a shared one's
    # window.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_retries", 0),
]
_HINTS = {
    grpc.StatusCode.UNAUTHENTICATED: "; check CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE",
    grpc.StatusCode.PERMISSION_DENIED: "; the token is not for this app, executor id or handler",
    grpc.StatusCode.INVALID_ARGUMENT: "; the settings of the executor are not accepted",
    grpc.StatusCode.UNIMPLEMENTED: "; the address answers, but is no ClawJob scheduler",
    grpc.StatusCode.FAILED_PRECONDITION: "; update the executor or the scheduler",
}
_LOG = logging.getLogger("clawjob")

if TYPE_CHECKING:
    Call = grpc.aio.StreamStreamCall[pb.SessionRequest, pb.SessionResponse]
else:
    Call = grpc.aio.StreamStreamCall


@dataclass(eq=False)
class Fault(Exception):
    """Why a dial came to nothing, or a session ended."""

    message: str
    #: Trying again cannot help.
    permanent: ClawJobError | None = None
    #: The scheduler asks for this wait, in seconds.
    retry_after: float | None = None

    @classmethod
    def of(cls, error: grpc.RpcError) -> Fault:
        """Judges a status: five codes are for good, everything else may pass."""
        status = status_details(error)
        hint = _HINTS.get(status.code)
        if status.code is grpc.StatusCode.FAILED_PRECONDITION and status.reason not in (
            "",
            VERSION_UNSUPPORTED,
        ):
            hint = None
        if hint is None:
            return cls(f"{status.code.name}: {status.message}", None, status.retry_after)
        refused = RefusedError(status.code.name, status.message, hint)
        return cls(str(refused), refused)

    @classmethod
    def of_close(cls, close: pb.Close) -> Fault:
        """Judges a Close frame. Errors and a peer that found this one unresponsive may pass
        whatever the frame says; the other reasons are for good unless it says otherwise."""
        try:
            reason = pb.Close.Reason.Name(close.reason).removeprefix("REASON_")
        except ValueError:
            reason = "ERROR"
        permanent: ClawJobError | None = None
        if not close.reconnect:
            if reason == "SUPERSEDED":
                permanent = SupersededError(close.message)
            elif reason in ("REVOKED", "PROTOCOL"):
                permanent = RefusedError(reason, close.message)
        return cls(f"closed by the scheduler ({reason}): {close.message}", permanent)


@dataclass
class Connected:
    """A connection, with the metadata that its session is to be opened with."""

    channel: grpc.aio.Channel
    metadata: tuple[tuple[str, str], ...]


@dataclass
class Opened:
    """A session that a Welcome has opened."""

    channel: grpc.aio.Channel
    call: Call
    writer: asyncio.Task[None]
    welcome: pb.Welcome

    async def shut(self) -> None:
        """Ends the call and its connection at once."""
        self.writer.cancel()
        self.call.cancel()
        with suppress(Exception):
            await self.channel.close()


async def connect(settings: Checked, endpoint: str) -> Connected:
    """Connects to one endpoint. The token is read first: without one there is no use in dialing.
    Raises Fault."""
    metadata = [("clawjob-client", f"python/{VERSION}")]
    token = _read_token(settings.connection.token)
    if token:
        metadata.append(("authorization", f"Bearer {token}"))
    return Connected(await _open_channel(settings, endpoint), tuple(metadata))


async def _open_channel(settings: Checked, endpoint: str) -> grpc.aio.Channel:
    target, secure = target_of(endpoint)
    if secure:
        tls = credentials(settings.connection)
        channel = grpc.aio.secure_channel(target, tls, options=_OPTIONS)
    else:
        channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
    try:
        await asyncio.wait_for(_ready(channel), CONNECT_TIMEOUT)
    except asyncio.TimeoutError:
        await channel.close()
        raise Fault(f"no connection within {CONNECT_TIMEOUT:g} s") from None
    except BaseException:
        await channel.close()
        raise
    return channel


async def _ready(channel: grpc.aio.Channel) -> None:
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise Fault(await _cause(channel))
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


async def _cause(channel: grpc.aio.Channel) -> str:
    """Why the channel cannot connect: only a call is told."""
    probe: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    try:
        await probe(b"", timeout=1.0)
    except grpc.RpcError as error:
        return status_details(error).message or "cannot connect"
    return "the connection broke at once"


async def open_session(connected: Connected, outbox: Outbox) -> Opened:
    """Opens the session over a connection. The Hello is in the outbox already: a server may want to
    read it before it answers with headers. Raises Fault."""
    channel = connected.channel
    session: Any = channel.stream_stream(
        "/clawjob.v1.ExecutorService/Session",
        request_serializer=pb.SessionRequest.SerializeToString,
        response_deserializer=pb.SessionResponse.FromString,
    )
    call: Call = session(metadata=connected.metadata)
    writer = asyncio.create_task(_write(call, outbox))
    opened = Opened(channel, call, writer, pb.Welcome())
    answer = asyncio.create_task(_welcome(call))
    try:
        await asyncio.wait({answer}, timeout=WELCOME_TIMEOUT)
        if not answer.done():
            raise Fault(f"no Welcome within {WELCOME_TIMEOUT:g} s")
        if answer.cancelled():  # how gRPC tells of a status CANCELLED
            raise Fault("CANCELLED: by the scheduler")
        opened.welcome = answer.result()
    except BaseException as error:
        answer.cancel()
        await opened.shut()
        if isinstance(error, grpc.RpcError):
            raise Fault.of(error) from error
        raise
    return opened


def _read_token(token: Token | None) -> str:
    try:
        text = token.read() if token is not None else ""
    except (OSError, ValueError) as error:
        file = token.file if token is not None else None
        raise _token_fault(f"the token file {file} cannot be read: {error}") from error
    if not text and token is not None and token.file is not None:
        raise _token_fault(f"the token file {token.file} is empty")
    if not text.isascii() or not text.isprintable():
        raise _token_fault("the token has characters that a header cannot carry")
    return text


def _token_fault(message: str) -> Fault:
    """The token can't be used, and only somebody at this machine can change that."""
    return Fault(message, None, TOKEN_FILE_WAIT)


async def _welcome(call: Call) -> pb.Welcome:
    while True:
        response = await call.read()
        if not isinstance(response, pb.SessionResponse):
            raise Fault("the stream ended before a Welcome")
        kind = response.WhichOneof("frame")
        if kind == "welcome":
            return response.welcome
        if kind == "close":
            raise Fault.of_close(response.close)
        # A frame of a later contract, or one that makes no sense yet.


async def _write(call: Call, outbox: Outbox) -> None:
    """Writes what comes into the outbox until it is closed, or the call ends."""
    try:
        while (frame := await outbox.next()) is not None:
            await call.write(frame)
        await call.done_writing()
    except (grpc.RpcError, asyncio.InvalidStateError):
        pass  # the reader hears of the end, with its reason
    except asyncio.CancelledError:
        if not call.done():
            raise
    except Exception:
        _LOG.exception("a frame could not be sent")
        call.cancel()
