//! The store's operations on tokens, users and their sign-ins.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Result, ops::RequestKey};
use crate::model::principal::{Holder, SignIn, Token, User};

/// Sign-ins of one user or token that last at once; a further one ends the oldest.
pub const SIGN_INS_MAX: u32 = 50;
/// Sign-ins that one step of pruning removes.
pub const SIGN_IN_PRUNE_MAX: u32 = 1_000;

/// Which sign-ins of a user end with a change of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndSignIns {
    /// None.
    None,
    /// All.
    All,
    /// All but the one of that id.
    AllBut(String),
}

/// Tokens, users, and who has signed in. Whatever ends a credential tells `Topic::Tokens`.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    // ---- tokens ------------------------------------------------------------------------------

    /// Stores a token. A repeated request id is `Conflict`: the secret can't be shown again.
    async fn create_token(&self, token: &Token, request: Option<&RequestKey>) -> Result<()>;

    /// A token by its public id, revoked ones too.
    async fn find_token(&self, id: &str) -> Result<Token>;

    /// Tokens by id after `after`.
    async fn list_tokens(&self, after: &str, limit: u32) -> Result<Vec<Token>>;

    /// Revokes a token; again is no error.
    async fn revoke_token(&self, id: &str, now: DateTime<Utc>) -> Result<Token>;

    /// Notes that tokens were used.
    async fn touch_tokens(&self, ids: &[String], now: DateTime<Utc>) -> Result<()>;

    // ---- users -------------------------------------------------------------------------------

    /// Stores a user. A repeated request id with the same body returns the user as it is now.
    async fn create_user(&self, user: &User, request: Option<&RequestKey>) -> Result<User>;

    /// One user.
    async fn find_user(&self, id: &str) -> Result<User>;

    /// Users by id after `after`.
    async fn list_users(&self, after: &str, limit: u32) -> Result<Vec<User>>;

    /// Replaces what can be changed of the user, if its version is still `user.version`; raises
    /// that. Ends sign-ins in the same transaction.
    async fn update_user(&self, user: &User, end: &EndSignIns) -> Result<User>;

    /// Deletes a user with all sign-ins, and revokes the tokens that the user made.
    async fn delete_user(&self, id: &str, now: DateTime<Utc>) -> Result<()>;

    // ---- sign-ins ----------------------------------------------------------------------------

    /// Stores a sign-in and notes it with its user. Ends `instead_of`, and those beyond
    /// [`SIGN_INS_MAX`]. `NotFound` when its holder is gone.
    async fn create_sign_in(&self, sign_in: &SignIn, instead_of: Option<&str>) -> Result<()>;

    /// A sign-in by its public id.
    async fn find_sign_in(&self, id: &str) -> Result<SignIn>;

    /// Ends one; again is no error.
    async fn end_sign_in(&self, id: &str) -> Result<()>;

    /// Ends all of a user or token.
    async fn end_sign_ins(&self, holder: &Holder) -> Result<()>;

    /// Notes when sign-ins were last used.
    async fn touch_sign_ins(&self, used: &[(String, DateTime<Utc>)]) -> Result<()>;

    /// Removes at most [`SIGN_IN_PRUNE_MAX`] that have expired or were last used before
    /// `used_before`. Returns how many.
    async fn prune_sign_ins(&self, used_before: DateTime<Utc>, now: DateTime<Utc>) -> Result<u64>;
}
