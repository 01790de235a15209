"""Params: reading them, and their JSON Schema."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import pathlib
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest

from clawjob import Context
from clawjob.handler import Invalid, Registry, Signature, encode_output
from clawjob.schema import Shape, dump


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Options(TypedDict, total=False):
    dry_run: bool


@dataclass
class Line:
    sku: str
    count: int = 1
    price: float = 0.0


@dataclass
class Order:
    lines: list[Line]
    day: dt.date
    color: Color = Color.RED
    note: str | None = None
    options: Options = field(default_factory=lambda: Options())
    mode: Literal["fast", "safe"] = "safe"
    parent: Order | None = None
    tags: dict[str, int] = field(default_factory=dict)
    point: tuple[int, str] = (0, "")
    anything: Any = None


class Model(pydantic.BaseModel):
    month: str = pydantic.Field(pattern=r"^\d{4}-\d{2}$")
    copies: int = 1


@dataclass
class Mixed:
    model: Model


def load(kind: Any, value: Any) -> Any:
    return Shape(kind).load(json.dumps(value).encode())


def test_dataclasses_are_read_with_all_that_is_in_them() -> None:
    given = {
        "lines": [{"sku": "a", "count": 2, "price": 3, "unknown": "passed over"}],
        "day": "2026-03-01",
        "color": "blue",
        "options": {"dry_run": True},
        "mode": "fast",
        "parent": {"lines": [], "day": "2026-02-28"},
        "tags": {"x": 1},
        "point": [1, "b"],
        "anything": [1, {"a": None}],
    }
    order = load(Order, given)
    assert order.lines == [Line("a", 2, 3.0)]
    assert isinstance(order.lines[0].price, float)
    assert order.day == dt.date(2026, 3, 1)
    assert order.color is Color.BLUE
    assert order.parent == Order([], dt.date(2026, 2, 28))
    assert order.point == (1, "b")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], "the value must be an object"),
        ({}, "lines is missing; day is missing"),
        ({"lines": [{"sku": 1}], "day": "x"}, r"lines\[0\].sku must be of type string; day must"),
        ({"lines": [], "day": "2026-03-01", "color": "green"}, "one of 'red', 'blue'"),
        ({"lines": [], "day": "2026-03-01", "note": 1}, "note must be of type string"),
        ({"lines": [{"sku": "a", "count": True}], "day": "2026-03-01"}, "of type integer"),
        ({"lines": [{"sku": "a", "count": 1.5}], "day": "2026-03-01"}, "of type integer"),
        ({"lines": [], "day": "2026-03-01", "point": [1]}, "point must have 2 items"),
        ({"lines": [], "day": "2026-03-01", "mode": "slow"}, "one of 'fast', 'safe'"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(value: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        load(Order, value)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (bool, True, True),
        (str, "x", "x"),
        (type(None), None, None),
        (Any, {"a": 1}, {"a": 1}),
        (list, [1], [1]),
        (dict, {"a": 1}, {"a": 1}),
        (set[int], [1, 1], {1}),
        (Annotated[int, "meta"], 1, 1),
        (int | str, "x", "x"),
        (dt.datetime, "2026-03-01T09:00:00Z", dt.datetime(2026, 3, 1, 9, tzinfo=dt.timezone.utc)),
        (dt.timedelta, 1.5, dt.timedelta(seconds=1.5)),
        (
            uuid.UUID,
            "12345678123456781234567812345678",
            uuid.UUID(int=0x12345678 * (2**96 + 2**64 + 2**32 + 1)),
        ),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
        (pathlib.Path, "/a", pathlib.Path("/a")),
    ],
)
def test_plain_types_are_read(kind: Any, value: Any, read: Any) -> None:
    got = load(kind, value)
    assert got == read
    assert type(got) is type(read)


@pytest.mark.parametrize(("kind", "value"), [(int, "3"), (str, 3), (bool, 1), (int, None)])
def test_nothing_is_converted(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        load(kind, value)


def test_deep_nesting_is_refused_and_does_no_harm() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        Shape(Any).load(b"[" * 100_000)
    deep: Any = {"lines": [], "day": "2026-03-01"}
    for _ in range(100):
        deep = {"lines": [], "day": "2026-03-01", "parent": deep}
    with pytest.raises(ValueError, match="nested too deeply"):
        load(Order, deep)


def test_the_schema_names_fields_defaults_and_nested_types() -> None:
    schema = Shape(Order).json_schema()
    assert schema["required"] == ["lines", "day"]
    assert schema["properties"]["lines"] == {"type": "array", "items": {"$ref": "#/$defs/Line"}}
    assert schema["$defs"]["Line"]["properties"]["count"] == {"type": "integer", "default": 1}
    assert schema["properties"]["color"] == {"enum": ["red", "blue"]}
    assert schema["properties"]["day"] == {"type": "string", "format": "date"}
    json.dumps(schema)


def test_pydantic_models_are_read_by_pydantic() -> None:
    assert load(Model, {"month": "2026-11"}) == Model(month="2026-11")
    with pytest.raises(ValueError, match="month"):
        load(Model, {"month": "November"})
    assert Shape(Model).json_schema()["properties"]["month"]["pattern"]
    assert load(Mixed, {"model": {"month": "2026-11"}}).model.copies == 1
    with pytest.raises(ValueError, match="month"):
        load(Mixed, {"model": {"month": "November"}})
    assert load(list[Model], [{"month": "2026-11"}])[0].month == "2026-11"


def test_values_become_json() -> None:
    value = {
        "order": Order([Line("a")], dt.date(2026, 3, 1)),
        "model": Model(month="2026-11"),
        "at": dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc),
        "span": dt.timedelta(minutes=1),
        "id": uuid.UUID(int=0),
        "text": "é",
    }
    read = json.loads(dump(value))
    assert read["order"]["lines"] == [{"sku": "a", "count": 1, "price": 0.0}]
    assert read["order"]["color"] == "red"
    assert read["model"] == {"month": "2026-11", "copies": 1}
    assert (read["span"], read["text"]) == (60.0, "é")
    for bad in (object(), b"bytes", float("nan")):
        with pytest.raises((TypeError, ValueError)):
            dump(bad)
    assert encode_output(None) is None


def both(order: Order, ctx: Context) -> None: ...
def context_only(ctx: Context) -> None: ...
def context_by_name(ctx) -> None: ...  # type: ignore[no-untyped-def]
def params_only(order: Order) -> None: ...
def neither() -> None: ...
def with_default(order: Order | None = None) -> None: ...
def two_params(a: int, b: int) -> None: ...
def by_star(*args: int) -> None: ...
def unreadable(a: threading.Lock) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def no_json(a: object, ctx: Context) -> None: ...
def of_a_type(a: type[int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "params", "context"),
    [
        (both, "order", "ctx"),
        (context_only, None, "ctx"),
        (context_by_name, None, "ctx"),
        (params_only, "order", None),
        (neither, None, None),
        (with_default, "order", None),
    ],
)
def test_signatures_say_what_a_handler_takes(
    function: Any, params: str | None, context: str | None
) -> None:
    signature = Signature.of(function)
    assert (signature.params, signature.context) == (params, context)


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (two_params, "put them into one dataclass"),
        (by_star, r"takes \*args"),
        (unreadable, "annotation that cannot be read"),
        (of_a_type, "cannot be read from JSON"),
        (functools.partial(neither), "is no function"),
    ],
)
def test_what_cannot_be_a_handler_is_told(function: Any, fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        Signature.of(function)


def test_absent_params_are_null_or_an_empty_object() -> None:
    @dataclasses.dataclass
    class AllDefaults:
        n: int = 3

    assert Shape(AllDefaults).load_absent() == AllDefaults()
    assert Shape(type(None)).load_absent() is None
    with pytest.raises(Invalid, match="lines is missing"):
        Signature.of(params_only).read(None, "")
    assert (
        Signature.of(with_default).arguments(
            Signature.of(with_default).read(None, ""),
            None,  # type: ignore[arg-type]
        )
        == {}
    )


def test_params_of_another_media_type_are_refused() -> None:
    with pytest.raises(Invalid, match="'text/plain'"):
        Signature.of(params_only).read(b"x", "text/plain; charset=utf-8")


def test_bad_and_double_names_are_faults() -> None:
    registry = Registry()
    assert len(registry.faults()) == 1
    registry.add("good/name", neither)
    registry.add("good/name", neither)
    registry.add("no spaces", neither)
    registry.add("two", two_params)
    registry.add("less", neither, max_concurrency=-1)
    assert [fault.field for fault in registry.faults()] == [
        "handler('good/name')",
        "handler('no spaces')",
        "handler('two')",
        "handler('less')",
    ]
