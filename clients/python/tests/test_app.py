"""Running an app in other ways than `run()`."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable

import pytest

from clawjob import App
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration
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


def square(number: int) -> int:
    return number * number


def forks(params: list[int]) -> list[int]:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(square, params)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_handler_that_forks_does_the_session_no_harm(fake: Fake, gate: Gate) -> None:
    app = make_app([fake.url], gate)
    app.handler("forks")(forks)
    with app.start():
        session = fake.open(heartbeat_interval=duration(0.1))
        session.begin(command("R1", "forks", "[1,2,3]"))
        result = session.result()
        assert result.output.data == b"[1, 4, 9]"
        session.ack(result)
        for _ in range(3):
            session.heartbeat()
        assert fake.dials == 1
        session.end()


def test_the_wrapped_function_stays_what_it_was() -> None:
    app = App("demo")

    def function() -> int:
        return 3

    assert app.handler("three")(function) is function
