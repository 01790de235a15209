"""A program with an app, for tests that need a process of their own: `python -m tests.program`."""

from __future__ import annotations

import time

import clawjob

app = clawjob.App(shutdown_grace=20)


@app.handler("obedient")
def obedient(ctx: clawjob.Context) -> None:
    ctx.sleep(30)


@app.handler("deaf", process=True)
def deaf() -> None:
    time.sleep(30)


if __name__ == "__main__":
    app.run()
