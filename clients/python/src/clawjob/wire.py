"""Conversions between Python's and the contract's values."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from clawjob import clock
from clawjob.failure import FailureInfo
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types

if TYPE_CHECKING:
    from google.protobuf.message import Message

#: The media type of params, outputs and checkpoints.
JSON = "application/json"
#: Longest span that is taken from a peer, in seconds: longer ones are as good as for ever, and no
#: clock or timer overflows with this one.
SPAN_MAX = 100 * 365 * 86_400.0
#: Longest duration that the contract's type can carry, in seconds.
_SECONDS_MAX = 315_576_000_000


def timestamp(wall: int) -> Timestamp:
    """Wall time, in nanoseconds since the epoch, as the contract's timestamp."""
    seconds, nanos = divmod(wall, clock.NANOS)
    return Timestamp(seconds=seconds, nanos=nanos)


def timestamp_of(at: datetime) -> Timestamp:
    """An aware datetime as the contract's timestamp.

    Raises ValueError for one without a time zone, which could mean any moment.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone; give one, such as tzinfo=timezone.utc")
    out = Timestamp()
    out.FromDatetime(at)
    return out


def duration(seconds: float) -> Duration:
    """A span in seconds as the contract's duration, to the nanosecond."""
    bounded = min(max(seconds, 0.0), float(_SECONDS_MAX))
    whole, nanos = divmod(round(bounded * clock.NANOS), clock.NANOS)
    return Duration(seconds=whole, nanos=nanos)


def seconds(message: Message, field: str) -> float | None:
    """A field's duration in seconds, a hundred years at most; None when it is absent, negative or
    malformed."""
    if not message.HasField(field):
        return None
    span: Duration = getattr(message, field)
    if span.seconds < 0 or not 0 <= span.nanos < clock.NANOS:
        return None
    return min(span.seconds + span.nanos / clock.NANOS, SPAN_MAX)


def positive(message: Message, field: str) -> float | None:
    """As `seconds`, but None for no time at all."""
    return seconds(message, field) or None


def utc(message: Message, field: str) -> datetime | None:
    """A field's timestamp as an aware datetime; None when absent or out of Python's range."""
    if not message.HasField(field):
        return None
    at: Timestamp = getattr(message, field)
    try:
        return clock.utc(at.seconds * clock.NANOS + at.nanos)
    except (ValueError, OverflowError, OSError):
        return None


def payload(data: bytes) -> types.Payload:
    """JSON bytes as the contract's payload."""
    return types.Payload(content_type=JSON, data=data)


def failure(info: FailureInfo) -> types.Failure:
    """The contract's form of a failure, with its bounds applied."""
    cut = info.bounded()
    out = types.Failure(
        code=cut.code,
        message=cut.message,
        type=cut.type,
        stack=cut.stack,
        non_retryable=cut.non_retryable,
    )
    if cut.retry_after is not None:
        out.retry_after.CopyFrom(duration(cut.retry_after))
    return out


def failure_info(message: types.Failure) -> FailureInfo:
    """A failure from the contract's form."""
    return FailureInfo(
        code=message.code,
        message=message.message,
        type=message.type,
        stack=message.stack,
        non_retryable=message.non_retryable,
        retry_after=seconds(message, "retry_after"),
    )


# The contract's messages are used under these names everywhere.
__all__ = ["JSON", "pb", "types"]
