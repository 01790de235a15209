"""The fixed handlers that scenarios run, and the app that offers them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import clawjob
from clawjob import Context, Failure, LogLevel, Reconnect
from tests.fake import PATIENCE, soon

log = logging.getLogger("tests.handlers")


@dataclass
class Millis:
    ms: int


@dataclass
class Count:
    count: int


class Gate:
    """What handlers wait for that are deaf to everything else, and how many of them have begun."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.count = 0

    def open(self) -> None:
        self._open.set()

    def begun(self, count: int) -> None:
        """Waits until so many of the handlers have begun in all."""
        soon("handlers to begin", lambda: self.count >= count)

    def _begin(self) -> None:
        with self._lock:
            self.count += 1

    def pass_through(self) -> str:
        """Blocks its thread."""
        self._begin()
        self._open.wait(PATIENCE)
        return "through"

    async def block_async(self) -> None:
        """Blocks the event loop of all async handlers."""
        self._begin()
        self._open.wait(PATIENCE)

    def spin(self) -> None:
        """Keeps the interpreter busy."""
        self._begin()
        end = time.monotonic() + PATIENCE
        while not self._open.is_set() and time.monotonic() < end:
            pass


class BankClosedError(Exception):
    pass


def echo(params: Any) -> Any:
    return params


def fail() -> None:
    try:
        raise ValueError("it is Sunday")
    except ValueError as error:
        raise BankClosedError("the bank is closed") from error


def fail_for_good() -> None:
    raise Failure("NO_SUCH_CUSTOMER", "gone", non_retryable=True, retry_after=timedelta(seconds=9))


def panic() -> None:
    raise SystemExit("out of cheese")


def obedient(ctx: Context) -> None:
    """Stops as soon as it is told to."""
    ctx.sleep(PATIENCE)


async def obedient_async(ctx: Context) -> None:
    await asyncio.sleep(PATIENCE)


def block(params: Millis) -> None:
    """Blocks its thread, deaf to everything."""
    time.sleep(params.ms / 1000)


def big_output(params: Count) -> str:
    return "x" * params.count


def logs(params: Count, ctx: Context) -> None:
    for number in range(1, params.count + 1):
        ctx.log(LogLevel.INFO, f"line {number}")


def logging_handler(ctx: Context) -> None:
    """Fetches the rates."""
    log.debug("not shown")
    log.warning("rates are %s", "stale", extra={"age": 3})
    try:
        raise KeyError("EUR")
    except KeyError:
        log.exception("no rate")


def checkpoint(ctx: Context) -> int:
    done = ctx.checkpoint(int) or 0
    ctx.save_checkpoint(done + 10)
    ctx.progress(0.5, "half")
    return done


def progress(params: Count, ctx: Context) -> None:
    """Tells its progress `count` times, then waits until it is told to stop."""
    for number in range(1, params.count + 1):
        ctx.progress(number / params.count, f"step {number}")
    ctx.sleep(PATIENCE)


def shard(ctx: Context) -> list[int] | None:
    return None if ctx.shard is None else [ctx.shard.index, ctx.shard.total]


def facts(ctx: Context) -> dict[str, Any]:
    return {
        "run_id": ctx.run_id,
        "run": ctx.run,
        "job": ctx.job,
        "attempt": ctx.attempt,
        "max_attempts": ctx.max_attempts,
        "fire_time": ctx.fire_time,
        "lateness": ctx.lateness,
        "catch_up": ctx.catch_up,
        "labels": ctx.labels,
        "traceparent": ctx.traceparent,
        "timeout": ctx.timeout,
        "deadline": ctx.deadline,
        "has_time_left": ctx.remaining is None or ctx.remaining > timedelta(),
    }


def make_app(urls: list[str], gate: Gate, **settings: Any) -> clawjob.App:
    """An app with all fixed handlers, dialing `urls`, with its waits between dials at a tenth."""
    given: dict[str, Any] = {
        "endpoints": urls,
        "executor_id": "tester",
        "token": "secret",
        "slots": 4,
        "labels": {"zone": "a"},
        "shutdown_grace": 25.0,
        "reconnect": Reconnect(first=0.2, base=0.05, cap=3.0, healthy_after=6.0),
    }
    app = clawjob.App("demo", **{**given, **settings})
    functions: list[Callable[..., Any]] = [
        echo,
        fail,
        fail_for_good,
        panic,
        obedient,
        obedient_async,
        block,
        big_output,
        logs,
        logging_handler,
        checkpoint,
        progress,
        shard,
        facts,
    ]
    for function in functions:
        app.handler(function.__name__)(function)

    def logs_then_gate(params: Count, ctx: Context) -> None:
        logs(params, ctx)
        gate.pass_through()

    app.handler("gate", description="waits to be let through")(lambda: gate.pass_through())
    app.handler("block_async")(gate.block_async)
    app.handler("spin")(gate.spin)
    app.handler("logs_then_gate")(logs_then_gate)
    return app
