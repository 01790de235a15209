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

class AlarmRule(_message.Message):
    __slots__ = ("name", "display_name", "condition", "filter", "threshold", "duration", "channels", "repeat_interval", "disabled", "etag")
    class Condition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONDITION_UNSPECIFIED: _ClassVar[AlarmRule.Condition]
        CONDITION_RUN_FAILED: _ClassVar[AlarmRule.Condition]
        CONDITION_RUN_LOST: _ClassVar[AlarmRule.Condition]
        CONDITION_RUN_SLOW: _ClassVar[AlarmRule.Condition]
        CONDITION_RUN_MISSED: _ClassVar[AlarmRule.Condition]
        CONDITION_QUEUE_STUCK: _ClassVar[AlarmRule.Condition]
        CONDITION_EXECUTOR_OFFLINE: _ClassVar[AlarmRule.Condition]
        CONDITION_NO_EXECUTOR: _ClassVar[AlarmRule.Condition]
        CONDITION_RUN_SUCCEEDED: _ClassVar[AlarmRule.Condition]
        CONDITION_RECOVERED: _ClassVar[AlarmRule.Condition]
    CONDITION_UNSPECIFIED: AlarmRule.Condition
    CONDITION_RUN_FAILED: AlarmRule.Condition
    CONDITION_RUN_LOST: AlarmRule.Condition
    CONDITION_RUN_SLOW: AlarmRule.Condition
    CONDITION_RUN_MISSED: AlarmRule.Condition
    CONDITION_QUEUE_STUCK: AlarmRule.Condition
    CONDITION_EXECUTOR_OFFLINE: AlarmRule.Condition
    CONDITION_NO_EXECUTOR: AlarmRule.Condition
    CONDITION_RUN_SUCCEEDED: AlarmRule.Condition
    CONDITION_RECOVERED: AlarmRule.Condition
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    REPEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    display_name: str
    condition: AlarmRule.Condition
    filter: str
    threshold: int
    duration: _duration_pb2.Duration
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    repeat_interval: _duration_pb2.Duration
    disabled: bool
    etag: str
    def __init__(self, name: _Optional[str] = ..., display_name: _Optional[str] = ..., condition: _Optional[_Union[AlarmRule.Condition, str]] = ..., filter: _Optional[str] = ..., threshold: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ..., repeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., disabled: bool = ..., etag: _Optional[str] = ...) -> None: ...

class Channel(_message.Message):
    __slots__ = ("webhook", "email", "chat_robot")
    class Webhook(_message.Message):
        __slots__ = ("url", "secret", "headers")
        class HeadersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        URL_FIELD_NUMBER: _ClassVar[int]
        SECRET_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        url: str
        secret: str
        headers: _containers.ScalarMap[str, str]
        def __init__(self, url: _Optional[str] = ..., secret: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...
    class Email(_message.Message):
        __slots__ = ("to",)
        TO_FIELD_NUMBER: _ClassVar[int]
        to: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, to: _Optional[_Iterable[str]] = ...) -> None: ...
    class ChatRobot(_message.Message):
        __slots__ = ("vendor", "url", "secret")
        class Vendor(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            VENDOR_UNSPECIFIED: _ClassVar[Channel.ChatRobot.Vendor]
            VENDOR_DINGTALK: _ClassVar[Channel.ChatRobot.Vendor]
            VENDOR_WECOM: _ClassVar[Channel.ChatRobot.Vendor]
            VENDOR_FEISHU: _ClassVar[Channel.ChatRobot.Vendor]
            VENDOR_SLACK: _ClassVar[Channel.ChatRobot.Vendor]
        VENDOR_UNSPECIFIED: Channel.ChatRobot.Vendor
        VENDOR_DINGTALK: Channel.ChatRobot.Vendor
        VENDOR_WECOM: Channel.ChatRobot.Vendor
        VENDOR_FEISHU: Channel.ChatRobot.Vendor
        VENDOR_SLACK: Channel.ChatRobot.Vendor
        VENDOR_FIELD_NUMBER: _ClassVar[int]
        URL_FIELD_NUMBER: _ClassVar[int]
        SECRET_FIELD_NUMBER: _ClassVar[int]
        vendor: Channel.ChatRobot.Vendor
        url: str
        secret: str
        def __init__(self, vendor: _Optional[_Union[Channel.ChatRobot.Vendor, str]] = ..., url: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    CHAT_ROBOT_FIELD_NUMBER: _ClassVar[int]
    webhook: Channel.Webhook
    email: Channel.Email
    chat_robot: Channel.ChatRobot
    def __init__(self, webhook: _Optional[_Union[Channel.Webhook, _Mapping]] = ..., email: _Optional[_Union[Channel.Email, _Mapping]] = ..., chat_robot: _Optional[_Union[Channel.ChatRobot, _Mapping]] = ...) -> None: ...

class Alarm(_message.Message):
    __slots__ = ("name", "rule", "subject", "message", "fire_time", "resolve_time", "acknowledge_time", "acknowledged_by", "deliveries", "last_delivery_error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_TIME_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_TIME_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_BY_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    LAST_DELIVERY_ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    rule: str
    subject: str
    message: str
    fire_time: _timestamp_pb2.Timestamp
    resolve_time: _timestamp_pb2.Timestamp
    acknowledge_time: _timestamp_pb2.Timestamp
    acknowledged_by: str
    deliveries: int
    last_delivery_error: str
    def __init__(self, name: _Optional[str] = ..., rule: _Optional[str] = ..., subject: _Optional[str] = ..., message: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., resolve_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., acknowledge_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., acknowledged_by: _Optional[str] = ..., deliveries: _Optional[int] = ..., last_delivery_error: _Optional[str] = ...) -> None: ...

class CreateAlarmRuleRequest(_message.Message):
    __slots__ = ("parent", "alarm_rule_id", "alarm_rule", "request_id", "validate_only")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ALARM_RULE_ID_FIELD_NUMBER: _ClassVar[int]
    ALARM_RULE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    parent: str
    alarm_rule_id: str
    alarm_rule: AlarmRule
    request_id: str
    validate_only: bool
    def __init__(self, parent: _Optional[str] = ..., alarm_rule_id: _Optional[str] = ..., alarm_rule: _Optional[_Union[AlarmRule, _Mapping]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class GetAlarmRuleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListAlarmRulesRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAlarmRulesResponse(_message.Message):
    __slots__ = ("alarm_rules", "next_page_token")
    ALARM_RULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    alarm_rules: _containers.RepeatedCompositeFieldContainer[AlarmRule]
    next_page_token: str
    def __init__(self, alarm_rules: _Optional[_Iterable[_Union[AlarmRule, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateAlarmRuleRequest(_message.Message):
    __slots__ = ("alarm_rule", "update_mask", "validate_only")
    ALARM_RULE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    alarm_rule: AlarmRule
    update_mask: _field_mask_pb2.FieldMask
    validate_only: bool
    def __init__(self, alarm_rule: _Optional[_Union[AlarmRule, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class DeleteAlarmRuleRequest(_message.Message):
    __slots__ = ("name", "etag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    etag: str
    def __init__(self, name: _Optional[str] = ..., etag: _Optional[str] = ...) -> None: ...

class TestAlarmRuleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TestAlarmRuleResponse(_message.Message):
    __slots__ = ("deliveries",)
    class Delivery(_message.Message):
        __slots__ = ("channel_index", "ok", "detail")
        CHANNEL_INDEX_FIELD_NUMBER: _ClassVar[int]
        OK_FIELD_NUMBER: _ClassVar[int]
        DETAIL_FIELD_NUMBER: _ClassVar[int]
        channel_index: int
        ok: bool
        detail: str
        def __init__(self, channel_index: _Optional[int] = ..., ok: bool = ..., detail: _Optional[str] = ...) -> None: ...
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[TestAlarmRuleResponse.Delivery]
    def __init__(self, deliveries: _Optional[_Iterable[_Union[TestAlarmRuleResponse.Delivery, _Mapping]]] = ...) -> None: ...

class ListAlarmsRequest(_message.Message):
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

class ListAlarmsResponse(_message.Message):
    __slots__ = ("alarms", "next_page_token")
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    alarms: _containers.RepeatedCompositeFieldContainer[Alarm]
    next_page_token: str
    def __init__(self, alarms: _Optional[_Iterable[_Union[Alarm, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class AcknowledgeAlarmRequest(_message.Message):
    __slots__ = ("name", "comment")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    comment: str
    def __init__(self, name: _Optional[str] = ..., comment: _Optional[str] = ...) -> None: ...
