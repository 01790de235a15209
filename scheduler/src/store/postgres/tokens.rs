//! Tokens.

use chrono::{DateTime, Utc};
use tokio_postgres::{Row, types::ToSql};

use super::{
    PostgresStore,
    requests::{answered, begin, commit, remember},
    rows::{Reader, execute, query, query_opt, to_json},
};
use crate::{
    model::principal::Token,
    store::{Result, StoreError, Topic, ops::RequestKey},
};

/// Columns that [`token`] reads, in its order.
const TOKEN: &str = "id, secret_hash, display_name, grants::text, executor_id_patterns::text, \
    handler_patterns::text, owner, created_at, expires_at, revoked_at, last_used_at";

fn token(row: &Row) -> Result<Token> {
    let mut row = Reader::new(row);
    Ok(Token {
        id: row.get()?,
        secret_hash: row.get()?,
        display_name: row.get()?,
        grants: row.json()?,
        executor_id_patterns: row.json()?,
        handler_patterns: row.json()?,
        owner: row.get()?,
        created_at: row.get()?,
        expires_at: row.get()?,
        revoked_at: row.get()?,
        last_used_at: row.get()?,
    })
}

pub(super) async fn create_token(
    store: &PostgresStore,
    new: &Token,
    request: Option<&RequestKey>,
) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if answered(&tx, request, new.created_at).await?.is_some() {
        return Err(StoreError::Conflict(
            "this request made a token before; its secret can't be shown again".to_owned(),
        ));
    }
    let sql = "INSERT INTO token (id, secret_hash, display_name, grants, executor_id_patterns,
            handler_patterns, owner, created_at, expires_at, revoked_at, last_used_at)
        VALUES ($1, $2, $3, $4::text::jsonb, $5::text::jsonb, $6::text::jsonb, $7, $8, $9, $10,
            $11)
        ON CONFLICT (id) DO NOTHING";
    let params: [&(dyn ToSql + Sync); 11] = [
        &new.id,
        &new.secret_hash,
        &new.display_name,
        &to_json(&new.grants)?,
        &to_json(&new.executor_id_patterns)?,
        &to_json(&new.handler_patterns)?,
        &new.owner,
        &new.created_at,
        &new.expires_at,
        &new.revoked_at,
        &new.last_used_at,
    ];
    if execute(&tx, sql, &params).await? == 0 {
        return Err(StoreError::AlreadyExists(format!("tokens/{}", new.id)));
    }
    remember(&tx, request, &new.id).await?;
    commit(tx).await
}

pub(super) async fn find_token(store: &PostgresStore, id: &str) -> Result<Token> {
    let sql = format!("SELECT {TOKEN} FROM token WHERE id = $1");
    match query_opt(&store.client().await?, &sql, &[&id]).await? {
        Some(row) => token(&row),
        None => Err(StoreError::NotFound(format!("tokens/{id}"))),
    }
}

pub(super) async fn list_tokens(
    store: &PostgresStore,
    after: &str,
    limit: u32,
) -> Result<Vec<Token>> {
    let sql = format!("SELECT {TOKEN} FROM token WHERE id > $1 ORDER BY id LIMIT $2");
    let found = query(&store.client().await?, &sql, &[&after, &i64::from(limit)]).await?;
    found.iter().map(token).collect()
}

/// The first time counts.
pub(super) async fn revoke_token(
    store: &PostgresStore,
    id: &str,
    now: DateTime<Utc>,
) -> Result<Token> {
    let sql = format!(
        "UPDATE token SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING {TOKEN}"
    );
    let Some(row) = query_opt(&store.client().await?, &sql, &[&id, &now]).await? else {
        return Err(StoreError::NotFound(format!("tokens/{id}")));
    };
    store.hints.tell(Topic::Tokens);
    token(&row)
}

pub(super) async fn touch_tokens(
    store: &PostgresStore,
    ids: &[String],
    now: DateTime<Utc>,
) -> Result<()> {
    let sql = "UPDATE token t SET last_used_at = $2 FROM unnest($1::text[]) AS w (id)
        WHERE t.id = w.id";
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    execute(&store.client().await?, sql, &[&ids, &now]).await.map(|_| ())
}
