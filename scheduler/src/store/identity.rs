//! The store's operations on tokens.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Result, ops::RequestKey};
use crate::model::principal::Token;

/// Tokens.
#[async_trait]
pub trait IdentityStore: Send + Sync {
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
}
