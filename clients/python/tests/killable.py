"""Handlers for processes of their own; they are imported there by name."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from clawjob import Context, Failure, Stopped


@dataclass
class Where:
    path: str


def say(where: Where, text: str) -> None:
    Path(where.path).write_text(text)


def spin(params: Where) -> None:
    """Starts a child, then ignores everything."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(params.path).write_text(f"{os.getpid()} {child.pid}")
    while True:
        pass


def leaves_a_child(params: Where) -> str:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(params.path).write_text(str(child.pid))
    return "done"


def tells(params: dict[str, int], ctx: Context) -> int:
    logging.getLogger("child").warning("in process %s", "of its own", extra={"n": params["n"]})
    ctx.progress(0.25, "quarter")
    ctx.save_checkpoint({"at": params["n"]})
    saved: dict[str, int] = ctx.checkpoint()
    return params["n"] * 2 + saved["at"]


def cleans_up(params: Where) -> None:
    try:
        say(params, "begun")
        while True:
            time.sleep(0.01)
    except Stopped as stopped:
        Path(params.path).write_text(stopped.reason.name)
        raise


async def cleans_up_async(params: Where, ctx: Context) -> None:
    try:
        say(params, "begun")
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        say(params, str(ctx.stop_reason and ctx.stop_reason.name))
        raise


def chatters(params: Where, ctx: Context) -> None:
    say(params, "begun")
    while True:
        ctx.save_checkpoint("x" * 30_000)


def heavy_modules() -> list[str]:
    return [name for name in ("grpc", "google.protobuf") if name in sys.modules]


def dies() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def dies_beside_its_fork() -> None:
    if os.fork() == 0:
        time.sleep(60)
    dies()


def exits() -> None:
    os._exit(3)


def leaves() -> None:
    raise SystemExit("bye")


def fails() -> None:
    raise Failure("NO_SUCH_CUSTOMER", "gone", non_retryable=True)
