//! Sign-ins of users and tokens.

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::{Row, types::ToSql};

use super::{
    PostgresStore,
    requests::{begin, commit},
    rows::{Reader, execute, query_opt},
};
use crate::{
    model::principal::{Holder, SignIn},
    store::{
        Result, StoreError, Topic,
        identity::{SIGN_IN_PRUNE_MAX, SIGN_INS_MAX},
    },
};

fn sign_in(row: &Row) -> Result<SignIn> {
    let mut row = Reader::new(row);
    let (id, secret_hash) = (row.get()?, row.get()?);
    let (user, token): (Option<String>, Option<String>) = (row.get()?, row.get()?);
    let holder = match (user, token) {
        (Some(id), _) => Holder::User(id),
        (None, Some(id)) => Holder::Token(id),
        (None, None) => return Err(StoreError::Corrupt("a sign-in is nobody's".to_owned())),
    };
    Ok(SignIn {
        id,
        secret_hash,
        holder,
        created_at: row.get()?,
        last_used_at: row.get()?,
        expires_at: row.get()?,
    })
}

/// The column of a holder, and its id.
fn column(holder: &Holder) -> (&'static str, &str) {
    match holder {
        Holder::User(id) => ("user_id", id),
        Holder::Token(id) => ("token_id", id),
    }
}

pub(super) async fn create(
    store: &PostgresStore,
    new: &SignIn,
    instead_of: Option<&str>,
) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if let Some(old) = instead_of {
        execute(&tx, "DELETE FROM sign_in WHERE id = $1", &[&old]).await?;
    }
    let (column, id) = column(&new.holder);
    let table = if column == "user_id" { "user_account" } else { "token" };
    // The holder's row stays locked: two sign-ins at once count each other.
    let sql = format!(
        "INSERT INTO sign_in (id, secret_hash, {column}, created_at, last_used_at, expires_at)
        SELECT $1, $2, id, $4, $5, $6 FROM {table} WHERE id = $3 FOR UPDATE"
    );
    let params: [&(dyn ToSql + Sync); 6] =
        [&new.id, &new.secret_hash, &id, &new.created_at, &new.last_used_at, &new.expires_at];
    if execute(&tx, &sql, &params).await? == 0 {
        return Err(StoreError::NotFound(id.to_owned()));
    }
    let sql = format!(
        "DELETE FROM sign_in WHERE id IN (
            SELECT id FROM sign_in WHERE {column} = $1 ORDER BY created_at DESC, id DESC OFFSET $2)"
    );
    execute(&tx, &sql, &[&id, &i64::from(SIGN_INS_MAX)]).await?;
    if let Holder::User(id) = &new.holder {
        let sql = "UPDATE user_account SET last_login_at = $2 WHERE id = $1";
        execute(&tx, sql, &[id, &new.created_at]).await?;
    }
    commit(tx).await?;
    store.hints.tell(Topic::Tokens);
    Ok(())
}

pub(super) async fn find(store: &PostgresStore, id: &str) -> Result<SignIn> {
    let sql = "SELECT id, secret_hash, user_id, token_id, created_at, last_used_at, expires_at
        FROM sign_in WHERE id = $1";
    match query_opt(&store.client().await?, sql, &[&id]).await? {
        Some(row) => sign_in(&row),
        None => Err(StoreError::NotFound(format!("sign-in {id}"))),
    }
}

pub(super) async fn end(store: &PostgresStore, id: &str) -> Result<()> {
    execute(&store.client().await?, "DELETE FROM sign_in WHERE id = $1", &[&id]).await?;
    store.hints.tell(Topic::Tokens);
    Ok(())
}

/// All of a holder but the one named. Whoever calls tells of it once it is committed.
pub(super) async fn end_all(client: &impl GenericClient, holder: &Holder, but: &str) -> Result<()> {
    let (column, id) = column(holder);
    let sql = format!("DELETE FROM sign_in WHERE {column} = $1 AND id <> $2");
    execute(client, &sql, &[&id, &but]).await.map(|_| ())
}

pub(super) async fn touch(store: &PostgresStore, used: &[(String, DateTime<Utc>)]) -> Result<()> {
    let sql = "UPDATE sign_in s SET last_used_at = greatest(s.last_used_at, w.at)
        FROM unnest($1::text[], $2::timestamptz[]) AS w (id, at) WHERE s.id = w.id";
    let mut used = used.to_vec();
    used.sort_unstable();
    let (ids, times): (Vec<String>, Vec<DateTime<Utc>>) = used.into_iter().unzip();
    execute(&store.client().await?, sql, &[&ids, &times]).await.map(|_| ())
}

pub(super) async fn prune(
    store: &PostgresStore,
    used_before: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<u64> {
    let sql = "DELETE FROM sign_in WHERE id IN (
            SELECT id FROM sign_in WHERE expires_at <= $1 OR last_used_at < $2 LIMIT $3)";
    let limit = i64::from(SIGN_IN_PRUNE_MAX);
    execute(&store.client().await?, sql, &[&now, &used_before, &limit]).await
}
