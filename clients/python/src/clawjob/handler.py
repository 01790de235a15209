"""The handlers on offer: typed functions behind one untyped form."""

from __future__ import annotations

import inspect
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints

from clawjob.context import Context
from clawjob.errors import Fault
from clawjob.failure import Code, FailureInfo, text_of
from clawjob.schema import Shape, dump

#: The media type of params.
JSON = "application/json"
#: Largest schema sent in Hello, in bytes; a larger one is left out.
SCHEMA_BYTES_MAX = 32 * 1024
#: Longest handler name.
NAME_CHARS_MAX = 63

#: Params that are absent and have a default.
_DEFAULT = object()
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,63}")
_LOG = logging.getLogger("clawjob")


class Invalid(ValueError):
    """Params that do not fit."""


@dataclass(frozen=True)
class Signature:
    """How a function is called: with params, with the context, with both or neither."""

    #: Names of its arguments; None when it takes no such thing.
    params: str | None
    context: str | None
    shape: Shape
    is_async: bool
    #: The params have a default of the function's own.
    optional: bool = False

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Raises TypeError for a function that cannot be a handler."""
        if not inspect.isroutine(function):
            raise TypeError("is no function; wrap it in one")
        try:
            hints = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise TypeError(f"has an annotation that cannot be read: {error}") from error
        params = context = None
        optional = False
        for parameter in inspect.signature(function).parameters.values():
            hint = hints.get(parameter.name, Any)
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"takes *{parameter.name}; give it params and a Context alone")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise TypeError(f"takes {parameter.name} by position only; remove the '/'")
            if hint is Context or (hint is Any and parameter.name in ("ctx", "context")):
                if context is not None:
                    raise TypeError("takes two contexts; one is enough")
                context = parameter.name
            elif params is None:
                params = parameter.name
                optional = parameter.default is not parameter.empty
            elif parameter.default is parameter.empty:
                text = "put them into one dataclass"
                raise TypeError(f"takes {params} and {parameter.name} as params; {text}")
        shape = Shape(hints.get(params, Any) if params else Any)
        shape.json_schema()
        is_async = inspect.iscoroutinefunction(function)
        return cls(params, context, shape, is_async, optional)

    def read(self, data: bytes | None, content_type: str) -> Any:
        """The params from JSON. Raises Invalid for those that do not fit."""
        if self.params is None:
            return None
        kind = content_type.split(";")[0].strip().lower()
        if data and kind not in ("", JSON):
            raise Invalid(f"the params are {kind!r}; this executor reads {JSON!r}")
        try:
            if data:
                return self.shape.load(data)
            return _DEFAULT if self.optional else self.shape.load_absent()
        except Exception as error:  # a validator of the user's own may raise anything
            raise Invalid(text_of(error)) from error

    def arguments(self, params: Any, context: Context) -> dict[str, Any]:
        """What to call the function with."""
        out: dict[str, Any] = {}
        if self.params is not None and params is not _DEFAULT:
            out[self.params] = params
        if self.context is not None:
            out[self.context] = context
        return out


@dataclass(frozen=True)
class Handler:
    """One handler on offer."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    max_concurrency: int = 0
    description: str = ""
    process: bool = False

    def schema(self) -> str:
        """The JSON Schema of the params, for Hello; empty without params or when too large."""
        if self.signature.params is None:
            return ""
        text = json.dumps(self.signature.shape.json_schema(), separators=(",", ":"))
        if len(text.encode()) > SCHEMA_BYTES_MAX:
            _LOG.warning(
                "the params schema of handler %s has %d bytes, too many to be announced",
                self.name,
                len(text),
            )
            return ""
        return text


@dataclass(frozen=True)
class Call:
    """A handler with its params already read, ready to be called once."""

    handler: Handler
    params: Any


def encode_output(output: Any) -> bytes | None:
    """The output as JSON; None leaves none. Raises TypeError or ValueError when it is not JSON."""
    return None if output is None else dump(output)


def _is_importable(function: Callable[..., Any]) -> bool:
    """Whether another process finds the function by its module and name."""
    found: Any = sys.modules.get(getattr(function, "__module__", ""))
    for part in getattr(function, "__qualname__", "<").split("."):
        found = getattr(found, part, None)
    return found is function


class Registry:
    """All handlers of an app, by name."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._faults: list[Fault] = []

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        max_concurrency: int = 0,
        description: str | None = None,
        process: bool = False,
    ) -> None:
        """Adds a handler; what is wrong with it is kept for `run` to report."""
        found = len(self._faults)

        def fault(message: str) -> None:
            self._faults.append(Fault(f"handler({name!r})", message))

        if not _NAME.fullmatch(name):
            text = "letters, digits, '.', '_', '-' or '/'"
            fault(f"the name must have 1 to {NAME_CHARS_MAX} {text}")
        elif name in self._handlers:
            fault("the name is taken by another handler; rename one")
        if max_concurrency < 0:
            fault(f"max_concurrency is {max_concurrency}; give 0 for no bound of its own")
        try:
            signature = Signature.of(function)
        except TypeError as error:
            fault(f"{getattr(function, '__qualname__', function)} {error}")
            return
        if len(self._faults) == found:
            if description is None:
                description = (inspect.getdoc(function) or "").partition("\n\n")[0]
            handler = Handler(name, function, signature, max_concurrency, description, process)
            self._handlers[name] = handler

    def faults(self) -> list[Fault]:
        """Everything wrong with what was added."""
        if not self._handlers and not self._faults:
            text = "no handler is registered; put @app.handler(name) above a function"
            return [Fault("handler", text)]
        faults = list(self._faults)
        for handler in self:
            if handler.process and not _is_importable(handler.function):
                text = "another process must be able to import it; define it at the top of a module"
                faults.append(Fault(f"handler({handler.name!r})", f"process=True: {text}"))
        return faults

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def limits(self) -> dict[str, int]:
        """How many runs of each handler may be had at once; 0 means no bound of its own."""
        return {handler.name: handler.max_concurrency for handler in self}

    def prepare(self, name: str, data: bytes | None, content_type: str) -> Call | FailureInfo:
        """Finds the handler and reads the params for it; else why that cannot be."""
        handler = self._handlers.get(name)
        if handler is None:
            text = f"this executor offers no handler {name!r}"
            return FailureInfo(Code.UNKNOWN_HANDLER, text)
        try:
            return Call(handler, handler.signature.read(data, content_type))
        except Invalid as error:
            return FailureInfo(Code.INVALID_PARAMS, text_of(error))
