"""What a handler knows of its run, and what it can say about it."""

from __future__ import annotations

import contextvars
import enum
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, overload

from clawjob import clock
from clawjob.failure import Code, Failure
from clawjob.schema import Shape, dump

T = TypeVar("T")

#: Largest checkpoint, in bytes.
CHECKPOINT_BYTES_MAX = 64 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class StopReason(enum.Enum):
    """Why a handler is told to stop. Its text is in `str()`."""

    #: Somebody canceled the run.
    USER = "the run was canceled"
    #: The run's timeout has passed.
    TIMEOUT = "the run's timeout passed"
    #: A later attempt of the run took over.
    STALE_ATTEMPT = "a later attempt took over"
    #: A newer run of the job takes its place.
    REPLACED = "a newer run takes its place"
    #: The job was deleted.
    JOB_DELETED = "the job was deleted"
    #: The scheduler's node asks for it.
    NODE_POLICY = "the scheduler's node asked for it"
    #: This executor shuts down.
    SHUTDOWN = "the executor shuts down"
    #: Contact with the scheduler is lost and the job asks for a stop in that case.
    DISCONNECTED = "contact with the scheduler was lost"

    def __str__(self) -> str:
        return self.value

    @property
    def code(self) -> str:
        """The failure code of an attempt that was stopped for this reason."""
        return {
            StopReason.TIMEOUT: Code.TIMEOUT,
            StopReason.SHUTDOWN: Code.SHUTDOWN,
            StopReason.DISCONNECTED: Code.DISCONNECTED,
        }.get(self, Code.STOPPED)


class Stopped(BaseException):
    """Raised inside a handler that has to stop: by `Context.check` and `Context.sleep`, and at any
    line of a handler with `process=True`. Let it pass, after cleaning up.

    Like `asyncio.CancelledError` it is no `Exception`, so that `except Exception` does not
    swallow it.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class LogLevel(enum.IntEnum):
    """Severity of a record in the run's log."""

    TRACE = 1
    DEBUG = 2
    INFO = 3
    WARN = 4
    ERROR = 5

    @classmethod
    def of(cls, level: int) -> LogLevel:
        """From a level of the standard `logging`."""
        if level >= logging.ERROR:
            return cls.ERROR
        if level >= logging.WARNING:
            return cls.WARN
        if level >= logging.INFO:
            return cls.INFO
        return cls.DEBUG if level >= logging.DEBUG else cls.TRACE


@dataclass(frozen=True)
class Shard:
    """Which share of a sharded run this is."""

    #: 0 .. total - 1
    index: int
    #: At least 1.
    total: int


@dataclass(frozen=True)
class RunInfo:
    """What the scheduler told about one attempt; it can be sent to another process."""

    run_id: str
    attempt: int = 1
    run: str = ""
    job: str = ""
    job_revision: int = 0
    handler: str = ""
    max_attempts: int = 1
    fire_time: datetime = _EPOCH
    lateness: timedelta = timedelta()
    catch_up: bool = False
    #: In seconds.
    timeout: float | None = None
    deadline: datetime | None = None
    shard: Shard | None = None
    labels: dict[str, str] = field(default_factory=dict)
    traceparent: str = ""
    tracestate: str = ""
    #: JSON that an earlier attempt saved.
    checkpoint: bytes | None = None
    #: For a chained run: the run whose end started it, and the JSON that it returned.
    caused_by: str = ""
    caused_by_output: bytes | None = None
    #: The params as they came, and their media type.
    params: bytes | None = None
    params_type: str = ""


class Outlet(Protocol):
    """Where a handler's words go."""

    def progress(self, fraction: float | None, message: str) -> None: ...

    def save(self, checkpoint: bytes) -> None: ...

    def log(self, level: LogLevel, message: str, fields: Mapping[str, str], wall: int) -> None: ...


class Context:
    """A handler's view of its run.

    It learns that it should stop from `cancelled`, or from `Stopped`, which `check()` and `sleep()`
    raise; an async handler gets asyncio's own cancellation. It should then end within the grace of
    the kill (10 s unless the job says otherwise). A value returned counts as a success even then.
    """

    def __init__(self, info: RunInfo, outlet: Outlet, started: float) -> None:
        self._info = info
        self._outlet = outlet
        self._started = started
        self._event = threading.Event()
        self._reason: StopReason | None = None
        self._saved: bytes | None = None

    def _stop(self, reason: StopReason) -> None:
        """Tells the handler to stop; the first reason stays."""
        if self._reason is None:
            self._reason = reason
        self._event.set()

    @property
    def run_id(self) -> str:
        """The run's ULID. Together with `attempt` it identifies this execution."""
        return self._info.run_id

    @property
    def run(self) -> str:
        """The run's resource name, `apps/{app}/runs/{ulid}`."""
        return self._info.run

    @property
    def job(self) -> str:
        """The job's resource name, `apps/{app}/jobs/{job}`."""
        return self._info.job

    @property
    def job_revision(self) -> int:
        """The revision of the job that the run was planned with."""
        return self._info.job_revision

    @property
    def handler(self) -> str:
        """The handler's name."""
        return self._info.handler

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._info.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the job allows, at least 1."""
        return self._info.max_attempts

    @property
    def fire_time(self) -> datetime:
        """The instant the schedule named, in UTC, not the time of the start; the Unix epoch when
        the scheduler named none."""
        return self._info.fire_time

    @property
    def lateness(self) -> timedelta:
        """How late the scheduler was with this run."""
        return self._info.lateness

    @property
    def catch_up(self) -> bool:
        """True when the run makes up for a fire time that passed unserved."""
        return self._info.catch_up

    @property
    def timeout(self) -> timedelta | None:
        """The run's time budget, counted from the start of this attempt; None means no limit."""
        timeout = self._info.timeout
        return None if timeout is None else timedelta(seconds=timeout)

    @property
    def remaining(self) -> timedelta | None:
        """What is left of the budget on this machine's monotonic clock; None means no limit."""
        if self._info.timeout is None:
            return None
        spent = clock.now().mono - self._started
        return timedelta(seconds=max(self._info.timeout - spent, 0.0))

    @property
    def deadline(self) -> datetime | None:
        """The end of the budget on the scheduler's clock, for showing only."""
        return self._info.deadline

    @property
    def shard(self) -> Shard | None:
        """The share of a sharded run; None when the run is not sharded."""
        return self._info.shard

    @property
    def caused_by(self) -> str | None:
        """The resource name of the run whose end started this one; None when no chain did."""
        return self._info.caused_by or None

    @overload
    def caused_by_output(self) -> Any: ...

    @overload
    def caused_by_output(self, kind: type[T]) -> T | None: ...

    def caused_by_output(self, kind: Any = None) -> Any:
        """What the run that started this one returned, as plain JSON or read as a type; None when
        no chain started it, or when that run returned nothing or is no longer kept. Raises
        ValueError for an output that is no such thing."""
        return _load(self._info.caused_by_output, kind)

    @property
    def labels(self) -> Mapping[str, str]:
        """The job's labels."""
        return MappingProxyType(self._info.labels)

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of the dispatch; None when the run is not traced. With
        OpenTelemetry installed the handler's span continues it already."""
        return self._info.traceparent or None

    @property
    def tracestate(self) -> str:
        """The vendor part of the trace context; empty when there is none."""
        return self._info.tracestate

    def progress(self, fraction: float | None, message: str = "") -> None:
        """Tells how far the run is: `fraction` in 0..1 and a message of at most 1 KiB.

        Only the newest counts, at most one a second is sent; calling it often is cheap.
        """
        self._outlet.progress(fraction, message)

    @overload
    def checkpoint(self) -> Any: ...

    @overload
    def checkpoint(self, kind: type[T]) -> T | None: ...

    def checkpoint(self, kind: Any = None) -> Any:
        """The checkpoint that this attempt, or else an earlier one, has saved; None without one.

        With a type (a dataclass, a pydantic model, `int`, …) it is read as that; else it is plain
        JSON. Raises ValueError for a checkpoint that is no such thing.
        """
        return _load(self._saved if self._saved is not None else self._info.checkpoint, kind)

    def save_checkpoint(self, value: Any) -> None:
        """Saves a checkpoint for the next attempt, as JSON of at most 64 KiB.

        It travels with the progress: the newest counts, and the last one leaves before the result
        does. Raises TypeError for a value that is not JSON, `Failure` with the code
        `CHECKPOINT_TOO_LARGE` for one that is too large.
        """
        data = dump(value)
        if len(data) > CHECKPOINT_BYTES_MAX:
            raise Failure(
                Code.CHECKPOINT_TOO_LARGE,
                f"the checkpoint has {len(data)} bytes of {CHECKPOINT_BYTES_MAX}",
            )
        self._saved = data
        self._outlet.save(data)

    @property
    def cancelled(self) -> bool:
        """True when the handler should stop."""
        return self._event.is_set()

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the handler should stop; None while it should go on."""
        return self._reason

    def check(self) -> None:
        """Raises `Stopped` when the handler should stop: to be called between two steps."""
        if self._event.is_set():
            raise Stopped(self._reason or StopReason.USER)

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Blocks until the handler should stop, for `timeout` seconds at most; true when it
        should. Not for async handlers, which are cancelled where they wait."""
        return self._event.wait(timeout)

    def sleep(self, seconds: float) -> None:
        """Sleeps, but raises `Stopped` as soon as the handler should stop. Not for async
        handlers."""
        self._event.wait(seconds)
        self.check()

    def log(self, level: LogLevel, message: str, **fields: object) -> None:
        """Writes a record into the run's log, without the standard `logging`.

        A message over 16 KiB is cut, as are fields beyond 32 or over 1 KiB; more than 1,000
        records a second or 10 MiB in all are dropped and counted.
        """
        texts = {name: str(value) for name, value in fields.items()}
        self._outlet.log(level, message, texts, clock.now().wall)

    def __repr__(self) -> str:
        return f"<Context run_id={self.run_id} attempt={self.attempt} handler={self.handler}>"


_CURRENT: contextvars.ContextVar[Context | None] = contextvars.ContextVar("clawjob", default=None)


def current_context() -> Context | None:
    """The context of the handler that runs here; None outside of one.

    Threads that a handler starts by itself see none, unless it copies its `contextvars` to them.
    """
    return _CURRENT.get()


def _load(data: bytes | None, kind: Any) -> Any:
    if not data:
        return None
    return json.loads(data) if kind is None else Shape(kind).load(data)
