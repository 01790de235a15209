"""Against the real scheduler: CLAWJOB_TEST_BINARY names the binary `clawjob`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clawjob import Client
from clawjob.client import (
    AlreadyExistsError,
    EtagMismatchError,
    InvalidArgumentError,
    JobError,
    JobExistsError,
    JobNotFoundError,
    RunFailedError,
    RunNotFoundError,
    UnauthenticatedError,
    is_final,
    output_of,
    state_of,
)
from clawjob.v1 import cluster_service_pb2 as cluster
from clawjob.v1 import identity_service_pb2 as identity
from clawjob.v1 import job_service_pb2 as jobs_pb
from tests.fake import PATIENCE, soon
from tests.test_readme import readme_blocks

BINARY = os.environ.get("CLAWJOB_TEST_BINARY", "")
ROOT = Path(__file__).resolve().parent.parent
APP = "demo"

pytestmark = pytest.mark.skipif(not BINARY, reason="CLAWJOB_TEST_BINARY names no binary")


class Program:
    """A process whose lines are read; ended with the test."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def line_with(self, text: str) -> str:
        soon(f"{text!r} in {self.lines}", lambda: any(text in line for line in self.lines))
        return next(line for line in self.lines if text in line)

    def end(self) -> int:
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def clean_env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CLAWJOB_")}


@dataclass
class Node:
    """A running scheduler."""

    program: Program
    url: str
    token_file: Path
    admin: Client

    def executor_env(self, app: str = APP) -> dict[str, str]:
        grant = identity.Grant(app=app, role=identity.ROLE_EXECUTOR)
        token = identity.Token(display_name="python", grants=[grant])
        answer = self.admin.call(
            "IdentityService/CreateToken",
            identity.CreateTokenRequest(token=token),
            identity.CreateTokenResponse,
            repeatable=False,
        )
        return {
            **clean_env(),
            "PYTHONPATH": str(ROOT / "src"),
            "CLAWJOB_ENDPOINTS": self.url,
            "CLAWJOB_TOKEN": answer.secret,
            "CLAWJOB_APP": app,
        }


@contextmanager
def a_node(directory: Path, listen: str = "127.0.0.1:0") -> Iterator[Node]:
    command = [BINARY, "server", "--data-dir", str(directory / "data"), "--listen", listen]
    program = Program(command, clean_env(), directory)
    line = program.line_with("listening on http")
    url = re.search(r"http://[0-9.:]+", line)
    assert url is not None, line
    token = directory / "data" / "admin.token"
    soon("the admin's token", token.exists)
    with Client(APP, endpoints=[url[0]], token_file=token) as admin:
        yield Node(program, url[0], token, admin)
    program.end()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with a_node(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture(scope="module")
def executor(node: Node) -> Iterator[Program]:
    """The conformance program, connected."""
    program = Program([sys.executable, "conformance/app.py"], node.executor_env(), ROOT)
    program.line_with("with the scheduler at")
    yield program
    assert program.end() == 0


def own_program(node: Node) -> Program:
    """The program of the tests, connected."""
    env = {**node.executor_env(), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    program = Program([sys.executable, "-m", "tests.program"], env, ROOT)
    program.line_with("with the scheduler at")
    return program


@pytest.fixture(scope="module")
def admin(node: Node) -> Client:
    return node.admin


def job(admin: Client, name: str, handler: str, **fields: Any) -> str:
    admin.jobs.create(name, {"handler": handler, **fields})
    return name


def test_a_run_succeeds_with_its_output(admin: Client, executor: Program) -> None:
    job(admin, "echo", "echo", params={"a": 1})
    run = admin.runs.wait(admin.jobs.trigger("echo"), timeout=PATIENCE, check=True)
    assert output_of(run) == {"a": 1}
    run = admin.runs.wait(admin.jobs.trigger("echo", [2]), timeout=PATIENCE)
    assert output_of(run) == [2]
    assert run.executor.startswith(f"apps/{APP}/executors/")


def test_a_run_is_killed(admin: Client, executor: Program) -> None:
    job(admin, "sleep", "sleep", params={"ms": 60_000})
    run = admin.jobs.trigger("sleep")
    soon("the run", lambda: state_of(admin.runs.get(run)) == "RUNNING")
    admin.runs.cancel(run, reason="by the test")
    ended = admin.runs.wait(run, timeout=PATIENCE)
    assert state_of(ended) == "CANCELED"
    with pytest.raises(RunFailedError, match="ended CANCELED"):
        admin.runs.wait(run, check=True)


def test_a_handler_that_ignores_its_kill_is_abandoned(
    node: Node, admin: Client, tmp_path: Path
) -> None:
    program = own_program(node)
    over = tmp_path / "over"
    try:
        job(admin, "deaf", "deaf-until-file", params={"path": str(over)})
        run = admin.jobs.trigger("deaf")
        soon("the run", lambda: state_of(admin.runs.get(run)) == "RUNNING")
        admin.runs.cancel(run, grace=0.2)
        ended = admin.runs.wait(run, timeout=PATIENCE)
        assert (state_of(ended), ended.failure.code) == ("CANCELED", "ABANDONED")
    finally:
        over.touch()
        assert program.end() == 0


def test_failures_and_retries(admin: Client, executor: Program) -> None:
    retry = {"max_attempts": 2, "initial_backoff": "100ms"}
    job(admin, "fail", "fail", params={}, retry=retry)
    run = admin.runs.wait(admin.jobs.trigger("fail"), timeout=PATIENCE)
    assert (state_of(run), run.attempt) == ("FAILED", 2)
    assert run.failure.type.endswith("BankClosedError")
    assert "it is Sunday" in run.failure.stack
    once = admin.jobs.trigger("fail", {"code": "NO_SUCH_CUSTOMER", "non_retryable": True})
    run = admin.runs.wait(once, timeout=PATIENCE)
    assert (run.failure.code, run.attempt) == ("NO_SUCH_CUSTOMER", 1)
    run = admin.runs.wait(admin.jobs.trigger("fail", "no object"), timeout=PATIENCE)
    assert run.failure.code == "INVALID_PARAMS"


def test_logs_are_stored_and_tailed(admin: Client, executor: Program) -> None:
    job(admin, "logs", "logs", params={"count": 250})
    run = admin.jobs.trigger("logs")
    texts = [record.record.message for record in admin.runs.tail_logs(run)]
    assert texts == [f"line {number}" for number in range(1, 251)]
    stored = list(admin.runs.logs(run))
    assert [record.seq for record in stored] == list(range(1, 251))
    assert len(list(admin.runs.logs(run, limit=7))) == 7


def test_the_example_goes_on_from_its_checkpoint_and_tells_its_progress(
    node: Node, admin: Client, executor: Program
) -> None:
    example = Program([sys.executable, "examples/nightly_report.py"], node.executor_env(), ROOT)
    example.line_with("with the scheduler at")
    try:
        params = {"month": "2026-11", "rows": 500, "breaks_at": 250}
        job(admin, "nightly-report", "nightly-report", params=params, retry={"max_attempts": 3})
        run = admin.jobs.trigger("nightly-report")
        texts = [record.record.message for record in admin.runs.tail_logs(run)]
        ended = admin.runs.wait(run, timeout=PATIENCE, check=True)
        assert output_of(ended) == {"month": "2026-11", "rows": 500}
        assert ended.attempt == 2
        assert ended.attempts[0].failure.code == "SOURCE_DOWN"
        assert "making the report of 2026-11, attempt 2, from row 200" in texts
        assert (ended.progress, ended.progress_message) == (1.0, "500 rows")
        run = admin.jobs.trigger("nightly-report", {"month": "2026-12", "pause_ms": 20_000})
        soon("the run", lambda: state_of(admin.runs.get(run)) == "RUNNING")
        admin.runs.cancel(run)
        assert state_of(admin.runs.wait(run, timeout=PATIENCE)) == "CANCELED"
    finally:
        assert example.end() == 0


def test_the_readme_leads_to_a_first_run(
    node: Node, admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = readme_blocks()
    program = next(block for block in blocks if "app.run()" in block)
    (tmp_path / "report.py").write_text(program)
    reports = Program([sys.executable, "report.py"], node.executor_env("billing"), tmp_path)
    reports.line_with("with the scheduler at")
    try:
        monkeypatch.setenv("CLAWJOB_ENDPOINTS", node.url)
        monkeypatch.setenv("CLAWJOB_TOKEN_FILE", str(node.token_file))
        names: dict[str, Any] = {}
        exec(next(block for block in blocks if "clawjob.Client(" in block), names)
        assert output_of(names["ended"]) == "report for 2026-12 is ready"
        assert "making the report" in names["record"].record.message
    finally:
        assert reports.end() == 0


def test_c36_a_kill_of_the_scheduler_with_50_runs_in_flight_loses_no_result(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    with a_node(tmp_path) as first:
        executor = own_program(first)
        # One attempt each: a run that is lost, or begun again, would not succeed.
        job(first.admin, "gated", "until-file", params={"path": str(gate)}, overlap="allow")
        names = [first.admin.jobs.trigger("gated").name for _ in range(50)]
        running = first.admin.runs.list
        soon("all to run", lambda: len(list(running(filter="state = RUNNING"))) == 50)
        first.program.process.kill()
        first.program.process.wait(PATIENCE)
        executor.line_with("is lost")
        # All of them end while there is nobody to tell.
        gate.touch()
        with a_node(tmp_path, first.url.removeprefix("http://")) as second:
            for name in names:
                ended = second.admin.runs.wait(name, timeout=60, check=True)
                assert (output_of(ended), ended.attempt) == (name.rpartition("/")[2], 1)
            assert executor.end() == 0


def test_runs_are_watched_and_listed(admin: Client, executor: Program) -> None:
    job(admin, "watched", "echo", params=1)
    job(admin, "unserved", "nobody-offers-this")
    mine = f'job = "{admin.jobs.name("watched")}"'
    waiting = admin.jobs.trigger("unserved").name
    seen: set[str] = set()
    ended: set[str] = set()

    def watch() -> None:
        unserved = f'job = "{admin.jobs.name("unserved")}"'
        for event in admin.runs.watch(filter=f"{mine} OR {unserved}"):
            seen.add(event.run.name)
            if is_final(event.run):
                ended.add(event.run.name)
            if waiting in ended:
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    # A run that ends before the watch is open is not in it; one that waits is told of first.
    soon("the run that waits", lambda: waiting in seen)
    names = {admin.jobs.trigger("watched").name for _ in range(5)}
    soon("the end of all", lambda: ended == names)
    admin.runs.cancel(waiting)
    watcher.join(PATIENCE)
    assert not watcher.is_alive()
    assert {run.name for run in admin.runs.list(filter=mine)} == names
    assert len(list(admin.runs.list(filter=mine, limit=3))) == 3
    again = admin.runs.rerun(sorted(names)[0])
    assert output_of(admin.runs.wait(again, timeout=PATIENCE)) == 1


def test_errors_are_typed_by_their_reasons(node: Node, admin: Client) -> None:
    job(admin, "typed", "echo")
    with pytest.raises(JobExistsError) as exists:
        admin.jobs.create("typed", {"handler": "echo"})
    assert isinstance(exists.value, AlreadyExistsError)
    assert (exists.value.reason, bool(exists.value.request_id)) == ("JOB_EXISTS", True)
    with pytest.raises(JobNotFoundError):
        admin.jobs.get("nobody")
    with pytest.raises(RunNotFoundError):
        admin.runs.get("01J00000000000000000000000")
    stale = admin.jobs.get("typed").etag
    admin.jobs.update("typed", {"description": "new"}, etag=stale)
    with pytest.raises(EtagMismatchError):
        admin.jobs.update("typed", {"description": "newer"}, etag=stale)
    with pytest.raises(InvalidArgumentError) as invalid:
        admin.jobs.create("bad", {"cron": "61 * * * *", "time_zone": "Mars/Base"})
    assert len(invalid.value.violations) >= 2
    stranger = Client(APP, endpoints=[node.url], token="wrong")
    with stranger, pytest.raises(UnauthenticatedError):
        stranger.jobs.get("typed")


def test_a_request_id_makes_a_change_once(admin: Client) -> None:
    job(admin, "once", "nobody-offers-this")
    first = admin.jobs.trigger("once", request_id="the-same")
    assert admin.jobs.trigger("once", request_id="the-same").name == first.name


def test_jobs_are_paused_previewed_and_rolled_back(admin: Client) -> None:
    job(admin, "report", "echo", cron="0 2 * * *", time_zone="Europe/Berlin")
    assert admin.jobs.pause("report").state == jobs_pb.Job.STATE_PAUSED
    assert admin.jobs.resume("report").state == jobs_pb.Job.STATE_ACTIVE
    preview = admin.jobs.preview("0 2 * * *", time_zone="Europe/Berlin", count=3)
    assert len(preview.fire_times) == 3
    first = admin.jobs.get("report").revision
    admin.jobs.update("report", {"description": "changed"})
    assert admin.jobs.rollback("report", first).description == ""
    assert len(list(admin.jobs.revisions("report"))) >= 2
    assert "apps/demo/jobs/report" in {each.name for each in admin.jobs.list()}


def test_apply_changes_what_differs_and_nothing_else(admin: Client) -> None:
    wanted: dict[str, Any] = {
        "applied/one": {
            "handler": "echo",
            "every": "1h",
            "params": {"name": "Ada"},
            "retry": {"max_attempts": 3, "initialBackoff": "1m30s"},
            "overlap": "queue",
        },
        "applied/two": {"handler": "echo", "cron": "0 9 * * *", "state": "paused"},
    }
    dry = admin.apply(wanted, dry_run=True)
    assert [(each.name, each.action) for each in dry] == [
        ("apps/applied/jobs/one", "create"),
        ("apps/applied/jobs/two", "create"),
    ]
    assert [each.action for each in admin.apply(wanted)] == ["create", "create"]
    assert [each.action for each in admin.apply(wanted)] == ["keep", "keep"]
    assert admin.jobs.get("applied/two").state == jobs_pb.Job.STATE_PAUSED
    wanted["applied/one"]["params"] = {"name": "Tom"}
    wanted["applied/two"]["state"] = "active"
    first, second = admin.apply(wanted)
    assert [(c.field, c.before, c.after) for c in first.changes] == [("params.name", "Ada", "Tom")]
    assert [(c.field, c.after) for c in second.changes] == [("state", "STATE_ACTIVE")]
    del wanted["applied/two"]
    actions = {each.name: each.action for each in admin.apply(wanted, prune=True)}
    assert actions == {"apps/applied/jobs/one": "keep", "apps/applied/jobs/two": "delete"}
    wanted["applied/bad"] = {"handler": "echo", "cron": "61 * * * *"}
    wanted["applied/worse"] = {"handlr": "echo", "timeout": "soon"}
    with pytest.raises(JobError) as error:
        admin.apply(wanted)
    assert len(error.value.faults) >= 3
    admin.jobs.delete("applied/one")
    assert not list(admin.jobs.list("applied"))


def test_the_server_says_who_it_is(node: Node) -> None:
    info = node.admin.call(
        "ClusterService/GetServerInfo",
        cluster.GetServerInfoRequest(),
        cluster.ServerInfo,
        repeatable=True,
    )
    assert info.protocol_major == 1
