//! Tokens, users and sign-ins: the operations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{SqliteStore, sign_ins, tokens, users};
use crate::{
    model::principal::{Holder, SignIn, Token, User},
    store::{
        Result,
        identity::{EndSignIns, IdentityStore},
        ops::RequestKey,
    },
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

    async fn create_user(&self, user: &User, request: Option<&RequestKey>) -> Result<User> {
        let user = user.clone();
        let request = request.cloned();
        self.writer.write(move |tx| users::create(tx, &user, request.as_ref())).await
    }

    async fn find_user(&self, id: &str) -> Result<User> {
        let id = id.to_owned();
        self.readers.read(move |conn| users::get(conn, &id)).await
    }

    async fn list_users(&self, after: &str, limit: u32) -> Result<Vec<User>> {
        let after = after.to_owned();
        self.readers.read(move |conn| users::list(conn, &after, limit)).await
    }

    async fn update_user(&self, user: &User, end: &EndSignIns) -> Result<User> {
        let (user, end) = (user.clone(), end.clone());
        self.writer.write(move |tx| users::update(tx, &user, &end)).await
    }

    async fn delete_user(&self, id: &str, now: DateTime<Utc>) -> Result<()> {
        let id = id.to_owned();
        self.writer.write(move |tx| users::delete(tx, &id, now)).await
    }

    async fn create_sign_in(&self, sign_in: &SignIn, instead_of: Option<&str>) -> Result<()> {
        let sign_in = sign_in.clone();
        let instead_of = instead_of.map(str::to_owned);
        self.writer.write(move |tx| sign_ins::create(tx, &sign_in, instead_of.as_deref())).await
    }

    async fn find_sign_in(&self, id: &str) -> Result<SignIn> {
        let id = id.to_owned();
        self.readers.read(move |conn| sign_ins::get(conn, &id)).await
    }

    async fn end_sign_in(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.writer.write(move |tx| sign_ins::end(tx, &id)).await
    }

    async fn end_sign_ins(&self, holder: &Holder) -> Result<()> {
        let holder = holder.clone();
        self.writer.write(move |tx| sign_ins::end_all(tx, &holder, "")).await
    }

    async fn touch_sign_ins(&self, used: &[(String, DateTime<Utc>)]) -> Result<()> {
        let used = used.to_vec();
        self.writer.write(move |tx| sign_ins::touch(tx, &used)).await
    }

    async fn prune_sign_ins(&self, used_before: DateTime<Utc>, now: DateTime<Utc>) -> Result<u64> {
        self.writer.write(move |tx| sign_ins::prune(tx, used_before, now)).await
    }
}
