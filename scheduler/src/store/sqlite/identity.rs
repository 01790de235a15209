//! Tokens: the operations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{SqliteStore, tokens};
use crate::{
    model::principal::Token,
    store::{Result, identity::IdentityStore, ops::RequestKey},
};

#[async_trait]
impl IdentityStore for SqliteStore {
    async fn create_token(&self, token: &Token, request: Option<&RequestKey>) -> Result<()> {
        let token = token.clone();
        let request = request.cloned();
        self.writer.write(move |tx| tokens::create(tx, &token, request.as_ref())).await
    }

    async fn find_token(&self, id: &str) -> Result<Token> {
        let id = id.to_owned();
        self.readers.read(move |conn| tokens::get(conn, &id)).await
    }

    async fn list_tokens(&self, after: &str, limit: u32) -> Result<Vec<Token>> {
        let after = after.to_owned();
        self.readers.read(move |conn| tokens::list(conn, &after, limit)).await
    }

    async fn revoke_token(&self, id: &str, now: DateTime<Utc>) -> Result<Token> {
        let id = id.to_owned();
        self.writer.write(move |tx| tokens::revoke(tx, &id, now)).await
    }

    async fn touch_tokens(&self, ids: &[String], now: DateTime<Utc>) -> Result<()> {
        let ids = ids.to_vec();
        self.writer.write(move |tx| tokens::touch(tx, &ids, now)).await
    }
}
