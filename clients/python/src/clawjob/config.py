"""Where a process dials and as whom: environment, settings in code, and their check."""

from __future__ import annotations

import os
import random
import re
import socket
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from clawjob.errors import ConfigError, Fault

#: Where is dialed when nothing else is said.
ENDPOINT_DEFAULT = "http://127.0.0.1:7700"
#: Slots when nothing else is said.
SLOTS_DEFAULT = 10
#: How long a drain waits for handlers when nothing else is said, in seconds; with the two seconds
#: each that handlers have to stop and results to be acknowledged it stays under Kubernetes' 30 s.
SHUTDOWN_GRACE_DEFAULT = 25.0
#: Longest app name and executor id.
NAME_CHARS_MAX = 63
#: Characters of a made-up executor id after the host's name.
ID_SUFFIX_CHARS = 6
#: Most labels of an executor.
LABELS_MAX = 64

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Reconnect:
    """How long to wait between attempts to connect, in seconds. The wait is drawn at random."""

    #: The first wait after a lost session is up to this.
    first: float = 2.0
    #: The following ones are up to this, doubled each time.
    base: float = 0.5
    #: No wait is longer than this.
    cap: float = 30.0
    #: A session that lasted this long makes the next wait a first one again.
    healthy_after: float = 60.0


@dataclass(frozen=True)
class ClientIdentity:
    """A client certificate for mutual TLS, both parts in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Token:
    """A bearer token, or the file with it, which is read anew at each dial."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None

    def read(self) -> str:
        """The token now. Raises OSError when its file cannot be read."""
        if self.file is not None:
            return self.file.read_text(encoding="utf-8").strip()
        return self.text or ""


@dataclass
class Settings:
    """What can be set of a connection; None means the default."""

    endpoints: Sequence[str] | None = None
    token: Token | None = None
    app: str | None = None
    executor_id: str | None = None
    ca_file: str | os.PathLike[str] | None = None
    identity: ClientIdentity | None = None

    def over(self, env: Settings) -> Settings:
        """These settings, with the environment's where these say nothing."""
        return Settings(
            endpoints=env.endpoints if self.endpoints is None else self.endpoints,
            token=self.token or env.token,
            app=env.app if self.app is None else self.app,
            executor_id=env.executor_id if self.executor_id is None else self.executor_id,
            ca_file=env.ca_file if self.ca_file is None else self.ca_file,
            identity=self.identity,
        )


@dataclass(frozen=True)
class Connection:
    """Where to dial and with what; checked."""

    endpoints: tuple[str, ...]
    token: Token | None = None
    #: PEM of the authority to trust; None means the system's.
    ca: bytes | None = None
    identity: ClientIdentity | None = None


@dataclass(frozen=True)
class Checked:
    """The checked settings of an executor."""

    connection: Connection
    app: str
    executor_id: str
    slots: int = SLOTS_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    shutdown_grace: float = SHUTDOWN_GRACE_DEFAULT
    reconnect: Reconnect = field(default_factory=Reconnect)
    keep_trying: bool = False


def from_env(env: Mapping[str, str], faults: list[Fault], *, code: Settings) -> Settings:
    """Reads the environment. What `code` sets is not looked at, since it wins."""

    def read(name: str, in_code: object) -> str | None:
        return (env.get(name, "").strip() or None) if in_code is None else None

    listed = read("CLAWJOB_ENDPOINTS", code.endpoints)
    text, file = read("CLAWJOB_TOKEN", code.token), read("CLAWJOB_TOKEN_FILE", code.token)
    out = Settings(
        endpoints=None if listed is None else [url.strip() for url in listed.split(",")],
        token=Token(text, Path(file) if file else None) if text or file else None,
        app=read("CLAWJOB_APP", code.app),
        executor_id=read("CLAWJOB_EXECUTOR_ID", code.executor_id),
        ca_file=read("CLAWJOB_CA_FILE", code.ca_file),
    )
    if out.endpoints is not None:
        check_endpoints("CLAWJOB_ENDPOINTS", out.endpoints, faults)
    if text and file:
        faults.append(Fault("CLAWJOB_TOKEN_FILE", "CLAWJOB_TOKEN is set too; unset one of the two"))
    check_name("CLAWJOB_APP", out.app, faults)
    check_name("CLAWJOB_EXECUTOR_ID", out.executor_id, faults)
    if out.ca_file is not None:
        read_ca("CLAWJOB_CA_FILE", out.ca_file, faults)
    return out


def resolve(
    code: Settings, faults: list[Fault], env: Mapping[str, str] | None = None
) -> tuple[Settings, Connection]:
    """Code over environment over defaults; what is wrong is added to `faults`."""
    check_endpoints("endpoints", code.endpoints, faults)
    check_name("app", code.app, faults)
    check_name("executor_id", code.executor_id, faults)
    if code.ca_file is not None:
        read_ca("ca_file", code.ca_file, faults)
    found = len(faults)
    settings = code.over(from_env(os.environ if env is None else env, faults, code=code))
    ca = None
    if settings.ca_file is not None and len(faults) == found:
        ca = read_ca("ca_file", settings.ca_file, [])
    endpoints = tuple(settings.endpoints or (ENDPOINT_DEFAULT,))
    return settings, Connection(endpoints, settings.token, ca, settings.identity)


def check(
    code: Settings,
    faults: list[Fault],
    *,
    slots: int = SLOTS_DEFAULT,
    labels: Mapping[str, str] | None = None,
    shutdown_grace: float = SHUTDOWN_GRACE_DEFAULT,
    reconnect: Reconnect | None = None,
    keep_trying: bool = False,
    env: Mapping[str, str] | None = None,
) -> Checked:
    """The settings of an executor. Raises ConfigError with all faults, those given included."""
    settings, connection = resolve(code, faults, env)
    if settings.app is None:
        faults.append(Fault("app", "is not set; set CLAWJOB_APP or write App(name)"))
    if slots < 1:
        faults.append(Fault("slots", f"is {slots}, so nothing could run; give at least 1"))
    labels = dict(labels or {})
    if len(labels) > LABELS_MAX:
        text = f"there are {len(labels)}; at most {LABELS_MAX} are taken"
        faults.append(Fault("labels", text))
    if "" in labels:
        faults.append(Fault("labels", "a label has an empty key; name it"))
    if not 0 <= shutdown_grace < float("inf"):
        faults.append(Fault("shutdown_grace", f"is {shutdown_grace}; give seconds, 0 or more"))
    if faults:
        raise ConfigError(faults)
    return Checked(
        connection=connection,
        app=settings.app or "",
        executor_id=settings.executor_id or default_id(),
        slots=slots,
        labels=labels,
        shutdown_grace=shutdown_grace,
        reconnect=reconnect or Reconnect(),
        keep_trying=keep_trying,
    )


def check_endpoints(where: str, endpoints: Sequence[str] | None, faults: list[Fault]) -> None:
    """Adds what is wrong with a list of endpoints."""
    if endpoints is None:
        return
    if not endpoints:
        text = "is empty; give at least one URL, such as http://host:7700"
        faults.append(Fault(where, text))
    for url in endpoints:
        problem = endpoint_problem(url)
        if problem:
            faults.append(Fault(where, f"{url!r} {problem}"))


def endpoint_problem(url: str) -> str | None:
    """What is wrong with an endpoint's URL, if anything."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL; write http://host:7700 or https://host:7700"
    if parts.scheme not in ("http", "https"):
        return "has no http:// or https:// in front"
    if not host or any(char.isspace() for char in url):
        return "names no host"
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return "has a path; gRPC needs the host and port alone"
    if "@" in parts.netloc:
        return "carries a user name; credentials go into CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE"
    return None


def target_of(url: str) -> tuple[str, bool]:
    """gRPC's target of a checked endpoint, and whether it is spoken to over TLS."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{host}]" if ":" in host else host
    return f"dns:///{host}:{port}", parts.scheme == "https"


def check_name(where: str, name: str | None, faults: list[Fault]) -> None:
    """Adds what is wrong with the name of an app or an executor."""
    if name is not None and not _NAME.fullmatch(name):
        text = (
            f"{name!r} is no name; use 1 to {NAME_CHARS_MAX} of a-z, 0-9, '.', '_', '-', "
            "beginning and ending with a letter or digit"
        )
        faults.append(Fault(where, text))


def read_ca(where: str, path: str | os.PathLike[str], faults: list[Fault]) -> bytes | None:
    """The PEM of an authority; what is wrong with it is added to `faults`."""
    try:
        pem = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        faults.append(Fault(where, f"{os.fspath(path)} cannot be read: {reason}"))
        return None
    if b"-----BEGIN" not in pem:
        faults.append(Fault(where, f"{os.fspath(path)} holds no PEM certificate"))
        return None
    return pem


def default_id() -> str:
    """The host's name and six random characters, so that two processes of a host do not clash."""
    alphabet = string.ascii_lowercase + string.digits
    suffix = "".join(random.SystemRandom().choices(alphabet, k=ID_SUFFIX_CHARS))
    return id_from(socket.gethostname(), suffix)


def id_from(host: str, suffix: str) -> str:
    """A valid executor id of a host's name, however it is spelt."""
    clean = re.sub(r"[^a-z0-9._-]", "-", host.lower())[: NAME_CHARS_MAX - len(suffix) - 1]
    return f"{clean.strip('._-') or 'executor'}-{suffix}"
