"""The executor's table of attempts as a pure machine: an event and the time go in, actions come
out. No I/O, no clock, no handler runs here.

An attempt is *running*, *stopping* (told to stop, with a moment at which it is abandoned) or
*finished* (its result waits for the ack). An acknowledged one moves into `memory`, so that a
command that comes again is recognised.
"""

from __future__ import annotations

from clawjob.ending import Dropped, Ending, Failed, Panicked, Returned
from clawjob.engine.actions import Abandon, Action, Forget, Result, Send, Stop
from clawjob.engine.attempt import Key
from clawjob.engine.table import Engine

__all__ = [
    "Abandon",
    "Action",
    "Dropped",
    "Ending",
    "Engine",
    "Failed",
    "Forget",
    "Key",
    "Panicked",
    "Result",
    "Returned",
    "Send",
    "Stop",
]
