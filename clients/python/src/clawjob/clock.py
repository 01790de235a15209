"""The one place of this package that reads machine time."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

NANOS = 1_000_000_000


class Now(NamedTuple):
    """One reading of both clocks: monotonic for every decision, wall for what is shown."""

    #: Monotonic, in seconds.
    mono: float
    #: Wall, in nanoseconds since the Unix epoch.
    wall: int

    def later(self, seconds: float) -> Now:
        """The reading after so many seconds."""
        return Now(self.mono + seconds, self.wall + int(seconds * NANOS))


def now() -> Now:
    """Reads both clocks."""
    return Now(time.monotonic(), time.time_ns())


def utc(wall: int) -> datetime:
    """A wall reading as an aware datetime."""
    seconds, nanos = divmod(wall, NANOS)
    whole = datetime.fromtimestamp(seconds, timezone.utc)
    return whole + timedelta(microseconds=nanos // 1000)


def as_seconds(span: float | timedelta) -> float:
    """A span given as a number of seconds or a timedelta, in seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else float(span)
