"""The admin client against a server that does what the test says."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from clawjob import AsyncClient, Client, LogLevel
from clawjob.client import (
    ApiError,
    EtagMismatchError,
    InvalidArgumentError,
    JobError,
    JobNotFoundError,
    RunFailedError,
    UnavailableError,
    transport,
)
from clawjob.client.aio import AsyncJobs, AsyncRuns
from clawjob.client.shape import job_of, seconds_of
from clawjob.v1 import job_service_pb2 as jobs_pb
from clawjob.v1 import job_service_pb2_grpc, run_service_pb2_grpc
from clawjob.v1 import run_service_pb2 as runs_pb
from clawjob.v1 import types_pb2 as types
from tests.fake import soon

RUN = "apps/demo/runs/01J00000000000000000000000"

Answer = Callable[[Any], Any]


class RichStatus(grpc.Status):
    """A status with details, as the scheduler sends them."""

    def __init__(self, code: grpc.StatusCode, message: str, *parts: Any) -> None:
        packed = []
        for part in parts:
            packed.append(AnyMessage())
            packed[-1].Pack(part)
        number: int = code.value[0]
        status = status_pb2.Status(code=number, message=message, details=packed)
        self.code = code
        self.details = message
        self.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)


class Server(
    job_service_pb2_grpc.JobServiceServicer,
    run_service_pb2_grpc.RunServiceServicer,
):
    """Each call takes the next answer: a message, a status, or a function of the request; a stream
    takes a list that may end with a status."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[Any] = []
        self.metadata: dict[str, Any] = {}
        self._server = grpc.server(ThreadPoolExecutor(8))
        job_service_pb2_grpc.add_JobServiceServicer_to_server(self, self._server)
        run_service_pb2_grpc.add_RunServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def _unary(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        self.metadata = dict(context.invocation_metadata())
        answer = self.answers.pop(0)
        answer = answer(request) if callable(answer) else answer
        if isinstance(answer, grpc.Status):
            context.abort_with_status(answer)
        return answer

    def _stream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.requests.append(request)
        for item in self.answers.pop(0):
            if isinstance(item, grpc.Status):
                context.abort_with_status(item)
            yield item

    GetJob = CreateJob = UpdateJob = DeleteJob = ListJobs = TriggerJob = _unary
    BackfillJob = ForecastRuns = _unary
    GetRun = ListRuns = WaitRun = CancelRun = ListRunLogs = _unary
    WatchRuns = TailRunLogs = _stream

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()  # type: ignore[abstract]
    yield server
    server.stop()


@pytest.fixture
def client(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(transport, "ROUND_PAUSE", 0.01)
    monkeypatch.setattr(transport, "FOLLOW_PAUSE", 0.01)
    with Client("demo", endpoints=[server.url], token="secret") as client:
        yield client


def info(reason: str) -> details.ErrorInfo:
    return details.ErrorInfo(reason=reason, domain="clawjob.dev", metadata={"k": "v"})


UNAVAILABLE = RichStatus(
    grpc.StatusCode.UNAVAILABLE,
    "draining",
    info("NODE_DRAINING"),
    details.RetryInfo(retry_delay=Duration(nanos=20_000_000)),
)


def test_reads_are_repeated_when_unavailable(server: Server, client: Client) -> None:
    server.answers = [UNAVAILABLE, UNAVAILABLE, jobs_pb.Job(handler="h")]
    assert client.jobs.get("report").handler == "h"
    assert [request.name for request in server.requests] == ["apps/demo/jobs/report"] * 3
    assert server.metadata["authorization"] == "Bearer secret"


def test_a_repeated_change_carries_the_same_request_id(server: Server, client: Client) -> None:
    server.answers = [UNAVAILABLE, runs_pb.Run(name=RUN)]
    client.jobs.trigger("report", {"n": 1})
    first, second = server.requests
    assert first == second
    assert first.request_id
    assert (first.params.content_type, first.params.data) == ("application/json", b'{"n": 1}')


def test_changes_without_one_are_sent_once(server: Server, client: Client) -> None:
    server.answers = [UNAVAILABLE]
    with pytest.raises(UnavailableError) as error:
        client.jobs.delete("report")
    assert (error.value.reason, error.value.retry_after) == ("NODE_DRAINING", 0.02)
    assert len(server.requests) == 1


def test_after_three_rounds_the_last_answer_is_the_error(server: Server, client: Client) -> None:
    server.answers = [UNAVAILABLE] * 4
    with pytest.raises(UnavailableError, match=r"NODE_DRAINING: http.*: draining"):
        client.jobs.get("report")
    assert len(server.requests) == 3


def test_another_endpoint_is_tried_when_one_refuses(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    server.answers = [jobs_pb.Job(handler="h")]
    with Client("demo", endpoints=[f"http://127.0.0.1:{port}", server.url]) as client:
        assert client.jobs.get("report").handler == "h"


def test_when_nobody_listens_the_error_names_the_endpoint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with Client("demo", endpoints=[url]) as client, pytest.raises(UnavailableError, match=url):
        client.jobs.get("report")


def test_errors_carry_their_details(server: Server, client: Client) -> None:
    bad = details.BadRequest(
        field_violations=[
            details.BadRequest.FieldViolation(field="job.handler", description="is missing"),
            details.BadRequest.FieldViolation(field="job.timeout", description="is negative"),
        ]
    )
    request = details.RequestInfo(request_id="r-1")
    code = grpc.StatusCode.INVALID_ARGUMENT
    server.answers = [RichStatus(code, "bad", info("FIELD_INVALID"), bad, request)]
    with pytest.raises(InvalidArgumentError) as error:
        client.jobs.create("report", {})
    told = error.value
    assert [violation.field for violation in told.violations] == ["job.handler", "job.timeout"]
    assert (told.reason, told.request_id, told.metadata) == ("FIELD_INVALID", "r-1", {"k": "v"})
    server.answers = [RichStatus(grpc.StatusCode.ABORTED, "old", info("ETAG_MISMATCH"))]
    with pytest.raises(EtagMismatchError):
        client.jobs.update("report", {"description": "x"}, etag="1")
    server.answers = [RichStatus(grpc.StatusCode.DATA_LOSS, "odd")]
    with pytest.raises(ApiError, match="DATA_LOSS: odd"):
        client.jobs.get("report")


def test_lists_go_through_all_pages_as_they_are_needed(server: Server, client: Client) -> None:
    def page(number: int) -> jobs_pb.ListJobsResponse:
        jobs = [jobs_pb.Job(name=f"{number}-{index}") for index in range(2)]
        token = str(number + 1) if number < 2 else ""
        return jobs_pb.ListJobsResponse(jobs=jobs, next_page_token=token)

    server.answers = [page(number) for number in range(3)]
    jobs = client.jobs.list(filter="state = PAUSED")
    first = list(itertools.islice(jobs, 2))
    assert len(server.requests) == 1
    assert [job.name for job in [*first, *jobs]] == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert [request.page_token for request in server.requests] == ["", "1", "2"]
    assert {request.filter for request in server.requests} == {"state = PAUSED"}
    server.answers = [page(0), page(1)]
    assert len(list(client.jobs.list(limit=3))) == 3


def run_in(state: int, **fields: Any) -> runs_pb.Run:
    return runs_pb.Run(name=RUN, state=state, **fields)  # type: ignore[arg-type]


def test_backfills_and_forecasts_name_their_range(server: Server, client: Client) -> None:
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    server.answers = [jobs_pb.BackfillJobResponse(run_count=3)]
    done = client.jobs.backfill("report", start, start + timedelta(days=3), max_concurrency=2)
    assert done.run_count == 3
    (sent,) = server.requests
    assert sent.end_time.seconds - sent.start_time.seconds == 3 * 86400
    assert sent.request_id
    fire = jobs_pb.ForecastRunsResponse.Fire(job="apps/demo/jobs/report")
    server.answers = [jobs_pb.ForecastRunsResponse(fires=[fire])]
    assert list(client.jobs.forecast(start=start)) == [fire]
    assert server.requests[-1].start_time.seconds == int(start.timestamp())


def test_waits_go_on_over_lost_connections(server: Server, client: Client) -> None:
    done = run_in(types.RUN_STATE_FAILED, failure=types.Failure(code="X", message="no"))
    running = run_in(types.RUN_STATE_RUNNING)
    server.answers = [running, *[UNAVAILABLE] * 3, running, done]
    with pytest.raises(RunFailedError, match="ended FAILED: X: no"):
        client.runs.wait(RUN, check=True)
    assert not server.answers


def test_a_wait_ends_with_its_time(server: Server, client: Client) -> None:
    server.answers = [run_in(types.RUN_STATE_RUNNING)] * 1000
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="it is RUNNING"):
        client.runs.wait(RUN, timeout=timedelta(milliseconds=100))
    assert time.monotonic() - began < 5


def test_a_watch_goes_on_from_its_token(server: Server, client: Client) -> None:
    def event(kind: int, token: str) -> runs_pb.WatchRunsResponse:
        return runs_pb.WatchRunsResponse(type=kind, resume_token=token)  # type: ignore[arg-type]

    event_type = runs_pb.WatchRunsResponse
    server.answers = [
        [event(event_type.TYPE_CURRENT, "1"), event(event_type.TYPE_BOOKMARK, "2"), UNAVAILABLE],
        [event(event_type.TYPE_CHANGED, "3"), event(77, "4")],
        [event(event_type.TYPE_RESET, "5")],
    ]
    kinds = [each.type for each in itertools.islice(client.runs.watch(), 4)]
    assert kinds == [event_type.TYPE_CURRENT, event_type.TYPE_CHANGED, 77, event_type.TYPE_RESET]
    assert [request.resume_token for request in server.requests] == ["", "2", "4"]


def test_a_watch_that_never_worked_tells_its_error(server: Server, client: Client) -> None:
    server.answers = [[UNAVAILABLE]]
    with pytest.raises(UnavailableError):
        next(client.runs.watch())


def test_a_tail_goes_on_over_connections_and_retries(server: Server, client: Client) -> None:
    def batch(attempt: int, *seqs: int, **fields: Any) -> runs_pb.TailRunLogsResponse:
        records = [runs_pb.StoredLogRecord(seq=seq, attempt=attempt) for seq in seqs]
        return runs_pb.TailRunLogsResponse(records=records, **fields)

    server.answers = [
        [batch(1, 1, 2), UNAVAILABLE],
        [batch(1, 3, complete=True)],
        run_in(types.RUN_STATE_RUNNING, attempt=2),
        [batch(2, 1), batch(2, complete=True)],
        run_in(types.RUN_STATE_SUCCEEDED, attempt=2),
    ]
    tail = client.runs.tail_logs(RUN, min_level=LogLevel.WARN)
    assert [(each.attempt, each.seq) for each in tail] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    asked = [r for r in server.requests if isinstance(r, runs_pb.TailRunLogsRequest)]
    assert [(r.attempt, r.after_seq) for r in asked] == [(0, 0), (1, 2), (2, 0)]
    assert {r.min_level for r in asked} == {types.LOG_LEVEL_WARN}


def test_names_are_short_or_full(client: Client) -> None:
    assert client.jobs.name("report") == "apps/demo/jobs/report"
    assert client.jobs.name("other/report") == "apps/other/jobs/report"
    assert client.jobs.name("apps/other/jobs/report") == "apps/other/jobs/report"
    for bad in ("a/b/c", "apps/demo/runs/x", "", "a b", "-/x"):
        with pytest.raises(ValueError, match=r"name|word"):
            client.jobs.name(bad)
    with (
        Client(endpoints=["http://127.0.0.1:1"]) as nowhere,
        pytest.raises(ValueError, match="app"),
    ):
        nowhere.jobs.name("report")


def test_jobs_are_written_as_people_write_them() -> None:
    job = job_of(
        {
            "handler": "report",
            "cron": ["0 2 * * *", "0 14 * * *"],
            "time_zone": "Europe/Berlin",
            "params": {"month": "2026-11"},
            "timeout": "1m30s",
            "killGrace": timedelta(seconds=2.5),
            "queue_timeout": 60,
            "overlap": "queue",
            "misfire": "fire-once",
            "retry": {"maxAttempts": 3, "initial_backoff": "500ms"},
            "labels": {"team": "billing"},
            "on_success": ["cleanup", "other/next"],
            "etag": "passed over",
            "state": "paused",
        },
        "apps/demo/jobs/report",
    )
    assert job.name == "apps/demo/jobs/report"
    assert [(s.cron, s.time_zone) for s in job.schedules] == [
        ("0 2 * * *", "Europe/Berlin"),
        ("0 14 * * *", "Europe/Berlin"),
    ]
    assert job.params.data == b'{"month": "2026-11"}'
    assert (job.timeout.seconds, job.kill_grace.nanos) == (90, 500_000_000)
    assert job.queue_timeout.seconds == 60
    assert job.overlap == jobs_pb.OVERLAP_POLICY_QUEUE
    assert job.misfire == jobs_pb.MISFIRE_POLICY_FIRE_ONCE
    assert (job.retry.max_attempts, job.retry.initial_backoff.nanos) == (3, 500_000_000)
    assert list(job.on_success) == ["apps/demo/jobs/cleanup", "apps/other/jobs/next"]
    assert (job.etag, job.state) == ("", jobs_pb.Job.STATE_PAUSED)


@pytest.mark.parametrize(
    ("key", "value", "seconds"),
    [("every", "5m", 300), ("delay", timedelta(minutes=1), 60), ("every", 7, 7)],
)
def test_intervals_and_delays_are_schedules(key: str, value: Any, seconds: int) -> None:
    schedule = job_of({key: value}, "apps/demo/jobs/x").schedules[0]
    assert (schedule.interval.seconds or schedule.delay.seconds) == seconds


def test_an_instant_is_a_schedule() -> None:
    at = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=1)))
    schedule = job_of({"at": at}, "apps/demo/jobs/x").schedules[0]
    assert schedule.at.ToDatetime() == datetime(2026, 3, 1, 8)


def test_all_faults_of_a_job_come_at_once() -> None:
    with pytest.raises(JobError) as error:
        job_of(
            {
                "handlr": "x",
                "timeout": "soon",
                "overlap": "maybe",
                "retry": 3,
                "schedules": {},
                "time_zone": "UTC",
                "labels": [],
            },
            "apps/demo/jobs/x",
        )
    told = {fault.field: fault.message for fault in error.value.faults}
    assert told["handlr"] == "is unknown; is handler meant?"
    assert "not a duration" in told["timeout"]
    assert "allow, skip, queue, replace" in told["overlap"]
    assert set(told) == {
        "handlr",
        "timeout",
        "overlap",
        "retry",
        "schedules",
        "time_zone",
        "labels",
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1m30s", 90), ("1.5h", 5400), ("500ms", 0.5), ("2d", 172800)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)
    with pytest.raises(ValueError, match="not a duration"):
        seconds_of(f"{text} or so")


def test_the_async_client_awaits_and_iterates(server: Server) -> None:
    page = jobs_pb.ListJobsResponse(jobs=[jobs_pb.Job(name="a"), jobs_pb.Job(name="b")])
    failure = RichStatus(grpc.StatusCode.NOT_FOUND, "gone", info("JOB_NOT_FOUND"))
    server.answers = [jobs_pb.Job(handler="h"), page, failure]

    async def main() -> None:
        async with AsyncClient("demo", endpoints=[server.url]) as client:
            assert (await client.jobs.get("report")).handler == "h"
            assert [job.name async for job in client.jobs.list()] == ["a", "b"]
            with pytest.raises(JobNotFoundError):
                await client.jobs.get("nobody")

    asyncio.run(main())


def test_a_cancelled_async_wait_holds_up_nobody(server: Server) -> None:
    go_on = threading.Event()

    def slow(_: Any) -> runs_pb.Run:
        go_on.wait(20)
        return run_in(types.RUN_STATE_SUCCEEDED)

    server.answers = [slow, jobs_pb.Job(handler="h")]

    async def main() -> None:
        async with AsyncClient("demo", endpoints=[server.url]) as client:
            wait = asyncio.ensure_future(client.runs.wait(RUN))
            await asyncio.to_thread(soon, "the call", lambda: bool(server.requests))
            assert (await client.jobs.get("report")).handler == "h"
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait

    asyncio.run(main())
    go_on.set()


def test_the_async_client_has_every_call_of_the_other() -> None:
    with Client("demo", endpoints=["http://127.0.0.1:1"]) as client:
        pairs = [(client.jobs, AsyncJobs(client.jobs)), (client.runs, AsyncRuns(client.runs))]
        for blocking, awaited in pairs:
            calls = {name for name in dir(blocking) if not name.startswith("_")}
            assert calls == set(vars(awaited))
