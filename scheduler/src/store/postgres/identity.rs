//! Tokens, users and sign-ins: the operations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{PostgresStore, sign_ins, tokens, users};
use crate::{
    model::principal::{Holder, SignIn, Token, User},
    store::{
        Result,
        identity::{EndSignIns, IdentityStore},
        ops::RequestKey,
    },
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

    async fn create_user(&self, user: &User, request: Option<&RequestKey>) -> Result<User> {
        users::create(self, user, request).await
    }

    async fn find_user(&self, id: &str) -> Result<User> {
        users::find(self, id).await
    }

    async fn list_users(&self, after: &str, limit: u32) -> Result<Vec<User>> {
        users::list(self, after, limit).await
    }

    async fn update_user(&self, user: &User, end: &EndSignIns) -> Result<User> {
        users::update(self, user, end).await
    }

    async fn delete_user(&self, id: &str, now: DateTime<Utc>) -> Result<()> {
        users::delete(self, id, now).await
    }

    async fn create_sign_in(&self, sign_in: &SignIn, instead_of: Option<&str>) -> Result<()> {
        sign_ins::create(self, sign_in, instead_of).await
    }

    async fn find_sign_in(&self, id: &str) -> Result<SignIn> {
        sign_ins::find(self, id).await
    }

    async fn end_sign_in(&self, id: &str) -> Result<()> {
        sign_ins::end(self, id).await
    }

    async fn end_sign_ins(&self, holder: &Holder) -> Result<()> {
        sign_ins::end_all(&self.client().await?, holder, "").await?;
        self.hints.tell(crate::store::Topic::Tokens);
        Ok(())
    }

    async fn touch_sign_ins(&self, used: &[(String, DateTime<Utc>)]) -> Result<()> {
        sign_ins::touch(self, used).await
    }

    async fn prune_sign_ins(&self, used_before: DateTime<Utc>, now: DateTime<Utc>) -> Result<u64> {
        sign_ins::prune(self, used_before, now).await
    }
}
