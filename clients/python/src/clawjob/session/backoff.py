"""How long to wait before the next dial."""

from __future__ import annotations

import random

from clawjob.config import Reconnect

#: Doublings after which every wait has reached its cap.
DOUBLINGS_MAX = 60


class Backoff:
    """Full jitter: each wait is drawn between nothing and a bound that doubles up to the cap."""

    def __init__(self, reconnect: Reconnect) -> None:
        self._reconnect = reconnect
        self._failures = 0

    def next(self, floor: float | None, rng: random.Random) -> float:
        """The wait before the next dial in seconds, at least `floor`."""
        if self._failures == 0:
            bound = self._reconnect.first
        else:
            bound = self._reconnect.base * 2.0 ** min(self._failures - 1, DOUBLINGS_MAX)
        self._failures += 1
        return (floor or 0.0) + jitter(min(bound, self._reconnect.cap), rng)

    def after_silence(self, rng: random.Random) -> float:
        """The wait after a session that fell silent: none, unless sessions keep breaking. Those
        whom one scheduler leaves without an answer notice it at moments as spread as their
        heartbeats.
        """
        if self._failures > 0:
            return self.next(None, rng)
        self._failures = 1
        return 0.0

    def on_session_end(self, lasted: float) -> None:
        """A session has ended after so many seconds."""
        if lasted >= self._reconnect.healthy_after:
            self._failures = 0


def jitter(bound: float, rng: random.Random) -> float:
    """A random time up to `bound`."""
    return bound * rng.random()
