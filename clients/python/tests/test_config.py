"""Settings: code, environment, defaults, and all faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawjob import App, Client, ConfigError
from clawjob.config import Settings, check, id_from, target_of


def test_all_faults_of_the_environment_come_at_once() -> None:
    env = {
        "CLAWJOB_ENDPOINTS": "http://a:7700,b:7700,https://c/path,http://u@d",
        "CLAWJOB_TOKEN": "t",
        "CLAWJOB_TOKEN_FILE": "/f",
        "CLAWJOB_APP": "No App",
        "CLAWJOB_EXECUTOR_ID": "-x",
        "CLAWJOB_CA_FILE": "/no/such/file.pem",
    }
    with pytest.raises(ConfigError) as error:
        check(Settings(), [], env=env)
    assert [fault.field for fault in error.value.faults] == [
        "CLAWJOB_ENDPOINTS",
        "CLAWJOB_ENDPOINTS",
        "CLAWJOB_ENDPOINTS",
        "CLAWJOB_TOKEN_FILE",
        "CLAWJOB_APP",
        "CLAWJOB_EXECUTOR_ID",
        "CLAWJOB_CA_FILE",
    ]


def test_the_defaults_are_filled_in_and_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="app: is not set; set CLAWJOB_APP"):
        check(Settings(), [], env={})
    checked = check(Settings(app="demo"), [], env={})
    assert checked.connection.endpoints == ("http://127.0.0.1:7700",)
    assert (checked.slots, checked.shutdown_grace) == (10, 25.0)
    assert len(checked.executor_id) > 7


def test_code_wins_over_the_environment() -> None:
    env = {
        "CLAWJOB_ENDPOINTS": "nonsense",
        "CLAWJOB_APP": "Nonsense",
        "CLAWJOB_EXECUTOR_ID": "from-env",
        "CLAWJOB_TOKEN": " from-env ",
    }
    code = Settings(app="from-code", endpoints=["http://a:1"])
    checked = check(code, [], env=env)
    assert (checked.app, checked.executor_id) == ("from-code", "from-env")
    assert checked.connection.endpoints == ("http://a:1",)
    assert checked.connection.token is not None
    assert checked.connection.token.read() == "from-env"
    assert "from-env" not in repr(checked.connection)


def test_faults_in_code_are_told_with_those_of_the_handlers(tmp_path: Path) -> None:
    no_pem = tmp_path / "ca.pem"
    no_pem.write_text("hello")
    app = App(
        "No App",
        endpoints=[],
        token="t",
        token_file="/f",
        ca_file=no_pem,
        slots=0,
        labels={"": "x"},
        shutdown_grace=-1,
    )
    with pytest.raises(ConfigError) as error:
        app.run()
    fields = [fault.field for fault in error.value.faults]
    expected = ["token_file", "handler", "endpoints", "app", "ca_file", "slots", "labels"]
    assert fields == [*expected, "shutdown_grace"]


def test_a_client_tells_its_faults_too() -> None:
    with pytest.raises(ConfigError, match="has no http"):
        Client("demo", endpoints=["127.0.0.1:7700"])


@pytest.mark.parametrize(
    ("url", "target", "secure"),
    [
        ("http://host:7700", "dns:///host:7700", False),
        ("https://host", "dns:///host:443", True),
        ("http://[::1]:7700/", "dns:///[::1]:7700", False),
    ],
)
def test_endpoints_become_targets(url: str, target: str, secure: bool) -> None:
    assert target_of(url) == (target, secure)


def test_made_up_ids_are_valid_whatever_the_host_is_called() -> None:
    assert id_from("My_Host.local", "abc123") == "my_host.local-abc123"
    assert id_from("", "abc123") == "executor-abc123"
    assert id_from("ünïcode", "abc123") == "n-code-abc123"
    assert len(id_from("h" * 200, "abc123")) == 63
