"""The program that a black-box runner drives: fixed handlers, settings from the environment.

Beside what every executor takes (CLAWJOB_ENDPOINTS, CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE,
CLAWJOB_APP, CLAWJOB_EXECUTOR_ID, CLAWJOB_CA_FILE) it reads

    CLAWJOB_CONFORMANCE_SCALE        what waits are multiplied by; 0.1
    CLAWJOB_CONFORMANCE_SLOTS        4
    CLAWJOB_CONFORMANCE_CLIENT_CERT  PEM of a client certificate, with
    CLAWJOB_CONFORMANCE_CLIENT_KEY   its key

It announces the label zone=a. SIGUSR1 pauses the handler `echo`, SIGUSR2 resumes it. It exits with
0 after a drain, with 1 and the error on standard error when the scheduler refuses it.

| handler | params | what it does |
| --- | --- | --- |
| echo | anything | returns them |
| fail | {"code"?, "message"?, "non_retryable"?, "retry_after_ms"?} | fails |
| panic | | asks for the end of the process: "out of cheese" |
| sleep | {"ms"} | sleeps, ends at once when told to stop |
| spin | {"ms"} | works, ignores that it is told to stop |
| block | {"ms"} | blocks its thread |
| logs | {"count", "bytes"?} | writes so many records "line N", of at least so many bytes |
| big_output | {"bytes"} | returns a text of so many bytes |
| progress | {"count"} | tells "step N" so often, then waits until it is told to stop |
| checkpoint | | returns the earlier checkpoint, a number, or 0, and saves 10 more |
| context | | returns what it knows of its run |
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import clawjob
from clawjob import ClientIdentity, Context, Failure, LogLevel, Reconnect

#: Longest wait of a handler that nobody stops, in seconds.
PATIENCE = 600.0


@dataclass
class Millis:
    ms: int = 0


@dataclass
class Bytes:
    bytes: int


@dataclass
class Logs:
    count: int
    bytes: int = 0


@dataclass
class Count:
    count: int


@dataclass
class Fail:
    code: str = ""
    message: str = "the bank is closed"
    non_retryable: bool = False
    retry_after_ms: int | None = None


class BankClosedError(Exception):
    """What `fail` raises without a code."""


def echo(params: Any) -> Any:
    return params


def fail(params: Fail) -> None:
    wait = params.retry_after_ms
    if params.code or params.non_retryable or wait is not None:
        raise Failure(
            params.code or "HANDLER_ERROR",
            params.message,
            non_retryable=params.non_retryable,
            retry_after=None if wait is None else timedelta(milliseconds=wait),
        )
    try:
        raise ValueError("it is Sunday")
    except ValueError as error:
        raise BankClosedError(params.message) from error


def panic() -> None:
    raise SystemExit("out of cheese")


def sleep(params: Millis, ctx: Context) -> str:
    ctx.sleep(params.ms / 1000)
    return "slept"


def spin(params: Millis) -> str:
    end = time.monotonic() + params.ms / 1000
    while time.monotonic() < end:
        pass
    return "spun"


def block(params: Millis) -> str:
    time.sleep(params.ms / 1000)
    return "blocked"


def logs(params: Logs, ctx: Context) -> None:
    for number in range(1, params.count + 1):
        ctx.log(LogLevel.INFO, f"line {number}".ljust(params.bytes))


def big_output(params: Bytes) -> str:
    return "x" * max(params.bytes - 2, 0)  # the quotes count too


def progress(params: Count, ctx: Context) -> None:
    for number in range(1, params.count + 1):
        ctx.progress(number / params.count, f"step {number}")
    ctx.sleep(PATIENCE)


def checkpoint(ctx: Context) -> int:
    done = ctx.checkpoint(int) or 0
    ctx.save_checkpoint(done + 10)
    return done


def context(ctx: Context) -> dict[str, Any]:
    return {
        "run_id": ctx.run_id,
        "run": ctx.run,
        "job": ctx.job,
        "attempt": ctx.attempt,
        "max_attempts": ctx.max_attempts,
        "fire_time": ctx.fire_time,
        "lateness_ms": round(ctx.lateness / timedelta(milliseconds=1)),
        "catch_up": ctx.catch_up,
        "labels": ctx.labels,
        "shard_index": ctx.shard.index if ctx.shard else 0,
        "shard_total": ctx.shard.total if ctx.shard else 0,
        "traceparent": ctx.traceparent or "",
        "tracestate": ctx.tracestate,
    }


HANDLERS: list[Callable[..., Any]] = [
    echo,
    fail,
    panic,
    sleep,
    spin,
    block,
    logs,
    big_output,
    progress,
    checkpoint,
    context,
]


def make_app(env: dict[str, str]) -> clawjob.App:
    scale = float(env.get("CLAWJOB_CONFORMANCE_SCALE", "0.1"))
    certificate = env.get("CLAWJOB_CONFORMANCE_CLIENT_CERT")
    identity = None
    if certificate:
        key = Path(env["CLAWJOB_CONFORMANCE_CLIENT_KEY"])
        identity = ClientIdentity(Path(certificate).read_bytes(), key.read_bytes())
    usual = Reconnect()
    app = clawjob.App(
        slots=int(env.get("CLAWJOB_CONFORMANCE_SLOTS", "4")),
        labels={"zone": "a"},
        client_identity=identity,
        shutdown_grace=25 * scale,
        reconnect=Reconnect(
            first=usual.first * scale,
            base=usual.base * scale,
            cap=usual.cap * scale,
            healthy_after=usual.healthy_after * scale,
        ),
    )
    for function in HANDLERS:
        app.handler(function.__name__)(function)
    return app


def main() -> None:
    app = make_app(dict(os.environ))
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, lambda *_: app.pause("echo"))
        signal.signal(signal.SIGUSR2, lambda *_: app.resume("echo"))
    try:
        app.run()
    except clawjob.ClawJobError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
