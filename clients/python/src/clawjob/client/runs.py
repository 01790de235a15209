"""Runs: what happened, and what is happening."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import grpc

from clawjob import clock
from clawjob.client import names
from clawjob.client.errors import RunFailedError, UnavailableError
from clawjob.client.paging import pages
from clawjob.client.transport import Follow, Transport, new_request_id
from clawjob.context import LogLevel
from clawjob.schema import dump
from clawjob.v1 import run_service_pb2 as pb
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration, payload

#: How long one WaitRun may take, in seconds; the contract allows 60.
WAIT_SLICE = 30.0
#: How often a run that waits for its next attempt is looked at, in seconds.
NEXT_ATTEMPT_POLL = 1.0

FINAL_STATES = frozenset(
    {
        types.RUN_STATE_SUCCEEDED,
        types.RUN_STATE_FAILED,
        types.RUN_STATE_CANCELED,
        types.RUN_STATE_TIMED_OUT,
        types.RUN_STATE_LOST,
        types.RUN_STATE_SKIPPED,
    }
)


def state_of(run: pb.Run) -> str:
    """The run's state in one word: `SUCCEEDED`, `RUNNING`, …"""
    try:
        return types.RunState.Name(run.state).removeprefix("RUN_STATE_")
    except ValueError:
        return str(run.state)


def output_of(run: pb.Run) -> Any:
    """What the handler returned, as JSON has it; None without an output."""
    return json.loads(run.output.data) if run.output.data else None


def is_final(run: pb.Run) -> bool:
    """True when the run has ended: its state never changes again."""
    return run.state in FINAL_STATES


class Runs:
    """The runs of a cluster. A run is named `app/ulid`, `apps/app/runs/ulid`, or, when the client
    has an app, `ulid`; a run that was got may be given itself."""

    def __init__(self, transport: Transport, app: str | None) -> None:
        self._transport = transport
        self._app = app

    def name(self, run: str | pb.Run) -> str:
        """The run's full name. Raises ValueError for what is no name."""
        return names.full("runs", run.name if isinstance(run, pb.Run) else run, self._app)

    def get(self, run: str | pb.Run, *, view: pb.RunView = pb.RUN_VIEW_FULL) -> pb.Run:
        """Raises RunNotFoundError."""
        request = pb.GetRunRequest(name=self.name(run), view=view)
        return self._transport.call("RunService/GetRun", request, pb.Run, repeatable=True)

    def list(
        self,
        app: str | None = None,
        *,
        filter: str = "",
        order_by: str = "",
        view: pb.RunView = pb.RUN_VIEW_BASIC,
        limit: int | None = None,
    ) -> Iterator[pb.Run]:
        """The runs of an app, of the client's app, or of all apps, newest first, page by page.

        filter: `job = "apps/billing/jobs/report" AND state = FAILED`, say.
        """
        parent = names.parent(app or self._app)

        def fetch(size: int, token: str) -> tuple[Sequence[pb.Run], str]:
            request = pb.ListRunsRequest(
                parent=parent,
                page_size=size,
                page_token=token,
                filter=filter,
                order_by=order_by,
                view=view,
            )
            method = "RunService/ListRuns"
            page = self._transport.call(method, request, pb.ListRunsResponse, repeatable=True)
            return page.runs, page.next_page_token

        return pages(fetch, limit)

    def cancel(
        self, run: str | pb.Run, *, reason: str = "", grace: float | timedelta | None = None
    ) -> pb.Run:
        """Asks for the run's end; one that has ended is returned as it is. `grace` is how long the
        handler has to stop; the job's when not given."""
        request = pb.CancelRunRequest(name=self.name(run), reason=reason)
        if grace is not None:
            request.grace.CopyFrom(duration(clock.as_seconds(grace)))
        return self._transport.call("RunService/CancelRun", request, pb.Run, repeatable=True)

    def rerun(
        self, run: str | pb.Run, params: Any = None, *, request_id: str | None = None
    ) -> pb.Run:
        """A new run with the params of an ended one, or with these."""
        request = pb.RerunRunRequest(name=self.name(run), request_id=request_id or new_request_id())
        if params is not None:
            request.params.CopyFrom(payload(dump(params)))
        return self._transport.call("RunService/RerunRun", request, pb.Run, repeatable=True)

    def wait(
        self,
        run: str | pb.Run,
        *,
        timeout: float | timedelta | None = None,
        check: bool = False,
    ) -> pb.Run:
        """Waits for the run's end, over lost connections too. Raises TimeoutError when it has not
        come in time; with `check`, RunFailedError for any end but SUCCEEDED."""
        name = self.name(run)
        end = None if timeout is None else time.monotonic() + clock.as_seconds(timeout)
        follow = Follow()
        while True:
            left = WAIT_SLICE if end is None else max(end - time.monotonic(), 0.0)
            slice_ = min(left, WAIT_SLICE)
            request = pb.WaitRunRequest(name=name, timeout=duration(slice_))
            method = "RunService/WaitRun"
            try:
                got = self._transport.call(method, request, pb.Run, repeatable=True, wait=slice_)
            except UnavailableError as error:
                follow.after(error)
                continue
            follow.worked()
            if is_final(got):
                if check and got.state != types.RUN_STATE_SUCCEEDED:
                    failure = got.failure
                    raise RunFailedError(name, state_of(got), failure.code, failure.message)
                return got
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{name} has not ended in time; it is {state_of(got)}")

    def watch(
        self,
        app: str | None = None,
        *,
        filter: str = "",
        view: pb.RunView = pb.RUN_VIEW_BASIC,
        resume_token: str = "",
    ) -> Iterator[pb.WatchRunsResponse]:
        """Changes of runs as they happen, without end and over lost connections.

        First comes the current state (TYPE_CURRENT for each run), then TYPE_CHANGED and
        TYPE_DELETED; after TYPE_RESET forget what you have, since a full list follows. To go on
        later without a gap, give the `resume_token` of the last event.
        """
        parent, token, follow = names.parent(app or self._app), resume_token, Follow()
        while True:
            request = pb.WatchRunsRequest(
                parent=parent, filter=filter, resume_token=token, view=view
            )
            try:
                method, answer = "RunService/WatchRuns", pb.WatchRunsResponse
                for event in self._transport.stream(method, request, answer):
                    follow.worked()
                    token = event.resume_token or token
                    if event.type not in (event.TYPE_UNSPECIFIED, event.TYPE_BOOKMARK):
                        yield event
                # The server ends each stream after a while; the token goes on from here.
                follow.at_end()
            except (grpc.RpcError, UnavailableError) as error:
                follow.after(error)

    def logs(
        self,
        run: str | pb.Run,
        *,
        attempt: int = 0,
        min_level: LogLevel | None = None,
        contains: str = "",
        limit: int | None = None,
    ) -> Iterator[pb.StoredLogRecord]:
        """What an attempt has written so far, page by page; `attempt` 0 is the last one."""
        name = self.name(run)

        def fetch(size: int, token: str) -> tuple[Sequence[pb.StoredLogRecord], str]:
            request = pb.ListRunLogsRequest(
                name=name,
                attempt=attempt,
                page_size=size,
                page_token=token,
                min_level=_level(min_level),
                contains=contains,
            )
            method, answer = "RunService/ListRunLogs", pb.ListRunLogsResponse
            page = self._transport.call(method, request, answer, repeatable=True)
            return page.records, page.next_page_token

        return pages(fetch, limit)

    def tail_logs(
        self,
        run: str | pb.Run,
        *,
        attempt: int = 0,
        min_level: LogLevel | None = None,
    ) -> Iterator[pb.StoredLogRecord]:
        """What a run writes, as it comes, until it has ended: over retries, unless one `attempt` is
        asked for, and over lost connections."""
        name, follow = self.name(run), Follow()
        tail = _Tail(name, attempt, _level(min_level))
        while True:
            yield from tail.records(self._transport, follow)
            if attempt:
                return
            # The attempt has ended; the run may go on with another.
            while True:
                try:
                    now = self.get(name, view=pb.RUN_VIEW_BASIC)
                except UnavailableError as error:
                    follow.after(error)
                    continue
                if 0 < tail.attempt < now.attempt:
                    tail = _Tail(name, tail.attempt + 1, tail.min_level)
                    break
                if is_final(now):
                    return
                time.sleep(NEXT_ATTEMPT_POLL)
                if tail.attempt == 0:
                    # Nothing shown yet, so there is nothing to show twice.
                    break


class _Tail:
    """One attempt's log: where it stands."""

    def __init__(self, name: str, attempt: int, min_level: str) -> None:
        self.name = name
        self.attempt = attempt
        self.min_level = min_level
        self._seq = 0

    def records(self, transport: Transport, follow: Follow) -> Iterator[pb.StoredLogRecord]:
        """The attempt's records until the server says that no more will come."""
        while True:
            request = pb.TailRunLogsRequest(
                name=self.name,
                attempt=self.attempt,
                after_seq=self._seq,
                min_level=self.min_level,
            )
            try:
                method, answer = "RunService/TailRunLogs", pb.TailRunLogsResponse
                for batch in transport.stream(method, request, answer):
                    follow.worked()
                    for record in batch.records:
                        # "The last attempt" is another one after a retry: stay with this one.
                        self.attempt = max(self.attempt, record.attempt)
                        self._seq = max(self._seq, record.seq)
                        yield record
                    self._seq = max(self._seq, batch.through_seq)
                    if batch.complete:
                        return
                follow.at_end()
            except (grpc.RpcError, UnavailableError) as error:
                follow.after(error)


def _level(level: LogLevel | None) -> str:
    return types.LogLevel.Name(level or 0)
