//! What Postgres says, as [`StoreError`].

use deadpool_postgres::PoolError;
use tokio_postgres::{Error, error::SqlState};

use crate::store::StoreError;

/// An error of a statement or of its connection.
pub(super) fn db(error: Error) -> StoreError {
    let Some(fault) = error.as_db_error() else {
        // Without an answer of the server it is the connection, or a value that did not convert.
        return match error.is_closed() || is_transport(&error) {
            true => StoreError::Unavailable(chain(&error)),
            false => StoreError::Internal(chain(&error)),
        };
    };
    let text = format!("{} ({})", fault.message(), fault.code().code());
    match fault.code() {
        code if *code == SqlState::DISK_FULL => StoreError::Full(text),
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly(text),
        // A standby has its own words for what it can't do, under several codes.
        _ if text.contains("during recovery") => StoreError::ReadOnly(text),
        code if is_passing(code) => StoreError::Unavailable(text),
        code if *code == SqlState::UNIQUE_VIOLATION => {
            StoreError::AlreadyExists(fault.detail().unwrap_or(fault.message()).to_owned())
        }
        code if *code == SqlState::FOREIGN_KEY_VIOLATION => StoreError::Conflict(text),
        code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt(text)
        }
        _ => StoreError::Internal(text),
    }
}

/// No connection could be had from a pool.
pub(super) fn pool(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => connecting(&error),
        error => StoreError::Unavailable(error.to_string()),
    }
}

/// A connection could not be opened: worth another try, whatever the reason, since the operator
/// can mend it without a restart.
pub(super) fn connecting(error: &Error) -> StoreError {
    let text = chain(error);
    // Where `target_session_attrs` asks for one that can be written.
    if text.contains("does not allow writes") {
        return StoreError::ReadOnly(text);
    }
    let remedy = if text.to_ascii_lowercase().contains("certificate") {
        "; the server's certificate is checked with every sslmode but `disable`: name its \
         authority with sslrootcert=FILE, or set sslmode=disable"
    } else {
        ""
    };
    StoreError::Unavailable(format!("{text}{remedy}"))
}

/// Faults that go away by themselves: lost or refused connections (08, 57P), full servers (53),
/// serialization and deadlock (40), canceled by a timeout (57014, 55P03, 25P03).
fn is_passing(code: &SqlState) -> bool {
    let code = code.code();
    ["08", "53", "40", "57"].iter().any(|class| code.starts_with(class))
        || ["55P03", "25P03", "25P02"].contains(&code)
}

fn is_transport(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// The error with its causes: tokio-postgres's own text leaves them out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let part = source.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = source.source();
    }
    text
}
