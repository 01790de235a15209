"""Starts handlers and tells how they ended: a thread for each sync one, an event loop for the async
ones, a process where a handler asks for it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from clawjob import trace
from clawjob.context import _CURRENT, Context, RunInfo, Stopped, StopReason
from clawjob.ending import Dropped, Ending, Failed, Panicked, Returned
from clawjob.failure import Code, FailureInfo, describe, describe_panic, text_of
from clawjob.handler import Call, encode_output
from clawjob.process import Child

if TYPE_CHECKING:
    # A handler's own process does without the contract's messages.
    from clawjob.engine import Key

#: Called from any thread with an attempt's end.
OnEnding = Callable[["Key", Ending], None]


class Running:
    """A started handler, as the session's thread holds it."""

    def stop(self, reason: StopReason) -> None:
        """Tells the handler to stop."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Ends the handler by force where that is possible."""


class _Thread(Running):
    """A sync handler: it cannot be ended by force, so it keeps its slot until it returns."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def stop(self, reason: StopReason) -> None:
        self._context._stop(reason)


class _Task(Running):
    """An async handler: it is cancelled at its next `await`."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self.task: asyncio.Task[None] | None = None

    def stop(self, reason: StopReason) -> None:
        self._context._stop(reason)
        self._cancel(str(reason))

    def abandon(self) -> None:
        self._cancel("abandoned")

    def _cancel(self, message: str) -> None:
        def cancel() -> None:
            if self.task is not None:
                self.task.cancel(message)

        _call_soon(self._loop, cancel)


class _Process(Running):
    """A handler in a process of its own: it is terminated, then killed with all its children."""

    def __init__(self, context: Context, child: Child) -> None:
        self._context = context
        self._child = child

    def stop(self, reason: StopReason) -> None:
        self._context._stop(reason)
        self._child.stop(reason)

    def abandon(self) -> None:
        self._child.kill()


class Runner:
    """Where handlers run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ending: OnEnding) -> None:
        """`loop` is where async handlers run."""
        self._loop = loop
        self._on_ending = on_ending

    def start(self, key: Key, call: Call, context: Context, info: RunInfo) -> Running:
        """Starts a handler."""
        handler = call.handler
        name = f"clawjob-{handler.name}-{key.run_id}"
        if handler.process:
            child = Child(handler.function, info, context._outlet)
            self._thread(name, key, child.run)
            return _Process(context, child)
        if handler.signature.is_async:
            return self._task(key, call, context)
        self._thread(name, key, partial(call_sync, call, context))
        return _Thread(context)

    def _thread(self, name: str, key: Key, work: Callable[[], Ending]) -> None:
        def target() -> None:
            try:
                ending = work()
            except BaseException as error:  # a fault of ours: the attempt must end all the same
                ending = Panicked(describe_panic(error))
            self._on_ending(key, ending)

        # A daemon, so that a handler that never returns does not hold up the end of the process.
        threading.Thread(target=target, name=name, daemon=True).start()

    def _task(self, key: Key, call: Call, context: Context) -> Running:
        running = _Task(context, self._loop)

        async def run() -> None:
            self._on_ending(key, await call_async(call, context))

        def start() -> None:
            running.task = self._loop.create_task(run())
            running.task.add_done_callback(self._ended_early(key, context))

        if not _call_soon(self._loop, start):
            self._on_ending(key, Dropped())
        return running

    def _ended_early(self, key: Key, context: Context) -> Callable[[asyncio.Task[None]], None]:
        """A task that was cancelled before its first step has told nobody."""

        def done(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                reason = context.stop_reason
                self._on_ending(key, Dropped() if reason is None else _stopped(reason))

        return done


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> bool:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:  # the loop is closed, and its tasks with it
        return False
    return True


def call_sync(call: Call, context: Context) -> Ending:
    """Calls a sync handler on this thread."""
    return contextvars.copy_context().run(_call_sync, call, context)


def _call_sync(call: Call, context: Context) -> Ending:
    _CURRENT.set(context)
    arguments = call.handler.signature.arguments(call.params, context)
    try:
        with trace.span(context):
            output = call.handler.function(**arguments)
    except BaseException as error:
        return _raised(error, context)
    return _returned(output)


async def call_async(call: Call, context: Context) -> Ending:
    """Calls an async handler on this loop, as a part of the current task."""
    _CURRENT.set(context)
    arguments = call.handler.signature.arguments(call.params, context)
    try:
        with trace.span(context):
            output = await call.handler.function(**arguments)
    except BaseException as error:
        return _raised(error, context)
    return _returned(output)


def _returned(output: Any) -> Ending:
    try:
        return Returned(encode_output(output))
    except Exception as error:
        text = f"the output is not JSON: {text_of(error)}"
        return Failed(FailureInfo(Code.HANDLER_ERROR, text, non_retryable=True))


def _stopped(reason: StopReason) -> Ending:
    return Failed(FailureInfo(reason.code, str(reason)))


def _raised(error: BaseException, context: Context) -> Ending:
    """What an exception of a handler means."""
    reason = context.stop_reason
    if isinstance(error, (Stopped, asyncio.CancelledError)) and reason is not None:
        return _stopped(reason)
    if isinstance(error, (Exception, Stopped, asyncio.CancelledError)):
        return Failed(describe(error))
    return Panicked(describe_panic(error))
