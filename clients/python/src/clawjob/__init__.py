"""The Python SDK for ClawJob: executors and an admin client.

An executor is a program that offers named handlers to an app. It dials the scheduler, keeps one
session open and runs what it is sent; it listens on no port.

    import clawjob

    app = clawjob.App("billing")

    @app.handler("nightly-report")
    def nightly_report(params: Report, ctx: clawjob.Context) -> str:
        ...

    if __name__ == "__main__":
        app.run()

`App` holds the settings and runs, `Context` is what a handler knows of its run, `Failure` is how it
fails with a code of its own, `clawjob.testing` runs a handler without a scheduler, and `Client`, or
`AsyncClient`, manages jobs and runs. Messages of the contract are in `clawjob.v1`.

Inside, `engine` is the pure table of attempts (no I/O, no clock), `session` owns the connection on
a thread of its own, `runner` starts handlers, and `logs` buffers what they say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clawjob.app import App, Running
from clawjob.config import ClientIdentity, Reconnect
from clawjob.context import (
    Context,
    LogLevel,
    Shard,
    Stopped,
    StopReason,
    current_context,
)
from clawjob.errors import ClawJobError, ConfigError, Fault, RefusedError, SupersededError
from clawjob.failure import Code, Failure
from clawjob.handle import Health
from clawjob.log_handler import RunLogHandler
from clawjob.version import VERSION as __version__

if TYPE_CHECKING:
    from clawjob.client import Client
    from clawjob.client.aio import AsyncClient

__all__ = [
    "App",
    "AsyncClient",
    "ClawJobError",
    "Client",
    "ClientIdentity",
    "Code",
    "ConfigError",
    "Context",
    "Failure",
    "Fault",
    "Health",
    "LogLevel",
    "Reconnect",
    "RefusedError",
    "RunLogHandler",
    "Running",
    "Shard",
    "StopReason",
    "Stopped",
    "SupersededError",
    "__version__",
    "current_context",
]


def __getattr__(name: str) -> Any:
    # The clients bring gRPC, which a handler's own process does without.
    if name == "AsyncClient":
        from clawjob.client.aio import AsyncClient

        return AsyncClient
    if name == "Client":
        from clawjob.client import Client

        return Client
    raise AttributeError(f"module 'clawjob' has no attribute {name!r}")
