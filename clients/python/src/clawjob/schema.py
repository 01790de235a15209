"""Types of params and checkpoints: reading them from JSON, and their JSON Schema.

Dataclasses, TypedDicts and plain types are read here; pydantic's own types by pydantic. A value
must have its type: nothing is converted but ISO 8601 text to dates and numbers to floats. Unknown
keys are passed over.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

#: Deepest nesting of values and types that is followed.
DEPTH_MAX = 64

_TEXT_TYPES: dict[Any, tuple[str, Any]] = {
    dt.datetime: ("date-time", lambda text: dt.datetime.fromisoformat(_zulu(text))),
    dt.date: ("date", dt.date.fromisoformat),
    dt.time: ("time", dt.time.fromisoformat),
    uuid.UUID: ("uuid", uuid.UUID),
    decimal.Decimal: ("decimal", decimal.Decimal),
    pathlib.Path: ("path", pathlib.Path),
}
_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class Mismatch(ValueError):
    """A value does not have its type; the text names where and why."""


class Shape:
    """A type that JSON is read as."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._adapter = _pydantic_adapter(kind)

    def load(self, data: bytes) -> Any:
        """Reads JSON. Raises ValueError for bytes that are no JSON or no such value."""
        if self._adapter is not None:
            return self._adapter.validate_json(data)
        try:
            value = json.loads(data)
        except RecursionError:
            raise Mismatch("is nested too deeply") from None
        return _read(self.kind, value, "", 0)

    def load_absent(self) -> Any:
        """What absent JSON means: null for types that take it, else an object without fields."""
        try:
            return self.load(b"null")
        except ValueError:
            return self.load(b"{}")

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the type."""
        if self._adapter is not None:
            schema: dict[str, Any] = self._adapter.json_schema()
            return schema
        definitions: dict[str, Any] = {}
        schema = _schema(self.kind, definitions, 0)
        return {**schema, "$defs": definitions} if definitions else schema


def dump(value: Any) -> bytes:
    """A value as JSON. Raises TypeError or ValueError for one that JSON cannot carry."""
    text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON; return JSON values or a dataclass")


def _pydantic_adapter(kind: Any) -> Any:
    """Pydantic's reader for its own types; None for all others."""
    return _adapter(kind) if hasattr(kind, "__pydantic_validator__") else None


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _zulu(text: str) -> str:
    """Python 3.10 does not read the Z of RFC 3339."""
    return f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text


def _where(path: str) -> str:
    return path.lstrip(".") or "the value"


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


def _read(kind: Any, value: Any, path: str, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise Mismatch(f"{_where(path)} is nested too deeply")
    if kind is Any or kind is object:
        return value
    origin = get_origin(kind)
    if kind is type(None) or kind is None:
        if value is None:
            return None
        raise Mismatch(f"{_where(path)} must be null")
    if kind in _PLAIN:
        return _read_plain(kind, value, path)
    if origin is typing.Annotated:
        return _read(get_args(kind)[0], value, path, depth + 1)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(kind), value, path, depth)
    if origin is Literal:
        if any(value == arg and type(value) is type(arg) for arg in get_args(kind)):
            return value
        raise Mismatch(f"{_where(path)} must be one of {', '.join(map(repr, get_args(kind)))}")
    adapter = _pydantic_adapter(kind)
    if adapter is not None:
        return adapter.validate_python(value)
    if kind in _TEXT_TYPES or kind is dt.timedelta:
        return _read_text(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _read_enum(kind, value, path)
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        return _read_record(kind, value, path, depth)
    return _read_container(kind, origin, value, path, depth)


def _read_plain(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is kind:
        return value
    raise Mismatch(f"{_where(path)} must be of type {_PLAIN[kind]}")


def _read_union(choices: tuple[Any, ...], value: Any, path: str, depth: int) -> Any:
    faults = []
    for choice in choices:
        try:
            return _read(choice, value, path, depth + 1)
        except ValueError as error:
            if choice is not type(None):
                faults.append(str(error))
    raise Mismatch("; or ".join(dict.fromkeys(faults)))


def _read_text(kind: Any, value: Any, path: str) -> Any:
    if kind is dt.timedelta:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return dt.timedelta(seconds=value)
        raise Mismatch(f"{_where(path)} must be a number of seconds")
    form, read = _TEXT_TYPES[kind]
    if kind is decimal.Decimal and isinstance(value, (int, float)) and type(value) is not bool:
        value = repr(value)
    if isinstance(value, str):
        try:
            return read(value)
        except (ValueError, ArithmeticError):
            pass
    raise Mismatch(f"{_where(path)} must be text of the form {form}")


def _read_enum(kind: type[enum.Enum], value: Any, path: str) -> Any:
    for member in kind:
        if member.value == value and type(member.value) is type(value):
            return member
    allowed = ", ".join(repr(member.value) for member in kind)
    raise Mismatch(f"{_where(path)} must be one of {allowed}")


def _read_record(kind: Any, value: Any, path: str, depth: int) -> Any:
    """A dataclass or a TypedDict; all faults of its fields come at once."""
    if not isinstance(value, dict):
        raise Mismatch(f"{_where(path)} must be an object")
    hints = get_type_hints(kind, include_extras=True)
    given, faults = {}, []
    for name, required in _fields(kind):
        if name not in value:
            if required:
                faults.append(f"{_where(f'{path}.{name}')} is missing")
            continue
        try:
            given[name] = _read(_bare(hints[name]), value[name], f"{path}.{name}", depth + 1)
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise Mismatch("; ".join(faults))
    if typing.is_typeddict(kind):
        return given
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise Mismatch(f"{_where(path)}: {error}") from error


def _bare(hint: Any) -> Any:
    """A TypedDict's field without Required and NotRequired around it."""
    name = getattr(get_origin(hint), "_name", "")
    return get_args(hint)[0] if name in ("Required", "NotRequired") else hint


def _fields(kind: Any) -> list[tuple[str, bool]]:
    """Names of the fields, and whether each is required."""
    if typing.is_typeddict(kind):
        required = kind.__required_keys__
        return [(name, name in required) for name in kind.__annotations__]
    missing = dataclasses.MISSING
    return [
        (f.name, f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
        if f.init
    ]


def _read_container(kind: Any, origin: Any, value: Any, path: str, depth: int) -> Any:
    base, args = origin or kind, get_args(kind)
    if base in (dict, Mapping) or (isinstance(base, type) and issubclass(base, Mapping)):
        if not isinstance(value, dict):
            raise Mismatch(f"{_where(path)} must be an object")
        of = args[1] if args else Any
        return {key: _read(of, item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    if base in (list, tuple, set, frozenset) or base is Sequence:
        if not isinstance(value, list):
            raise Mismatch(f"{_where(path)} must be a list")
        if base is tuple and args and args[-1] is not Ellipsis:
            if len(value) != len(args):
                raise Mismatch(f"{_where(path)} must have {len(args)} items")
            pairs = list(zip(args, value, strict=True))
        else:
            pairs = [(args[0] if args else Any, item) for item in value]
        items = [
            _read(of, item, f"{path}[{index}]", depth + 1) for index, (of, item) in enumerate(pairs)
        ]
        return items if base is Sequence else base(items)
    raise TypeError(f"{_name(kind)} cannot be read from JSON; use a dataclass or a pydantic model")


def _schema(kind: Any, definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth > DEPTH_MAX or kind is Any or kind is object:
        return {}
    if kind is type(None) or kind is None:
        return {"type": "null"}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind in _TEXT_TYPES:
        return {"type": "string", "format": _TEXT_TYPES[kind][0]}
    if kind is dt.timedelta:
        return {"type": "number", "description": "seconds"}
    origin, args = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return _schema(args[0], definitions, depth + 1)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(arg, definitions, depth + 1) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    adapter = _pydantic_adapter(kind)
    if adapter is not None:
        inner: dict[str, Any] = adapter.json_schema()
        definitions.update(inner.pop("$defs", {}))
        return inner
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        return _record_schema(kind, definitions, depth)
    return _container_schema(origin or kind, args, definitions, depth)


def _record_schema(kind: Any, definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    """The outermost record stands by itself, the others under `$defs`, so that types may nest
    themselves."""
    name = _name(kind)
    reference = {"$ref": f"#/$defs/{name}"}
    if depth > 0:
        if name in definitions:
            return reference
        definitions[name] = {}
    hints = get_type_hints(kind, include_extras=True)
    properties, required = {}, []
    for field_name, is_required in _fields(kind):
        properties[field_name] = _schema(_bare(hints[field_name]), definitions, depth + 1)
        if is_required:
            required.append(field_name)
    defaults = {
        f.name: f.default
        for f in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        if isinstance(f.default, (str, int, float, bool)) and f.name in properties
    }
    for field_name, default in defaults.items():
        properties[field_name] = {**properties[field_name], "default": _json_default(default)}
    schema: dict[str, Any] = {"type": "object", "title": name, "properties": properties}
    if required:
        schema["required"] = required
    if depth == 0:
        return schema
    definitions[name] = schema
    return reference


def _json_default(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _container_schema(
    base: Any, args: tuple[Any, ...], definitions: dict[str, Any], depth: int
) -> dict[str, Any]:
    def inner(index: int) -> dict[str, Any]:
        return _schema(args[index], definitions, depth + 1) if args else {}

    if isinstance(base, type) and issubclass(base, Mapping):
        return {"type": "object", "additionalProperties": inner(1)}
    if base is tuple and args and args[-1] is not Ellipsis:
        items = [_schema(arg, definitions, depth + 1) for arg in args]
        return {"type": "array", "prefixItems": items, "items": False}
    if base in (list, tuple, Sequence):
        return {"type": "array", "items": inner(0)}
    if base in (set, frozenset):
        return {"type": "array", "items": inner(0), "uniqueItems": True}
    raise TypeError(f"{_name(base)} cannot be read from JSON; use a dataclass or a pydantic model")
