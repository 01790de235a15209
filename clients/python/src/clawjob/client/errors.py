"""Errors of the API, typed by the reason that the server gives."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from clawjob.channel import Status
from clawjob.errors import ClawJobError


@dataclass(frozen=True)
class Violation:
    """One thing wrong with a request."""

    #: A path such as `job.schedules[0].cron`.
    field: str
    description: str


class ApiError(ClawJobError):
    """The server's answer to a call that it did not carry out.

    Catch the subclass for a kind of trouble; `reason` tells it exactly, also where there is no
    subclass for it.
    """

    def __init__(self, status: Status) -> None:
        #: gRPC's code.
        self.code: grpc.StatusCode = status.code
        #: ErrorInfo's reason, UPPER_SNAKE; empty when the server gave none.
        self.reason = status.reason
        self.message = status.message
        self.metadata = dict(status.metadata)
        #: Everything that is wrong with the request; for InvalidArgumentError.
        self.violations = tuple(Violation(*pair) for pair in status.violations)
        #: By which the server's log can be searched.
        self.request_id = status.request_id
        #: The wait that the server asks for before the next try, in seconds.
        self.retry_after = status.retry_after
        reason = f" {status.reason}" if status.reason else ""
        super().__init__(f"{status.code.name}{reason}: {status.message}")


class InvalidArgumentError(ApiError):
    """The request is wrong; `violations` names each field, the fault and the remedy."""


class NotFoundError(ApiError):
    """There is no such thing, or the caller may not know of it."""


class AlreadyExistsError(ApiError):
    """The name is taken."""


class FailedPreconditionError(ApiError):
    """The thing is not in a state for this."""


class AbortedError(ApiError):
    """It was changed meanwhile (`ETAG_MISMATCH`): read it again."""


class UnauthenticatedError(ApiError):
    """There is no valid token; see CLAWJOB_TOKEN and CLAWJOB_TOKEN_FILE."""


class PermissionDeniedError(ApiError):
    """The token may not do this."""


class ResourceExhaustedError(ApiError):
    """Too much, or too often."""


class UnavailableError(ApiError):
    """The server cannot be reached, or cannot serve now; trying again later may help."""


class DeadlineExceededError(ApiError):
    """No answer in time; the call may have been carried out."""


class UnimplementedError(ApiError):
    """The server does not offer this."""


class AppNotFoundError(NotFoundError):
    """There is no such app, or the caller may not know of it."""


class JobNotFoundError(NotFoundError):
    """There is no such job, or the caller may not know of it."""


class RunNotFoundError(NotFoundError):
    """There is no such run, or the caller may not know of it."""


class ExecutorNotFoundError(NotFoundError):
    """There is no such executor, or the caller may not know of it."""


class JobExistsError(AlreadyExistsError):
    """The job is there already."""


class EtagMismatchError(AbortedError):
    """It was changed since it was read: read it again."""


class RequestIdReusedError(InvalidArgumentError):
    """The request id was used for another request."""


_BY_REASON: dict[str, type[ApiError]] = {
    "APP_NOT_FOUND": AppNotFoundError,
    "JOB_NOT_FOUND": JobNotFoundError,
    "RUN_NOT_FOUND": RunNotFoundError,
    "EXECUTOR_NOT_FOUND": ExecutorNotFoundError,
    "JOB_EXISTS": JobExistsError,
    "ETAG_MISMATCH": EtagMismatchError,
    "REQUEST_ID_REUSED": RequestIdReusedError,
}
_BY_CODE: dict[grpc.StatusCode, type[ApiError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
    grpc.StatusCode.ABORTED: AbortedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.UNIMPLEMENTED: UnimplementedError,
}


def api_error(status: Status) -> ApiError:
    """The error of a status: by its reason, else by its code."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, ApiError)
    return kind(status)


class RunFailedError(ClawJobError):
    """A run that was waited for has ended, but not SUCCEEDED."""

    def __init__(self, name: str, state: str, code: str, message: str) -> None:
        #: The run's resource name.
        self.name = name
        #: `FAILED`, `CANCELED`, `TIMED_OUT`, `LOST` or `SKIPPED`.
        self.state = state
        #: The failure's code; empty without one.
        self.code = code
        why = ": ".join(part for part in (code, message) if part)
        super().__init__(f"{name} ended {state}" + (f": {why}" if why else ""))
