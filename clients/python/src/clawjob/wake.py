"""How handlers tell the session's thread that something of theirs waits to be sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clawjob.engine import Key


class Wake:
    """The attempts with something to send. An attempt is in the list once at most, so the list is
    bounded by the attempts held."""

    def __init__(self, notify: Callable[[], None]) -> None:
        """`notify` is called from any thread, once until the next `take`."""
        self._notify = notify
        self._lock = threading.Lock()
        self._keys: dict[Key, None] = {}
        self._urgent = False
        self._told = False

    def add(self, key: Key, *, urgent: bool) -> None:
        """Lists an attempt. `urgent` means now rather than with the next batch."""
        with self._lock:
            self._keys[key] = None
            self._urgent = self._urgent or urgent
            if self._told:
                return
            self._told = True
        self._notify()

    def take(self) -> tuple[list[Key], bool]:
        """Empties the list; true when one of the attempts asks for no delay."""
        with self._lock:
            keys, self._keys = list(self._keys), {}
            urgent, self._urgent = self._urgent, False
            self._told = False
        return keys, urgent
