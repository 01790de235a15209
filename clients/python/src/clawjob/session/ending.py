"""How the executor comes to its end: drain, stop, last words."""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING

from clawjob.clock import Now
from clawjob.context import StopReason
from clawjob.errors import ClawJobError
from clawjob.handle import Stop
from clawjob.wire import duration, pb

if TYPE_CHECKING:
    from clawjob.session.driver import Driver

#: How long handlers have to stop once the executor ends, in seconds; then they are abandoned.
STOP_GRACE = 2.0
#: How long the end waits for the acknowledgements of the last results, in seconds.
LAST_ACKS_MAX = 2.0
#: How long the end waits for the scheduler to end the stream after the Goodbye, in seconds.
GOODBYE_MAX = 1.0

_LOG = logging.getLogger("clawjob")


class Phase(enum.Enum):
    """How far the end has come."""

    #: No end in sight.
    SERVING = enum.auto()
    #: Nothing new is taken; handlers may finish.
    DRAINING = enum.auto()
    #: Handlers were told to stop; they are abandoned at the end of it.
    STOPPING = enum.auto()
    #: The last results wait for their acks.
    LAST_ACKS = enum.auto()
    #: Goodbye was said; the streams end.
    LEAVING = enum.auto()
    #: The scheduler refuses this executor: handlers were told to stop.
    FAILED = enum.auto()


class End:
    """The way to the end."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._phase = Phase.SERVING
        #: When the phase is over at the latest.
        self._until: float | None = None
        self._error: ClawJobError | None = None

    def next_wake(self) -> float | None:
        return self._until

    def dials(self) -> bool:
        """True while a lost session is worth another dial."""
        return self._phase not in (Phase.LEAVING, Phase.FAILED)

    def step(self, now: Now) -> bool:
        """Moves towards the end as far as `now` allows; true at the end. Raises what it failed
        with."""
        stop, engine = self._driver.handle.stop, self._driver.engine
        if stop is Stop.ABORT:
            engine.stop_all(now, StopReason.SHUTDOWN, 0.0)
            engine.tick(now)
            self._driver.act(now)
            return True
        if self._phase is Phase.SERVING and stop is not Stop.NO:
            _LOG.info("draining: no new runs are taken")
            self._enter(Phase.DRAINING, now, self._driver.settings.shutdown_grace)
            engine.drain()
            self.announce_drain(now)
        over = self._until is not None and now.mono >= self._until
        idle, empty = engine.is_idle(), engine.is_empty()
        if self._phase is Phase.DRAINING:
            if empty:
                self._leave(now)
            elif stop >= Stop.NOW or over:
                engine.stop_all(now, StopReason.SHUTDOWN, STOP_GRACE)
                self._driver.act(now)
                self._enter(Phase.STOPPING, now, STOP_GRACE)
        elif self._phase is Phase.STOPPING and (idle or over):
            self._enter(Phase.LAST_ACKS, now, LAST_ACKS_MAX)
            return self.step(now)
        elif self._phase is Phase.LAST_ACKS and (empty or over):
            self._leave(now)
        elif self._phase is Phase.LEAVING:
            return over or (self._driver.current is None and self._driver.former is None)
        elif self._phase is Phase.FAILED and (idle or over) and self._error is not None:
            raise self._error
        return False

    def announce_drain(self, now: Now) -> None:
        """Tells the scheduler of the drain, also on a session that begins during it."""
        if self._phase is Phase.DRAINING and self._until is not None:
            drain = pb.ExecutorDrain(expected=duration(self._until - now.mono))
            self._driver.send(now, pb.SessionRequest(drain=drain))

    def fail(self, now: Now, error: ClawJobError) -> None:
        """The scheduler refuses this executor for good: handlers stop, and the error comes out."""
        _LOG.error("giving up: %s", error)
        self._driver.redial.stop()
        self._driver.engine.drain()
        self._driver.engine.stop_all(now, StopReason.SHUTDOWN, STOP_GRACE)
        self._driver.act(now)
        self._error = error
        self._enter(Phase.FAILED, now, STOP_GRACE)

    def _leave(self, now: Now) -> None:
        self._driver.redial.stop()
        links = [link for link in (self._driver.current, self._driver.former) if link is not None]
        for link in links:
            link.leave("shutdown")
        self._enter(Phase.LEAVING, now, GOODBYE_MAX if links else 0.0)

    def _enter(self, phase: Phase, now: Now, lasts: float) -> None:
        self._phase = phase
        self._until = now.mono + lasts
