//! Users.

use chrono::{DateTime, Utc};
use tokio_postgres::{Row, types::ToSql};

use super::{
    PostgresStore,
    requests::{answered, begin, commit, remember},
    rows::{Reader, execute, query, query_opt, to_json},
    sign_ins,
};
use crate::{
    model::principal::{Holder, User},
    store::{Result, StoreError, Topic, identity::EndSignIns, ops::RequestKey},
};

/// Columns that [`user`] reads, in its order.
const USER: &str = "id, email, display_name, grants::text, disabled, password_hash, \
    password_expired, version, created_at, last_login_at";

fn user(row: &Row) -> Result<User> {
    let mut row = Reader::new(row);
    Ok(User {
        id: row.get()?,
        email: row.get()?,
        display_name: row.get()?,
        grants: row.json()?,
        disabled: row.get()?,
        password_hash: row.get()?,
        password_expired: row.get()?,
        version: row.number()?,
        created_at: row.get()?,
        last_login_at: row.get()?,
    })
}

pub(super) async fn create(
    store: &PostgresStore,
    new: &User,
    request: Option<&RequestKey>,
) -> Result<User> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if answered(&tx, request, new.created_at).await?.is_some() {
        drop(tx);
        return find(store, &new.id).await;
    }
    let sql = "INSERT INTO user_account (id, email, display_name, grants, disabled, password_hash,
            password_expired, version, created_at, last_login_at)
        VALUES ($1, $2, $3, $4::text::jsonb, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (id) DO NOTHING";
    let version = i64::try_from(new.version).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 10] = [
        &new.id,
        &new.email,
        &new.display_name,
        &to_json(&new.grants)?,
        &new.disabled,
        &new.password_hash,
        &new.password_expired,
        &version,
        &new.created_at,
        &new.last_login_at,
    ];
    if execute(&tx, sql, &params).await? == 0 {
        return Err(StoreError::AlreadyExists(format!("users/{}", new.id)));
    }
    remember(&tx, request, &new.birth()).await?;
    commit(tx).await?;
    Ok(new.clone())
}

pub(super) async fn find(store: &PostgresStore, id: &str) -> Result<User> {
    let sql = format!("SELECT {USER} FROM user_account WHERE id = $1");
    match query_opt(&store.client().await?, &sql, &[&id]).await? {
        Some(row) => user(&row),
        None => Err(missing(id)),
    }
}

pub(super) async fn list(store: &PostgresStore, after: &str, limit: u32) -> Result<Vec<User>> {
    let sql = format!("SELECT {USER} FROM user_account WHERE id > $1 ORDER BY id LIMIT $2");
    let found = query(&store.client().await?, &sql, &[&after, &i64::from(limit)]).await?;
    found.iter().map(user).collect()
}

pub(super) async fn update(store: &PostgresStore, new: &User, end: &EndSignIns) -> Result<User> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let sql = format!(
        "UPDATE user_account SET email = $3, display_name = $4, grants = $5::text::jsonb,
            disabled = $6, password_hash = $7, password_expired = $8, version = version + 1
        WHERE id = $1 AND version = $2 RETURNING {USER}"
    );
    let version = i64::try_from(new.version).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 8] = [
        &new.id,
        &version,
        &new.email,
        &new.display_name,
        &to_json(&new.grants)?,
        &new.disabled,
        &new.password_hash,
        &new.password_expired,
    ];
    let Some(row) = query_opt(&tx, &sql, &params).await? else {
        drop(tx);
        let there = find(store, &new.id).await?;
        return Err(StoreError::Conflict(format!("users/{} was changed meanwhile", there.id)));
    };
    let stored = user(&row)?;
    let holder = Holder::User(new.id.clone());
    match end {
        EndSignIns::None => {}
        EndSignIns::All => sign_ins::end_all(&tx, &holder, "").await?,
        EndSignIns::AllBut(id) => sign_ins::end_all(&tx, &holder, id).await?,
    }
    commit(tx).await?;
    store.hints.tell(Topic::Tokens);
    Ok(stored)
}

pub(super) async fn delete(store: &PostgresStore, id: &str, now: DateTime<Utc>) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if execute(&tx, "DELETE FROM user_account WHERE id = $1", &[&id]).await? == 0 {
        return Err(missing(id));
    }
    let sql = "UPDATE token SET revoked_at = $2 WHERE owner = $1 AND revoked_at IS NULL";
    execute(&tx, sql, &[&format!("users/{id}"), &now]).await?;
    commit(tx).await?;
    store.hints.tell(Topic::Tokens);
    Ok(())
}

fn missing(id: &str) -> StoreError {
    StoreError::NotFound(format!("users/{id}"))
}
