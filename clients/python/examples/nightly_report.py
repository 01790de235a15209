"""The nightly report: an executor whose one handler tells its progress, goes on from its checkpoint
after a failure, stops when it is told to, and says when another attempt cannot help.

    CLAWJOB_APP=billing CLAWJOB_TOKEN_FILE=billing.token python nightly_report.py
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import clawjob
from clawjob import Context, Failure

#: How many rows are read between two checkpoints.
BATCH = 100

log = logging.getLogger("nightly_report")
app = clawjob.App(slots=4)


@dataclass
class Report:
    #: Which month, such as 2026-11.
    month: str
    #: How many rows it has.
    rows: int = 1000
    #: Shows what a retry does: the source breaks down once, at this row.
    breaks_at: int = 0
    #: How long each hundred rows take.
    pause_ms: int = 0


@dataclass
class Summary:
    month: str
    rows: int


@app.handler("nightly-report", max_concurrency=2)
def nightly_report(report: Report, ctx: Context) -> Summary:
    """Makes the report of a month."""
    if report.rows == 0:
        raise Failure("NO_ROWS", "there is nothing to report", non_retryable=True)
    done = ctx.checkpoint(int) or 0
    log.info("making the report of %s, attempt %d, from row %d", report.month, ctx.attempt, done)
    while done < report.rows:
        # Canceled, timed out, or the executor ends: `Stopped` says which, and nobody catches it.
        ctx.check()
        following = min(done + BATCH, report.rows)
        read(report, ctx, done, following)
        done = following
        ctx.save_checkpoint(done)
        ctx.progress(done / report.rows, f"{done} rows")
    log.info("the report is ready")
    return Summary(report.month, done)


def read(report: Report, ctx: Context, first: int, last: int) -> None:
    """Stands for the work on the rows from first to last."""
    if ctx.attempt == 1 and first < report.breaks_at <= last:
        broken = OSError(f"row {report.breaks_at}: the source broke down")
        raise Failure("SOURCE_DOWN", str(broken), retry_after=1) from broken
    ctx.sleep(report.pause_ms / 1000)


if __name__ == "__main__":
    app.run()
