"""One open session: its outbox, its heartbeats, its age."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import grpc

from clawjob.session.dial import Fault, Opened
from clawjob.session.outbox import Outbox
from clawjob.wire import duration, pb, positive, utc

#: Heartbeat interval when the Welcome names none, in seconds.
HEARTBEAT_INTERVAL_DEFAULT = 5.0
#: Shortest heartbeat interval taken from a Welcome, in seconds.
HEARTBEAT_INTERVAL_MIN = 0.05
#: Longest heartbeat interval taken from a Welcome, in seconds: what is in the way may cut a stream
#: that is idle for long.
HEARTBEAT_INTERVAL_MAX = 600.0
#: How long without a HeartbeatAck ends a session, when the Welcome names no time, in seconds.
HEARTBEAT_TIMEOUT_DEFAULT = 15.0
#: The part of an interval that a heartbeat may come early or late.
HEARTBEAT_JITTER = 0.1
#: The part of a credential's life after which a session with a fresh one is opened.
CREDENTIAL_LIFE_USED = 0.8
#: Shortest life of a session that is renewed for its credential's sake, in seconds.
RENEW_AFTER_MIN = 0.5
#: Heartbeats that are remembered until they are acknowledged. A scheduler whose database is away
#: acknowledges none; the oldest are forgotten then, as if no ack of them had come.
UNACKED_MAX = 1024

_LOG = logging.getLogger("clawjob")

#: Called with what comes from a session's reader: a frame, or the end of the stream.
OnInbound = Callable[["Link", "pb.SessionResponse | Fault"], None]


class Link:
    """An open session."""

    def __init__(self, outbox: Outbox, opened: Opened, on_inbound: OnInbound, now: float) -> None:
        """Starts reading from a session that a Welcome has opened."""
        welcome = opened.welcome
        interval = positive(welcome, "heartbeat_interval") or HEARTBEAT_INTERVAL_DEFAULT
        timeout = positive(welcome, "heartbeat_timeout") or HEARTBEAT_TIMEOUT_DEFAULT
        self.outbox = outbox
        self.opened_at = now
        #: When to open the next session because the credential ends.
        self.renew_at = _renew_at(welcome, now)
        self._opened = opened
        self._interval = min(max(interval, HEARTBEAT_INTERVAL_MIN), HEARTBEAT_INTERVAL_MAX)
        self._timeout = max(timeout, self._interval * (1 + HEARTBEAT_JITTER))
        self._next_beat = now
        self._seq = 0
        #: Heartbeats without an ack, and when they were sent.
        self._unacked: deque[tuple[int, float]] = deque(maxlen=UNACKED_MAX)
        self._heard = now
        self._reader = asyncio.create_task(self._read(on_inbound))
        self._reader.add_done_callback(self._on_read_end(on_inbound))
        self._shut = False

    def _on_read_end(self, on_inbound: OnInbound) -> Callable[[asyncio.Task[None]], None]:
        def done(reader: asyncio.Task[None]) -> None:
            # How gRPC tells of a status CANCELLED.
            if reader.cancelled() and not self._shut:
                on_inbound(self, Fault("CANCELLED: by the scheduler"))

        return done

    async def _read(self, on_inbound: OnInbound) -> None:
        call = self._opened.call
        try:
            while isinstance(response := await call.read(), pb.SessionResponse):
                on_inbound(self, response)
            code = await call.code()
            if code is not grpc.StatusCode.OK:
                fault = Fault(f"{code.name}: {await call.details()}")
            else:
                fault = Fault("the scheduler ended the stream")
        except grpc.RpcError as error:
            fault = Fault.of(error)
        except Exception as error:  # a fault of ours: the next session may do better
            _LOG.exception("a frame could not be handled")
            fault = Fault(f"a frame could not be handled: {error}")
        on_inbound(self, fault)

    def beat(self, now: float, rng: random.Random) -> pb.Heartbeat | None:
        """The heartbeat that is due, without what the table adds to it."""
        if now < self._next_beat:
            return None
        lag = now - self._next_beat if self._seq > 0 else 0.0
        spread = rng.uniform(1 - HEARTBEAT_JITTER, 1 + HEARTBEAT_JITTER)
        self._next_beat = now + self._interval * spread
        self._seq += 1
        self._unacked.append((self._seq, now))
        return pb.Heartbeat(seq=self._seq, lag=duration(lag))

    def on_ack(self, now: float, seq: int) -> float | None:
        """When the acknowledged heartbeat was sent."""
        sent = None
        while self._unacked and self._unacked[0][0] <= seq:
            sent = self._unacked.popleft()[1]
        self._heard = now
        return sent

    def dead_at(self) -> float:
        """When silence makes the session dead."""
        return self._heard + self._timeout

    def is_dead(self, now: float) -> bool:
        """True when the scheduler has not answered for too long."""
        return now >= self.dead_at()

    def next_wake(self) -> float:
        """When to look at this session next."""
        at = min(self._next_beat, self.dead_at())
        return at if self.renew_at is None else min(at, self.renew_at)

    def leave(self, reason: str) -> None:
        """Says goodbye and ends the upward stream; the reader goes on until the peer ends too."""
        self.outbox.close(pb.SessionRequest(goodbye=pb.Goodbye(reason=reason)))

    async def shut(self) -> None:
        """Ends the session at once."""
        self._shut = True
        self.outbox.close()
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._opened.shut()


def _renew_at(welcome: pb.Welcome, now: float) -> float | None:
    """When most of the credential's life is over, by the scheduler's clock alone."""
    end, start = utc(welcome, "auth_expire_time"), utc(welcome, "server_time")
    if end is None or start is None:
        return None
    life = (end - start).total_seconds()
    return now + max(life * CREDENTIAL_LIFE_USED, RENEW_AFTER_MIN)
