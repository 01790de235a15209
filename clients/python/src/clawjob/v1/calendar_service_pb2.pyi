import datetime

from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Calendar(_message.Message):
    __slots__ = ("name", "display_name", "dates", "weekdays", "windows", "etag")
    class Window(_message.Message):
        __slots__ = ("start_time", "end_time")
        START_TIME_FIELD_NUMBER: _ClassVar[int]
        END_TIME_FIELD_NUMBER: _ClassVar[int]
        start_time: _timestamp_pb2.Timestamp
        end_time: _timestamp_pb2.Timestamp
        def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DATES_FIELD_NUMBER: _ClassVar[int]
    WEEKDAYS_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    display_name: str
    dates: _containers.RepeatedScalarFieldContainer[str]
    weekdays: _containers.RepeatedScalarFieldContainer[int]
    windows: _containers.RepeatedCompositeFieldContainer[Calendar.Window]
    etag: str
    def __init__(self, name: _Optional[str] = ..., display_name: _Optional[str] = ..., dates: _Optional[_Iterable[str]] = ..., weekdays: _Optional[_Iterable[int]] = ..., windows: _Optional[_Iterable[_Union[Calendar.Window, _Mapping]]] = ..., etag: _Optional[str] = ...) -> None: ...

class CreateCalendarRequest(_message.Message):
    __slots__ = ("parent", "calendar_id", "calendar", "request_id")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_ID_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    parent: str
    calendar_id: str
    calendar: Calendar
    request_id: str
    def __init__(self, parent: _Optional[str] = ..., calendar_id: _Optional[str] = ..., calendar: _Optional[_Union[Calendar, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class GetCalendarRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListCalendarsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCalendarsResponse(_message.Message):
    __slots__ = ("calendars", "next_page_token")
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    calendars: _containers.RepeatedCompositeFieldContainer[Calendar]
    next_page_token: str
    def __init__(self, calendars: _Optional[_Iterable[_Union[Calendar, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateCalendarRequest(_message.Message):
    __slots__ = ("calendar", "update_mask")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class DeleteCalendarRequest(_message.Message):
    __slots__ = ("name", "etag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    etag: str
    def __init__(self, name: _Optional[str] = ..., etag: _Optional[str] = ...) -> None: ...
