"""How a handler ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from clawjob.failure import FailureInfo


@dataclass(frozen=True)
class Returned:
    """The handler returned; its output as JSON, if it has one."""

    output: bytes | None


@dataclass(frozen=True)
class Failed:
    """The handler raised."""

    failure: FailureInfo


@dataclass(frozen=True)
class Panicked:
    """The handler asked for the end of the process, or its own process died."""

    failure: FailureInfo


@dataclass(frozen=True)
class Dropped:
    """The handler was ended by force, or with its runtime."""


Ending = Union[Returned, Failed, Panicked, Dropped]
