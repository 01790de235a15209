"""TLS and mutual TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import trustme

from clawjob import App, ClientIdentity
from tests.conftest import Started
from tests.fake import PATIENCE, Fake, command, soon
from tests.handlers import Gate, make_app

Start = Callable[..., Started]


class Authority:
    def __init__(self, directory: Path) -> None:
        self._ca = trustme.CA()
        server = self._ca.issue_cert("127.0.0.1")
        self.file = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))
        self._pair = (server.private_key_pem.bytes(), server.cert_chain_pems[0].bytes())

    def server(self, *, mutual: bool = False) -> grpc.ServerCredentials:
        root = self._ca.cert_pem.bytes() if mutual else None
        return grpc.ssl_server_credentials(
            [self._pair], root_certificates=root, require_client_auth=mutual
        )

    def client(self) -> ClientIdentity:
        issued = self._ca.issue_cert("tester")
        return ClientIdentity(issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def serve() -> Iterator[Callable[[grpc.ServerCredentials], Fake]]:
    fakes: list[Fake] = []

    def serve(credentials: grpc.ServerCredentials) -> Fake:
        fakes.append(Fake(credentials=credentials))
        return fakes[-1]

    yield serve
    for fake in fakes:
        fake.crash()


Serve = Callable[[grpc.ServerCredentials], Fake]


def test_c58_a_session_over_tls(authority: Authority, serve: Serve, start: Start) -> None:
    secure = serve(authority.server())
    start([secure.url], ca_file=authority.file)
    session = secure.open()
    session.begin(command("R1", "echo", "1"))
    assert session.result().output.data == b"1"


def test_c58_a_session_over_mutual_tls(authority: Authority, serve: Serve, start: Start) -> None:
    secure = serve(authority.server(mutual=True))
    start([secure.url], ca_file=authority.file, client_identity=authority.client())
    secure.open().heartbeat()


def test_c58_the_authorities_of_the_system_are_trusted(
    authority: Authority, serve: Serve, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    secure = serve(authority.server())
    start([secure.url])
    secure.open().heartbeat()


def test_c58_strangers_get_no_session_and_are_told_why(
    authority: Authority,
    serve: Serve,
    gate: Gate,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secure = serve(authority.server())
    stranger = Authority(tmp_path)
    app: App = make_app([secure.url], gate, ca_file=stranger.file)
    running = app.start()
    soon("the reason to be told", lambda: "certificate" in caplog.text.lower())
    assert not running.wait(0.5)
    app.cancel_now()
    assert running.wait(PATIENCE)
    assert secure.has_no_session()
