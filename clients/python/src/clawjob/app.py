"""The app that a process serves: settings, handlers, and the run until the end."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from clawjob import clock, config, log_handler
from clawjob.config import Checked, ClientIdentity, Reconnect, Settings, Token
from clawjob.errors import Fault
from clawjob.handle import Handle, Health, Stop
from clawjob.handler import Registry

F = TypeVar("F", bound=Callable[..., Any])

#: How often whoever waits for the end looks whether a signal has come, in seconds.
HEAR_EVERY = 1.0
#: How long the end of a run that is dropped is waited for, in seconds.
LEAVE_MAX = 5.0
#: How long async handlers have to end with their loop, in seconds.
LAST_STEPS_MAX = 1.0


class App:
    """A process that offers handlers to an app: an executor.

        app = clawjob.App("billing")

        @app.handler("nightly-report")
        def nightly_report(params: Report, ctx: clawjob.Context) -> str: ...

        if __name__ == "__main__":
            app.run()

    Every setting may be left to the environment: `CLAWJOB_APP`, `CLAWJOB_ENDPOINTS` (URLs,
    separated by commas; `http://127.0.0.1:7700` when unset), `CLAWJOB_TOKEN` or
    `CLAWJOB_TOKEN_FILE`, `CLAWJOB_EXECUTOR_ID` (the host's name and six random characters when
    unset) and `CLAWJOB_CA_FILE`. What is set in code wins. All that is wrong is told at once, when
    the app runs.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        endpoints: Sequence[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        executor_id: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        client_identity: ClientIdentity | None = None,
        slots: int = config.SLOTS_DEFAULT,
        labels: Mapping[str, str] | None = None,
        shutdown_grace: float | timedelta = config.SHUTDOWN_GRACE_DEFAULT,
        reconnect: Reconnect | None = None,
        keep_trying_when_refused: bool = False,
    ) -> None:
        """
        name: the app that is served.
        endpoints: the schedulers to dial, `http://host:port` or `https://host:port`.
        token, token_file: the bearer token, or a file with it, read anew at each dial.
        executor_id: this process's name, unique in the app.
        ca_file: PEM of the authority that signed the scheduler's certificate; else the system's.
        client_identity: a certificate for mutual TLS.
        slots: how many runs at once; at least 1.
        labels: what jobs can ask for.
        shutdown_grace: how long the end waits for running handlers before it tells them to stop, in
            seconds. Up to 5 s for stopping and for the last acknowledgements come on top.
        reconnect: how long to wait between attempts to connect.
        keep_trying_when_refused: go on trying every 30 s when the scheduler refuses for good (a
            wrong token, say), rather than to end with that error.
        """
        self._faults: list[Fault] = []
        if isinstance(endpoints, str):
            endpoints = [endpoints]
        if token is not None and token_file is not None:
            text = "token is given too; give one of the two"
            self._faults.append(Fault("token_file", text))
        given = Token(token, None if token_file is None else Path(token_file))
        self._settings = Settings(
            endpoints=endpoints,
            token=given if token is not None or token_file is not None else None,
            app=name,
            executor_id=executor_id,
            ca_file=ca_file,
            identity=client_identity,
        )
        self._slots = slots
        self._labels = dict(labels or {})
        self._shutdown_grace = clock.as_seconds(shutdown_grace)
        self._reconnect = reconnect
        self._keep_trying = keep_trying_when_refused
        self._registry = Registry()
        self._handle = Handle()
        self._runs = threading.Lock()

    def handler(
        self,
        name: str,
        *,
        max_concurrency: int = 0,
        description: str | None = None,
        process: bool = False,
    ) -> Callable[[F], F]:
        """Offers a function, sync or async, as a handler. It is returned unchanged.

        It takes its params, a `Context` (by annotation, or an argument named `ctx`), both, or
        neither. Params are read from JSON as their annotation says: a dataclass, a pydantic model,
        a TypedDict, a plain type; a run whose params do not fit is refused before it starts, and
        their JSON Schema is shown in the console. What it returns is written as JSON; None leaves
        none.

        max_concurrency: at most this many runs of it at once in this process; 0 means the slots
            alone bound it.
        description: a sentence for the console; the first paragraph of the docstring when not
        given. process: run it in a process of its own, for code that must be killable. It must be
        defined
            at the top of a module, and the program must keep `app.run()` under
            `if __name__ == "__main__":`.
        """

        def register(function: F) -> F:
            self._registry.add(
                name,
                function,
                max_concurrency=max_concurrency,
                description=description,
                process=process,
            )
            return function

        return register

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT. The first drains: nothing new is taken, running handlers
        may finish. The second tells them to stop at once. Without a scheduler it goes on dialing.

        The end is bounded: the shutdown grace and 5 s. Signals are heeded when it is called on the
        main thread; elsewhere `drain()` ends it. Raises ConfigError for settings that cannot be
        used, RefusedError or SupersededError when the scheduler does not want this executor.
        """
        self._handle.reset()
        # Heeded from before a run can come until after the last has ended.
        with _signals(self._handle):
            self._start_beside().wait()

    async def run_async(self) -> None:
        """As `run`, on the caller's event loop: async handlers run there. Signals are left alone;
        `drain()` ends it, and its cancellation drops everything. Raises what `run` raises."""
        self._handle.reset()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def done(error: BaseException | None) -> None:
            def tell() -> None:
                if not ended.done():
                    ended.set_result(None) if error is None else ended.set_exception(error)

            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:  # the loop is gone, and with it who waited
                pass

        running = self._start(loop, done)
        try:
            await ended
        except asyncio.CancelledError:
            self._handle.ask(Stop.ABORT)
            await asyncio.to_thread(running.over.wait, LEAVE_MAX)
            raise

    def start(self) -> Running:
        """Runs on threads of its own, beside the caller's program. Raises ConfigError."""
        self._handle.reset()
        return self._start_beside()

    def _start_beside(self) -> Running:
        loop_thread = _LoopThread()
        try:
            return self._start(loop_thread.loop, None, loop_thread)
        except BaseException:
            loop_thread.stop()
            raise

    def _start(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[BaseException | None], None] | None,
        loop_thread: _LoopThread | None = None,
    ) -> Running:
        # gRPC is loaded here and not with the module: a handler's own process does without.
        from clawjob.session import SessionThread, Start

        settings = self._check()
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # The process of a handler imports the program's main module once more.
            text = 'app.run() must stand under `if __name__ == "__main__":`'
            raise RuntimeError(f"{text}, since there are handlers with process=True")
        if not self._runs.acquire(blocking=False):
            raise RuntimeError("this app runs already")
        running = Running(self._handle, self._runs, loop_thread, log_handler.attach())

        def over(error: BaseException | None) -> None:
            running.finish(error)
            if done is not None:
                done(error)

        SessionThread(Start(settings, self._registry, self._handle, loop, over))
        return running

    def _check(self) -> Checked:
        faults = [*self._faults, *self._registry.faults()]
        return config.check(
            self._settings,
            faults,
            slots=self._slots,
            labels=self._labels,
            shutdown_grace=self._shutdown_grace,
            reconnect=self._reconnect,
            keep_trying=self._keep_trying,
        )

    def drain(self) -> None:
        """Takes no new runs, lets running handlers finish within the shutdown grace, then ends."""
        self._handle.ask(Stop.DRAIN)

    def cancel_now(self) -> None:
        """Tells running handlers to stop at once, then ends."""
        self._handle.ask(Stop.NOW)

    def pause(self, handler: str) -> None:
        """Takes no runs of a handler until `resume`; running ones go on."""
        self._handle.pause(handler)

    def resume(self, handler: str) -> None:
        """Takes runs of a paused handler again."""
        self._handle.resume(handler)

    def health(self) -> Health:
        """How the connection is; `health().ok` is what a liveness page should say."""
        return self._handle.health()


class Running:
    """An app that runs in the background. Got from `App.start`; a context manager that drains."""

    def __init__(
        self,
        handle: Handle,
        runs: threading.Lock,
        loop_thread: _LoopThread | None,
        logging_handler: log_handler.RunLogHandler,
    ) -> None:
        self._handle = handle
        self._runs = runs
        self._loop_thread = loop_thread
        self._logging_handler = logging_handler
        #: Set when the session's thread has ended.
        self.over = threading.Event()
        self._error: BaseException | None = None

    def finish(self, error: BaseException | None) -> None:
        """The session's thread has ended: gives back what the run held."""
        self._error = error
        self._handle.set_connected(False, clock.now().mono)
        log_handler.detach(self._logging_handler)
        if self._loop_thread is not None:
            self._loop_thread.stop()
        self._runs.release()
        self.over.set()

    def drain(self) -> None:
        """See `App.drain`."""
        self._handle.ask(Stop.DRAIN)

    def cancel_now(self) -> None:
        """See `App.cancel_now`."""
        self._handle.ask(Stop.NOW)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end, for `timeout` seconds at most; true when it has come. Raises what the
        app ended with."""
        if timeout is None:
            # A signal that came just before a wait without an end began would not be heard; on
            # Windows none would.
            while not self.over.wait(HEAR_EVERY):
                pass
        elif not self.over.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.drain()
            self.wait()
        else:
            self._handle.ask(Stop.ABORT)
            self.over.wait(LEAVE_MAX)


class _LoopThread:
    """An event loop for async handlers, on a thread of its own: one that blocks it holds up other
    async handlers, and nothing else."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, name="clawjob-async-handlers", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_STEPS_MAX))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()

    def stop(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError:  # closed already
            pass


@contextmanager
def _signals(handle: Handle) -> Iterator[None]:
    """Turns SIGTERM and SIGINT into wishes: the first drains, the next ones cancel."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        handle.next_stop()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
