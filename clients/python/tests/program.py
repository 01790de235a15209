"""A program with an app, for tests that need a process of their own: `python -m tests.program`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import clawjob

app = clawjob.App(shutdown_grace=20, slots=50)


@dataclass
class Where:
    path: str


@app.handler("until-file")
def until_file(params: Where, ctx: clawjob.Context) -> str:
    """Waits until the file is there."""
    while not Path(params.path).exists():
        ctx.sleep(0.05)
    return ctx.run_id


@app.handler("deaf-until-file")
def deaf_until_file(params: Where) -> None:
    """Waits until the file is there, deaf to being told to stop."""
    while not Path(params.path).exists():
        time.sleep(0.05)


@app.handler("obedient")
def obedient(ctx: clawjob.Context) -> None:
    ctx.sleep(600)


@app.handler("deaf", process=True)
def deaf() -> None:
    time.sleep(600)


if __name__ == "__main__":
    app.run()
