"""When and where to dial next."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from clawjob.config import Checked, endpoint_problem
from clawjob.errors import ClawJobError
from clawjob.session import dial
from clawjob.session.backoff import Backoff, jitter
from clawjob.session.dial import Connected, Fault, Opened
from clawjob.session.outbox import Outbox

#: Most peer endpoints taken from the scheduler.
PEERS_MAX = 64
#: How long to wait after a refusal for good, when asked to go on trying, in seconds.
REFUSED_WAIT = 30.0

#: Longest wait that a scheduler may ask for, in seconds.
RETRY_AFTER_MAX = 300.0
#: The same fault is told of again after so long, however often it has come, in seconds.
TELL_AGAIN_AFTER = 60.0

_LOG = logging.getLogger("clawjob")

#: The connection stands and the Hello can be written, the session is open, or it came to nothing.
Step = Connected | Opened | Fault


@dataclass
class _Dial:
    id: int
    endpoint: str
    task: asyncio.Task[None]
    #: Set once the Hello is queued, with the moment of that.
    outbox: Outbox | None = None
    sent: float = 0.0


class Told:
    """The fault that was told of last, and when."""

    def __init__(self) -> None:
        self._message: str | None = None
        self._at = 0.0

    def is_news(self, message: str, now: float) -> bool:
        """Whether to tell of a fault now; notes that it was."""
        if message == self._message and now - self._at < TELL_AGAIN_AFTER:
            return False
        self._message, self._at = message, now
        return True


class Redial:
    """Dials for new sessions, one at a time."""

    def __init__(self, settings: Checked, on_step: Callable[[int, Step], None], now: float) -> None:
        """The first dial is due at once. `on_step` tells how far a dial has come."""
        self._settings = settings
        self._on_step = on_step
        self._backoff = Backoff(settings.reconnect)
        self._at: float | None = now
        #: Where a draining scheduler sends us; empty otherwise.
        self._sent_to: list[str] = []
        self._peers: list[str] = []
        self._last_failed: str | None = None
        #: Where the newest session was opened.
        self._opened: str | None = None
        #: Where the last session fell silent, until there is another.
        self._silent: str | None = None
        self._dial: _Dial | None = None
        self._dials = 0
        self._told = Told()

    def next_wake(self) -> float | None:
        return self._at

    @property
    def peers(self) -> list[str]:
        """The cluster's other addresses that are taken."""
        return list(self._peers)

    def know_peers(self, peers: Iterable[str]) -> None:
        """Notes the cluster's addresses. One with another scheme than ours is left out, so that
        nobody can talk us out of TLS."""
        self._peers = self._usable(peers)

    def _usable(self, peers: Iterable[str]) -> list[str]:
        ours = self._settings.connection.endpoints[0].partition(":")[0]
        good = (url for url in peers if endpoint_problem(url) is None)
        return [url for url in good if url.partition(":")[0] == ours][:PEERS_MAX]

    def move_to(self, now: float, within: float, peers: Iterable[str], rng: random.Random) -> None:
        """Asks for a new session at a random moment within `within`, beside the open one."""
        self._sent_to = self._usable(peers)
        if self._dial is None and self._at is None:
            self._at = now + jitter(within, rng)

    def on_silence(self) -> None:
        """The session gets no answers any more: its end is told next, and another endpoint is
        dialed then."""
        self._silent = self._opened

    def on_session_end(
        self, now: float, lasted: float, wait: float | None, rng: random.Random
    ) -> None:
        """The only session has ended after `lasted`."""
        self._backoff.on_session_end(lasted)
        if self._dial is not None:
            return
        if self._silent is not None:
            self._at = now + self._backoff.after_silence(rng)
        else:
            self._at = now + self._backoff.next(_bounded(wait), rng)

    def tick(self, now: float, rng: random.Random) -> None:
        """Starts the dial that is due."""
        if self._dial is not None or self._at is None or self._at > now:
            return
        self._at = None
        self._dials += 1
        endpoint = self.pick(rng)
        task = asyncio.create_task(self._connect(self._dials, endpoint))
        self._dial = _Dial(self._dials, endpoint, task)

    async def _connect(self, number: int, endpoint: str) -> None:
        try:
            self._on_step(number, await dial.connect(self._settings, endpoint))
        except Fault as fault:
            self._on_step(number, fault)
        except Exception as error:  # such as a certificate that gRPC cannot read
            self._on_step(number, Fault(f"cannot connect: {error}"))

    def pick(self, rng: random.Random) -> str:
        """A random endpoint: one that the draining scheduler named; after a failure another of our
        own; after a silence too, if we have another; else any that is known."""
        own = self._settings.connection.endpoints
        fresh = [url for url in own if url != self._last_failed]
        others = [url for url in fresh if url != self._silent]
        if self._sent_to:
            candidates = self._sent_to
        elif self._silent is not None and others:
            candidates = others
        elif self._last_failed is not None:
            candidates = fresh
        else:
            candidates = [*own, *self._peers]
        return rng.choice(candidates) if candidates else own[0]

    def open(self, number: int, connected: Connected, outbox: Outbox, now: float) -> None:
        """Goes on with a connected dial: the Hello is in the outbox."""
        dialed = self._dial
        if dialed is None or dialed.id != number:
            return
        dialed.outbox, dialed.sent = outbox, now
        dialed.task = asyncio.create_task(self._open(number, connected, outbox))

    async def _open(self, number: int, connected: Connected, outbox: Outbox) -> None:
        try:
            self._on_step(number, await dial.open_session(connected, outbox))
        except Fault as fault:
            self._on_step(number, fault)
        except Exception as error:
            self._on_step(number, Fault(f"cannot open a session: {error}"))

    def succeeded(self, number: int) -> tuple[str, Outbox, float] | None:
        """The dial has led to a session: its endpoint, outbox, and when its Hello was queued."""
        dialed = self._dial
        if dialed is None or dialed.id != number or dialed.outbox is None:
            return None
        self._dial = None
        self._sent_to = []
        self._last_failed = None
        self._silent = None
        self._opened = dialed.endpoint
        self._told = Told()
        return dialed.endpoint, dialed.outbox, dialed.sent

    def failed(
        self, number: int, fault: Fault, *, has_session: bool, now: float, rng: random.Random
    ) -> ClawJobError | None:
        """The dial has failed; the next is due after a wait. A refusal for good is returned, unless
        the settings ask to go on or a session is still open."""
        dialed = self._dial
        if dialed is None or dialed.id != number:
            return None
        self._dial = None
        self._sent_to = []
        floor = _bounded(fault.retry_after)
        if fault.permanent is not None:
            if not has_session and not self._settings.keep_trying:
                return fault.permanent
            floor = REFUSED_WAIT
        wait = self._backoff.next(floor, rng)
        if self._told.is_news(fault.message, now):
            _LOG.warning(
                "no session with the scheduler at %s, trying again until there is one: %s",
                dialed.endpoint,
                fault.message,
            )
        self._last_failed = dialed.endpoint
        self._at = now + wait
        return None

    def is_opening(self) -> bool:
        """True when a Hello is on its way and its answer is not there yet."""
        return self._dial is not None and self._dial.outbox is not None

    def stop(self) -> None:
        """Dials no more."""
        self._at = None
        if self._dial is not None:
            self._dial.task.cancel()
            self._dial = None


def _bounded(wait: float | None) -> float | None:
    return None if wait is None else min(wait, RETRY_AFTER_MAX)
