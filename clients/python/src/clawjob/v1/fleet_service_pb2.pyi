import datetime

from clawjob.v1 import session_pb2 as _session_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Executor(_message.Message):
    __slots__ = ("name", "state", "cordoned", "instance_id", "session_id", "session_epoch", "node_id", "peer_address", "sdk", "handlers", "labels", "slots", "free_slots", "running", "connect_time", "last_heartbeat_time", "clock_offset", "lag", "reconnects_last_hour", "cpu", "memory", "abandoned_handlers")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Executor.State]
        STATE_ONLINE: _ClassVar[Executor.State]
        STATE_SUSPECT: _ClassVar[Executor.State]
        STATE_DRAINING: _ClassVar[Executor.State]
        STATE_OFFLINE: _ClassVar[Executor.State]
    STATE_UNSPECIFIED: Executor.State
    STATE_ONLINE: Executor.State
    STATE_SUSPECT: Executor.State
    STATE_DRAINING: Executor.State
    STATE_OFFLINE: Executor.State
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    HANDLERS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    CONNECT_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_TIME_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_LAST_HOUR_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_HANDLERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: Executor.State
    cordoned: bool
    instance_id: str
    session_id: str
    session_epoch: int
    node_id: str
    peer_address: str
    sdk: _session_pb2.SdkInfo
    handlers: _containers.RepeatedCompositeFieldContainer[_session_pb2.Handler]
    labels: _containers.ScalarMap[str, str]
    slots: int
    free_slots: int
    running: _containers.RepeatedScalarFieldContainer[str]
    connect_time: _timestamp_pb2.Timestamp
    last_heartbeat_time: _timestamp_pb2.Timestamp
    clock_offset: _duration_pb2.Duration
    lag: _duration_pb2.Duration
    reconnects_last_hour: int
    cpu: float
    memory: float
    abandoned_handlers: int
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[Executor.State, str]] = ..., cordoned: bool = ..., instance_id: _Optional[str] = ..., session_id: _Optional[str] = ..., session_epoch: _Optional[int] = ..., node_id: _Optional[str] = ..., peer_address: _Optional[str] = ..., sdk: _Optional[_Union[_session_pb2.SdkInfo, _Mapping]] = ..., handlers: _Optional[_Iterable[_Union[_session_pb2.Handler, _Mapping]]] = ..., labels: _Optional[_Mapping[str, str]] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., running: _Optional[_Iterable[str]] = ..., connect_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_heartbeat_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., clock_offset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reconnects_last_hour: _Optional[int] = ..., cpu: _Optional[float] = ..., memory: _Optional[float] = ..., abandoned_handlers: _Optional[int] = ...) -> None: ...

class GetExecutorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListExecutorsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "filter")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    filter: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ...) -> None: ...

class ListExecutorsResponse(_message.Message):
    __slots__ = ("executors", "next_page_token")
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    executors: _containers.RepeatedCompositeFieldContainer[Executor]
    next_page_token: str
    def __init__(self, executors: _Optional[_Iterable[_Union[Executor, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CordonExecutorRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UncordonExecutorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DisconnectExecutorRequest(_message.Message):
    __slots__ = ("name", "kill_runs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KILL_RUNS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kill_runs: bool
    def __init__(self, name: _Optional[str] = ..., kill_runs: bool = ...) -> None: ...

class DeleteExecutorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListHandlersRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListHandlersResponse(_message.Message):
    __slots__ = ("handlers", "next_page_token")
    class Entry(_message.Message):
        __slots__ = ("handler", "executors", "free_slots")
        HANDLER_FIELD_NUMBER: _ClassVar[int]
        EXECUTORS_FIELD_NUMBER: _ClassVar[int]
        FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
        handler: _session_pb2.Handler
        executors: _containers.RepeatedScalarFieldContainer[str]
        free_slots: int
        def __init__(self, handler: _Optional[_Union[_session_pb2.Handler, _Mapping]] = ..., executors: _Optional[_Iterable[str]] = ..., free_slots: _Optional[int] = ...) -> None: ...
    HANDLERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    handlers: _containers.RepeatedCompositeFieldContainer[ListHandlersResponse.Entry]
    next_page_token: str
    def __init__(self, handlers: _Optional[_Iterable[_Union[ListHandlersResponse.Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
