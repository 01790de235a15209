import datetime

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

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerInfo(_message.Message):
    __slots__ = ("version", "protocol_major", "protocol_minor", "features", "node_id", "server_time", "max_params_bytes", "max_output_bytes", "context_path", "sign_in_methods")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAJOR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_PARAMS_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PATH_FIELD_NUMBER: _ClassVar[int]
    SIGN_IN_METHODS_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol_major: int
    protocol_minor: int
    features: _containers.RepeatedScalarFieldContainer[str]
    node_id: str
    server_time: _timestamp_pb2.Timestamp
    max_params_bytes: int
    max_output_bytes: int
    context_path: str
    sign_in_methods: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., protocol_major: _Optional[int] = ..., protocol_minor: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., node_id: _Optional[str] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_params_bytes: _Optional[int] = ..., max_output_bytes: _Optional[int] = ..., context_path: _Optional[str] = ..., sign_in_methods: _Optional[_Iterable[str]] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("nodes", "queued_runs", "running_runs", "online_executors", "storage", "problem")
    NODES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_RUNS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_RUNS_FIELD_NUMBER: _ClassVar[int]
    ONLINE_EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    queued_runs: int
    running_runs: int
    online_executors: int
    storage: str
    problem: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., queued_runs: _Optional[int] = ..., running_runs: _Optional[int] = ..., online_executors: _Optional[int] = ..., storage: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "state", "version", "advertise_address", "start_time", "last_seen_time", "sessions", "partitions", "clock_offset", "lag", "database_latency")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Node.State]
        STATE_ACTIVE: _ClassVar[Node.State]
        STATE_DRAINING: _ClassVar[Node.State]
        STATE_GONE: _ClassVar[Node.State]
    STATE_UNSPECIFIED: Node.State
    STATE_ACTIVE: Node.State
    STATE_DRAINING: Node.State
    STATE_GONE: Node.State
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ADVERTISE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_TIME_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    DATABASE_LATENCY_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: Node.State
    version: str
    advertise_address: str
    start_time: _timestamp_pb2.Timestamp
    last_seen_time: _timestamp_pb2.Timestamp
    sessions: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    clock_offset: _duration_pb2.Duration
    lag: _duration_pb2.Duration
    database_latency: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[Node.State, str]] = ..., version: _Optional[str] = ..., advertise_address: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_seen_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sessions: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., clock_offset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., database_latency: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class App(_message.Message):
    __slots__ = ("name", "display_name", "create_time", "max_concurrency", "handler_max_concurrency", "lost_after", "run_retention", "etag")
    class HandlerMaxConcurrencyEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    HANDLER_MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_FIELD_NUMBER: _ClassVar[int]
    RUN_RETENTION_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    display_name: str
    create_time: _timestamp_pb2.Timestamp
    max_concurrency: int
    handler_max_concurrency: _containers.ScalarMap[str, int]
    lost_after: _duration_pb2.Duration
    run_retention: _duration_pb2.Duration
    etag: str
    def __init__(self, name: _Optional[str] = ..., display_name: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_concurrency: _Optional[int] = ..., handler_max_concurrency: _Optional[_Mapping[str, int]] = ..., lost_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., run_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class UpdateAppRequest(_message.Message):
    __slots__ = ("app", "update_mask")
    APP_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    app: App
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, app: _Optional[_Union[App, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class ListAppsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAppsResponse(_message.Message):
    __slots__ = ("apps", "next_page_token")
    APPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    apps: _containers.RepeatedCompositeFieldContainer[App]
    next_page_token: str
    def __init__(self, apps: _Optional[_Iterable[_Union[App, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CreateAppRequest(_message.Message):
    __slots__ = ("app_id", "app", "request_id")
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    app: App
    request_id: str
    def __init__(self, app_id: _Optional[str] = ..., app: _Optional[_Union[App, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteAppRequest(_message.Message):
    __slots__ = ("name", "force")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    force: bool
    def __init__(self, name: _Optional[str] = ..., force: bool = ...) -> None: ...

class ListAuditEventsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "filter")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    filter: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ...) -> None: ...

class ListAuditEventsResponse(_message.Message):
    __slots__ = ("events", "next_page_token")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[AuditEvent]
    next_page_token: str
    def __init__(self, events: _Optional[_Iterable[_Union[AuditEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class AuditEvent(_message.Message):
    __slots__ = ("time", "principal", "method", "resource", "request_id", "peer_address", "code", "changed_fields", "id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    principal: str
    method: str
    resource: str
    request_id: str
    peer_address: str
    code: int
    changed_fields: _containers.RepeatedScalarFieldContainer[str]
    id: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., principal: _Optional[str] = ..., method: _Optional[str] = ..., resource: _Optional[str] = ..., request_id: _Optional[str] = ..., peer_address: _Optional[str] = ..., code: _Optional[int] = ..., changed_fields: _Optional[_Iterable[str]] = ..., id: _Optional[str] = ...) -> None: ...
