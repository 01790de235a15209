"""The session's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clawjob.config import Checked
from clawjob.handle import Handle
from clawjob.handler import Registry
from clawjob.session.driver import Driver


@dataclass(frozen=True)
class Start:
    """What the session's thread starts from."""

    settings: Checked
    registry: Registry
    handle: Handle
    #: Where async handlers run.
    loop: asyncio.AbstractEventLoop
    #: Called on the session's thread when it is over, with the error if there is one.
    done: Callable[[BaseException | None], None]


class SessionThread:
    """Runs the driver until its end. The channel is made here, never before: a process forked from
    this one inherits none."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._thread = threading.Thread(target=self._run, name="clawjob-session", daemon=True)
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._main())
        except BaseException as raised:
            error = raised
        self._start.handle.attach(None)
        self._start.done(error)

    async def _main(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_on_loop_error)
        start = self._start
        driver = Driver(start.settings, start.registry, start.handle, start.loop)
        await driver.run()


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # gRPC wakes every loop of the process for each event; all but one find nothing to read.
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)
