"""The first frame up."""

from __future__ import annotations

import os
import platform
import socket
import sys
import uuid

from clawjob.config import Checked
from clawjob.engine import Engine
from clawjob.handler import Handler, Registry
from clawjob.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, VERSION
from clawjob.wire import pb, timestamp

#: Optional behaviours that this SDK understands.
FEATURES = ("checkpoint", "drain", "log", "progress", "shard")


class Identity:
    """What of a Hello stays the same for the life of an executor."""

    def __init__(self, settings: Checked, registry: Registry, started: int) -> None:
        self._base = pb.Hello(
            protocol_major=PROTOCOL_MAJOR,
            protocol_minor=PROTOCOL_MINOR,
            features=FEATURES,
            app=settings.app,
            executor_id=settings.executor_id,
            instance_id=str(uuid.uuid4()),
            handlers=[_handler(handler) for handler in registry],
            labels=settings.labels,
            slots=settings.slots,
            sdk=pb.SdkInfo(
                language="python",
                sdk_version=VERSION,
                runtime_version=platform.python_version(),
                os=sys.platform,
                arch=platform.machine(),
                hostname=socket.gethostname(),
                pid=os.getpid(),
            ),
            process_start_time=timestamp(started),
        )

    def hello(self, engine: Engine, resume_token: str) -> pb.Hello:
        """The Hello of this moment."""
        hello = pb.Hello()
        hello.CopyFrom(self._base)
        hello.resume_token = resume_token
        hello.attempts.extend(engine.statuses())
        hello.last_command_seq = engine.last_command_seq
        return hello


def _handler(handler: Handler) -> pb.Handler:
    return pb.Handler(
        name=handler.name,
        max_concurrency=handler.max_concurrency,
        params_schema=handler.schema(),
        description=handler.description,
    )
