"""The admin client: jobs, runs, and jobs as they should be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message

from clawjob import config
from clawjob.client.apply import Applied, Change, apply
from clawjob.client.errors import (
    AbortedError,
    AlreadyExistsError,
    ApiError,
    AppNotFoundError,
    DeadlineExceededError,
    EtagMismatchError,
    ExecutorNotFoundError,
    FailedPreconditionError,
    InvalidArgumentError,
    JobExistsError,
    JobNotFoundError,
    NotFoundError,
    PermissionDeniedError,
    RequestIdReusedError,
    ResourceExhaustedError,
    RunFailedError,
    RunNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    Violation,
)
from clawjob.client.jobs import JobLike, Jobs
from clawjob.client.runs import Runs, is_final, output_of, state_of
from clawjob.client.shape import JobError
from clawjob.client.transport import Transport
from clawjob.config import ClientIdentity, Connection, Settings, Token
from clawjob.errors import ConfigError, Fault

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "ApiError",
    "AppNotFoundError",
    "Applied",
    "Change",
    "Client",
    "DeadlineExceededError",
    "EtagMismatchError",
    "ExecutorNotFoundError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "JobError",
    "JobExistsError",
    "JobLike",
    "JobNotFoundError",
    "Jobs",
    "NotFoundError",
    "PermissionDeniedError",
    "RequestIdReusedError",
    "ResourceExhaustedError",
    "RunFailedError",
    "RunNotFoundError",
    "Runs",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Violation",
    "is_final",
    "output_of",
    "state_of",
]


A = TypeVar("A", bound=Message)


class Client:
    """Manages jobs and runs. A context manager; may be used from several threads.

        with clawjob.Client(app="billing") as client:
            run = client.jobs.trigger("nightly-report", {"month": "2026-11"})
            client.runs.wait(run, timeout=600, check=True)

    Settings are taken from code, else from `CLAWJOB_ENDPOINTS`, `CLAWJOB_TOKEN` or
    `CLAWJOB_TOKEN_FILE`, `CLAWJOB_APP` and `CLAWJOB_CA_FILE`. It connects with the first call.
    Reads, and changes that a request id or their nature makes safe to repeat, are repeated on
    UNAVAILABLE; the others are sent once. Every refusal is an `ApiError` of `clawjob.client`.
    """

    def __init__(
        self,
        app: str | None = None,
        *,
        endpoints: Sequence[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        client_identity: ClientIdentity | None = None,
    ) -> None:
        """
        app: the app of short names and lists; without one names say theirs and lists cover all.
        The rest is as for `clawjob.App`. Raises ConfigError with all faults.
        """
        faults: list[Fault] = []
        if isinstance(endpoints, str):
            endpoints = [endpoints]
        if token is not None and token_file is not None:
            faults.append(Fault("token_file", "token is given too; give one of the two"))
        given = Token(token, None if token_file is None else Path(token_file))
        code = Settings(
            endpoints=endpoints,
            token=given if token is not None or token_file is not None else None,
            app=app,
            ca_file=ca_file,
            identity=client_identity,
        )
        settings, connection = config.resolve(code, faults)
        if faults:
            raise ConfigError(faults)
        self._open(connection, settings.app)

    def _open(self, connection: Connection, app: str | None) -> None:
        self._transport = Transport(connection)
        #: The jobs.
        self.jobs = Jobs(self._transport, app)
        #: The runs.
        self.runs = Runs(self._transport, app)

    def apply(
        self,
        jobs: Mapping[str, JobLike] | Iterable[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        prune: bool = False,
    ) -> list[Applied]:
        """Makes the server's jobs what they should be; says what became of each.

        `jobs` maps names to jobs, or lists jobs with their names in them: the contract's messages,
        or mappings in the shape of `clawjob apply`:

            client.apply({
                "billing/nightly-report": {
                    "handler": "nightly-report",
                    "cron": "0 2 * * *",
                    "time_zone": "Europe/Berlin",
                    "params": {"month": "2026-11"},
                    "retry": {"max_attempts": 3, "initial_backoff": "10s"},
                    "timeout": "10m",
                },
            })

        Each says all of its job: what it leaves out goes back to its default, but for the state.
        The server checks every job first, and nothing is written unless all are valid; a second
        time changes nothing. `dry_run` only tells; `prune` deletes the jobs that are not named, in
        the apps that are. Raises JobError with all faults of all jobs.
        """
        return apply(self.jobs, jobs, dry_run=dry_run, prune=prune)

    def call(
        self, method: str, request: Message, answer: type[A], *, repeatable: bool = False
    ) -> A:
        """Calls any method of the contract, with the client's token, endpoints and errors:

            request = fleet_service_pb2.ListExecutorsRequest(parent="apps/billing")
            answer = fleet_service_pb2.ListExecutorsResponse
            client.call("FleetService/ListExecutors", request, answer, repeatable=True)

        A `repeatable` one is sent again on UNAVAILABLE.
        """
        return self._transport.call(method, request, answer, repeatable=repeatable)

    def close(self) -> None:
        """Ends the connection and all streams over it."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
