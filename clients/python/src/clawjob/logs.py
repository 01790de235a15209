"""The log of each attempt on its way to the scheduler: a bounded buffer that handlers write to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from clawjob.context import LogLevel
from clawjob.failure import cut_middle
from clawjob.wire import timestamp, types

#: Records that one attempt may log in a second; later ones of that second are dropped.
RECORDS_PER_SECOND_MAX = 1_000
#: Bytes that one attempt may log in all; later records are dropped.
ATTEMPT_BYTES_MAX = 10 * 1024 * 1024
#: Bytes of one attempt that wait to be sent; beyond it the oldest are dropped.
BUFFER_BYTES_MAX = 256 * 1024
#: Bytes waiting that make a chunk at once.
CHUNK_BYTES = 48 * 1024
#: Longest message of a record, in bytes; a longer one is cut in the middle.
MESSAGE_BYTES_MAX = 16 * 1024
#: Most fields of a record; the rest are left out.
FIELDS_MAX = 32
#: Longest field value, in bytes; a longer one is cut in the middle.
FIELD_BYTES_MAX = 1024


@dataclass
class _Waiting:
    record: types.LogRecord
    size: int
    #: Dropped just before this one.
    dropped: int


@dataclass
class Cut:
    """Records cut off for one chunk."""

    records: list[types.LogRecord] = field(default_factory=list)
    size: int = 0
    dropped: int = 0


class LogSink:
    """Where a handler's log records go until they are sent."""

    def __init__(self, wake: Callable[[bool], None] | None = None) -> None:
        """`wake` is told that something waits, with whether it is urgent."""
        self._wake = wake
        self._lock = threading.Lock()
        self._records: deque[_Waiting] = deque()
        #: Bytes of the waiting records.
        self._bytes = 0
        #: Dropped after the last record.
        self._tail_dropped = 0
        #: Bytes taken so far.
        self._taken = 0
        self._second: float | None = None
        self._in_second = 0
        self._bytes_dropped = 0

    def push(
        self, level: LogLevel, message: str, fields: Mapping[str, str], wall: int, mono: float
    ) -> None:
        """Takes a record, or counts it as dropped when a bound is passed."""
        record = types.LogRecord(
            time=timestamp(wall),
            level=types.LogLevel.Name(level),
            message=_text(message, MESSAGE_BYTES_MAX),
            fields={
                _text(name, FIELD_BYTES_MAX): _text(value, FIELD_BYTES_MAX)
                for name, value in islice(fields.items(), FIELDS_MAX)
            },
        )
        size = record.ByteSize()
        with self._lock:
            if not self._admit(size, mono):
                self._tail_dropped += 1
                self._bytes_dropped += size
            else:
                self._records.append(_Waiting(record, size, self._tail_dropped))
                self._tail_dropped = 0
                self._bytes += size
                while self._bytes > BUFFER_BYTES_MAX:
                    self._drop_oldest()
            urgent = self._bytes >= CHUNK_BYTES
        if self._wake is not None:
            self._wake(urgent)

    def take_bytes_dropped(self) -> int:
        """Bytes dropped since the last call."""
        with self._lock:
            dropped, self._bytes_dropped = self._bytes_dropped, 0
        return dropped

    def is_empty(self) -> bool:
        """True when neither a record nor a count of dropped ones waits."""
        with self._lock:
            return not self._records and self._tail_dropped == 0

    def has_records(self) -> bool:
        """True when a record waits."""
        with self._lock:
            return bool(self._records)

    def next_size(self, limit: int) -> int:
        """Bytes of the next chunk of at most `limit` bytes, without cutting it."""
        with self._lock:
            return self._span(limit)[1]

    def cut(self, limit: int) -> Cut | None:
        """Cuts the next chunk. One record is cut off even when it is larger than `limit`. What was
        dropped last waits for a record to come with, whose number tells a repetition apart."""
        with self._lock:
            count, size = self._span(limit)
            if count == 0:
                return None
            dropped = self._records[0].dropped
            records = [self._records.popleft().record for _ in range(count)]
            self._bytes -= size
            return Cut(records, size, dropped)

    def give_up(self) -> int:
        """Drops all that waits; how many records were dropped and not told of yet."""
        with self._lock:
            while self._records:
                self._drop_oldest()
            dropped, self._tail_dropped = self._tail_dropped, 0
            return dropped

    def drain(self) -> tuple[list[types.LogRecord], int]:
        """Everything that waits, with the number of records dropped; for the test harness."""
        records: list[types.LogRecord] = []
        dropped = 0
        while (cut := self.cut(ATTEMPT_BYTES_MAX)) is not None:
            records.extend(cut.records)
            dropped += cut.dropped
        return records, dropped + self.give_up()

    def _admit(self, size: int, mono: float) -> bool:
        """Whether the rate and the size of the attempt's log leave room for another record."""
        if self._second is None or mono >= self._second + 1.0:
            self._second = mono
            self._in_second = 0
        if self._in_second >= RECORDS_PER_SECOND_MAX or self._taken + size > ATTEMPT_BYTES_MAX:
            return False
        self._in_second += 1
        self._taken += size
        return True

    def _span(self, limit: int) -> tuple[int, int]:
        """How many records, and bytes, the next chunk takes: a gap starts a new chunk, since a
        chunk tells of the records dropped before its first only."""
        count = size = 0
        for waiting in self._records:
            if count > 0 and (waiting.dropped > 0 or size + waiting.size > limit):
                break
            count += 1
            size += waiting.size
        return count, size

    def _drop_oldest(self) -> None:
        lost = self._records.popleft()
        self._bytes -= lost.size
        self._bytes_dropped += lost.size
        if self._records:
            self._records[0].dropped += lost.dropped + 1
        else:
            self._tail_dropped += lost.dropped + 1


def _text(text: str, limit: int) -> str:
    """Bounded, and without the lone surrogates that UTF-8 cannot carry."""
    cut = cut_middle(text, limit)
    if cut.isascii():
        return cut
    return cut.encode("utf-8", "replace").decode()
