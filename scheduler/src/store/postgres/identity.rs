//! Tokens: the operations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{PostgresStore, tokens};
use crate::{
    model::principal::Token,
    store::{Result, identity::IdentityStore, ops::RequestKey},
};

#[async_trait]
impl IdentityStore for PostgresStore {
    async fn create_token(&self, token: &Token, request: Option<&RequestKey>) -> Result<()> {
        tokens::create_token(self, token, request).await
    }

    async fn find_token(&self, id: &str) -> Result<Token> {
        tokens::find_token(self, id).await
    }

    async fn list_tokens(&self, after: &str, limit: u32) -> Result<Vec<Token>> {
        tokens::list_tokens(self, after, limit).await
    }

    async fn revoke_token(&self, id: &str, now: DateTime<Utc>) -> Result<Token> {
        tokens::revoke_token(self, id, now).await
    }

    async fn touch_tokens(&self, ids: &[String], now: DateTime<Utc>) -> Result<()> {
        tokens::touch_tokens(self, ids, now).await
    }
}
