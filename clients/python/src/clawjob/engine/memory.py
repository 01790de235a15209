"""What the table remembers of attempts that it no longer holds: results that were acknowledged,
and kills that came before their command."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from clawjob.engine.attempt import Attempt, Key
from clawjob.wire import pb

#: How long an acknowledged attempt is remembered, in seconds.
REMEMBER = 3600.0
#: Most acknowledged attempts remembered.
REMEMBERED_MAX = 10_000
#: Bytes of results remembered.
REMEMBERED_BYTES_MAX = 32 * 1024 * 1024
#: How long a kill of an unknown attempt is remembered, in seconds.
TOMBSTONE = 600.0
#: Most tombstones kept; the oldest go first.
TOMBSTONES_MAX = 10_000


class _Remembered(NamedTuple):
    until: float
    fence: int
    size: int
    #: The encoded RunResult.
    result: bytes


class Memory:
    """Bounded in number, bytes and time."""

    def __init__(self) -> None:
        self._results: dict[Key, _Remembered] = {}
        self._order: deque[tuple[float, Key]] = deque()
        self._bytes = 0
        self._tombstones: dict[Key, tuple[float, int]] = {}
        self._graves: deque[tuple[float, Key]] = deque()

    def remember(self, now: float, key: Key, attempt: Attempt) -> None:
        """Keeps an acknowledged attempt; the oldest make room."""
        if attempt.result is None:
            return
        result = attempt.result.SerializeToString()
        until = now + REMEMBER
        self._bytes += len(result)
        self._results[key] = _Remembered(until, attempt.fence, len(result), result)
        self._order.append((until, key))
        while self._order and (
            len(self._order) > REMEMBERED_MAX or self._bytes > REMEMBERED_BYTES_MAX
        ):
            self._drop_result(*self._order.popleft())

    def recall(self, key: Key) -> tuple[pb.RunResult, int] | None:
        """Takes a remembered attempt out again: its result and fence."""
        remembered = self._results.pop(key, None)
        if remembered is None:
            return None
        self._bytes -= remembered.size
        return pb.RunResult.FromString(remembered.result), remembered.fence

    def knows(self, key: Key) -> bool:
        return key in self._results

    def bury(self, now: float, key: Key, fence: int) -> None:
        """Notes a kill of an attempt that is not known here."""
        until = now + TOMBSTONE
        self._tombstones[key] = (until, fence)
        self._graves.append((until, key))
        while len(self._graves) > TOMBSTONES_MAX:
            self._drop_tombstone(*self._graves.popleft())

    def exhume(self, key: Key, fence: int) -> bool:
        """True when this dispatch was killed before it came. A later dispatch was decided on after
        the kill, so it runs."""
        tombstone = self._tombstones.pop(key, None)
        if tombstone is None:
            return False
        killed = tombstone[1]
        return killed == 0 or fence <= killed

    def expire(self, now: float) -> None:
        """Forgets what is too old."""
        while self._order and self._order[0][0] <= now:
            self._drop_result(*self._order.popleft())
        while self._graves and self._graves[0][0] <= now:
            self._drop_tombstone(*self._graves.popleft())

    def next_expiry(self) -> float | None:
        """When `expire` has something to do, at the earliest."""
        return min((queue[0][0] for queue in (self._order, self._graves) if queue), default=None)

    def _drop_result(self, until: float, key: Key) -> None:
        """An entry that was recalled and remembered anew has a later end and stays."""
        remembered = self._results.get(key)
        if remembered is not None and remembered.until == until:
            self.recall(key)

    def _drop_tombstone(self, until: float, key: Key) -> None:
        tombstone = self._tombstones.get(key)
        if tombstone is not None and tombstone[0] == until:
            del self._tombstones[key]
