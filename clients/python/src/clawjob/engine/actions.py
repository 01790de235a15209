"""What the table asks its caller to do, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from clawjob.context import StopReason
from clawjob.engine.attempt import Key
from clawjob.wire import pb


@dataclass(frozen=True)
class Send:
    """Send this on the current session; without one it is lost, and the next Hello makes up."""

    frame: pb.SessionRequest


@dataclass(frozen=True)
class Stop:
    """Tell the handler to stop."""

    key: Key
    reason: StopReason


@dataclass(frozen=True)
class Abandon:
    """Wait for the handler no longer; end it by force where that is possible."""

    key: Key


@dataclass(frozen=True)
class Result:
    """The attempt's result can be sent, after what it logged."""

    key: Key


@dataclass(frozen=True)
class Forget:
    """The attempt's result is acknowledged; nothing of it is needed any more."""

    key: Key


Action = Union[Send, Stop, Abandon, Result, Forget]
