import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_QUEUED: _ClassVar[RunState]
    RUN_STATE_DISPATCHED: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_CANCELING: _ClassVar[RunState]
    RUN_STATE_RETRY_WAIT: _ClassVar[RunState]
    RUN_STATE_SUCCEEDED: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]
    RUN_STATE_CANCELED: _ClassVar[RunState]
    RUN_STATE_TIMED_OUT: _ClassVar[RunState]
    RUN_STATE_LOST: _ClassVar[RunState]
    RUN_STATE_SKIPPED: _ClassVar[RunState]
    RUN_STATE_SCHEDULED: _ClassVar[RunState]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_CANCELED: _ClassVar[Outcome]
    OUTCOME_TIMED_OUT: _ClassVar[Outcome]
    OUTCOME_LOST: _ClassVar[Outcome]

class KillReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KILL_REASON_UNSPECIFIED: _ClassVar[KillReason]
    KILL_REASON_USER: _ClassVar[KillReason]
    KILL_REASON_TIMEOUT: _ClassVar[KillReason]
    KILL_REASON_STALE_ATTEMPT: _ClassVar[KillReason]
    KILL_REASON_REPLACED: _ClassVar[KillReason]
    KILL_REASON_JOB_DELETED: _ClassVar[KillReason]
    KILL_REASON_NODE_POLICY: _ClassVar[KillReason]

class DisconnectPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISCONNECT_POLICY_UNSPECIFIED: _ClassVar[DisconnectPolicy]
    DISCONNECT_POLICY_CONTINUE: _ClassVar[DisconnectPolicy]
    DISCONNECT_POLICY_STOP: _ClassVar[DisconnectPolicy]

class LostPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOST_POLICY_UNSPECIFIED: _ClassVar[LostPolicy]
    LOST_POLICY_RETRY: _ClassVar[LostPolicy]
    LOST_POLICY_FAIL: _ClassVar[LostPolicy]

class LogLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_LEVEL_UNSPECIFIED: _ClassVar[LogLevel]
    LOG_LEVEL_TRACE: _ClassVar[LogLevel]
    LOG_LEVEL_DEBUG: _ClassVar[LogLevel]
    LOG_LEVEL_INFO: _ClassVar[LogLevel]
    LOG_LEVEL_WARN: _ClassVar[LogLevel]
    LOG_LEVEL_ERROR: _ClassVar[LogLevel]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_QUEUED: RunState
RUN_STATE_DISPATCHED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_CANCELING: RunState
RUN_STATE_RETRY_WAIT: RunState
RUN_STATE_SUCCEEDED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_CANCELED: RunState
RUN_STATE_TIMED_OUT: RunState
RUN_STATE_LOST: RunState
RUN_STATE_SKIPPED: RunState
RUN_STATE_SCHEDULED: RunState
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_CANCELED: Outcome
OUTCOME_TIMED_OUT: Outcome
OUTCOME_LOST: Outcome
KILL_REASON_UNSPECIFIED: KillReason
KILL_REASON_USER: KillReason
KILL_REASON_TIMEOUT: KillReason
KILL_REASON_STALE_ATTEMPT: KillReason
KILL_REASON_REPLACED: KillReason
KILL_REASON_JOB_DELETED: KillReason
KILL_REASON_NODE_POLICY: KillReason
DISCONNECT_POLICY_UNSPECIFIED: DisconnectPolicy
DISCONNECT_POLICY_CONTINUE: DisconnectPolicy
DISCONNECT_POLICY_STOP: DisconnectPolicy
LOST_POLICY_UNSPECIFIED: LostPolicy
LOST_POLICY_RETRY: LostPolicy
LOST_POLICY_FAIL: LostPolicy
LOG_LEVEL_UNSPECIFIED: LogLevel
LOG_LEVEL_TRACE: LogLevel
LOG_LEVEL_DEBUG: LogLevel
LOG_LEVEL_INFO: LogLevel
LOG_LEVEL_WARN: LogLevel
LOG_LEVEL_ERROR: LogLevel

class Payload(_message.Message):
    __slots__ = ("content_type", "data")
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    content_type: str
    data: bytes
    def __init__(self, content_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "type", "stack", "non_retryable", "retry_after")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    type: str
    stack: str
    non_retryable: bool
    retry_after: _duration_pb2.Duration
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., type: _Optional[str] = ..., stack: _Optional[str] = ..., non_retryable: bool = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AttemptRef(_message.Message):
    __slots__ = ("run_id", "attempt", "fence")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    fence: int
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class LogRecord(_message.Message):
    __slots__ = ("time", "level", "message", "fields")
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TIME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    level: LogLevel
    message: str
    fields: _containers.ScalarMap[str, str]
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., level: _Optional[_Union[LogLevel, str]] = ..., message: _Optional[str] = ..., fields: _Optional[_Mapping[str, str]] = ...) -> None: ...
