//! How a handler says that it failed.

use std::error::Error;
use std::time::Duration;

use clawjob_proto::v1;

use crate::time;

/// Failure codes that the SDK itself gives.
pub mod code {
    /// A handler returned an error that carries no code of its own.
    pub const HANDLER_ERROR: &str = "HANDLER_ERROR";
    /// A handler panicked; the process lives on.
    pub const HANDLER_PANIC: &str = "HANDLER_PANIC";
    /// A command named a handler that this executor does not offer.
    pub const UNKNOWN_HANDLER: &str = "UNKNOWN_HANDLER";
    /// The params do not fit the handler's type.
    pub const INVALID_PARAMS: &str = "INVALID_PARAMS";
    /// The output is larger than the scheduler takes.
    pub const OUTPUT_TOO_LARGE: &str = "OUTPUT_TOO_LARGE";
    /// A checkpoint is larger than the scheduler takes.
    pub const CHECKPOINT_TOO_LARGE: &str = "CHECKPOINT_TOO_LARGE";
    /// The handler did not return in time after it was told to stop.
    pub const ABANDONED: &str = "ABANDONED";
    /// The executor shut down before the handler was done; no attempt is used up.
    pub const SHUTDOWN: &str = "SHUTDOWN";
    /// The handler was told to stop.
    pub const STOPPED: &str = "STOPPED";
    /// Contact with the scheduler was lost, and the job asks for a stop in that case.
    pub const DISCONNECTED: &str = "DISCONNECTED";
    /// The timeout of the run passed.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// A later attempt of the same run is known here.
    pub const STALE_ATTEMPT: &str = "STALE_ATTEMPT";
}

/// Longest failure code, in bytes.
const CODE_BYTES_MAX: usize = 63;
/// Longest failure message, in bytes; a longer one is cut in the middle.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Longest error type, in bytes.
const TYPE_BYTES_MAX: usize = 256;
/// Longest stack, in bytes; a longer one is cut in the middle.
const STACK_BYTES_MAX: usize = 16 * 1024;
/// Most causes that a source chain is followed down.
const CAUSES_MAX: usize = 64;

/// Why an attempt failed. Any [`std::error::Error`] turns into one with `?`: its type, its message
/// and its chain of sources are kept.
///
/// ```
/// use clawjob_executor::Failure;
/// use std::time::Duration;
///
/// let failure = Failure::new("RATE_LIMITED", "the mail service said 429")
///     .retry_after(Duration::from_secs(30));
/// assert_eq!(failure.code(), "RATE_LIMITED");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: String,
    message: String,
    kind: String,
    stack: String,
    non_retryable: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with a code of the caller's own. The code is brought into UPPER_SNAKE and cut to
    /// 63 bytes, the message to 4 KiB.
    pub fn new(code: impl AsRef<str>, message: impl Into<String>) -> Self {
        Self {
            code: upper_snake(code.as_ref()),
            message: message.into(),
            kind: String::new(),
            stack: String::new(),
            non_retryable: false,
            retry_after: None,
        }
    }

    /// A failure with the code `HANDLER_ERROR`.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(code::HANDLER_ERROR, message)
    }

    /// From a boxed error, or anything that turns into one (such as `anyhow::Error`).
    pub fn from_boxed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        Self::of(error.as_ref(), "")
    }

    fn of(error: &(dyn Error + 'static), kind: &str) -> Self {
        let mut stack = String::new();
        let mut source = error.source();
        for _ in 0..CAUSES_MAX {
            let Some(cause) = source else { break };
            stack.push_str("caused by: ");
            stack.push_str(&cause.to_string());
            stack.push('\n');
            source = cause.source();
        }
        Self { kind: kind.to_owned(), stack, ..Self::error(error.to_string()) }
    }

    /// Says that another attempt cannot help: the run ends, whatever its attempts.
    #[must_use]
    pub fn non_retryable(mut self) -> Self {
        self.non_retryable = true;
        self
    }

    /// Asks for this wait before the next attempt, in place of the job's backoff.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Replaces the code.
    #[must_use]
    pub fn with_code(mut self, code: impl AsRef<str>) -> Self {
        self.code = upper_snake(code.as_ref());
        self
    }

    /// Adds a stack or other detail; 16 KiB are kept.
    #[must_use]
    pub fn with_stack(mut self, stack: impl Into<String>) -> Self {
        self.stack = stack.into();
        self
    }

    /// The code, UPPER_SNAKE.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error's type name; empty when the failure was made by hand.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The chain of causes or the stack; empty when there is none.
    pub fn stack(&self) -> &str {
        &self.stack
    }

    /// True when the handler said that another attempt cannot help.
    pub fn is_non_retryable(&self) -> bool {
        self.non_retryable
    }

    /// The wait that the handler asked for.
    pub fn retry_wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// From the contract's form.
    pub(crate) fn from_wire(wire: v1::Failure) -> Self {
        Self {
            code: wire.code,
            message: wire.message,
            kind: wire.r#type,
            stack: wire.stack,
            non_retryable: wire.non_retryable,
            retry_after: time::std_duration(wire.retry_after.as_ref()),
        }
    }

    /// The contract's form, with its bounds applied.
    pub(crate) fn into_wire(self) -> v1::Failure {
        v1::Failure {
            code: self.code,
            message: cut_middle(self.message, MESSAGE_BYTES_MAX),
            r#type: cut_middle(self.kind, TYPE_BYTES_MAX),
            stack: cut_middle(self.stack, STACK_BYTES_MAX),
            non_retryable: self.non_retryable,
            retry_after: self.retry_after.map(time::duration),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error, std::any::type_name::<E>())
    }
}

fn upper_snake(code: &str) -> String {
    let mut out: String = code
        .chars()
        .take(CODE_BYTES_MAX)
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    if out.is_empty() {
        out.push_str(code::HANDLER_ERROR);
    }
    out
}

/// Keeps the two ends of a text that is longer than `max` bytes.
pub(crate) fn cut_middle(text: String, max: usize) -> String {
    const MARK: &str = "\n… cut …\n";
    if text.len() <= max {
        return text;
    }
    let half = max.saturating_sub(MARK.len()) / 2;
    let is_border = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=half).rev().find(is_border).unwrap_or(0);
    let tail = (text.len() - half..=text.len()).find(is_border).unwrap_or(text.len());
    format!("{}{MARK}{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send the report")]
    struct Outer(#[source] std::io::Error);

    fn failing() -> Result<(), Failure> {
        Err(Outer(std::io::Error::other("disk is full")))?
    }

    #[test]
    fn any_error_keeps_its_type_message_and_causes() {
        let failure = failing().unwrap_err();
        assert_eq!(failure.code(), "HANDLER_ERROR");
        assert_eq!(failure.message(), "cannot send the report");
        assert!(failure.kind().ends_with("Outer"), "{}", failure.kind());
        assert_eq!(failure.stack(), "caused by: disk is full\n");
    }

    #[test]
    fn boxed_errors_are_taken_too() {
        let failure = Failure::from_boxed("no such customer");
        assert_eq!(failure.message(), "no such customer");
    }

    #[test]
    fn codes_become_upper_snake_within_63_bytes() {
        assert_eq!(Failure::new("rate-limited", "").code(), "RATE_LIMITED");
        assert_eq!(Failure::new("", "").code(), "HANDLER_ERROR");
        assert_eq!(Failure::new("x".repeat(99), "").code().len(), 63);
    }

    #[test]
    fn long_stacks_are_cut_in_the_middle_on_character_borders() {
        let wire = Failure::error("m").with_stack("é".repeat(20_000) + "end").into_wire();
        assert!(wire.stack.len() <= STACK_BYTES_MAX);
        assert!(wire.stack.ends_with("end") && wire.stack.starts_with('é'));
    }
}
