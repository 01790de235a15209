"""An attempt whose handler was started here, as the session's thread holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from clawjob import wire
from clawjob.clock import now
from clawjob.context import LogLevel, RunInfo, Shard
from clawjob.logs import LogSink
from clawjob.progress import Progress
from clawjob.runner import Running
from clawjob.wire import pb


class Buffers:
    """What a handler has said and the session has not sent yet: its log and its progress."""

    def __init__(self, log: LogSink, tell: Callable[[], None] | None = None) -> None:
        self.log_sink = log
        self.news = Progress()
        self._tell_of = tell

    def progress(self, fraction: float | None, message: str) -> None:
        self.news.set(fraction, message)
        self._tell()

    def save(self, checkpoint: bytes) -> None:
        self.news.save(checkpoint)
        self._tell()

    def log(self, level: LogLevel, message: str, fields: Mapping[str, str], wall: int) -> None:
        self.log_sink.push(level, message, fields, wall, now().mono)

    def _tell(self) -> None:
        if self._tell_of is not None:
            self._tell_of()


class Live:
    """A started attempt."""

    def __init__(self, buffers: Buffers, running: Running) -> None:
        self.buffers = buffers
        self.running = running


def run_info(command: pb.RunCommand, *, with_params: bool) -> RunInfo:
    """A command as its handler sees it."""
    shard = None
    if command.shard_total > 0:
        shard = Shard(command.shard_index, command.shard_total)
    defaults = RunInfo("")
    return RunInfo(
        run_id=command.ref.run_id,
        attempt=command.ref.attempt,
        run=command.run,
        job=command.job,
        job_revision=command.job_revision,
        handler=command.handler,
        max_attempts=max(command.max_attempts, 1),
        fire_time=wire.utc(command, "fire_time") or defaults.fire_time,
        lateness=timedelta(seconds=wire.seconds(command, "lateness") or 0.0),
        catch_up=command.catch_up,
        timeout=wire.positive(command, "timeout"),
        deadline=wire.utc(command, "deadline"),
        shard=shard,
        labels=dict(command.labels),
        traceparent=command.traceparent,
        tracestate=command.tracestate,
        checkpoint=command.checkpoint.data if command.HasField("checkpoint") else None,
        caused_by=command.caused_by,
        caused_by_output=(
            command.caused_by_output.data if command.HasField("caused_by_output") else None
        ),
        params=command.params.data if with_params and command.HasField("params") else None,
        params_type=command.params.content_type,
    )
