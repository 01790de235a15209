"""The newest progress and checkpoint of one attempt, until the session's thread sends them."""

from __future__ import annotations

import math
import threading

from clawjob.failure import cut_middle
from clawjob.wire import payload, pb

#: Shortest time between two Progress frames of one attempt, in seconds.
PROGRESS_EVERY = 1.0
#: Longest progress message, in bytes.
MESSAGE_BYTES_MAX = 1024


class Progress:
    """What there is to tell; only the newest of each counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fraction: float | None = None
        self._message = ""
        self._checkpoint: bytes | None = None
        self._dirty = False
        self._sent: float | None = None

    def set(self, fraction: float | None, message: str) -> None:
        """Notes how far the run is; the fraction is brought into 0..1."""
        if fraction is not None and not math.isfinite(fraction):
            fraction = None
        with self._lock:
            self._fraction = None if fraction is None else min(max(fraction, 0.0), 1.0)
            self._message = cut_middle(message, MESSAGE_BYTES_MAX)
            self._dirty = True

    def save(self, checkpoint: bytes) -> None:
        """Notes a checkpoint, already in JSON and within its bound."""
        with self._lock:
            self._checkpoint = checkpoint
            self._dirty = True

    def tell_again(self) -> None:
        """A new session has heard nothing yet: what was told before is told again."""
        with self._lock:
            self._sent = None
            told = self._fraction is not None or self._checkpoint is not None
            self._dirty = self._dirty or told or bool(self._message)

    def take(self, now: float, *, last: bool = False) -> pb.Progress | float | None:
        """The frame that is due, without its reference; when to ask again; None without news.

        `last` is the last chance before the result, so it does not wait for its second.
        """
        with self._lock:
            if not self._dirty:
                return None
            if self._sent is not None and not last and now < self._sent + PROGRESS_EVERY:
                return self._sent + PROGRESS_EVERY
            self._dirty = False
            self._sent = now
            frame = pb.Progress(message=self._message)
            if self._fraction is not None:
                frame.fraction = self._fraction
            if self._checkpoint is not None:
                frame.checkpoint.CopyFrom(payload(self._checkpoint))
            return frame
