import datetime

from clawjob.v1 import types_pb2 as _types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_VIEW_UNSPECIFIED: _ClassVar[RunView]
    RUN_VIEW_BASIC: _ClassVar[RunView]
    RUN_VIEW_FULL: _ClassVar[RunView]
RUN_VIEW_UNSPECIFIED: RunView
RUN_VIEW_BASIC: RunView
RUN_VIEW_FULL: RunView

class Run(_message.Message):
    __slots__ = ("name", "job", "job_revision", "state", "trigger", "triggered_by", "fire_time", "create_time", "start_time", "end_time", "attempt", "attempts", "params", "output", "failure", "kill_reason", "parent_run", "shard_index", "shard_total", "progress", "progress_message", "traceparent", "labels", "etag", "state_message", "next_attempt_time", "due_time", "executor", "rerun_of", "caused_by", "missed_count", "missed_until_time")
    class Trigger(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TRIGGER_UNSPECIFIED: _ClassVar[Run.Trigger]
        TRIGGER_SCHEDULE: _ClassVar[Run.Trigger]
        TRIGGER_API: _ClassVar[Run.Trigger]
        TRIGGER_RERUN: _ClassVar[Run.Trigger]
        TRIGGER_MISFIRE: _ClassVar[Run.Trigger]
        TRIGGER_CHAIN: _ClassVar[Run.Trigger]
        TRIGGER_BACKFILL: _ClassVar[Run.Trigger]
    TRIGGER_UNSPECIFIED: Run.Trigger
    TRIGGER_SCHEDULE: Run.Trigger
    TRIGGER_API: Run.Trigger
    TRIGGER_RERUN: Run.Trigger
    TRIGGER_MISFIRE: Run.Trigger
    TRIGGER_CHAIN: Run.Trigger
    TRIGGER_BACKFILL: Run.Trigger
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    JOB_REVISION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    TRIGGERED_BY_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    KILL_REASON_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_FIELD_NUMBER: _ClassVar[int]
    SHARD_INDEX_FIELD_NUMBER: _ClassVar[int]
    SHARD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    STATE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    RERUN_OF_FIELD_NUMBER: _ClassVar[int]
    CAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    MISSED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISSED_UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    job: str
    job_revision: int
    state: _types_pb2.RunState
    trigger: Run.Trigger
    triggered_by: str
    fire_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    attempt: int
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    params: _types_pb2.Payload
    output: _types_pb2.Payload
    failure: _types_pb2.Failure
    kill_reason: _types_pb2.KillReason
    parent_run: str
    shard_index: int
    shard_total: int
    progress: float
    progress_message: str
    traceparent: str
    labels: _containers.ScalarMap[str, str]
    etag: str
    state_message: str
    next_attempt_time: _timestamp_pb2.Timestamp
    due_time: _timestamp_pb2.Timestamp
    executor: str
    rerun_of: str
    caused_by: str
    missed_count: int
    missed_until_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., job: _Optional[str] = ..., job_revision: _Optional[int] = ..., state: _Optional[_Union[_types_pb2.RunState, str]] = ..., trigger: _Optional[_Union[Run.Trigger, str]] = ..., triggered_by: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., params: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., output: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., kill_reason: _Optional[_Union[_types_pb2.KillReason, str]] = ..., parent_run: _Optional[str] = ..., shard_index: _Optional[int] = ..., shard_total: _Optional[int] = ..., progress: _Optional[float] = ..., progress_message: _Optional[str] = ..., traceparent: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., etag: _Optional[str] = ..., state_message: _Optional[str] = ..., next_attempt_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., executor: _Optional[str] = ..., rerun_of: _Optional[str] = ..., caused_by: _Optional[str] = ..., missed_count: _Optional[int] = ..., missed_until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("number", "executor", "session_id", "outcome", "failure", "dispatch_time", "ack_time", "start_time", "end_time", "duration", "disconnected_since", "log_records", "log_records_dropped", "late_outcome")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_TIME_FIELD_NUMBER: _ClassVar[int]
    ACK_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    DISCONNECTED_SINCE_FIELD_NUMBER: _ClassVar[int]
    LOG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LOG_RECORDS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    LATE_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    number: int
    executor: str
    session_id: str
    outcome: _types_pb2.Outcome
    failure: _types_pb2.Failure
    dispatch_time: _timestamp_pb2.Timestamp
    ack_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    disconnected_since: _timestamp_pb2.Timestamp
    log_records: int
    log_records_dropped: int
    late_outcome: _types_pb2.Outcome
    def __init__(self, number: _Optional[int] = ..., executor: _Optional[str] = ..., session_id: _Optional[str] = ..., outcome: _Optional[_Union[_types_pb2.Outcome, str]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., dispatch_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ack_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., disconnected_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., log_records: _Optional[int] = ..., log_records_dropped: _Optional[int] = ..., late_outcome: _Optional[_Union[_types_pb2.Outcome, str]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("name", "view")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    name: str
    view: RunView
    def __init__(self, name: _Optional[str] = ..., view: _Optional[_Union[RunView, str]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "filter", "order_by", "view")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    filter: str
    order_by: str
    view: RunView
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ..., order_by: _Optional[str] = ..., view: _Optional[_Union[RunView, str]] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("name", "reason", "grace")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    grace: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RerunRunRequest(_message.Message):
    __slots__ = ("name", "params", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    params: _types_pb2.Payload
    request_id: str
    def __init__(self, name: _Optional[str] = ..., params: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class WaitRunRequest(_message.Message):
    __slots__ = ("name", "timeout")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    timeout: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchRunsRequest(_message.Message):
    __slots__ = ("parent", "filter", "resume_token", "view")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    parent: str
    filter: str
    resume_token: str
    view: RunView
    def __init__(self, parent: _Optional[str] = ..., filter: _Optional[str] = ..., resume_token: _Optional[str] = ..., view: _Optional[_Union[RunView, str]] = ...) -> None: ...

class WatchRunsResponse(_message.Message):
    __slots__ = ("type", "run", "resume_token")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[WatchRunsResponse.Type]
        TYPE_CURRENT: _ClassVar[WatchRunsResponse.Type]
        TYPE_CHANGED: _ClassVar[WatchRunsResponse.Type]
        TYPE_DELETED: _ClassVar[WatchRunsResponse.Type]
        TYPE_BOOKMARK: _ClassVar[WatchRunsResponse.Type]
        TYPE_RESET: _ClassVar[WatchRunsResponse.Type]
    TYPE_UNSPECIFIED: WatchRunsResponse.Type
    TYPE_CURRENT: WatchRunsResponse.Type
    TYPE_CHANGED: WatchRunsResponse.Type
    TYPE_DELETED: WatchRunsResponse.Type
    TYPE_BOOKMARK: WatchRunsResponse.Type
    TYPE_RESET: WatchRunsResponse.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    type: WatchRunsResponse.Type
    run: Run
    resume_token: str
    def __init__(self, type: _Optional[_Union[WatchRunsResponse.Type, str]] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., resume_token: _Optional[str] = ...) -> None: ...

class ListRunLogsRequest(_message.Message):
    __slots__ = ("name", "attempt", "page_size", "page_token", "min_level", "contains")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    page_size: int
    page_token: str
    min_level: _types_pb2.LogLevel
    contains: str
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., min_level: _Optional[_Union[_types_pb2.LogLevel, str]] = ..., contains: _Optional[str] = ...) -> None: ...

class ListRunLogsResponse(_message.Message):
    __slots__ = ("records", "next_page_token")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[StoredLogRecord]
    next_page_token: str
    def __init__(self, records: _Optional[_Iterable[_Union[StoredLogRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class StoredLogRecord(_message.Message):
    __slots__ = ("seq", "record", "attempt")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    record: _types_pb2.LogRecord
    attempt: int
    def __init__(self, seq: _Optional[int] = ..., record: _Optional[_Union[_types_pb2.LogRecord, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class TailRunLogsRequest(_message.Message):
    __slots__ = ("name", "attempt", "after_seq", "min_level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    after_seq: int
    min_level: _types_pb2.LogLevel
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., after_seq: _Optional[int] = ..., min_level: _Optional[_Union[_types_pb2.LogLevel, str]] = ...) -> None: ...

class TailRunLogsResponse(_message.Message):
    __slots__ = ("records", "through_seq", "dropped", "complete")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[StoredLogRecord]
    through_seq: int
    dropped: int
    complete: bool
    def __init__(self, records: _Optional[_Iterable[_Union[StoredLogRecord, _Mapping]]] = ..., through_seq: _Optional[int] = ..., dropped: _Optional[int] = ..., complete: bool = ...) -> None: ...
