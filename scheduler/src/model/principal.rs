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

/// A person who signs in, as stored: never with the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name to sign in with.
    pub id: String,
    /// Where mail reaches the person.
    pub email: String,
    /// Shown for the person.
    pub display_name: String,
    /// What the person may do. Never the executor's role: that is for tokens.
    pub grants: Vec<Grant>,
    /// May not sign in.
    pub disabled: bool,
    /// Argon2id in PHC form, with its salt and costs.
    pub password_hash: String,
    /// Somebody else has set the password: it must be changed before anything else.
    pub password_expired: bool,
    /// Grows with each change of the fields above.
    pub version: u64,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When the person last signed in.
    pub last_login_at: Option<DateTime<Utc>>,
}

impl User {
    /// Tells the user from whoever else has the id before or after: when it was made, microseconds.
    pub fn birth(&self) -> String {
        self.created_at.timestamp_micros().to_string()
    }
}

/// Whose a sign-in is, by id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A user's.
    User(String),
    /// A token's: whoever had it put a sign-in of bounded life in its place.
    Token(String),
}

/// A sign-in that lasts until its end, as stored: never with its secret. (A *session* is an
/// executor's stream.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// Public id; the first part of the secret text.
    pub id: String,
    /// SHA-256 of the secret, as of a token.
    pub secret_hash: Vec<u8>,
    /// Whose it is.
    pub holder: Holder,
    /// When it began.
    pub created_at: DateTime<Utc>,
    /// When it was last used, to the minute.
    pub last_used_at: DateTime<Utc>,
    /// When it ends at the latest.
    pub expires_at: DateTime<Utc>,
}
