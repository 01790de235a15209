"""What the settings and the end of an executor can raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ClawJobError(Exception):
    """The base of all errors of this package but `Failure`, which is a handler's own."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with the settings."""

    #: The setting: an environment variable or an argument.
    field: str
    #: What is wrong and what to do about it.
    message: str


class ConfigError(ClawJobError):
    """Everything that is wrong with the settings, all at once."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = "".join(f"\n  {fault.field}: {fault.message}" for fault in self.faults)
        super().__init__(f"the settings have {len(self.faults)} fault(s){lines}")


class RefusedError(ClawJobError):
    """The scheduler refused this executor in a way that trying again cannot change."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        #: The gRPC code's name, such as `UNAUTHENTICATED`, or the reason of a Close frame.
        self.code = code
        #: The scheduler's words.
        self.message = message
        super().__init__(f"the scheduler refuses this executor: {code}: {message}{hint}")


class SupersededError(ClawJobError):
    """Another process took over this executor's id."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"another process serves as this executor now: {message}; "
            "give each process an id of its own"
        )
