"""A job as people write it, turned into the contract's message; the descriptor says what each field
takes, so a new field of the contract needs no line here.

It is the shape of `clawjob apply`: the contract's fields in JSON's or in Python's spelling, words
of enums in short (`"skip"`), durations as text (`"1m30s"`), numbers of seconds or timedeltas,
params as plain values, and `cron`, `every`, `delay`, `at` beside `time_zone` for schedules.
"""

from __future__ import annotations

import base64
import datetime as dt
import difflib
import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from clawjob.client import names
from clawjob.errors import ConfigError, Fault
from clawjob.schema import dump
from clawjob.v1 import job_service_pb2 as jobs

#: Fields that the server writes: a job that was read may be fed back as it is.
OUTPUT_ONLY = frozenset(
    {
        "etag",
        "revision",
        "create_time",
        "update_time",
        "update_by",
        "next_fire_time",
        "last_run",
        "problem",
        "pause_until_time",
    }
)

#: Shorthand for a schedule of one trigger: its key and the contract's field.
_TRIGGERS = {"cron": "cron", "every": "interval", "delay": "delay", "at": "at"}
#: Shorthand for what surrounds the trigger, alike for each of the job's schedules.
_AROUND = {
    "time_zone": "time_zone",
    "timeZone": "time_zone",
    "dialect": "cron_dialect",
}
_UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:w|d|h|ms|us|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(w|d|h|ms|us|m|s)")


class JobError(ConfigError):
    """A job that cannot be understood; all faults at once."""


def job_of(value: jobs.Job | Mapping[str, Any], name: str) -> jobs.Job:
    """The contract's job. Raises JobError with all faults."""
    if isinstance(value, jobs.Job):
        job = jobs.Job()
        job.CopyFrom(value)
    else:
        faults: list[Fault] = []
        shaped = _job(value, names.app_of(name), faults)
        if faults:
            raise JobError(faults)
        try:
            job = json_format.ParseDict(shaped, jobs.Job())
        except json_format.ParseError as error:
            raise JobError([Fault("job", str(error))]) from error
    job.name = name
    return job


def seconds_of(value: float | str | dt.timedelta) -> float:
    """A duration in seconds. Raises ValueError for text that is none."""
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip()
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write it like 30s, 1m30s, 2h or 500ms")
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))


def _job(value: Mapping[str, Any], app: str, faults: list[Fault]) -> dict[str, Any]:
    fields = dict(value)
    fields.pop("name", None)
    fields.pop("app", None)
    _schedules(fields, faults)
    params = fields.pop("params", None)
    if params is not None:
        fields["params"] = _payload(params)
    for key in ("on_success", "onSuccess", "on_failure", "onFailure"):
        if isinstance(fields.get(key), (list, tuple)):
            fields[key] = [_job_name(item, app, key, faults) for item in fields[key]]
    shaped = _message(fields, jobs.Job.DESCRIPTOR, "", faults)
    return {key: item for key, item in shaped.items() if key not in OUTPUT_ONLY}


def _job_name(item: Any, app: str, key: str, faults: list[Fault]) -> Any:
    try:
        return names.full("jobs", item, app) if isinstance(item, str) else item
    except ValueError as error:
        faults.append(Fault(key, str(error)))
        return item


def _schedules(fields: dict[str, Any], faults: list[Fault]) -> None:
    """Turns the shorthand keys into `schedules`."""
    made: list[dict[str, Any]] = []
    for short, long in _TRIGGERS.items():
        given = fields.pop(short, None)
        if given is not None:
            items = given if isinstance(given, (list, tuple)) else [given]
            made.extend({long: item} for item in items)
    around = {key: fields.pop(key) for key in list(fields) if key in _AROUND}
    if not made:
        for key in around:
            text = "stands beside cron, every, delay or at; within schedules, write it into each"
            faults.append(Fault(key, text))
        return
    if "schedules" in fields:
        faults.append(Fault("schedules", "write either schedules or cron, every, delay, at"))
    for schedule in made:
        for key, item in around.items():
            # A dialect is for cron alone.
            if key != "dialect" or "cron" in schedule:
                schedule[_AROUND[key]] = item
    fields["schedules"] = made


def _payload(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping) and set(value) == {"contentType", "data"}:
        return dict(value)
    data = base64.b64encode(dump(value)).decode()
    return {"content_type": "application/json", "data": data}


def _message(value: Any, of: Any, place: str, faults: list[Fault]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        faults.append(Fault(place or "job", f"must be keys and values, not {value!r}"))
        return {}
    known = {field.name: field for field in of.fields}
    by_json = {field.json_name: field for field in of.fields}
    out: dict[str, Any] = {}
    for key, item in value.items():
        here = f"{place}.{key}" if place else str(key)
        field = known.get(key) or by_json.get(key)
        if field is None:
            near = difflib.get_close_matches(str(key), known, 1)
            faults.append(Fault(here, "is unknown" + (f"; is {near[0]} meant?" if near else "")))
        elif field.name in out:
            faults.append(Fault(here, "stands here twice"))
        elif item is not None:
            out[field.name] = _field(item, field, here, faults)
    return out


def _field(value: Any, field: Any, place: str, faults: list[Fault]) -> Any:
    of = field.message_type
    if of is not None and of.GetOptions().map_entry:
        if isinstance(value, Mapping):
            return {str(key): item for key, item in value.items()}
        faults.append(Fault(place, f"must be keys and values, not {value!r}"))
        return {}
    if field.is_repeated:
        if isinstance(value, (list, tuple)):
            return [_one(v, field, f"{place}[{i}]", faults) for i, v in enumerate(value)]
        faults.append(Fault(place, f"must be a list, not {value!r}"))
        return []
    return _one(value, field, place, faults)


def _one(value: Any, field: Any, place: str, faults: list[Fault]) -> Any:
    of = field.message_type
    if of is None:
        return _word(value, field.enum_type, place, faults) if field.enum_type else value
    if of.full_name == "google.protobuf.Duration":
        try:
            return f"{seconds_of(value):.9f}s"
        except ValueError as error:
            faults.append(Fault(place, str(error)))
            return "0s"
    if of.full_name == "google.protobuf.Timestamp":
        return _instant(value, place, faults)
    return _message(value, of, place, faults)


def _instant(value: Any, place: str, faults: list[Fault]) -> str:
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            return value.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")
        faults.append(Fault(place, f"{value} has no time zone; give it one"))
    elif isinstance(value, str):
        return value
    else:
        faults.append(Fault(place, "must be an instant such as 2026-03-01T09:00:00Z"))
    return "1970-01-01T00:00:00Z"


def _word(value: Any, of: Any, place: str, faults: list[Fault]) -> Any:
    """An enum's value by its number, its full name, or its last words: `skip`, `fire-once`."""
    if isinstance(value, int):
        return value
    prefix = of.values_by_number[0].name.removesuffix("UNSPECIFIED")
    word = str(value).upper().replace("-", "_")
    for name in (word, prefix + word):
        if name in of.values_by_name:
            return name
    known = ", ".join(v.name.removeprefix(prefix).lower() for v in of.values if v.number != 0)
    faults.append(Fault(place, f"{value!r} is unknown; there are {known}"))
    return 0
