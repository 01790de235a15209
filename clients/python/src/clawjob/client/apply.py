"""Jobs as they should be: what differs is changed, what is right is left alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from clawjob.client import names
from clawjob.client.errors import (
    AppNotFoundError,
    FailedPreconditionError,
    InvalidArgumentError,
    JobNotFoundError,
    NotFoundError,
)
from clawjob.client.jobs import JobLike, Jobs
from clawjob.client.shape import OUTPUT_ONLY, JobError, job_of
from clawjob.errors import Fault
from clawjob.v1 import job_service_pb2 as pb

_PAUSED, _ACTIVE = pb.Job.STATE_PAUSED, pb.Job.STATE_ACTIVE


@dataclass(frozen=True)
class Change:
    """One field that differs; None means that it is not set."""

    #: Such as `retry.max_attempts` or `schedules[0].cron`.
    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Applied:
    """What became of one job."""

    #: The job's full name.
    name: str
    #: `create`, `update`, `keep` or `delete`.
    action: str
    #: For `update`: what changes, the server's defaults included.
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class _Step:
    applied: Applied
    job: pb.Job | None = None
    etag: str = ""
    state: int | None = None


def apply(
    jobs: Jobs,
    wanted: Mapping[str, JobLike] | Iterable[Mapping[str, Any]],
    *,
    dry_run: bool,
    prune: bool,
) -> list[Applied]:
    """See `Client.apply`."""
    specs = _named(jobs, wanted)
    steps: list[_Step] = []
    faults: list[Fault] = []
    for name, spec in specs.items():
        try:
            steps.append(_compare(jobs, name, job_of(spec, name)))
        except JobError as error:
            faults.extend(Fault(f"{name}: {fault.field}", fault.message) for fault in error.faults)
        except InvalidArgumentError as refused:
            violations = [Fault(f"{name}: {v.field}", v.description) for v in refused.violations]
            faults.extend(violations or [Fault(name, refused.message)])
        except FailedPreconditionError as refused:
            faults.append(Fault(name, refused.message))
    if faults:
        raise JobError(faults)
    if prune:
        for app in sorted({names.app_of(name) for name in specs}):
            steps.extend(_surplus(jobs, app, specs))
    if not dry_run:
        for step in steps:
            _carry_out(jobs, step)
    return [step.applied for step in steps]


def _named(
    jobs: Jobs, wanted: Mapping[str, JobLike] | Iterable[Mapping[str, Any]]
) -> dict[str, JobLike]:
    """The jobs by full name; a second one of the same name is a fault."""
    if isinstance(wanted, Mapping):
        pairs: Sequence[tuple[str, JobLike]] = list(wanted.items())
    else:
        pairs = [(_name_in(spec), spec) for spec in wanted]
    out: dict[str, JobLike] = {}
    faults = []
    for text, spec in pairs:
        try:
            name = jobs.name(text)
        except ValueError as error:
            faults.append(Fault("name", str(error)))
            continue
        if name in out:
            faults.append(Fault(name, "stands here twice"))
        out[name] = spec
    if faults:
        raise JobError(faults)
    return out


def _name_in(spec: Mapping[str, Any]) -> str:
    name, app = spec.get("name"), spec.get("app")
    if not isinstance(name, str):
        raise JobError([Fault("name", "is missing: write 'APP/JOB', or 'JOB' with an app")])
    return f"{app}/{name}" if isinstance(app, str) and "/" not in name else name


def _compare(jobs: Jobs, name: str, wanted: pb.Job) -> _Step:
    """The server checks each change without making it, so nothing is written unless all of it is
    valid; and its answer has its defaults filled in, which makes the comparison fair."""
    try:
        current = jobs.get(name)
    except (JobNotFoundError, AppNotFoundError):
        jobs.create(name, wanted, validate_only=True)
        return _Step(Applied(name, "create"), job=wanted)
    job = pb.Job()
    job.CopyFrom(wanted)
    # An update leaves the state alone; RPCs of its own change it.
    job.state = current.state
    checked = jobs.update(name, job, mask=["*"], etag=current.etag, validate_only=True)
    changes = changes_between(current, checked)
    paused, state = current.state == _PAUSED, None
    if wanted.state == _PAUSED and not paused:
        state = _PAUSED
    elif wanted.state == _ACTIVE and paused:
        state = _ACTIVE
    if not changes and state is None:
        return _Step(Applied(name, "keep"))
    if state is not None:
        before, after = pb.Job.State.Name(current.state), pb.Job.State.Name(state)
        told = (*changes, Change("state", before, after))
    else:
        told = changes
    job_or_none = job if changes else None
    return _Step(Applied(name, "update", told), job_or_none, current.etag, state)


def changes_between(before: pb.Job, after: pb.Job) -> tuple[Change, ...]:
    """What changes from one job to the other, by field; nothing that the server alone writes, and
    not the state."""
    old, new = _leaves(before), _leaves(after)
    fields = sorted(old.keys() | new.keys())
    return tuple(
        Change(field, old.get(field), new.get(field))
        for field in fields
        if old.get(field) != new.get(field)
    )


def _leaves(job: pb.Job) -> dict[str, Any]:
    value = json_format.MessageToDict(job, preserving_proto_field_name=True)
    for field in (*OUTPUT_ONLY, "state", "name"):
        value.pop(field, None)
    if job.params.content_type == "application/json":
        try:
            value["params"] = json.loads(job.params.data)
        except ValueError:
            pass
    out: dict[str, Any] = {}
    _collect("", value, out)
    return out


def _collect(path: str, value: Any, out: dict[str, Any]) -> None:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            _collect(f"{path}.{key}" if path else key, item, out)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            _collect(f"{path}[{index}]", item, out)
    # An empty message says as much as none, but for params, whose value is the user's own.
    elif not (isinstance(value, dict) and not path.startswith("params")):
        out[path] = value


def _surplus(jobs: Jobs, app: str, kept: Mapping[str, object]) -> list[_Step]:
    """The jobs of an app that nobody asked for."""
    try:
        extra = [job for job in jobs.list(app) if job.name not in kept]
    except NotFoundError:  # the app comes into being with its first job
        return []
    return [_Step(Applied(job.name, "delete"), etag=job.etag) for job in extra]


def _carry_out(jobs: Jobs, step: _Step) -> None:
    name, action = step.applied.name, step.applied.action
    if action == "create" and step.job is not None:
        jobs.create(name, step.job)
    elif action == "delete":
        jobs.delete(name, etag=step.etag)
    elif action == "update":
        if step.job is not None:
            jobs.update(name, step.job, mask=["*"], etag=step.etag)
        if step.state == _PAUSED:
            jobs.pause(name)
        elif step.state == _ACTIVE:
            jobs.resume(name)
