"""The session with the scheduler, on a thread and an event loop of its own: a handler that blocks
stops neither a heartbeat nor an answer."""

from __future__ import annotations

from clawjob.session.thread import SessionThread, Start

__all__ = ["SessionThread", "Start"]
