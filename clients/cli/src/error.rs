//! What can go wrong in a client command, and the exit code of each.

use std::{io, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The exit codes, as `--help` and the README tell them.
pub const EXIT_CODES_HELP: &str = "\
Exit codes of the client commands:
  0   done
  1   the run that was waited for ended, but not SUCCEEDED; or a channel did not take a sample
  2   wrong flags, name or file, or a request that the server found invalid
  3   not found
  4   no valid token, or one that may not do this
  5   the server could not be reached, or is overloaded
  6   conflict: it exists already, changed meanwhile, or is in the wrong state for this
  7   the time given to wait passed first
  10  anything else: a fault of the server, or one it does not know yet";

/// Why a client command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Flags, names or files that make no sense; all faults at once.
    #[error("{}", .0.join("\n"))]
    Usage(Vec<String>),
    /// The server's answer was an error.
    #[error("{0}")]
    Status(Box<Status>),
    /// The server did not take the token, or wants one.
    #[error("{status}")]
    Unauthenticated {
        /// What it said.
        status: Box<Status>,
        /// Where the token was found; None when there was none.
        found_in: Option<String>,
    },
    /// No endpoint could be connected, or gave an answer.
    #[error("no server could be reached")]
    Unreachable {
        /// Each URL with the reason.
        refusals: Vec<(String, String)>,
        /// Some server had taken the call before its connection broke.
        broke: bool,
    },
    /// The run ended otherwise than SUCCEEDED; it has been printed.
    #[error("{run} ended {state}")]
    RunNotSucceeded {
        /// The run's short name.
        run: String,
        /// Its final state, without prefix.
        state: String,
    },
    /// A channel of an alarm rule did not take the sample; each answer has been printed.
    #[error("{failed} did not take the sample")]
    NotDelivered {
        /// How many channels.
        failed: String,
    },
    /// `--timeout` passed before the run ended.
    #[error("{run} has not ended after {waited:?}")]
    WaitTimeout {
        /// The run's short name.
        run: String,
        /// How long the command waited.
        waited: Duration,
    },
    /// The answer does not follow the contract.
    #[error("the server's answer cannot be shown: {0}")]
    Answer(String),
    /// Some of several changes failed; each has been told on its own.
    #[error("{failed} of {total} changes failed")]
    Partly {
        /// How many failed.
        failed: usize,
        /// How many there were.
        total: usize,
        /// The exit code of the first failure.
        exit: u8,
    },
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// One wrong flag, name or file.
    pub(crate) fn usage(fault: impl Into<String>) -> CliError {
        CliError::Usage(vec![fault.into()])
    }

    /// The server's word for what is wrong, if it gave one.
    pub(crate) fn reason(&self) -> Option<String> {
        let (CliError::Status(status) | CliError::Unauthenticated { status, .. }) = self else {
            return None;
        };
        status.get_error_details().error_info().map(|info| info.reason.clone())
    }

    /// The process's exit code; see [`EXIT_CODES_HELP`].
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage(_) => 2,
            CliError::Status(status) => exit_code_of(status.code()),
            CliError::Unauthenticated { .. } => 4,
            CliError::Unreachable { .. } => 5,
            CliError::RunNotSucceeded { .. } | CliError::NotDelivered { .. } => 1,
            CliError::WaitTimeout { .. } => 7,
            CliError::Partly { exit, .. } => *exit,
            // `clawjob … | head` closes the pipe early on purpose.
            CliError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            CliError::Answer(_) | CliError::Output(_) => 10,
        }
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> CliError {
        CliError::Status(Box::new(status))
    }
}

impl From<clawjob_proto::json::JsonError> for CliError {
    fn from(e: clawjob_proto::json::JsonError) -> CliError {
        CliError::Answer(e.to_string())
    }
}

fn exit_code_of(code: Code) -> u8 {
    match code {
        Code::InvalidArgument | Code::OutOfRange => 2,
        Code::NotFound => 3,
        Code::Unauthenticated | Code::PermissionDenied => 4,
        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded => 5,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => 6,
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        let of = |code| CliError::from(Status::new(code, "")).exit_code();
        assert_eq!(of(Code::InvalidArgument), 2);
        assert_eq!(of(Code::NotFound), 3);
        assert_eq!(of(Code::PermissionDenied), 4);
        assert_eq!(of(Code::Unauthenticated), 4);
        assert_eq!(of(Code::Unavailable), 5);
        assert_eq!(of(Code::Aborted), 6);
        assert_eq!(of(Code::AlreadyExists), 6);
        assert_eq!(of(Code::Unimplemented), 10);
        assert_eq!(CliError::usage("x").exit_code(), 2);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(CliError::from(closed).exit_code(), 0);
        assert_eq!(CliError::from(io::Error::other("disk full")).exit_code(), 10);
    }
}
