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

class SessionRequest(_message.Message):
    __slots__ = ("hello", "heartbeat", "run_ack", "kill_ack", "progress", "log_chunk", "result", "capacity", "drain", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    RUN_ACK_FIELD_NUMBER: _ClassVar[int]
    KILL_ACK_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_CHUNK_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heartbeat: Heartbeat
    run_ack: RunAck
    kill_ack: KillAck
    progress: Progress
    log_chunk: LogChunk
    result: RunResult
    capacity: Capacity
    drain: ExecutorDrain
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., run_ack: _Optional[_Union[RunAck, _Mapping]] = ..., kill_ack: _Optional[_Union[KillAck, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., log_chunk: _Optional[_Union[LogChunk, _Mapping]] = ..., result: _Optional[_Union[RunResult, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., drain: _Optional[_Union[ExecutorDrain, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("welcome", "heartbeat_ack", "run", "kill", "log_ack", "result_ack", "drain", "close")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    LOG_ACK_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    heartbeat_ack: HeartbeatAck
    run: RunCommand
    kill: KillCommand
    log_ack: LogAck
    result_ack: ResultAck
    drain: SchedulerDrain
    close: Close
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., run: _Optional[_Union[RunCommand, _Mapping]] = ..., kill: _Optional[_Union[KillCommand, _Mapping]] = ..., log_ack: _Optional[_Union[LogAck, _Mapping]] = ..., result_ack: _Optional[_Union[ResultAck, _Mapping]] = ..., drain: _Optional[_Union[SchedulerDrain, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_major", "protocol_minor", "features", "app", "executor_id", "instance_id", "resume_token", "handlers", "labels", "slots", "sdk", "attempts", "process_start_time", "last_command_seq")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_MAJOR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HANDLERS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_START_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMAND_SEQ_FIELD_NUMBER: _ClassVar[int]
    protocol_major: int
    protocol_minor: int
    features: _containers.RepeatedScalarFieldContainer[str]
    app: str
    executor_id: str
    instance_id: str
    resume_token: str
    handlers: _containers.RepeatedCompositeFieldContainer[Handler]
    labels: _containers.ScalarMap[str, str]
    slots: int
    sdk: SdkInfo
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptStatus]
    process_start_time: _timestamp_pb2.Timestamp
    last_command_seq: int
    def __init__(self, protocol_major: _Optional[int] = ..., protocol_minor: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., app: _Optional[str] = ..., executor_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., resume_token: _Optional[str] = ..., handlers: _Optional[_Iterable[_Union[Handler, _Mapping]]] = ..., labels: _Optional[_Mapping[str, str]] = ..., slots: _Optional[int] = ..., sdk: _Optional[_Union[SdkInfo, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[AttemptStatus, _Mapping]]] = ..., process_start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_command_seq: _Optional[int] = ...) -> None: ...

class Handler(_message.Message):
    __slots__ = ("name", "max_concurrency", "params_schema", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    PARAMS_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    max_concurrency: int
    params_schema: str
    description: str
    def __init__(self, name: _Optional[str] = ..., max_concurrency: _Optional[int] = ..., params_schema: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class SdkInfo(_message.Message):
    __slots__ = ("language", "sdk_version", "runtime_version", "os", "arch", "hostname", "pid")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    SDK_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_VERSION_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    language: str
    sdk_version: str
    runtime_version: str
    os: str
    arch: str
    hostname: str
    pid: int
    def __init__(self, language: _Optional[str] = ..., sdk_version: _Optional[str] = ..., runtime_version: _Optional[str] = ..., os: _Optional[str] = ..., arch: _Optional[str] = ..., hostname: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class AttemptStatus(_message.Message):
    __slots__ = ("ref", "finished", "start_time")
    REF_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    finished: bool
    start_time: _timestamp_pb2.Timestamp
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., finished: bool = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol_minor", "features", "session_id", "session_epoch", "resume_token", "resumed", "node_id", "server_time", "heartbeat_interval", "heartbeat_timeout", "lost_after", "run_ack_timeout", "max_frame_bytes", "max_output_bytes", "max_log_chunk_bytes", "log_window_bytes", "peer_endpoints", "auth_expire_time", "kills", "known_results")
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_FIELD_NUMBER: _ClassVar[int]
    RUN_ACK_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_LOG_CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    AUTH_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    KILLS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_RESULTS_FIELD_NUMBER: _ClassVar[int]
    protocol_minor: int
    features: _containers.RepeatedScalarFieldContainer[str]
    session_id: str
    session_epoch: int
    resume_token: str
    resumed: bool
    node_id: str
    server_time: _timestamp_pb2.Timestamp
    heartbeat_interval: _duration_pb2.Duration
    heartbeat_timeout: _duration_pb2.Duration
    lost_after: _duration_pb2.Duration
    run_ack_timeout: _duration_pb2.Duration
    max_frame_bytes: int
    max_output_bytes: int
    max_log_chunk_bytes: int
    log_window_bytes: int
    peer_endpoints: _containers.RepeatedScalarFieldContainer[str]
    auth_expire_time: _timestamp_pb2.Timestamp
    kills: _containers.RepeatedCompositeFieldContainer[KillCommand]
    known_results: _containers.RepeatedCompositeFieldContainer[_types_pb2.AttemptRef]
    def __init__(self, protocol_minor: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., session_id: _Optional[str] = ..., session_epoch: _Optional[int] = ..., resume_token: _Optional[str] = ..., resumed: bool = ..., node_id: _Optional[str] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lost_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., run_ack_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_frame_bytes: _Optional[int] = ..., max_output_bytes: _Optional[int] = ..., max_log_chunk_bytes: _Optional[int] = ..., log_window_bytes: _Optional[int] = ..., peer_endpoints: _Optional[_Iterable[str]] = ..., auth_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kills: _Optional[_Iterable[_Union[KillCommand, _Mapping]]] = ..., known_results: _Optional[_Iterable[_Union[_types_pb2.AttemptRef, _Mapping]]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("seq", "attempts", "free_slots", "cpu", "memory", "lag", "log_bytes_dropped", "last_command_seq", "abandoned_handlers")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMAND_SEQ_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_HANDLERS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptStatus]
    free_slots: int
    cpu: float
    memory: float
    lag: _duration_pb2.Duration
    log_bytes_dropped: int
    last_command_seq: int
    abandoned_handlers: int
    def __init__(self, seq: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[AttemptStatus, _Mapping]]] = ..., free_slots: _Optional[int] = ..., cpu: _Optional[float] = ..., memory: _Optional[float] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., log_bytes_dropped: _Optional[int] = ..., last_command_seq: _Optional[int] = ..., abandoned_handlers: _Optional[int] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("seq", "server_time")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    seq: int
    server_time: _timestamp_pb2.Timestamp
    def __init__(self, seq: _Optional[int] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RunCommand(_message.Message):
    __slots__ = ("ref", "job", "run", "handler", "params", "fire_time", "timeout", "deadline", "shard_index", "shard_total", "traceparent", "tracestate", "labels", "disconnect_policy", "kill_grace", "max_attempts", "checkpoint", "lateness", "catch_up", "command_seq", "lost_after", "job_revision", "caused_by", "caused_by_output")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REF_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SHARD_INDEX_FIELD_NUMBER: _ClassVar[int]
    SHARD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_POLICY_FIELD_NUMBER: _ClassVar[int]
    KILL_GRACE_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    COMMAND_SEQ_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_FIELD_NUMBER: _ClassVar[int]
    JOB_REVISION_FIELD_NUMBER: _ClassVar[int]
    CAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    CAUSED_BY_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    job: str
    run: str
    handler: str
    params: _types_pb2.Payload
    fire_time: _timestamp_pb2.Timestamp
    timeout: _duration_pb2.Duration
    deadline: _timestamp_pb2.Timestamp
    shard_index: int
    shard_total: int
    traceparent: str
    tracestate: str
    labels: _containers.ScalarMap[str, str]
    disconnect_policy: _types_pb2.DisconnectPolicy
    kill_grace: _duration_pb2.Duration
    max_attempts: int
    checkpoint: _types_pb2.Payload
    lateness: _duration_pb2.Duration
    catch_up: bool
    command_seq: int
    lost_after: _duration_pb2.Duration
    job_revision: int
    caused_by: str
    caused_by_output: _types_pb2.Payload
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., job: _Optional[str] = ..., run: _Optional[str] = ..., handler: _Optional[str] = ..., params: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., shard_index: _Optional[int] = ..., shard_total: _Optional[int] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., disconnect_policy: _Optional[_Union[_types_pb2.DisconnectPolicy, str]] = ..., kill_grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_attempts: _Optional[int] = ..., checkpoint: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., lateness: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., catch_up: bool = ..., command_seq: _Optional[int] = ..., lost_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., job_revision: _Optional[int] = ..., caused_by: _Optional[str] = ..., caused_by_output: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...

class RunAck(_message.Message):
    __slots__ = ("ref", "status", "failure", "retry_after")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[RunAck.Status]
        STATUS_ACCEPTED: _ClassVar[RunAck.Status]
        STATUS_DUPLICATE: _ClassVar[RunAck.Status]
        STATUS_BUSY: _ClassVar[RunAck.Status]
        STATUS_REJECTED: _ClassVar[RunAck.Status]
        STATUS_DRAINING: _ClassVar[RunAck.Status]
    STATUS_UNSPECIFIED: RunAck.Status
    STATUS_ACCEPTED: RunAck.Status
    STATUS_DUPLICATE: RunAck.Status
    STATUS_BUSY: RunAck.Status
    STATUS_REJECTED: RunAck.Status
    STATUS_DRAINING: RunAck.Status
    REF_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    status: RunAck.Status
    failure: _types_pb2.Failure
    retry_after: _duration_pb2.Duration
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., status: _Optional[_Union[RunAck.Status, str]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class KillCommand(_message.Message):
    __slots__ = ("ref", "reason", "grace", "message", "command_seq")
    REF_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_SEQ_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    reason: _types_pb2.KillReason
    grace: _duration_pb2.Duration
    message: str
    command_seq: int
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., reason: _Optional[_Union[_types_pb2.KillReason, str]] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., message: _Optional[str] = ..., command_seq: _Optional[int] = ...) -> None: ...

class KillAck(_message.Message):
    __slots__ = ("ref", "status")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[KillAck.Status]
        STATUS_SIGNALED: _ClassVar[KillAck.Status]
        STATUS_NOT_FOUND: _ClassVar[KillAck.Status]
        STATUS_FINISHED: _ClassVar[KillAck.Status]
    STATUS_UNSPECIFIED: KillAck.Status
    STATUS_SIGNALED: KillAck.Status
    STATUS_NOT_FOUND: KillAck.Status
    STATUS_FINISHED: KillAck.Status
    REF_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    status: KillAck.Status
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., status: _Optional[_Union[KillAck.Status, str]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("ref", "fraction", "message", "checkpoint")
    REF_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    fraction: float
    message: str
    checkpoint: _types_pb2.Payload
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., fraction: _Optional[float] = ..., message: _Optional[str] = ..., checkpoint: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("ref", "first_seq", "records", "dropped")
    REF_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    first_seq: int
    records: _containers.RepeatedCompositeFieldContainer[_types_pb2.LogRecord]
    dropped: int
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., first_seq: _Optional[int] = ..., records: _Optional[_Iterable[_Union[_types_pb2.LogRecord, _Mapping]]] = ..., dropped: _Optional[int] = ...) -> None: ...

class LogAck(_message.Message):
    __slots__ = ("ref", "through_seq")
    REF_FIELD_NUMBER: _ClassVar[int]
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    through_seq: int
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., through_seq: _Optional[int] = ...) -> None: ...

class RunResult(_message.Message):
    __slots__ = ("ref", "outcome", "output", "failure", "start_time", "finish_time", "duration", "last_log_seq", "output_truncated")
    REF_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    LAST_LOG_SEQ_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    outcome: _types_pb2.Outcome
    output: _types_pb2.Payload
    failure: _types_pb2.Failure
    start_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    last_log_seq: int
    output_truncated: bool
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., outcome: _Optional[_Union[_types_pb2.Outcome, str]] = ..., output: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., last_log_seq: _Optional[int] = ..., output_truncated: bool = ...) -> None: ...

class ResultAck(_message.Message):
    __slots__ = ("ref", "status")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[ResultAck.Status]
        STATUS_COMMITTED: _ClassVar[ResultAck.Status]
        STATUS_DUPLICATE: _ClassVar[ResultAck.Status]
        STATUS_STALE: _ClassVar[ResultAck.Status]
    STATUS_UNSPECIFIED: ResultAck.Status
    STATUS_COMMITTED: ResultAck.Status
    STATUS_DUPLICATE: ResultAck.Status
    STATUS_STALE: ResultAck.Status
    REF_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ref: _types_pb2.AttemptRef
    status: ResultAck.Status
    def __init__(self, ref: _Optional[_Union[_types_pb2.AttemptRef, _Mapping]] = ..., status: _Optional[_Union[ResultAck.Status, str]] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("free_slots", "paused_handlers", "reason")
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_HANDLERS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    free_slots: int
    paused_handlers: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, free_slots: _Optional[int] = ..., paused_handlers: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...

class ExecutorDrain(_message.Message):
    __slots__ = ("expected",)
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    expected: _duration_pb2.Duration
    def __init__(self, expected: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class SchedulerDrain(_message.Message):
    __slots__ = ("reason", "reconnect_within", "peer_endpoints", "closes_after")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[SchedulerDrain.Reason]
        REASON_SHUTDOWN: _ClassVar[SchedulerDrain.Reason]
        REASON_REBALANCE: _ClassVar[SchedulerDrain.Reason]
        REASON_ADMIN: _ClassVar[SchedulerDrain.Reason]
        REASON_AUTH_EXPIRING: _ClassVar[SchedulerDrain.Reason]
    REASON_UNSPECIFIED: SchedulerDrain.Reason
    REASON_SHUTDOWN: SchedulerDrain.Reason
    REASON_REBALANCE: SchedulerDrain.Reason
    REASON_ADMIN: SchedulerDrain.Reason
    REASON_AUTH_EXPIRING: SchedulerDrain.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_WITHIN_FIELD_NUMBER: _ClassVar[int]
    PEER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    CLOSES_AFTER_FIELD_NUMBER: _ClassVar[int]
    reason: SchedulerDrain.Reason
    reconnect_within: _duration_pb2.Duration
    peer_endpoints: _containers.RepeatedScalarFieldContainer[str]
    closes_after: _duration_pb2.Duration
    def __init__(self, reason: _Optional[_Union[SchedulerDrain.Reason, str]] = ..., reconnect_within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., peer_endpoints: _Optional[_Iterable[str]] = ..., closes_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ("reason", "message", "reconnect")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[Close.Reason]
        REASON_ERROR: _ClassVar[Close.Reason]
        REASON_SUPERSEDED: _ClassVar[Close.Reason]
        REASON_UNRESPONSIVE: _ClassVar[Close.Reason]
        REASON_REVOKED: _ClassVar[Close.Reason]
        REASON_PROTOCOL: _ClassVar[Close.Reason]
    REASON_UNSPECIFIED: Close.Reason
    REASON_ERROR: Close.Reason
    REASON_SUPERSEDED: Close.Reason
    REASON_UNRESPONSIVE: Close.Reason
    REASON_REVOKED: Close.Reason
    REASON_PROTOCOL: Close.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_FIELD_NUMBER: _ClassVar[int]
    reason: Close.Reason
    message: str
    reconnect: bool
    def __init__(self, reason: _Optional[_Union[Close.Reason, str]] = ..., message: _Optional[str] = ..., reconnect: bool = ...) -> None: ...
