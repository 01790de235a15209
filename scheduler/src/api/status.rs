//! Errors of the API, and the only place where they become gRPC statuses.
//!
//! A handler builds an [`ApiError`]; turning it into a [`Status`] gives it `ErrorInfo` with a
//! stable reason, and the detail messages that its code promises. [`complete`] runs on every answer
//! that leaves: it adds `RequestInfo`, and `ErrorInfo` where the transport made the status itself.

use std::{collections::HashMap, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use self::size::{Room, cut};
use crate::{model::words, store::StoreError};

pub mod size;

/// `ErrorInfo.domain` of every error.
pub const ERROR_DOMAIN: &str = "clawjob.dev";
/// How long a caller should wait before it repeats a call that met a database out of reach.
pub const STORAGE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How the transport begins to tell of a message that is none.
const UNREADABLE: &str = "failed to decode Protobuf message";

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// A kind of thing that has a name, for `ResourceInfo` and for reasons such as `JOB_NOT_FOUND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `apps/{app}`
    App,
    /// `apps/{app}/jobs/{job}`
    Job,
    /// `apps/{app}/runs/{run}`
    Run,
    /// `apps/{app}/executors/{executor}`
    Executor,
    /// `tokens/{token}`
    Token,
    /// `nodes/{node}`
    Node,
    /// `users/{user}`
    User,
    /// `apps/{app}/calendars/{calendar}`
    Calendar,
    /// `apps/{app}/alarmRules/{rule}`
    AlarmRule,
    /// `apps/{app}/alarms/{alarm}`
    Alarm,
}

impl Kind {
    /// (message type, reason when missing, reason when the name is taken, word for people)
    fn words(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::App => ("clawjob.v1.App", "APP_NOT_FOUND", "APP_EXISTS", "app"),
            Self::Job => ("clawjob.v1.Job", "JOB_NOT_FOUND", "JOB_EXISTS", "job"),
            Self::Run => ("clawjob.v1.Run", "RUN_NOT_FOUND", "RUN_EXISTS", "run"),
            Self::Executor => {
                ("clawjob.v1.Executor", "EXECUTOR_NOT_FOUND", "EXECUTOR_ID_IN_USE", "executor")
            }
            Self::Token => ("clawjob.v1.Token", "TOKEN_NOT_FOUND", "TOKEN_EXISTS", "token"),
            Self::Node => ("clawjob.v1.Node", "NODE_NOT_FOUND", "NODE_EXISTS", "node"),
            Self::User => ("clawjob.v1.User", "USER_NOT_FOUND", "USER_EXISTS", "user"),
            Self::Calendar => {
                ("clawjob.v1.Calendar", "CALENDAR_NOT_FOUND", "CALENDAR_EXISTS", "calendar")
            }
            Self::AlarmRule => {
                ("clawjob.v1.AlarmRule", "ALARM_RULE_NOT_FOUND", "ALARM_RULE_EXISTS", "alarm rule")
            }
            Self::Alarm => ("clawjob.v1.Alarm", "ALARM_NOT_FOUND", "ALARM_EXISTS", "alarm"),
        }
    }

    /// The contract's message type, as `ResourceInfo.resource_type` names it.
    pub fn resource_type(self) -> &'static str {
        self.words().0
    }
}

/// Collects what is wrong with a request, so that the caller hears of all of it at once, or of as
/// much as an answer can hold ([`size`]) and of how much more there is.
#[derive(Debug, Default)]
pub struct Violations {
    found: Vec<FieldViolation>,
    room: Room,
    left_out: u64,
    reason: Option<&'static str>,
}

impl Violations {
    /// Nothing found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The field is wrong. `field` is a path such as `job.schedules[0].cron`; `description` says
    /// the fault and the remedy. The first call's reason becomes the answer's.
    pub fn add(
        &mut self,
        field: impl Into<String>,
        reason: &'static str,
        description: impl Into<String>,
    ) {
        self.reason.get_or_insert(reason);
        let (field, description) = (cut(field.into()), cut(description.into()));
        if self.left_out == 0 && self.room.take(&field, &description) {
            self.found.push(FieldViolation::new(field, description));
        } else {
            self.left_out += 1;
        }
    }

    /// The field is wrong, for no more special reason than [`FIELD_INVALID`].
    pub fn invalid(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.add(field, FIELD_INVALID, description);
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// INVALID_ARGUMENT with all of them, if there are any.
    ///
    /// # Errors
    /// When anything was added.
    pub fn finish(self) -> Result<(), ApiError> {
        match self.reason {
            Some(reason) => Err(self.into_error(reason)),
            None => Ok(()),
        }
    }

    fn into_error(mut self, reason: &'static str) -> ApiError {
        if self.left_out > 0 {
            let more = words::count(self.left_out, "more fault");
            let text = format!("and {more}; mend these first");
            self.found.push(FieldViolation::new("", text));
        }
        let message = self
            .found
            .iter()
            .map(|v| match v.field.as_str() {
                "" => v.description.clone(),
                field => format!("{field}: {}", v.description),
            })
            .collect::<Vec<_>>()
            .join("; ");
        let mut error = ApiError::new(Code::InvalidArgument, reason, "");
        error.0.message = message;
        error.0.details.set_bad_request(self.found);
        error
    }
}

/// Reason of a violation that has no more special one.
pub const FIELD_INVALID: &str = "FIELD_INVALID";

/// An error on its way to the caller.
#[derive(Debug)]
pub struct ApiError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    reason: &'static str,
    message: String,
    metadata: HashMap<String, String>,
    details: ErrorDetails,
    /// For the log alone; never leaves the process.
    cause: Option<String>,
}

/// Result of an API operation.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            reason,
            message: cut(message.into()),
            metadata: HashMap::new(),
            details: ErrorDetails::new(),
            cause: None,
        }))
    }

    /// INVALID_ARGUMENT for a single fault; see [`Violations`] for more than one.
    pub fn invalid(
        field: impl Into<String>,
        reason: &'static str,
        description: impl Into<String>,
    ) -> Self {
        let mut bad = Violations::new();
        bad.add(field, reason, description);
        bad.into_error(reason)
    }

    /// NOT_FOUND with `ResourceInfo`; `name` is the full resource name.
    pub fn not_found(kind: Kind, name: impl Into<String>) -> Self {
        Self::missing(kind, name.into(), "not found")
    }

    /// The same for a repeated request.
    pub fn deleted_since(kind: Kind, name: impl Into<String>) -> Self {
        let why = "was made by this request and deleted since; take a fresh request_id for another";
        Self::missing(kind, name.into(), why)
    }

    fn missing(kind: Kind, name: String, why: &str) -> Self {
        let (resource_type, reason, _, word) = kind.words();
        let message = format!("{word} {name} {why}");
        Self::new(Code::NotFound, reason, message).about(resource_type, name)
    }

    /// ALREADY_EXISTS with `ResourceInfo`; `name` is the full resource name.
    pub fn already_exists(kind: Kind, name: impl Into<String>) -> Self {
        let (resource_type, _, reason, word) = kind.words();
        let name = name.into();
        let message = format!("{word} {name} exists already");
        Self::new(Code::AlreadyExists, reason, message).about(resource_type, name)
    }

    fn about(mut self, resource_type: &str, name: String) -> Self {
        let message = self.0.message.clone();
        self.0.details.set_resource_info(resource_type, cut(name), "", message);
        self
    }

    /// FAILED_PRECONDITION with `PreconditionFailure{kind, subject, description}`; `kind` is a word
    /// such as `RUN_STATE`.
    pub fn precondition(
        reason: &'static str,
        kind: &'static str,
        subject: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        let mut error = Self::new(Code::FailedPrecondition, reason, description);
        let description = error.0.message.clone();
        let subject = cut(subject.into());
        error.0.details.add_precondition_failure_violation(kind, subject, description);
        error
    }

    /// ABORTED: another change came first; the caller reads again and repeats.
    pub fn aborted(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::Aborted, reason, message)
    }

    /// ABORTED because the etag is not the current one.
    pub fn etag_mismatch(name: &str) -> Self {
        Self::aborted(
            "ETAG_MISMATCH",
            format!("{name} was changed meanwhile; read it again and repeat with its etag"),
        )
    }

    /// RESOURCE_EXHAUSTED with `QuotaFailure` and `RetryInfo`.
    pub fn exhausted(
        reason: &'static str,
        subject: impl Into<String>,
        description: impl Into<String>,
        retry_after: Duration,
    ) -> Self {
        let mut error = Self::new(Code::ResourceExhausted, reason, description);
        let description = error.0.message.clone();
        error.0.details.add_quota_failure_violation(cut(subject.into()), description);
        error.0.details.set_retry_info(Some(retry_after));
        error
    }

    /// UNAVAILABLE with `RetryInfo`.
    pub fn unavailable(
        reason: &'static str,
        message: impl Into<String>,
        retry_after: Duration,
    ) -> Self {
        let mut error = Self::new(Code::Unavailable, reason, message);
        error.0.details.set_retry_info(Some(retry_after));
        error
    }

    /// UNAVAILABLE because the store can't do it now; the cause is for the log.
    fn storage(reason: &'static str, message: &str, cause: String) -> Self {
        let mut error = Self::unavailable(reason, message, STORAGE_RETRY_AFTER);
        error.0.cause = Some(cause);
        error
    }

    /// UNAUTHENTICATED: no credential, or one that does not hold.
    pub fn unauthenticated(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, reason, message)
    }

    /// PERMISSION_DENIED, reason `ROLE_MISSING`.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, "ROLE_MISSING", message)
    }

    /// PERMISSION_DENIED: the caller's password must be changed first.
    pub fn password_expired() -> Self {
        let text = "your password must be changed first: call UpdateUser on yourself with the old \
                    one and a new one";
        Self::new(Code::PermissionDenied, "PASSWORD_EXPIRED", text)
    }

    /// PERMISSION_DENIED: a browser sent the cookie by itself, or somebody else made it send it.
    pub fn csrf(header: &str) -> Self {
        let text = format!(
            "a change by cookie needs the header {header} with the csrf_token of Login or WhoAmI"
        );
        Self::new(Code::PermissionDenied, "CSRF_TOKEN_MISSING", text)
    }

    /// PERMISSION_DENIED: the client's certificate is made out to somebody else.
    pub fn wrong_certificate(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, "CERTIFICATE_MISMATCH", message)
    }

    /// UNIMPLEMENTED, with a message that says what is missing.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, "NOT_IMPLEMENTED", message)
    }

    /// NOT_FOUND for an address that serves nothing.
    pub fn unknown_page(path: &str) -> Self {
        Self::new(Code::NotFound, "PAGE_NOT_FOUND", format!("nothing is served at {path}"))
    }

    /// INTERNAL. The cause goes to the log with the request's id, and to nobody else.
    pub fn internal(cause: impl Into<String>) -> Self {
        let mut error = Self::new(
            Code::Internal,
            "INTERNAL",
            "internal error; the server's log tells more under the request id",
        );
        error.0.cause = Some(cause.into());
        error
    }

    /// The error of a store operation on a named thing.
    pub fn of_store(kind: Kind, name: impl Into<String>, error: StoreError) -> Self {
        match error {
            StoreError::NotFound(_) => Self::not_found(kind, name),
            StoreError::AlreadyExists(_) => Self::already_exists(kind, name),
            other => other.into(),
        }
    }

    /// Adds a pair to `ErrorInfo.metadata`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.metadata.insert(key.to_owned(), cut(value.into()));
        self
    }

    /// The code it will have.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The reason it will have.
    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// The message it will have.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.reason)
    }
}

impl std::error::Error for ApiError {}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(what) => {
                Self::new(Code::NotFound, "NOT_FOUND", format!("{what} not found"))
            }
            StoreError::AlreadyExists(what) => {
                Self::new(Code::AlreadyExists, "EXISTS", format!("{what} exists already"))
            }
            StoreError::Conflict(what) => Self::aborted("CONFLICT", what),
            StoreError::Unavailable(cause) => Self::storage(
                "STORAGE_DOWN",
                "the scheduler's database is out of reach; repeat the call later",
                cause,
            ),
            StoreError::Full(cause) => Self::storage(
                "STORAGE_FULL",
                "the disk of the scheduler's database is full; repeat the call once there is room",
                cause,
            ),
            StoreError::ReadOnly(cause) => Self::storage(
                "STORAGE_READ_ONLY",
                "the scheduler's database is read only; repeat the call once it takes writes",
                cause,
            ),
            StoreError::Removed(cause) => Self::storage(
                "STORAGE_REMOVED",
                "the scheduler's database files were removed or replaced while it runs, so that \
                 nothing can be changed; the server's log names the remedy",
                cause,
            ),
            StoreError::Corrupt(cause) | StoreError::Internal(cause) => Self::internal(cause),
        }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let Inner { code, reason, message, metadata, mut details, cause } = *error.0;
        if let Some(cause) = cause {
            // Within the request's span, so the line carries its id.
            tracing::error!(reason, cause, "request failed");
        }
        details.set_error_info(reason, ERROR_DOMAIN, metadata);
        Self::with_error_details(code, message, details)
    }
}

/// Completes the status in headers or trailers that leave the server: adds `RequestInfo`, and
/// `ErrorInfo` when the status came from the transport. An absent or OK status is left alone.
/// Returns the code.
pub fn complete(headers: &mut HeaderMap, request_id: &str) -> Code {
    let Some(status) = headers
        .contains_key(&GRPC_STATUS)
        .then(|| Status::from_header_map(headers))
        .flatten()
        .filter(|status| status.code() != Code::Ok)
    else {
        return Code::Ok;
    };
    let mut details = status.get_error_details();
    let (mut code, mut message) = (status.code(), status.message().to_owned());
    if details.error_info().is_none() {
        // The transport takes a message that it can't read for a fault of its own.
        if let Some(why) = message.strip_prefix(UNREADABLE) {
            (code, message) =
                (Code::InvalidArgument, format!("the request message can't be read{why}"));
        }
        message = cut(message);
        details.set_error_info(transport_reason(code), ERROR_DOMAIN, HashMap::new());
    }
    details.set_request_info(request_id, "");
    let completed =
        Status::with_error_details_and_metadata(code, message, details, status.metadata().clone());
    // Only a value that is no header text can fail; the status then goes out as it came.
    let _ = completed.add_header(headers);
    code
}

/// The reason of a status that no handler made.
fn transport_reason(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "REQUEST_MALFORMED",
        Code::Unimplemented => "NOT_IMPLEMENTED",
        Code::Cancelled | Code::DeadlineExceeded => "CALL_ENDED",
        Code::OutOfRange | Code::ResourceExhausted => "MESSAGE_TOO_LARGE",
        _ => "TRANSPORT",
    }
}

/// The status as a whole answer without messages, as gRPC clients read it.
pub fn into_grpc_response(error: ApiError) -> http::Response<axum::body::Body> {
    let mut response = Status::from(error).into_http::<axum::body::Body>();
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

#[cfg(test)]
mod tests;
