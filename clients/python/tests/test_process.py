"""Handlers in processes of their own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clawjob import App, ConfigError, StopReason
from clawjob.testing import Outcome, run_handler
from clawjob.v1 import types_pb2 as types
from tests import killable
from tests.fake import Fake, command, soon
from tests.handlers import make_app


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return True
    # One that has ended and that nobody has waited for yet.
    return stat.rpartition(")")[2].split()[0] == "Z"


def begun(path: Path) -> Callable[[], None]:
    """Waits until the handler has written its file."""
    return lambda: soon("the handler", lambda: path.exists() and path.read_text() != "")


def test_c21_c22_a_handler_that_ignores_everything_is_killed_with_its_children(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pids"
    run = run_handler(
        killable.spin,
        {"path": str(path)},
        process=True,
        stop=StopReason.USER,
        stop_after=begun(path),
        kill_grace=0.2,
    )
    assert run.outcome is Outcome.CANCELED
    assert run.failure is not None
    assert run.failure.code == "ABANDONED"
    for pid in path.read_text().split():
        soon("the end of a process", lambda pid=pid: is_gone(int(pid)))  # type: ignore[misc]


def test_what_a_handler_leaves_running_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    run = run_handler(killable.leaves_a_child, {"path": str(path)}, process=True)
    assert run.output == "done"
    soon("the end of the child", lambda: is_gone(int(path.read_text())))


def test_log_progress_checkpoint_and_output_come_over(tmp_path: Path) -> None:
    run = run_handler(killable.tells, {"n": 21}, process=True)
    assert run.output == 63
    assert run.logged("in process of its own")
    assert run.logs[0].fields == {"logger": "child", "n": "21"}
    assert run.progress == (0.25, "quarter")
    assert run.checkpoint() == {"at": 21}


def test_the_child_does_without_grpc() -> None:
    assert run_handler(killable.heavy_modules, process=True).output == []


@pytest.mark.parametrize("function", [killable.cleans_up, killable.cleans_up_async])
def test_a_stop_lets_the_handler_clean_up(tmp_path: Path, function: Callable[..., None]) -> None:
    path = tmp_path / "reason"
    run = run_handler(
        function,
        {"path": str(path)},
        process=True,
        stop=StopReason.TIMEOUT,
        stop_after=begun(path),
    )
    assert run.outcome is Outcome.TIMED_OUT
    assert run.failure is not None
    assert (run.failure.code, run.failure.message) == ("TIMEOUT", "the run's timeout passed")
    assert path.read_text() == "TIMEOUT"


def test_a_stop_does_not_garble_what_is_being_said(tmp_path: Path) -> None:
    path = tmp_path / "begun"
    run = run_handler(
        killable.chatters,
        {"path": str(path)},
        process=True,
        stop=StopReason.USER,
        stop_after=begun(path),
    )
    assert run.outcome is Outcome.CANCELED
    assert run.failure is not None
    assert run.failure.code == "STOPPED"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (killable.dies, "the handler's process was ended by SIGSEGV"),
        (killable.dies_beside_its_fork, "the handler's process was ended by SIGSEGV"),
        (killable.exits, "the handler's process ended with exit code 3"),
        (killable.leaves, "bye"),
    ],
)
def test_c17_a_process_that_dies_is_a_failure(function: Callable[[], None], text: str) -> None:
    run = run_handler(function, process=True)
    assert run.outcome is Outcome.FAILED
    assert run.failure is not None
    assert (run.failure.code, run.failure.message) == ("HANDLER_PANIC", text)


def test_failures_come_over_whole() -> None:
    run = run_handler(killable.fails, process=True)
    assert run.failure is not None
    assert (run.failure.code, run.failure.non_retryable) == ("NO_SUCH_CUSTOMER", True)
    assert "killable.py" in run.failure.stack


def test_c06_heartbeats_go_on_while_processes_come_and_go(fake: Fake, tmp_path: Path) -> None:
    from tests.handlers import Gate

    app = make_app([fake.url], Gate())
    app.handler("tells", process=True)(killable.tells)
    with app.start() as running:
        session = fake.open()
        for number in range(3):
            session.begin(command(f"R{number}", "tells", '{"n":1}'))
        for _ in range(3):
            result = session.result()
            assert result.outcome == types.OUTCOME_SUCCEEDED
            session.ack(result)
        running.drain()
        session.goodbye()
        session.end()


@functools.wraps(killable.exits)
def wrapped() -> None: ...


@pytest.mark.parametrize("function", [lambda: None, wrapped])
def test_what_cannot_be_imported_cannot_have_a_process(function: Callable[[], None]) -> None:
    app = App("demo")
    app.handler("local", process=True)(function)
    with pytest.raises(ConfigError, match="define it at the top of a module"):
        app.start()


def test_a_program_without_its_guard_is_told(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import clawjob, sys\n"
        "from clawjob.testing import run_handler\n"
        "app = clawjob.App('demo', executor_id='x')\n"
        "@app.handler('h', process=True)\n"
        "def h() -> None: ...\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(run_handler(h, process=True).failure.message)\n"
        "app.run()\n"
    )
    root = Path(__file__).resolve().parent.parent
    env = {**os.environ, "PYTHONPATH": str(root / "src")}
    ran = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    assert "must stand under `if __name__" in ran.stderr
    assert "the handler's process ended with exit code 1" in ran.stderr


def test_the_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    root = Path(__file__).resolve().parent.parent
    code = (
        "from clawjob.testing import run_handler\n"
        "from tests import killable\n"
        "if __name__ == '__main__':\n"
        f"    run_handler(killable.spin, {{'path': {str(path)!r}}}, process=True)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    env = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    parent = subprocess.Popen([sys.executable, str(script)], env=env)
    soon("the handler", lambda: path.exists() and len(path.read_text().split()) == 2)
    parent.kill()
    parent.wait()
    for pid in path.read_text().split():
        soon("the end of a process", lambda pid=pid: is_gone(int(pid)))  # type: ignore[misc]
