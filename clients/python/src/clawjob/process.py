"""A handler in a process of its own, so that it can be killed whatever it does.

The child is spawned, never forked: it inherits neither the channel nor a lock. It leads a process
group, which ends with it, and it ends when its parent is gone. What it says comes back over a pipe.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from clawjob import clock
from clawjob.context import Context, LogLevel, Outlet, RunInfo, Stopped, StopReason
from clawjob.ending import Dropped, Ending, Failed, Panicked
from clawjob.failure import Code, FailureInfo, text_of

_SPAWN = multiprocessing.get_context("spawn")
_HAS_GROUPS = hasattr(os, "killpg")
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

#: How long a process has to end by itself after its handler has, in seconds.
LAST_WORDS_MAX = 2.0
#: How often it is looked for that end, in seconds.
LAST_WORDS_POLL = 0.05
#: How often a process that is silent is looked at, in seconds.
DEATH_POLL = 1.0


class Child:
    """The parent's side of one handler's process."""

    def __init__(self, function: Callable[..., Any], info: RunInfo, outlet: Outlet) -> None:
        self._function = function
        self._info = info
        self._outlet = outlet
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        #: The child leads its group and has its signal handlers.
        self._ready = False
        self._reason: StopReason | None = None
        self._killed = False

    def run(self) -> Ending:
        """Runs the handler to its end, on this thread."""
        ours, theirs = _SPAWN.Pipe()
        with ours:
            return self._run(ours, theirs)

    def _run(self, ours: Connection, theirs: Connection) -> Ending:
        try:
            process = _SPAWN.Process(target=_main, args=(self._function, self._info, theirs))
            process.start()
        except Exception as error:
            text = f"the handler's process cannot be started: {text_of(error)}"
            return Failed(FailureInfo(Code.HANDLER_ERROR, text, type(error).__name__))
        finally:
            theirs.close()
        with self._lock:
            self._process, self._pipe = process, ours
            killed = self._killed
        if killed:
            self.kill()
        ending = self._listen(ours, process)
        # It may end by itself, but what it leaves running may not. Until it is reaped its group's
        # id is not used again.
        until = clock.now().mono + LAST_WORDS_MAX
        while not _has_ended(process) and clock.now().mono < until:
            wait([process.sentinel], LAST_WORDS_POLL)
        with self._lock:
            self._signal(_KILL)
            self._process = self._pipe = None
        process.join()
        return ending or self._died(process.exitcode)

    def _listen(self, pipe: Connection, process: BaseProcess) -> Ending | None:
        """Passes on what the child says; its end, or None when it died without a word."""
        while True:
            # A process that the handler has forked holds both of these open after its death.
            if pipe not in wait([pipe, process.sentinel], DEATH_POLL):
                if _has_ended(process) and not pipe.poll():
                    return None
                continue
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                return None
            kind = message[0]
            if kind == "log":
                _, level, text, fields, wall = message
                self._outlet.log(LogLevel(level), text, fields, wall)
            elif kind == "progress":
                self._outlet.progress(message[1], message[2])
            elif kind == "save":
                self._outlet.save(message[1])
            elif kind == "ready":
                self._on_ready()
            else:
                ending: Ending = message[1]
                return ending

    def _on_ready(self) -> None:
        with self._lock:
            self._ready = True
            reason = self._reason
        if reason is not None:
            self.stop(reason)

    def stop(self, reason: StopReason) -> None:
        """Tells the handler to stop: SIGTERM to its process group, which raises `Stopped` in it."""
        with self._lock:
            self._reason = self._reason or reason
            if self._process is None or self._pipe is None or not self._ready:
                return
            with suppress(OSError, ValueError):
                self._pipe.send(self._reason.name)
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process and all that it has started."""
        with self._lock:
            self._reason = self._reason or StopReason.SHUTDOWN
            self._killed = True
            self._signal(_KILL)

    def _signal(self, number: int) -> None:
        """To the group, once there is one."""
        process = self._process
        if process is None or process.pid is None:
            return
        with suppress(OSError):
            if _HAS_GROUPS and self._ready:
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)

    def _died(self, code: int | None) -> Ending:
        if self._reason is not None:
            return Dropped()
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            text = f"the handler's process was ended by {name}"
        else:
            text = f"the handler's process ended with exit code {code}"
        return Panicked(FailureInfo(Code.HANDLER_PANIC, text))


def _has_ended(process: BaseProcess) -> bool:
    """Whether the process has ended; where the system can tell without reaping it, it does."""
    if process.pid is None or not hasattr(os, "waitid"):
        return not process.is_alive()
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, process.pid, options) is not None
    except ChildProcessError:
        return True


class _Stopper:
    """Turns SIGTERM in the child into `Stopped`, or into the cancellation of an async handler.

    One that comes before the parent has said why is passed over: it is sent again with the reason,
    and a supervisor's, meant for the executor, is not the handler's business. The signal's handler
    takes no lock, since the code that it interrupts may hold it.
    """

    def __init__(self) -> None:
        self.context: Context | None = None
        self.armed = True
        self.cancel: Callable[[], object] | None = None
        #: How many sends the main thread is in; one that is cut off would garble the pipe.
        self._sending = 0
        self._pending = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._sending > 0:
            self._pending = True
        else:
            self._stop()

    def _stop(self) -> None:
        reason = None if self.context is None else self.context.stop_reason
        if reason is None or not self.armed:
            return
        self.armed = False
        if self.cancel is None:
            raise Stopped(reason)
        self.cancel()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A stop waits for the end of this block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1
        if self._pending and self._sending == 0:
            self._pending = False
            self._stop()


class _PipeOutlet:
    """The child's way to say something."""

    def __init__(self, pipe: Connection, stopper: _Stopper) -> None:
        self._pipe = pipe
        self._stopper = stopper
        self._lock = threading.Lock()

    def send(self, *message: object) -> None:
        with self._stopper.held(), self._lock:
            self._pipe.send(message)

    def progress(self, fraction: float | None, message: str) -> None:
        self.send("progress", fraction, message)

    def save(self, checkpoint: bytes) -> None:
        self.send("save", checkpoint)

    def log(self, level: LogLevel, message: str, fields: Mapping[str, str], wall: int) -> None:
        self.send("log", int(level), message, dict(fields), wall)


def _main(function: Callable[..., Any], info: RunInfo, pipe: Connection) -> None:
    """The child's whole life."""
    from clawjob import log_handler
    from clawjob.handler import Call, Handler, Signature
    from clawjob.runner import call_async, call_sync

    if _HAS_GROUPS:
        os.setpgid(0, 0)
    stopper = _Stopper()
    outlet = _PipeOutlet(pipe, stopper)
    stopper.context = context = Context(info, outlet, clock.now().mono)
    signal.signal(signal.SIGTERM, stopper.on_signal)
    threading.Thread(target=_obey, args=(pipe, context), daemon=True).start()
    log_handler.attach()
    signature = Signature.of(function)
    params = signature.read(info.params, info.params_type)
    call = Call(Handler(info.handler, function, signature), params)
    try:
        outlet.send("ready")
        if signature.is_async:
            ending = asyncio.run(_call_async(call_async(call, context), stopper))
        else:
            ending = call_sync(call, context)
    except Stopped as stopped:  # between two lines of ours
        ending = Failed(FailureInfo(stopped.reason.code, str(stopped.reason)))
    stopper.armed = False
    outlet.send("end", ending)


async def _call_async(work: Any, stopper: _Stopper) -> Ending:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        stopper.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
    ending: Ending = await work
    return ending


def _obey(pipe: Connection, context: Context) -> None:
    """Hears why the handler is to stop; ends the group when the parent is gone."""
    try:
        while True:
            context._stop(StopReason[pipe.recv()])
            os.kill(os.getpid(), signal.SIGTERM)
    except (EOFError, OSError):
        if _HAS_GROUPS:
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
