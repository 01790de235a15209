//! Users.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::{
    jobs,
    rows::{count, counted, from_json, get_at, get_at_opt, json, us},
    sign_ins,
    writer::{Tx, all, find},
};
use crate::{
    model::principal::{Holder, User},
    store::{Result, StoreError, Topic, identity::EndSignIns, ops::RequestKey},
};

/// Columns that [`user`] reads, in order.
const USER: &str = "id, email, display_name, grants, disabled, password_hash, password_expired, \
     version, created_at, last_login_at";

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User {
        id: row.get(0)?,
        email: row.get(1)?,
        display_name: row.get(2)?,
        grants: from_json(row, 3)?,
        disabled: row.get(4)?,
        password_hash: row.get(5)?,
        password_expired: row.get(6)?,
        version: counted(row.get(7)?),
        created_at: get_at(row, 8)?,
        last_login_at: get_at_opt(row, 9)?,
    })
}

/// Stores a user.
pub(super) fn create(tx: &mut Tx<'_>, new: &User, request: Option<&RequestKey>) -> Result<User> {
    if jobs::answered(tx, request)?.is_some() {
        return get(tx.conn(), &new.id);
    }
    let made = tx.execute(
        &format!(
            "INSERT INTO user_account ({USER}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO NOTHING"
        ),
        params![
            new.id,
            new.email,
            new.display_name,
            json(&new.grants)?,
            new.disabled,
            new.password_hash,
            new.password_expired,
            count(new.version),
            us(new.created_at),
            new.last_login_at.map(us),
        ],
    )?;
    if made == 0 {
        return Err(StoreError::AlreadyExists(format!("users/{}", new.id)));
    }
    jobs::remember(tx, request, &new.birth(), new.created_at)?;
    Ok(new.clone())
}

/// A user by id.
pub(super) fn get(conn: &Connection, id: &str) -> Result<User> {
    find(conn, &format!("SELECT {USER} FROM user_account WHERE id = ?1"), [id], user)?
        .ok_or_else(|| missing(id))
}

/// Users by id after `after`.
pub(super) fn list(conn: &Connection, after: &str, limit: u32) -> Result<Vec<User>> {
    let sql = format!("SELECT {USER} FROM user_account WHERE id > ?1 ORDER BY id LIMIT ?2");
    all(conn, &sql, params![after, limit], user)
}

/// Replaces what can be changed, under the version that was seen.
pub(super) fn update(tx: &mut Tx<'_>, new: &User, end: &EndSignIns) -> Result<User> {
    let changed = tx.execute(
        "UPDATE user_account SET email = ?3, display_name = ?4, grants = ?5, disabled = ?6,
             password_hash = ?7, password_expired = ?8, version = version + 1
         WHERE id = ?1 AND version = ?2",
        params![
            new.id,
            count(new.version),
            new.email,
            new.display_name,
            json(&new.grants)?,
            new.disabled,
            new.password_hash,
            new.password_expired,
        ],
    )?;
    let stored = get(tx.conn(), &new.id)?;
    if changed == 0 {
        return Err(StoreError::Conflict(format!("users/{} was changed meanwhile", new.id)));
    }
    let holder = Holder::User(new.id.clone());
    match end {
        EndSignIns::None => {}
        EndSignIns::All => sign_ins::end_all(tx, &holder, "")?,
        EndSignIns::AllBut(id) => sign_ins::end_all(tx, &holder, id)?,
    }
    tx.hint(Topic::Tokens);
    Ok(stored)
}

/// Deletes a user with all sign-ins; revokes the user's tokens.
pub(super) fn delete(tx: &mut Tx<'_>, id: &str, now: DateTime<Utc>) -> Result<()> {
    if tx.execute("DELETE FROM user_account WHERE id = ?1", [id])? == 0 {
        return Err(missing(id));
    }
    tx.execute(
        "UPDATE token SET revoked_at = ?2 WHERE owner = ?1 AND revoked_at IS NULL",
        params![format!("users/{id}"), us(now)],
    )?;
    tx.hint(Topic::Tokens);
    Ok(())
}

fn missing(id: &str) -> StoreError {
    StoreError::NotFound(format!("users/{id}"))
}
