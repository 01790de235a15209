"""The admin client for programs on an event loop: the same calls, awaited.

Each call runs on a thread of its own, so that long waits hold up neither the loop nor each other.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from clawjob.client import Client
from clawjob.client.jobs import Jobs
from clawjob.client.runs import Runs

P = ParamSpec("P")
R = TypeVar("R")

_END: Any = object()


class AsyncClient:
    """As `Client`, with the same arguments: its methods are awaited, its iterators are for
    `async for`.

        async with clawjob.AsyncClient(app="billing") as client:
            run = await client.jobs.trigger("nightly-report")
            async for record in client.runs.tail_logs(run):
                print(record.record.message)

    A cancelled call is no longer waited for; what the server was asked to do, it does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """See `Client`."""
        self._client = Client(*args, **kwargs)
        #: The jobs.
        self.jobs = AsyncJobs(self._client.jobs)
        #: The runs.
        self.runs = AsyncRuns(self._client.runs)
        self.apply = _awaited(self._client.apply)
        self.close = _awaited(self._client.close)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncJobs:
    """See `Jobs`."""

    def __init__(self, jobs: Jobs) -> None:
        self.name = jobs.name
        self.get = _awaited(jobs.get)
        self.list = _iterated(jobs.list)
        self.create = _awaited(jobs.create)
        self.update = _awaited(jobs.update)
        self.delete = _awaited(jobs.delete)
        self.pause = _awaited(jobs.pause)
        self.resume = _awaited(jobs.resume)
        self.trigger = _awaited(jobs.trigger)
        self.preview = _awaited(jobs.preview)
        self.revisions = _iterated(jobs.revisions)
        self.rollback = _awaited(jobs.rollback)
        self.backfill = _awaited(jobs.backfill)
        self.forecast = _iterated(jobs.forecast)


class AsyncRuns:
    """See `Runs`."""

    def __init__(self, runs: Runs) -> None:
        self.name = runs.name
        self.get = _awaited(runs.get)
        self.list = _iterated(runs.list)
        self.cancel = _awaited(runs.cancel)
        self.rerun = _awaited(runs.rerun)
        self.wait = _awaited(runs.wait)
        self.watch = _iterated(runs.watch)
        self.logs = _iterated(runs.logs)
        self.tail_logs = _iterated(runs.tail_logs)


def _awaited(function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await _in_thread(functools.partial(function, *args, **kwargs))

    return call


def _iterated(function: Callable[P, Iterator[R]]) -> Callable[P, AsyncIterator[R]]:
    @functools.wraps(function)
    async def iterate(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        iterator = function(*args, **kwargs)
        while True:
            item: R = await _in_thread(functools.partial(next, iterator, _END))
            if item is _END:
                return
            yield item

    return iterate


def _in_thread(function: Callable[[], R]) -> asyncio.Future[R]:
    """What the function returns or raises, from a thread that holds up no end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            pass

    threading.Thread(target=work, name="clawjob-client", daemon=True).start()
    return done
