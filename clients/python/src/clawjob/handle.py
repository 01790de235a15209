"""A running executor as seen from outside: is it connected, should it stop."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass

from clawjob import clock

#: How long without a session makes an executor unhealthy, in seconds.
RED_AFTER = 60.0


class Stop(enum.IntEnum):
    """How far the end has been asked for."""

    NO = 0
    #: Take nothing new, let handlers finish.
    DRAIN = 1
    #: Tell handlers to stop now.
    NOW = 2
    #: Whoever waited for the end is gone: drop everything.
    ABORT = 3


@dataclass(frozen=True)
class Health:
    """How the connection is."""

    #: A session is open.
    connected: bool
    #: For how many seconds it has been as it is.
    since: float

    @property
    def ok(self) -> bool:
        """False after 60 s without a session: what a liveness page should say."""
        return self.connected or self.since < RED_AFTER


class Handle:
    """What the outside wants of the session's thread, and what it shows. Every method may be called
    from any thread; `ask` and `next_stop` from a signal handler too, so they take no lock."""

    def __init__(self) -> None:
        self.stop = Stop.NO
        self.paused: frozenset[str] = frozenset()
        self._health = (False, clock.now().mono)
        self._lock = threading.Lock()
        self._notify: Callable[[], None] | None = None

    def attach(self, notify: Callable[[], None] | None) -> None:
        """Whom to tell of a wish."""
        self._notify = notify

    def reset(self) -> None:
        """Before a run, unless there is one: what was asked of an earlier one is over."""
        if self._notify is None:
            self.stop = Stop.NO

    def ask(self, stop: Stop) -> None:
        """Asks for the end; it is never asked for less than before."""
        self.stop = max(self.stop, stop)
        self._tell()

    def next_stop(self) -> None:
        """As SIGTERM: drains at the first call, cancels at the second."""
        self.ask(Stop.DRAIN if self.stop is Stop.NO else Stop.NOW)

    def pause(self, handler: str) -> None:
        """Takes no runs of a handler until it is resumed; running ones go on."""
        with self._lock:
            self.paused |= {handler}
        self._tell()

    def resume(self, handler: str) -> None:
        """Takes runs of a paused handler again."""
        with self._lock:
            self.paused -= {handler}
        self._tell()

    def health(self) -> Health:
        """How the connection is."""
        connected, since = self._health
        return Health(connected, max(clock.now().mono - since, 0.0))

    def set_connected(self, connected: bool, now: float) -> None:
        if self._health[0] != connected:
            self._health = (connected, now)

    def _tell(self) -> None:
        notify = self._notify
        if notify is not None:
            notify()
