"""SIGTERM to a process, settings from its environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from tests.fake import PATIENCE, Fake, command

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def program(fake: Fake) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "CLAWJOB_ENDPOINTS": fake.url,
        "CLAWJOB_APP": "demo",
        "CLAWJOB_TOKEN": "from-env",
        "CLAWJOB_EXECUTOR_ID": "from-env-1",
    }
    process = subprocess.Popen([sys.executable, "-m", "tests.program"], env=env, cwd=ROOT)
    yield process
    process.kill()
    process.wait(PATIENCE)


def test_c40_c41_the_first_sigterm_drains_and_the_second_cancels(
    fake: Fake, program: subprocess.Popen[bytes]
) -> None:
    session = fake.open()
    assert session.hello.executor_id == "from-env-1"
    assert session.metadata["authorization"] == "Bearer from-env"
    session.begin(command("R1", "obedient"))
    session.begin(command("R2", "deaf"))
    program.send_signal(signal.SIGTERM)
    session.expect("a drain", lambda f: f.drain if f.HasField("drain") else None)
    session.run(command("R3", "obedient"))
    assert session.run_ack().status == pb.RunAck.STATUS_DRAINING
    program.send_signal(signal.SIGTERM)
    for _ in range(2):
        result = session.result()
        assert (result.outcome, result.failure.code) == (types.OUTCOME_CANCELED, "SHUTDOWN")
        session.ack(result)
    session.goodbye()
    session.end()
    assert program.wait(PATIENCE) == 0
