"""Runs a handler without a scheduler, under the same rules: params, timeout, kill, abandonment,
bounds.

    from clawjob.testing import run_handler

    def test_it_doubles():
        run = run_handler(double, {"n": 21}, attempt=2)
        assert run.output == 42
        assert run.logged("doubling")
"""

from __future__ import annotations

import enum
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from clawjob import clock, log_handler, wire
from clawjob.app import _LoopThread
from clawjob.context import Context, LogLevel, Shard, StopReason
from clawjob.engine import Abandon, Ending, Engine, Key, Stop
from clawjob.failure import Code, FailureInfo
from clawjob.handler import Call, Registry
from clawjob.live import Buffers, run_info
from clawjob.logs import LogSink
from clawjob.runner import Runner, Running
from clawjob.schema import Shape, dump
from clawjob.wire import pb, types

#: Name of the handler, the job and the app of a run in the harness.
NAME = "test"
#: The run's id in the harness.
RUN_ID = "01J00000000000000000000000"


class Outcome(enum.Enum):
    """How an attempt ended."""

    SUCCEEDED = types.OUTCOME_SUCCEEDED
    FAILED = types.OUTCOME_FAILED
    CANCELED = types.OUTCOME_CANCELED
    TIMED_OUT = types.OUTCOME_TIMED_OUT


@dataclass(frozen=True)
class LogLine:
    """A record of the run's log."""

    level: LogLevel
    message: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Finished:
    """What a run in the harness left behind."""

    outcome: Outcome
    #: What the handler returned, as JSON has it.
    output: Any = None
    #: Why the attempt failed; None when it did not.
    failure: FailureInfo | None = None
    logs: list[LogLine] = field(default_factory=list)
    #: How many log records the bounds dropped.
    logs_dropped: int = 0
    #: The newest progress: fraction and message.
    progress: tuple[float | None, str] = (None, "")
    #: The last checkpoint saved, as JSON has it.
    saved: Any = None

    def checkpoint(self, kind: Any = None) -> Any:
        """The last checkpoint saved, read as a type."""
        if kind is None or self.saved is None:
            return self.saved
        return Shape(kind).load(dump(self.saved))

    def logged(self, text: str) -> bool:
        """True when a log record has `text` in its message."""
        return any(text in line.message for line in self.logs)


def run_handler(
    function: Callable[..., Any],
    params: Any = None,
    *,
    attempt: int = 1,
    max_attempts: int = 1,
    fire_time: datetime | None = None,
    lateness: float | timedelta = 0.0,
    shard: Shard | None = None,
    labels: Mapping[str, str] | None = None,
    checkpoint: Any = None,
    caused_by: str = "",
    caused_by_output: Any = None,
    timeout: float | timedelta | None = None,
    kill_grace: float | timedelta = 10.0,
    stop: StopReason | None = None,
    stop_after: float | Callable[[], object] = 0.0,
    process: bool = False,
) -> Finished:
    """Runs a handler to its end.

    params: what the job would give; None for a job without params.
    checkpoint: what an earlier attempt has saved.
    caused_by, caused_by_output: the run whose end started this one, and what it returned.
    stop, stop_after: tells the handler to stop, for this reason, after so many seconds, or when
        this function, which is called on a thread of its own, returns.
    process: runs it as with `process=True`.
    Times are in seconds, or timedeltas.
    """
    command = pb.RunCommand(
        ref=Key(RUN_ID, attempt).to_ref(1),
        job=f"apps/{NAME}/jobs/{NAME}",
        run=f"apps/{NAME}/runs/{RUN_ID}",
        handler=NAME,
        max_attempts=max_attempts,
        labels=labels or {},
        fire_time=wire.timestamp_of(fire_time or clock.utc(clock.now().wall)),
        lateness=wire.duration(clock.as_seconds(lateness)),
        kill_grace=wire.duration(clock.as_seconds(kill_grace)),
    )
    if params is not None:
        command.params.CopyFrom(wire.payload(dump(params)))
    if checkpoint is not None:
        command.checkpoint.CopyFrom(wire.payload(dump(checkpoint)))
    command.caused_by = caused_by
    if caused_by_output is not None:
        command.caused_by_output.CopyFrom(wire.payload(dump(caused_by_output)))
    if timeout is not None:
        command.timeout.CopyFrom(wire.duration(clock.as_seconds(timeout)))
    if shard is not None:
        command.shard_index, command.shard_total = shard.index, shard.total
    registry = Registry()
    registry.add(NAME, function, process=process)
    for fault in registry.faults():
        raise TypeError(fault.message)
    data = command.params.data if params is not None else None
    call = registry.prepare(NAME, data, wire.JSON)
    if isinstance(call, FailureInfo):
        return Finished(Outcome.FAILED, failure=call)
    loop_thread = _LoopThread()
    try:
        with _logging():
            return _Harness(command, call, loop_thread).run(stop, stop_after)
    finally:
        loop_thread.stop()


class _Harness:
    """One run: the same table and the same runner as under a scheduler."""

    def __init__(self, command: pb.RunCommand, call: Call, loop_thread: _LoopThread) -> None:
        self._now = clock.now()
        self._engine = Engine(1, {NAME: 0}, self._now)
        self._sink = LogSink()
        self._buffers = Buffers(self._sink)
        self._events: queue.SimpleQueue[Ending | StopReason] = queue.SimpleQueue()
        key = self._engine.on_run(self._now, command)
        if key is None:
            raise ValueError("attempt numbers begin with 1")
        self._key = key
        info = run_info(command, with_params=True)
        context = Context(info, self._buffers, self._now.mono)
        runner = Runner(loop_thread.loop, lambda _key, ending: self._events.put(ending))
        self._running: Running = runner.start(key, call, context, info)
        self._grace = wire.seconds(command, "kill_grace") or 0.0

    def run(self, stop: StopReason | None, stop_after: float | Callable[[], object]) -> Finished:
        if stop is not None:
            threading.Thread(target=self._stop, args=(stop, stop_after), daemon=True).start()
        while (result := self._engine.result(self._key)) is None:
            wake = self._engine.wake
            try:
                event = self._events.get(
                    timeout=None if wake is None else max(wake - clock.now().mono, 0.0)
                )
            except queue.Empty:
                event = None
            now = clock.now()
            if isinstance(event, StopReason):
                self._engine.stop_all(now, event, self._grace)
            elif event is not None:
                self._engine.on_ending(now, self._key, event)
            self._engine.tick(now)
            for action in self._engine.take_actions():
                if isinstance(action, Stop):
                    self._running.stop(action.reason)
                elif isinstance(action, Abandon):
                    self._running.abandon()
        return self._finished(result)

    def _stop(self, reason: StopReason, after: float | Callable[[], object]) -> None:
        if callable(after):
            after()
        else:
            time.sleep(after)
        self._events.put(reason)

    def _finished(self, result: pb.RunResult) -> Finished:
        records, dropped = self._sink.drain()
        news = self._buffers.news.take(clock.now().mono, last=True)
        progress: tuple[float | None, str] = (None, "")
        saved = None
        if isinstance(news, pb.Progress):
            progress = (news.fraction if news.HasField("fraction") else None, news.message)
            saved = json.loads(news.checkpoint.data) if news.HasField("checkpoint") else None
        failed = result.HasField("failure")
        return Finished(
            outcome=Outcome(result.outcome),
            output=json.loads(result.output.data) if result.HasField("output") else None,
            failure=wire.failure_info(result.failure) if failed else None,
            logs=[LogLine(LogLevel(r.level), r.message, dict(r.fields)) for r in records],
            logs_dropped=dropped,
            progress=progress,
            saved=saved,
        )


@contextmanager
def _logging() -> Iterator[None]:
    """INFO and above lands in the run's log, whatever the test has set up."""
    root = logging.getLogger()
    level = root.level
    if root.level > logging.INFO:
        root.setLevel(logging.INFO)
    handler = log_handler.RunLogHandler(logging.NOTSET)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


__all__ = [
    "Code",
    "Finished",
    "LogLevel",
    "LogLine",
    "Outcome",
    "Shard",
    "StopReason",
    "run_handler",
]
