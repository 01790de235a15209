"""Frames on their way up, in two lanes: control frames go ahead of logs and results."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from clawjob.wire import pb

#: Control frames that wait at most; one more ends the session.
CONTROL_FRAMES_MAX = 4096
#: Log chunks and results that wait at most; what does not fit stays where it is.
DATA_FRAMES_MAX = 64


class Outbox:
    """The queue of one session; it ends with it. What has to outlive it is kept elsewhere and
    queued anew on the next one."""

    def __init__(self, on_space: Callable[[], None]) -> None:
        """`on_space` is told when a frame has left the data lane."""
        self._on_space = on_space
        self._control: deque[pb.SessionRequest] = deque()
        self._data: deque[pb.SessionRequest] = deque()
        self._closed = False
        self._news = asyncio.Event()

    def control(self, frame: pb.SessionRequest) -> bool:
        """Queues a control frame; false when the lane is full, that is when the peer does not
        read."""
        if len(self._control) >= CONTROL_FRAMES_MAX:
            return False
        self._control.append(frame)
        self._news.set()
        return True

    def has_space(self) -> bool:
        """True when the data lane takes another frame."""
        return len(self._data) < DATA_FRAMES_MAX

    def data(self, frame: pb.SessionRequest) -> None:
        """Queues a log chunk or a result; ask `has_space` before."""
        self._data.append(frame)
        self._news.set()

    def close(self, last: pb.SessionRequest | None = None) -> None:
        """Queues the last frame and ends the stream behind it."""
        if last is not None:
            self._data.append(last)
        self._closed = True
        self._news.set()

    async def next(self) -> pb.SessionRequest | None:
        """The next frame in order of the lanes; None at the end. For one reader."""
        while True:
            if self._control:
                return self._control.popleft()
            if self._data:
                frame = self._data.popleft()
                self._on_space()
                return frame
            if self._closed:
                return None
            self._news.clear()
            await self._news.wait()
