"""Jobs: what runs, when, where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask

from clawjob.client import names
from clawjob.client.paging import pages
from clawjob.client.shape import job_of
from clawjob.client.transport import Transport, new_request_id
from clawjob.schema import dump
from clawjob.v1 import job_service_pb2 as pb
from clawjob.v1 import run_service_pb2 as runs
from clawjob.wire import payload, timestamp_of

#: A job: the contract's message, or a mapping in the shape of `clawjob apply`.
JobLike = pb.Job | Mapping[str, Any]


class Jobs:
    """The jobs of a cluster. A job is named `app/job`, `apps/app/jobs/job`, or, when the client has
    an app, `job`."""

    def __init__(self, transport: Transport, app: str | None) -> None:
        self._transport = transport
        self._app = app

    def name(self, job: str) -> str:
        """The job's full name. Raises ValueError for what is no name."""
        return names.full("jobs", job, self._app)

    def get(self, job: str) -> pb.Job:
        """Raises JobNotFoundError."""
        request = pb.GetJobRequest(name=self.name(job))
        return self._transport.call("JobService/GetJob", request, pb.Job, repeatable=True)

    def list(
        self,
        app: str | None = None,
        *,
        filter: str = "",
        order_by: str = "",
        limit: int | None = None,
    ) -> Iterator[pb.Job]:
        """The jobs of an app, of the client's app, or of all apps, page by page.

        filter: `state = PAUSED AND labels.team = "billing"`, say.
        """
        parent = names.parent(app or self._app)

        def fetch(size: int, token: str) -> tuple[Sequence[pb.Job], str]:
            request = pb.ListJobsRequest(
                parent=parent, page_size=size, page_token=token, filter=filter, order_by=order_by
            )
            method = "JobService/ListJobs"
            page = self._transport.call(method, request, pb.ListJobsResponse, repeatable=True)
            return page.jobs, page.next_page_token

        return pages(fetch, limit)

    def create(
        self,
        job: str,
        spec: JobLike,
        *,
        request_id: str | None = None,
        validate_only: bool = False,
    ) -> pb.Job:
        """A new job. Under a `request_id` of your own the same call is made once at most, however
        often it is repeated. Raises JobExistsError, InvalidArgumentError."""
        name = self.name(job)
        request = pb.CreateJobRequest(
            parent=f"apps/{names.app_of(name)}",
            job_id=name.rpartition("/")[2],
            job=job_of(spec, name),
            request_id=request_id or new_request_id(),
            validate_only=validate_only,
        )
        return self._transport.call("JobService/CreateJob", request, pb.Job, repeatable=True)

    def update(
        self,
        job: str,
        spec: JobLike,
        *,
        mask: Iterable[str] | None = None,
        etag: str | None = None,
        validate_only: bool = False,
    ) -> pb.Job:
        """Changes a job: the fields that `spec` sets, or those in `mask`; `["*"]` replaces all of
        it. With the `etag` of the job that was read, another's change in between is never
        overwritten: EtagMismatchError. Sent once, never repeated."""
        name = self.name(job)
        message = job_of(spec, name)
        if etag is not None:
            message.etag = etag
        request = pb.UpdateJobRequest(job=message, validate_only=validate_only)
        if mask is not None:
            request.update_mask.CopyFrom(FieldMask(paths=mask))
        method = "JobService/UpdateJob"
        return self._transport.call(method, request, pb.Job, repeatable=validate_only)

    def delete(self, job: str, *, etag: str = "", force: bool = False) -> None:
        """Runs in flight finish, or are killed with `force`. Sent once, never repeated."""
        request = pb.DeleteJobRequest(name=self.name(job), etag=etag, force=force)
        self._transport.call("JobService/DeleteJob", request, Empty, repeatable=False)

    def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> pb.Job:
        """No new runs from the schedule; `trigger` still works."""
        request = pb.PauseJobRequest(name=self.name(job), reason=reason)
        if until is not None:
            request.until_time.CopyFrom(timestamp_of(until))
        return self._transport.call("JobService/PauseJob", request, pb.Job, repeatable=True)

    def resume(self, job: str) -> pb.Job:
        """Undoes `pause`."""
        request = pb.ResumeJobRequest(name=self.name(job))
        return self._transport.call("JobService/ResumeJob", request, pb.Job, repeatable=True)

    def trigger(
        self,
        job: str,
        params: Any = None,
        *,
        request_id: str | None = None,
        run_time: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        executor: str = "",
    ) -> runs.Run:
        """One run now, or at `run_time`. `params` replace the job's when given."""
        request = pb.TriggerJobRequest(
            name=self.name(job),
            request_id=request_id or new_request_id(),
            labels=labels or {},
            executor=executor,
        )
        if params is not None:
            request.params.CopyFrom(payload(dump(params)))
        if run_time is not None:
            request.run_time.CopyFrom(timestamp_of(run_time))
        return self._transport.call("JobService/TriggerJob", request, runs.Run, repeatable=True)

    def preview(
        self, schedule: pb.Schedule | str, *, time_zone: str = "", count: int = 10
    ) -> pb.PreviewScheduleResponse:
        """The next fire times of a schedule, or of a cron expression, with its meaning in words."""
        if isinstance(schedule, str):
            schedule = pb.Schedule(cron=schedule, time_zone=time_zone)
        parent = names.parent(self._app)
        request = pb.PreviewScheduleRequest(parent=parent, schedule=schedule, count=count)
        method = "JobService/PreviewSchedule"
        return self._transport.call(method, request, pb.PreviewScheduleResponse, repeatable=True)

    def revisions(self, job: str, *, limit: int | None = None) -> Iterator[pb.Job]:
        """Earlier versions of a job, newest first."""
        name = self.name(job)

        def fetch(size: int, token: str) -> tuple[Sequence[pb.Job], str]:
            request = pb.ListJobRevisionsRequest(name=name, page_size=size, page_token=token)
            method, answer = "JobService/ListJobRevisions", pb.ListJobRevisionsResponse
            page = self._transport.call(method, request, answer, repeatable=True)
            return page.jobs, page.next_page_token

        return pages(fetch, limit)

    def rollback(self, job: str, revision: int, *, etag: str = "") -> pb.Job:
        """Makes an earlier version current again. Sent once, never repeated."""
        request = pb.RollbackJobRequest(name=self.name(job), revision=revision, etag=etag)
        return self._transport.call("JobService/RollbackJob", request, pb.Job, repeatable=False)

    def backfill(
        self,
        job: str,
        start: datetime,
        end: datetime,
        *,
        max_concurrency: int = 0,
        request_id: str | None = None,
        validate_only: bool = False,
    ) -> pb.BackfillJobResponse:
        """Runs for the fire times from `start` to `end`, each with its own; those that already have
        a run are left out. At most `max_concurrency` of them run at once; 0 means one."""
        request = pb.BackfillJobRequest(
            name=self.name(job),
            start_time=timestamp_of(start),
            end_time=timestamp_of(end),
            max_concurrency=max_concurrency,
            request_id=request_id or new_request_id(),
            validate_only=validate_only,
        )
        method = "JobService/BackfillJob"
        return self._transport.call(method, request, pb.BackfillJobResponse, repeatable=True)

    def forecast(
        self,
        app: str | None = None,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[pb.ForecastRunsResponse.Fire]:
        """The coming fire times of an app, of the client's app, or of all apps."""
        parent = names.parent(app or self._app)

        def fetch(size: int, token: str) -> tuple[Sequence[pb.ForecastRunsResponse.Fire], str]:
            request = pb.ForecastRunsRequest(parent=parent, page_size=size, page_token=token)
            if start is not None:
                request.start_time.CopyFrom(timestamp_of(start))
            if end is not None:
                request.end_time.CopyFrom(timestamp_of(end))
            method, answer = "JobService/ForecastRuns", pb.ForecastRunsResponse
            page = self._transport.call(method, request, answer, repeatable=True)
            return page.fires, page.next_page_token

        return pages(fetch, limit)
