//! Who calls, and what they may do.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// What a user or token may do in an app. The first four contain one another in this order;
/// `Executor` stands apart: it may open sessions and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Role {
    /// Opens executor sessions.
    Executor,
    /// Reads.
    Viewer,
    /// Triggers, cancels, pauses, cordons.
    Operator,
    /// Creates, changes and deletes jobs.
    Editor,
    /// Everything in the app; with the app `*`, everything.
    Admin,
}

/// A role in an app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// An app's name, or `*` for all.
    pub app: String,
    /// The role there.
    pub role: Role,
}

/// A token as stored: never with its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Public id; the first part of the secret text.
    pub id: String,
    /// SHA-256 of the secret. The secret has 256 random bits, so a slow hash would add nothing.
    pub secret_hash: Vec<u8>,
    /// Shown to recognise it.
    pub display_name: String,
    /// What it may do.
    pub grants: Vec<Grant>,
    /// For executors: ids it may register under, `*` as wildcard; empty means any.
    pub executor_id_patterns: Vec<String>,
    /// For executors: handlers it may offer; empty means any.
    pub handler_patterns: Vec<String>,
    /// Who made it.
    pub owner: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stops working.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last seen, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}
