"""A longer job: it tells its progress, goes on from its checkpoint after a failure, stops when it
is told to, and says when another attempt cannot help.

    CLAWJOB_APP=billing CLAWJOB_TOKEN_FILE=billing.token python nightly_report.py
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import clawjob
from clawjob import Context, Failure

#: Customers that are reported on between two checkpoints.
BATCH = 100

log = logging.getLogger("nightly_report")
app = clawjob.App()


@dataclass
class Report:
    month: str
    #: How many customers there are.
    customers: int = 1000
    #: How long each takes, in seconds.
    seconds_each: float = 0.0
    #: The ledger breaks down once, at this customer.
    breaks_at: int | None = None


class LedgerDownError(Exception):
    """The ledger does not answer."""


@app.handler("nightly-report", max_concurrency=2)
def nightly_report(report: Report, ctx: Context) -> str:
    """Adds up a month for each customer."""
    if report.customers == 0:
        raise Failure("NO_CUSTOMERS", "there is nobody to report on", non_retryable=True)
    done = ctx.checkpoint(int) or 0
    if done:
        log.info("going on at customer %d, attempt %d", done, ctx.attempt)
    while done < report.customers:
        ctx.check()
        end = min(done + BATCH, report.customers)
        breaks = report.breaks_at is not None and done <= report.breaks_at < end
        if breaks and ctx.attempt == 1:
            raise LedgerDownError(f"no answer at customer {report.breaks_at}")
        ctx.sleep(report.seconds_each * (end - done))
        done = end
        ctx.save_checkpoint(done)
        ctx.progress(done / report.customers, f"{done} customers")
    log.info("the report for %s is ready", report.month)
    return f"report for {report.month}: {done} customers"


if __name__ == "__main__":
    app.run()
