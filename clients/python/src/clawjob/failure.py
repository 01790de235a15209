"""How a handler says that it failed, and how any exception is told to the scheduler."""

from __future__ import annotations

import dataclasses
import os
import re
import traceback
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType

from clawjob import clock

#: Longest failure code, in characters.
CODE_CHARS_MAX = 63
#: Longest failure message, in bytes; a longer one is cut in the middle.
MESSAGE_BYTES_MAX = 4 * 1024
#: Longest exception type, in bytes.
TYPE_BYTES_MAX = 256
#: Longest stack, in bytes; a longer one is cut in the middle.
STACK_BYTES_MAX = 16 * 1024

_CUT_MARK = "\n… cut …\n"
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Code:
    """Failure codes that the SDK itself gives."""

    #: A handler raised an exception that carries no code of its own.
    HANDLER_ERROR = "HANDLER_ERROR"
    #: A handler tried to end the process, or its own process died.
    HANDLER_PANIC = "HANDLER_PANIC"
    #: A command named a handler that this executor does not offer.
    UNKNOWN_HANDLER = "UNKNOWN_HANDLER"
    #: The params do not fit the handler's type.
    INVALID_PARAMS = "INVALID_PARAMS"
    #: The output is larger than the scheduler takes.
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    #: A checkpoint is larger than the scheduler takes.
    CHECKPOINT_TOO_LARGE = "CHECKPOINT_TOO_LARGE"
    #: The handler did not end in time after it was told to stop.
    ABANDONED = "ABANDONED"
    #: The executor shut down before the handler was done; no attempt is used up.
    SHUTDOWN = "SHUTDOWN"
    #: The handler was told to stop.
    STOPPED = "STOPPED"
    #: Contact with the scheduler was lost, and the job asks for a stop in that case.
    DISCONNECTED = "DISCONNECTED"
    #: The timeout of the run passed.
    TIMEOUT = "TIMEOUT"
    #: A later attempt of the same run is known here.
    STALE_ATTEMPT = "STALE_ATTEMPT"


@dataclass(frozen=True)
class FailureInfo:
    """Why an attempt failed, in the form in which it is told to the scheduler."""

    #: UPPER_SNAKE, at most 63 characters.
    code: str
    message: str
    #: The exception's class; empty when the failure was made by hand.
    type: str = ""
    stack: str = ""
    #: True when the handler said that another attempt cannot help.
    non_retryable: bool = False
    #: The wait before the next attempt that the handler asked for, in seconds.
    retry_after: float | None = None

    def with_code(self, code: str) -> FailureInfo:
        """The same under another code."""
        return dataclasses.replace(self, code=upper_snake(code))

    def bounded(self) -> FailureInfo:
        """The same with texts cut to what the scheduler takes."""
        return dataclasses.replace(
            self,
            message=cut_middle(self.message, MESSAGE_BYTES_MAX),
            type=cut_middle(self.type, TYPE_BYTES_MAX),
            stack=cut_middle(self.stack, STACK_BYTES_MAX),
        )


class Failure(Exception):
    """Raise it to fail an attempt with a code of your own.

    Any other exception fails the attempt too, with the code `HANDLER_ERROR`, its class and its
    traceback.

        raise Failure("RATE_LIMITED", "the mail service said 429", retry_after=30)

    `code` is brought into UPPER_SNAKE and cut to 63 characters, `message` to 4 KiB.
    `non_retryable` says that another attempt cannot help: the run ends, whatever its attempts.
    `retry_after`, in seconds or as a timedelta, replaces the job's backoff.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        non_retryable: bool = False,
        retry_after: float | timedelta | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = upper_snake(code)
        self.message = message
        self.non_retryable = non_retryable
        self.retry_after = None if retry_after is None else clock.as_seconds(retry_after)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


def describe(error: BaseException) -> FailureInfo:
    """What to tell of an exception: its class, its message, its traceback with all causes."""
    stack = _stack(error)
    if isinstance(error, Failure):
        cause = error.__cause__
        kind = _type_name(cause) if cause is not None else ""
        if type(error) is not Failure:
            kind = _type_name(error)
        return FailureInfo(
            code=error.code,
            message=error.message,
            type=kind,
            stack=stack,
            non_retryable=error.non_retryable,
            retry_after=error.retry_after,
        )
    return FailureInfo(Code.HANDLER_ERROR, text_of(error), _type_name(error), stack)


def describe_panic(error: BaseException) -> FailureInfo:
    """What to tell of an exception that asks for the end of the process, such as SystemExit."""
    return describe(error).with_code(Code.HANDLER_PANIC)


def text_of(error: BaseException) -> str:
    """The exception's message, or its class when it has none."""
    try:
        text = str(error)
    except Exception:  # a faulty __str__ must not hide the failure
        text = ""
    return text or type(error).__name__


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _stack(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, _users_part(error.__traceback__))
    except Exception:  # a faulty __str__ somewhere in the chain
        return ""
    return "".join(lines)


def _users_part(tb: TracebackType | None) -> TracebackType | None:
    """The traceback from the handler's own first line on."""
    first = tb
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        tb = tb.tb_next
    return tb if tb is not None else first


def upper_snake(code: str) -> str:
    """A failure code in the contract's form."""
    out = re.sub(r"[^A-Z0-9]", "_", code[:CODE_CHARS_MAX].upper())[:CODE_CHARS_MAX]
    return out or Code.HANDLER_ERROR


def cut_middle(text: str, limit: int) -> str:
    """Keeps the two ends of a text that is longer than `limit` bytes."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    half = max(limit - len(_CUT_MARK.encode()), 0) // 2
    head = data[:half].decode(errors="ignore")
    tail = data[len(data) - half :].decode(errors="ignore")
    return f"{head}{_CUT_MARK}{tail}"
