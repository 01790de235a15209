import datetime

from clawjob.v1 import run_service_pb2 as _run_service_pb2
from clawjob.v1 import types_pb2 as _types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RouteStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROUTE_STRATEGY_UNSPECIFIED: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_ROUND_ROBIN: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_RANDOM: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_FIRST: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_LAST: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_CONSISTENT_HASH: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_LEAST_FREQUENTLY_USED: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_LEAST_RECENTLY_USED: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_FAILOVER: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_BUSYOVER: _ClassVar[RouteStrategy]
    ROUTE_STRATEGY_LEAST_LOADED: _ClassVar[RouteStrategy]

class OverlapPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_POLICY_UNSPECIFIED: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_ALLOW: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_SKIP: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_QUEUE: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_REPLACE: _ClassVar[OverlapPolicy]

class MisfirePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISFIRE_POLICY_UNSPECIFIED: _ClassVar[MisfirePolicy]
    MISFIRE_POLICY_FIRE_ONCE: _ClassVar[MisfirePolicy]
    MISFIRE_POLICY_SKIP: _ClassVar[MisfirePolicy]
    MISFIRE_POLICY_FIRE_ALL: _ClassVar[MisfirePolicy]

class CronDialect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CRON_DIALECT_UNSPECIFIED: _ClassVar[CronDialect]
    CRON_DIALECT_UNIX: _ClassVar[CronDialect]
    CRON_DIALECT_QUARTZ: _ClassVar[CronDialect]
    CRON_DIALECT_SPRING: _ClassVar[CronDialect]
ROUTE_STRATEGY_UNSPECIFIED: RouteStrategy
ROUTE_STRATEGY_ROUND_ROBIN: RouteStrategy
ROUTE_STRATEGY_RANDOM: RouteStrategy
ROUTE_STRATEGY_FIRST: RouteStrategy
ROUTE_STRATEGY_LAST: RouteStrategy
ROUTE_STRATEGY_CONSISTENT_HASH: RouteStrategy
ROUTE_STRATEGY_LEAST_FREQUENTLY_USED: RouteStrategy
ROUTE_STRATEGY_LEAST_RECENTLY_USED: RouteStrategy
ROUTE_STRATEGY_FAILOVER: RouteStrategy
ROUTE_STRATEGY_BUSYOVER: RouteStrategy
ROUTE_STRATEGY_LEAST_LOADED: RouteStrategy
OVERLAP_POLICY_UNSPECIFIED: OverlapPolicy
OVERLAP_POLICY_ALLOW: OverlapPolicy
OVERLAP_POLICY_SKIP: OverlapPolicy
OVERLAP_POLICY_QUEUE: OverlapPolicy
OVERLAP_POLICY_REPLACE: OverlapPolicy
MISFIRE_POLICY_UNSPECIFIED: MisfirePolicy
MISFIRE_POLICY_FIRE_ONCE: MisfirePolicy
MISFIRE_POLICY_SKIP: MisfirePolicy
MISFIRE_POLICY_FIRE_ALL: MisfirePolicy
CRON_DIALECT_UNSPECIFIED: CronDialect
CRON_DIALECT_UNIX: CronDialect
CRON_DIALECT_QUARTZ: CronDialect
CRON_DIALECT_SPRING: CronDialect

class Job(_message.Message):
    __slots__ = ("name", "display_name", "description", "state", "schedules", "handler", "params", "placement", "retry", "timeout", "kill_grace", "overlap", "misfire", "misfire_threshold", "disconnect_policy", "lost_policy", "lost_after", "priority", "labels", "etag", "revision", "create_time", "update_time", "next_fire_time", "last_run", "max_concurrency", "max_queued", "queue_timeout", "on_success", "on_failure", "owner", "run_retention", "misfire_max", "misfire_window", "pause_until_time", "problem", "update_by", "pause_reason", "next_due_time")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Job.State]
        STATE_ACTIVE: _ClassVar[Job.State]
        STATE_PAUSED: _ClassVar[Job.State]
        STATE_EXPIRED: _ClassVar[Job.State]
    STATE_UNSPECIFIED: Job.State
    STATE_ACTIVE: Job.State
    STATE_PAUSED: Job.State
    STATE_EXPIRED: Job.State
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    KILL_GRACE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_POLICY_FIELD_NUMBER: _ClassVar[int]
    LOST_POLICY_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ON_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RUN_RETENTION_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_MAX_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    PAUSE_UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    UPDATE_BY_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    display_name: str
    description: str
    state: Job.State
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    handler: str
    params: _types_pb2.Payload
    placement: Placement
    retry: RetryPolicy
    timeout: _duration_pb2.Duration
    kill_grace: _duration_pb2.Duration
    overlap: OverlapPolicy
    misfire: MisfirePolicy
    misfire_threshold: _duration_pb2.Duration
    disconnect_policy: _types_pb2.DisconnectPolicy
    lost_policy: _types_pb2.LostPolicy
    lost_after: _duration_pb2.Duration
    priority: int
    labels: _containers.ScalarMap[str, str]
    etag: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    next_fire_time: _timestamp_pb2.Timestamp
    last_run: str
    max_concurrency: int
    max_queued: int
    queue_timeout: _duration_pb2.Duration
    on_success: _containers.RepeatedScalarFieldContainer[str]
    on_failure: _containers.RepeatedScalarFieldContainer[str]
    owner: str
    run_retention: _duration_pb2.Duration
    misfire_max: int
    misfire_window: _duration_pb2.Duration
    pause_until_time: _timestamp_pb2.Timestamp
    problem: str
    update_by: str
    pause_reason: str
    next_due_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., display_name: _Optional[str] = ..., description: _Optional[str] = ..., state: _Optional[_Union[Job.State, str]] = ..., schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., handler: _Optional[str] = ..., params: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., placement: _Optional[_Union[Placement, _Mapping]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., kill_grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., overlap: _Optional[_Union[OverlapPolicy, str]] = ..., misfire: _Optional[_Union[MisfirePolicy, str]] = ..., misfire_threshold: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., disconnect_policy: _Optional[_Union[_types_pb2.DisconnectPolicy, str]] = ..., lost_policy: _Optional[_Union[_types_pb2.LostPolicy, str]] = ..., lost_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., priority: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., etag: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_run: _Optional[str] = ..., max_concurrency: _Optional[int] = ..., max_queued: _Optional[int] = ..., queue_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_success: _Optional[_Iterable[str]] = ..., on_failure: _Optional[_Iterable[str]] = ..., owner: _Optional[str] = ..., run_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., misfire_max: _Optional[int] = ..., misfire_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pause_until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[str] = ..., update_by: _Optional[str] = ..., pause_reason: _Optional[str] = ..., next_due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("cron", "interval", "at", "delay", "time_zone", "start_time", "end_time", "spread", "excluded_dates", "include_calendars", "exclude_calendars", "cron_dialect")
    CRON_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_DATES_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CALENDARS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_CALENDARS_FIELD_NUMBER: _ClassVar[int]
    CRON_DIALECT_FIELD_NUMBER: _ClassVar[int]
    cron: str
    interval: _duration_pb2.Duration
    at: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    time_zone: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    spread: _duration_pb2.Duration
    excluded_dates: _containers.RepeatedScalarFieldContainer[str]
    include_calendars: _containers.RepeatedScalarFieldContainer[str]
    exclude_calendars: _containers.RepeatedScalarFieldContainer[str]
    cron_dialect: CronDialect
    def __init__(self, cron: _Optional[str] = ..., interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., time_zone: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., spread: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., excluded_dates: _Optional[_Iterable[str]] = ..., include_calendars: _Optional[_Iterable[str]] = ..., exclude_calendars: _Optional[_Iterable[str]] = ..., cron_dialect: _Optional[_Union[CronDialect, str]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("required_labels", "shard_total", "broadcast", "route", "route_key", "busy_threshold")
    class RequiredLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUIRED_LABELS_FIELD_NUMBER: _ClassVar[int]
    SHARD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    ROUTE_KEY_FIELD_NUMBER: _ClassVar[int]
    BUSY_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    required_labels: _containers.ScalarMap[str, str]
    shard_total: int
    broadcast: bool
    route: RouteStrategy
    route_key: str
    busy_threshold: float
    def __init__(self, required_labels: _Optional[_Mapping[str, str]] = ..., shard_total: _Optional[int] = ..., broadcast: bool = ..., route: _Optional[_Union[RouteStrategy, str]] = ..., route_key: _Optional[str] = ..., busy_threshold: _Optional[float] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff", "multiplier", "max_backoff", "non_retryable_codes", "jitter", "max_lost")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_CODES_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    MAX_LOST_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff: _duration_pb2.Duration
    multiplier: float
    max_backoff: _duration_pb2.Duration
    non_retryable_codes: _containers.RepeatedScalarFieldContainer[str]
    jitter: float
    max_lost: int
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., multiplier: _Optional[float] = ..., max_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., non_retryable_codes: _Optional[_Iterable[str]] = ..., jitter: _Optional[float] = ..., max_lost: _Optional[int] = ...) -> None: ...

class CreateJobRequest(_message.Message):
    __slots__ = ("parent", "job_id", "job", "request_id", "validate_only")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    parent: str
    job_id: str
    job: Job
    request_id: str
    validate_only: bool
    def __init__(self, parent: _Optional[str] = ..., job_id: _Optional[str] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "filter", "order_by")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    filter: str
    order_by: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ..., order_by: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateJobRequest(_message.Message):
    __slots__ = ("job", "update_mask", "allow_missing", "validate_only")
    JOB_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    job: Job
    update_mask: _field_mask_pb2.FieldMask
    allow_missing: bool
    validate_only: bool
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., allow_missing: bool = ..., validate_only: bool = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("name", "etag", "force")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    etag: str
    force: bool
    def __init__(self, name: _Optional[str] = ..., etag: _Optional[str] = ..., force: bool = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ("name", "reason", "until_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    until_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TriggerJobRequest(_message.Message):
    __slots__ = ("name", "params", "request_id", "run_time", "labels", "executor")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    params: _types_pb2.Payload
    request_id: str
    run_time: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    executor: str
    def __init__(self, name: _Optional[str] = ..., params: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., request_id: _Optional[str] = ..., run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., executor: _Optional[str] = ...) -> None: ...

class PreviewScheduleRequest(_message.Message):
    __slots__ = ("parent", "schedule", "count", "after", "job")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    parent: str
    schedule: Schedule
    count: int
    after: _timestamp_pb2.Timestamp
    job: str
    def __init__(self, parent: _Optional[str] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ..., count: _Optional[int] = ..., after: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., job: _Optional[str] = ...) -> None: ...

class PreviewScheduleResponse(_message.Message):
    __slots__ = ("fire_times", "warnings", "cron_dialect", "description", "due_times")
    FIRE_TIMES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CRON_DIALECT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DUE_TIMES_FIELD_NUMBER: _ClassVar[int]
    fire_times: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    cron_dialect: CronDialect
    description: str
    due_times: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    def __init__(self, fire_times: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., cron_dialect: _Optional[_Union[CronDialect, str]] = ..., description: _Optional[str] = ..., due_times: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ...) -> None: ...

class ListJobRevisionsRequest(_message.Message):
    __slots__ = ("name", "page_size", "page_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListJobRevisionsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RollbackJobRequest(_message.Message):
    __slots__ = ("name", "revision", "etag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: int
    etag: str
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[int] = ..., etag: _Optional[str] = ...) -> None: ...

class BackfillJobRequest(_message.Message):
    __slots__ = ("name", "start_time", "end_time", "max_concurrency", "validate_only", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    max_concurrency: int
    validate_only: bool
    request_id: str
    def __init__(self, name: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_concurrency: _Optional[int] = ..., validate_only: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class BackfillJobResponse(_message.Message):
    __slots__ = ("run_count", "already_run_count")
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALREADY_RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    run_count: int
    already_run_count: int
    def __init__(self, run_count: _Optional[int] = ..., already_run_count: _Optional[int] = ...) -> None: ...

class ForecastRunsRequest(_message.Message):
    __slots__ = ("parent", "start_time", "end_time", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ForecastRunsResponse(_message.Message):
    __slots__ = ("fires", "next_page_token")
    class Fire(_message.Message):
        __slots__ = ("job", "fire_time", "time_zone", "handler", "due_time")
        JOB_FIELD_NUMBER: _ClassVar[int]
        FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
        TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
        HANDLER_FIELD_NUMBER: _ClassVar[int]
        DUE_TIME_FIELD_NUMBER: _ClassVar[int]
        job: str
        fire_time: _timestamp_pb2.Timestamp
        time_zone: str
        handler: str
        due_time: _timestamp_pb2.Timestamp
        def __init__(self, job: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., time_zone: _Optional[str] = ..., handler: _Optional[str] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
    FIRES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    fires: _containers.RepeatedCompositeFieldContainer[ForecastRunsResponse.Fire]
    next_page_token: str
    def __init__(self, fires: _Optional[_Iterable[_Union[ForecastRunsResponse.Fire, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
