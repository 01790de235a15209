"""The harness that runs a handler without a scheduler."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest

from clawjob import Context, Failure, LogLevel, Shard, Stopped, StopReason, current_context
from clawjob.testing import Outcome, run_handler
from examples.nightly_report import nightly_report
from tests.fake import PATIENCE

log = logging.getLogger(__name__)


@dataclass
class Hello:
    name: str


def greet(hello: Hello, ctx: Context) -> str:
    log.info("greeting %s", hello.name, extra={"shard": ctx.shard})
    assert current_context() is ctx
    ctx.save_checkpoint(ctx.attempt)
    return f"Hello, {hello.name}!"


def test_output_log_and_checkpoint_are_seen() -> None:
    run = run_handler(greet, {"name": "Ada"}, attempt=3, shard=Shard(1, 4))
    assert run.outcome is Outcome.SUCCEEDED
    assert run.output == "Hello, Ada!"
    assert run.logged("greeting Ada")
    assert run.logs[0].level is LogLevel.INFO
    assert run.logs[0].fields["shard"] == "Shard(index=1, total=4)"
    assert run.checkpoint(int) == 3
    assert current_context() is None


def test_params_may_be_given_as_what_they_are() -> None:
    assert run_handler(greet, Hello("Ada")).output == "Hello, Ada!"


def test_params_that_do_not_fit_are_refused() -> None:
    run = run_handler(greet, {"name": 1})
    assert run.failure is not None
    assert run.failure.code == "INVALID_PARAMS"
    with pytest.raises(TypeError, match="put them into one dataclass"):
        run_handler(lambda a, b: None)


def test_facts_are_as_given() -> None:
    at = datetime(2026, 11, 1, 2, tzinfo=timezone.utc)

    def facts(ctx: Context) -> list[object]:
        assert ctx.remaining is not None
        assert timedelta() < ctx.remaining <= timedelta(seconds=60)
        return [ctx.fire_time, ctx.lateness, ctx.max_attempts, dict(ctx.labels), ctx.checkpoint()]

    run = run_handler(
        facts,
        fire_time=at,
        lateness=2,
        max_attempts=5,
        labels={"a": "b"},
        checkpoint={"x": 1},
        timeout=60,
    )
    assert run.output == ["2026-11-01T02:00:00+00:00", 2.0, 5, {"a": "b"}, {"x": 1}]


def test_a_chained_run_sees_what_started_it() -> None:
    def chained(ctx: Context) -> list[object]:
        return [ctx.caused_by, ctx.caused_by_output(), ctx.caused_by_output(Hello)]

    hello = {"name": "Ada"}
    cause = "apps/demo/runs/01J00000000000000000000001"
    run = run_handler(chained, caused_by=cause, caused_by_output=hello)
    assert run.output == [cause, hello, hello]
    assert run_handler(chained).output == [None, None, None]


async def waits(ctx: Context) -> None:
    await asyncio.sleep(20)


def sleeps(ctx: Context) -> None:
    ctx.sleep(20)


def checks(ctx: Context) -> None:
    assert ctx.wait_cancelled(20)
    assert ctx.cancelled
    ctx.check()


@pytest.mark.parametrize("function", [waits, sleeps, checks])
def test_timeouts_and_kills_are_as_with_a_scheduler(function: object) -> None:
    assert callable(function)
    run = run_handler(function, timeout=0.02)
    assert run.outcome is Outcome.TIMED_OUT
    assert run.failure is not None
    assert run.failure.code == "TIMEOUT"
    run = run_handler(function, stop=StopReason.JOB_DELETED)
    assert run.outcome is Outcome.CANCELED
    assert run.failure is not None
    assert run.failure.message == "the job was deleted"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_deaf_handler_is_abandoned(is_async: bool) -> None:
    began, over = threading.Event(), threading.Event()

    def deaf() -> None:
        began.set()
        over.wait(PATIENCE)

    async def deaf_async() -> None:
        began.set()
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    function = deaf_async if is_async else deaf
    try:
        # One that has not begun is not deaf: it is stopped.
        run = run_handler(function, stop=StopReason.USER, stop_after=began.wait, kill_grace=0.02)
    finally:
        over.set()
    assert run.failure is not None
    assert run.failure.code == "ABANDONED"


def test_an_async_handler_that_cleans_up_and_returns_has_succeeded() -> None:
    began = threading.Event()

    async def tidy(ctx: Context) -> str:
        began.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            return str(ctx.stop_reason)
        return "never"

    run = run_handler(tidy, stop=StopReason.USER, stop_after=began.wait, kill_grace=PATIENCE)
    assert (run.outcome, run.output) == (Outcome.SUCCEEDED, "the run was canceled")


def test_except_exception_does_not_swallow_a_stop() -> None:
    def sloppy(ctx: Context) -> None:
        while True:
            try:
                ctx.sleep(20)
            except Exception:
                continue

    assert issubclass(Stopped, BaseException)
    assert run_handler(sloppy, stop=StopReason.USER).outcome is Outcome.CANCELED


def test_outputs_that_are_no_json_are_failures() -> None:
    run = run_handler(lambda: object())
    assert run.failure is not None
    assert run.failure.non_retryable
    assert "the output is not JSON" in run.failure.message


def test_large_checkpoints_are_refused() -> None:
    run = run_handler(lambda ctx: ctx.save_checkpoint("x" * 70_000))
    assert run.failure is not None
    assert run.failure.code == "CHECKPOINT_TOO_LARGE"


def test_a_checkpoint_of_another_type_is_a_failure() -> None:
    run = run_handler(lambda ctx: ctx.checkpoint(int), checkpoint="text")
    assert run.failure is not None
    assert "must be of type integer" in run.failure.message


def test_a_failure_of_its_own_is_seen() -> None:
    def fails() -> None:
        raise Failure("RATE_LIMITED", "429", retry_after=30)

    run = run_handler(fails)
    assert run.failure is not None
    assert (run.failure.code, run.failure.retry_after) == ("RATE_LIMITED", 30)


def test_the_example_goes_on_from_its_checkpoint() -> None:
    params = {"month": "2026-11", "rows": 500, "breaks_at": 250}
    first = run_handler(nightly_report, params)
    assert first.failure is not None
    assert (first.failure.code, first.failure.type) == ("SOURCE_DOWN", "OSError")
    assert first.failure.retry_after == 1
    assert first.checkpoint(int) == 200
    second = run_handler(nightly_report, params, attempt=2, checkpoint=first.checkpoint())
    assert second.output == {"month": "2026-11", "rows": 500}
    assert second.progress == (1.0, "500 rows")
    assert second.logged("from row 200")


def test_the_example_stops_and_says_when_a_retry_cannot_help() -> None:
    slow = {"month": "2026-11", "pause_ms": 20_000}
    assert run_handler(nightly_report, slow, stop=StopReason.USER).outcome is Outcome.CANCELED
    run = run_handler(nightly_report, {"month": "2026-11", "rows": 0})
    assert run.failure is not None
    assert (run.failure.code, run.failure.non_retryable) == ("NO_ROWS", True)
