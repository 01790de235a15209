"""What sessions and admin calls share of gRPC: keepalive, credentials, statuses."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from clawjob.config import Connection

#: HTTP/2 pings, also without traffic, and the longest time for the answer.
KEEPALIVE: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
#: Where systems keep their bundle of authorities, for a Python that looks elsewhere.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
#: Trailer in which a server sends a status with details.
_DETAILS = "grpc-status-details-bin"
#: Most detail messages that are looked at.
_DETAILS_MAX = 32


@dataclass
class Status:
    """A gRPC status with the details that ClawJob gives."""

    code: grpc.StatusCode
    message: str
    #: ErrorInfo's reason, UPPER_SNAKE; empty without one.
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    #: Field and description of each violation, for INVALID_ARGUMENT.
    violations: list[tuple[str, str]] = field(default_factory=list)
    request_id: str = ""
    #: The wait that the server asks for, in seconds.
    retry_after: float | None = None


def credentials(connection: Connection) -> grpc.ChannelCredentials:
    """TLS for a connection."""
    identity = connection.identity
    return grpc.ssl_channel_credentials(
        root_certificates=connection.ca or _system_roots(),
        private_key=identity.key if identity else None,
        certificate_chain=identity.certificate if identity else None,
    )


def _system_roots() -> bytes | None:
    """The authorities that this machine trusts. gRPC would take a list of its own, which knows
    nothing of a company's authority; None leaves it to that where the machine has no bundle."""
    for path in (ssl.get_default_verify_paths().cafile, *_BUNDLES):
        if path is not None:
            with suppress(OSError):
                return Path(path).read_bytes()
    return None


def status_details(error: grpc.RpcError) -> Status:
    """Reads an error's code, message and details."""
    code = error.code() if hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    message = error.details() if hasattr(error, "details") else str(error)
    out = Status(code or grpc.StatusCode.UNKNOWN, message or "")
    trailers: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    for key, value in trailers or ():
        if key == _DETAILS and isinstance(value, bytes):
            _read(value, out)
    return out


def _read(data: bytes, out: Status) -> None:
    from google.protobuf.message import DecodeError
    from google.rpc import error_details_pb2 as details
    from google.rpc import status_pb2

    try:
        status = status_pb2.Status.FromString(data)
    except DecodeError:
        return
    for item in status.details[:_DETAILS_MAX]:
        info, bad = details.ErrorInfo(), details.BadRequest()
        retry, request = details.RetryInfo(), details.RequestInfo()
        try:
            if item.Unpack(info):
                out.reason, out.metadata = info.reason, dict(info.metadata)
            elif item.Unpack(bad):
                out.violations = [(v.field, v.description) for v in bad.field_violations]
            elif item.Unpack(retry):
                delay = retry.retry_delay
                out.retry_after = max(delay.seconds + delay.nanos / 1e9, 0.0)
            elif item.Unpack(request):
                out.request_id = request.request_id
        except DecodeError:
            continue
