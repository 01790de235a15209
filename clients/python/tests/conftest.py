"""A fake scheduler and a running app for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clawjob import App, Running
from tests.fake import PATIENCE, Fake
from tests.handlers import Gate, make_app


@pytest.fixture
def fake() -> Iterator[Fake]:
    fake = Fake()
    yield fake
    fake.crash()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


class Started:
    """A running app and what ends it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.running: Running = app.start()

    def end(self) -> None:
        """Waits for the end; raises what it ended with."""
        assert self.running.wait(PATIENCE), "the app has not ended"


@pytest.fixture
def start(fake: Fake, gate: Gate) -> Iterator[Callable[..., Started]]:
    """Starts the fixed handlers against the fake."""
    started: list[Started] = []

    def start(urls: list[str] | None = None, **settings: Any) -> Started:
        started.append(Started(make_app(urls or [fake.url], gate, **settings)))
        return started[-1]

    yield start
    gate.open()
    for each in started:
        each.running.__exit__(RuntimeError, None, None)


@pytest.fixture
def app(start: Callable[..., Started]) -> App:
    """The fixed handlers against the fake, running."""
    return start().app
