"""Chunks of log records under way: numbered, windowed, kept until acknowledged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from clawjob.engine import Key
from clawjob.logs import LogSink
from clawjob.wire import pb, types

#: Chunk size until a Welcome names another, in bytes.
CHUNK_BYTES_DEFAULT = 64 * 1024
#: Window until a Welcome names another, in bytes.
WINDOW_BYTES_DEFAULT = 256 * 1024


@dataclass
class _Kept:
    chunk: pb.LogChunk
    size: int
    last_seq: int


@dataclass
class _Ship:
    sink: LogSink
    next_seq: int = 1
    #: Cut and not acknowledged, oldest first.
    kept: deque[_Kept] = field(default_factory=deque)
    #: How many of `kept` this session has sent.
    sent: int = 0

    def keep(self, chunk: pb.LogChunk, size: int) -> None:
        chunk.first_seq = self.next_seq
        self.next_seq += len(chunk.records)
        self.kept.append(_Kept(chunk, size, self.next_seq - 1))


class Shipper:
    """All attempts whose log is not acknowledged yet, under one window per session."""

    def __init__(self) -> None:
        self._ships: dict[Key, _Ship] = {}
        self._in_flight = 0
        self._window = WINDOW_BYTES_DEFAULT
        self._chunk_max = CHUNK_BYTES_DEFAULT

    @property
    def in_flight(self) -> int:
        """Bytes sent on this session and not acknowledged."""
        return self._in_flight

    def add(self, key: Key, sink: LogSink) -> None:
        self._ships[key] = _Ship(sink)

    def on_session(self, window: int, chunk_max: int) -> None:
        """A new session has received nothing yet. Limits of 0 keep the old ones."""
        self._window = window or self._window
        self._chunk_max = chunk_max or self._chunk_max
        self._in_flight = 0
        for ship in self._ships.values():
            ship.sent = 0

    def next_chunk(self, key: Key, fence: int) -> pb.LogChunk | None:
        """The next chunk of an attempt that the window has room for."""
        ship = self._ships.get(key)
        if ship is None:
            return None
        again = ship.sent < len(ship.kept)
        size = ship.kept[ship.sent].size if again else ship.sink.next_size(self._chunk_max)
        if self._in_flight > 0 and self._in_flight + size > self._window:
            return None
        if not again:
            cut = ship.sink.cut(self._chunk_max)
            if cut is None:
                return None
            ship.keep(pb.LogChunk(records=cut.records, dropped=cut.dropped), cut.size)
        kept = ship.kept[ship.sent]
        ship.sent += 1
        self._in_flight += kept.size
        return _under(kept.chunk, key, fence)

    def is_sent(self, key: Key) -> bool:
        """True when everything the attempt said has been sent in this session."""
        ship = self._ships.get(key)
        return ship is None or (ship.sent == len(ship.kept) and ship.sink.is_empty())

    def has_sent_records(self, key: Key) -> bool:
        """True when every record has been sent in this session; how many were dropped last may
        still have to be told."""
        ship = self._ships.get(key)
        return ship is None or (ship.sent == len(ship.kept) and not ship.sink.has_records())

    def give_up(self, key: Key, fence: int) -> pb.LogChunk | None:
        """Drops what the attempt still has unsent; the chunk to send tells how much that was. The
        attempt has ended, so the numbers given back are used for nothing else."""
        ship = self._ships.get(key)
        if ship is None:
            return None
        dropped = ship.sink.give_up()
        while len(ship.kept) > ship.sent:
            kept = ship.kept.pop()
            dropped += len(kept.chunk.records) + kept.chunk.dropped
            ship.next_seq = min(ship.next_seq, kept.chunk.first_seq)
        if dropped == 0:
            return None
        ship.keep(pb.LogChunk(dropped=dropped), 0)
        ship.sent += 1
        return _under(ship.kept[-1].chunk, key, fence)

    def on_ack(self, attempt: types.AttemptRef, through_seq: int) -> None:
        """The scheduler has stored records up to `through_seq`."""
        ship = self._ships.get(Key.of(attempt))
        if ship is None:
            return
        while ship.sent > 0 and ship.kept and ship.kept[0].last_seq <= through_seq:
            kept = ship.kept.popleft()
            ship.sent -= 1
            self._in_flight = max(self._in_flight - kept.size, 0)

    def last_seq(self, key: Key) -> int:
        """Number of the attempt's last record; 0 when it said nothing."""
        ship = self._ships.get(key)
        return 0 if ship is None else ship.next_seq - 1

    def forget(self, key: Key) -> None:
        """Forgets an attempt whose result is acknowledged."""
        ship = self._ships.pop(key, None)
        if ship is not None:
            sent = sum(ship.kept[index].size for index in range(ship.sent))
            self._in_flight = max(self._in_flight - sent, 0)


def _under(chunk: pb.LogChunk, key: Key, fence: int) -> pb.LogChunk:
    out = pb.LogChunk()
    out.CopyFrom(chunk)
    out.ref.CopyFrom(key.to_ref(fence))
    return out
