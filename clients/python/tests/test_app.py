"""Running an app in other ways than `run()`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from clawjob import App
from clawjob.v1 import types_pb2 as types
from tests.conftest import Started
from tests.fake import Fake, command, soon
from tests.handlers import Gate, make_app


def test_run_async_runs_async_handlers_on_the_callers_loop(fake: Fake, gate: Gate) -> None:
    app = make_app([fake.url], gate)
    threads: list[threading.Thread] = []

    @app.handler("where")
    async def where() -> None:
        threads.append(threading.current_thread())

    async def main() -> None:
        run = asyncio.create_task(app.run_async())
        session = await asyncio.to_thread(fake.open)
        await asyncio.to_thread(session.begin, command("R1", "where"))
        result = await asyncio.to_thread(session.result)
        assert result.outcome == types.OUTCOME_SUCCEEDED
        session.ack(result)
        app.drain()
        await asyncio.to_thread(session.goodbye)
        session.end()
        await run

    asyncio.run(main())
    assert threads == [threading.current_thread()]


def test_cancelling_run_async_drops_everything(fake: Fake, gate: Gate) -> None:
    app = make_app([fake.url], gate)

    async def main() -> None:
        run = asyncio.create_task(app.run_async())
        session = await asyncio.to_thread(fake.open)
        await asyncio.to_thread(session.begin, command("R1", "obedient_async"))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.to_thread(soon, "the end of the session", session.ended.is_set)

    asyncio.run(main())


def test_an_app_runs_once_at_a_time(start: Callable[..., Started]) -> None:
    started = start()
    with pytest.raises(RuntimeError, match="runs already"):
        started.app.start()


def test_a_with_block_drains(fake: Fake, gate: Gate) -> None:
    app = make_app([fake.url], gate)
    with app.start():
        session = fake.open()
        session.heartbeat()
        threading.Timer(0.1, session.end).start()
    assert not app.health().connected


def test_the_wrapped_function_stays_what_it_was() -> None:
    app = App("demo")

    def function() -> int:
        return 3

    assert app.handler("three")(function) is function
