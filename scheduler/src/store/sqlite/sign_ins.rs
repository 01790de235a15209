//! Sign-ins of users and tokens.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::{
    rows::{get_at, us},
    writer::{Tx, find},
};
use crate::{
    model::principal::{Holder, SignIn},
    store::{
        Result, StoreError, Topic,
        identity::{SIGN_IN_PRUNE_MAX, SIGN_INS_MAX},
    },
};

fn sign_in(row: &Row<'_>) -> rusqlite::Result<SignIn> {
    let user: Option<String> = row.get(2)?;
    Ok(SignIn {
        id: row.get(0)?,
        secret_hash: row.get(1)?,
        holder: match user {
            Some(id) => Holder::User(id),
            None => Holder::Token(row.get(3)?),
        },
        created_at: get_at(row, 4)?,
        last_used_at: get_at(row, 5)?,
        expires_at: get_at(row, 6)?,
    })
}

/// The column of a holder, and its id.
fn column(holder: &Holder) -> (&'static str, &str) {
    match holder {
        Holder::User(id) => ("user_id", id),
        Holder::Token(id) => ("token_id", id),
    }
}

/// Stores a sign-in in place of another one and of those that are too many.
pub(super) fn create(tx: &mut Tx<'_>, new: &SignIn, instead_of: Option<&str>) -> Result<()> {
    if let Some(old) = instead_of {
        end(tx, old)?;
    }
    let (column, id) = column(&new.holder);
    let table = if column == "user_id" { "user_account" } else { "token" };
    let made = tx.execute(
        &format!(
            "INSERT INTO sign_in (id, secret_hash, {column}, created_at, last_used_at, expires_at)
             SELECT ?1, ?2, id, ?4, ?5, ?6 FROM {table} WHERE id = ?3"
        ),
        params![
            new.id,
            new.secret_hash,
            id,
            us(new.created_at),
            us(new.last_used_at),
            us(new.expires_at),
        ],
    )?;
    if made == 0 {
        return Err(StoreError::NotFound(id.to_owned()));
    }
    tx.execute(
        &format!(
            "DELETE FROM sign_in WHERE id IN (SELECT id FROM sign_in WHERE {column} = ?1
             ORDER BY id DESC LIMIT -1 OFFSET ?2)"
        ),
        params![id, SIGN_INS_MAX],
    )?;
    if let Holder::User(id) = &new.holder {
        tx.execute(
            "UPDATE user_account SET last_login_at = ?2 WHERE id = ?1",
            params![id, us(new.created_at)],
        )?;
    }
    tx.hint(Topic::Tokens);
    Ok(())
}

/// A sign-in by its public id.
pub(super) fn get(conn: &Connection, id: &str) -> Result<SignIn> {
    let sql = "SELECT id, secret_hash, user_id, token_id, created_at, last_used_at, expires_at
         FROM sign_in WHERE id = ?1";
    find(conn, sql, [id], sign_in)?.ok_or_else(|| StoreError::NotFound(format!("sign-in {id}")))
}

/// Ends one.
pub(super) fn end(tx: &mut Tx<'_>, id: &str) -> Result<()> {
    tx.execute("DELETE FROM sign_in WHERE id = ?1", [id])?;
    tx.hint(Topic::Tokens);
    Ok(())
}

/// Ends all of a holder but the one named.
pub(super) fn end_all(tx: &mut Tx<'_>, holder: &Holder, but: &str) -> Result<()> {
    let (column, id) = column(holder);
    tx.execute(&format!("DELETE FROM sign_in WHERE {column} = ?1 AND id <> ?2"), [id, but])?;
    tx.hint(Topic::Tokens);
    Ok(())
}

/// Notes when sign-ins were last used.
pub(super) fn touch(tx: &mut Tx<'_>, used: &[(String, DateTime<Utc>)]) -> Result<()> {
    for (id, at) in used {
        tx.execute(
            "UPDATE sign_in SET last_used_at = max(last_used_at, ?2) WHERE id = ?1",
            params![id, us(*at)],
        )?;
    }
    Ok(())
}

/// Removes those that have ended by themselves.
pub(super) fn prune(
    tx: &mut Tx<'_>,
    used_before: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<u64> {
    let gone = tx.execute(
        "DELETE FROM sign_in WHERE id IN (
             SELECT id FROM sign_in WHERE expires_at <= ?1 OR last_used_at < ?2 LIMIT ?3)",
        params![us(now), us(used_before), SIGN_IN_PRUNE_MAX],
    )?;
    Ok(gone as u64)
}
