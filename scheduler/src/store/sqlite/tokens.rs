//! Tokens.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::{
    jobs,
    rows::{from_json, get_at, get_at_opt, json, us},
    writer::{Tx, all, find},
};
use crate::{
    model::principal::Token,
    store::{Result, StoreError, Topic, ops::RequestKey},
};

/// Columns that [`token`] reads, in order.
const TOKEN: &str = "id, secret_hash, display_name, grants, executor_id_patterns, \
     handler_patterns, owner, created_at, expires_at, revoked_at, last_used_at";

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get(0)?,
        secret_hash: row.get(1)?,
        display_name: row.get(2)?,
        grants: from_json(row, 3)?,
        executor_id_patterns: from_json(row, 4)?,
        handler_patterns: from_json(row, 5)?,
        owner: row.get(6)?,
        created_at: get_at(row, 7)?,
        expires_at: get_at_opt(row, 8)?,
        revoked_at: get_at_opt(row, 9)?,
        last_used_at: get_at_opt(row, 10)?,
    })
}

/// Stores a token.
pub(super) fn create(tx: &mut Tx<'_>, new: &Token, request: Option<&RequestKey>) -> Result<()> {
    if jobs::answered(tx, request)?.is_some() {
        return Err(StoreError::Conflict(
            "this request made a token before; its secret can't be shown again".to_owned(),
        ));
    }
    let made = tx.execute(
        &format!(
            "INSERT INTO token ({TOKEN}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT DO NOTHING"
        ),
        params![
            new.id,
            new.secret_hash,
            new.display_name,
            json(&new.grants)?,
            json(&new.executor_id_patterns)?,
            json(&new.handler_patterns)?,
            new.owner,
            us(new.created_at),
            new.expires_at.map(us),
            new.revoked_at.map(us),
            new.last_used_at.map(us),
        ],
    )?;
    if made == 0 {
        return Err(StoreError::AlreadyExists(format!("tokens/{}", new.id)));
    }
    jobs::remember(tx, request, &new.id, new.created_at)
}

/// A token by its public id, revoked ones too.
pub(super) fn get(conn: &Connection, id: &str) -> Result<Token> {
    find(conn, &format!("SELECT {TOKEN} FROM token WHERE id = ?1"), [id], token)?
        .ok_or_else(|| StoreError::NotFound(format!("tokens/{id}")))
}

/// Tokens by id after `after`.
pub(super) fn list(conn: &Connection, after: &str, limit: u32) -> Result<Vec<Token>> {
    let sql = format!("SELECT {TOKEN} FROM token WHERE id > ?1 ORDER BY id LIMIT ?2");
    all(conn, &sql, params![after, limit], token)
}

/// Revokes a token; the first time counts.
pub(super) fn revoke(tx: &mut Tx<'_>, id: &str, now: DateTime<Utc>) -> Result<Token> {
    tx.execute(
        "UPDATE token SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
        params![id, us(now)],
    )?;
    tx.hint(Topic::Tokens);
    get(tx.conn(), id)
}

/// Notes that tokens were used.
pub(super) fn touch(tx: &mut Tx<'_>, ids: &[String], now: DateTime<Utc>) -> Result<()> {
    for id in ids {
        tx.execute("UPDATE token SET last_used_at = ?2 WHERE id = ?1", params![id, us(now)])?;
    }
    Ok(())
}
