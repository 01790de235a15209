//! Executors: the rows behind their sessions.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    owner,
    rows::{self, EXECUTOR, count, counted, counted32, json, us},
    writer::{Tx, all, find},
};
use crate::{
    model::{executor::Executor, ids::AppId, run::OpenRun, words},
    store::{
        Result, StoreError, Topic,
        ops::{Claim, Claimed, ExecutorQuery, FORGOTTEN_MAX, SILENT_KEPT},
    },
};

fn by_name(conn: &Connection, app: AppId, name: &str) -> Result<Option<Executor>> {
    let sql = format!(
        "SELECT {EXECUTOR} FROM executor e JOIN app a ON a.id = e.app_id
         WHERE e.app_id = ?1 AND e.name = ?2"
    );
    find(conn, &sql, params![app.0, name], rows::executor)
}

/// One executor.
pub(super) fn get(conn: &Connection, app: AppId, name: &str) -> Result<Executor> {
    by_name(conn, app, name)?.ok_or_else(|| StoreError::NotFound(format!("executor {name}")))
}

/// Makes the caller's session the executor's current one.
pub(super) fn claim(tx: &mut Tx<'_>, claim: &Claim, now: DateTime<Utc>) -> Result<Claimed> {
    let before = by_name(tx.conn(), claim.app, &claim.name)?;
    if let Some(refusal) = before.as_ref().and_then(|row| claim.refusal(row)) {
        return Err(refusal);
    }
    let resumed = before.as_ref().is_some_and(|row| claim.resumes(row));
    let keeps_token = resumed && !claim.resume_hash.is_empty();
    let resume_hash = if keeps_token { &claim.resume_hash } else { &claim.fresh_resume_hash };
    let (row, epoch) = put(tx, claim, resume_hash, now)?;
    tx.hint(Topic::Session { executor: row, epoch });
    Ok(Claimed {
        executor: get(tx.conn(), claim.app, &claim.name)?,
        resumed,
        replaced: before.is_some() && !resumed,
        attempts: attempts(tx.conn(), claim)?,
    })
}

/// Open runs whose current attempt is with the executor.
fn attempts(conn: &Connection, claim: &Claim) -> Result<Vec<OpenRun>> {
    match &claim.may_hold {
        None => owner::runs_with(conn, claim.app.0, &claim.name),
        Some(ids) => owner::those_with(conn, claim.app.0, &claim.name, ids),
    }
}

/// Writes the claimed row; returns its id and the new epoch.
fn put(tx: &Tx<'_>, claim: &Claim, resume_hash: &[u8], now: DateTime<Utc>) -> Result<(i64, u64)> {
    find(
        tx.conn(),
        "INSERT INTO executor (app_id, name, spec, instance_id, resume_hash, principal,
             session_epoch, node, peer_address, connected_at, last_seen_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?9)
         ON CONFLICT (app_id, name) DO UPDATE SET
             spec = excluded.spec, instance_id = excluded.instance_id,
             resume_hash = excluded.resume_hash, principal = excluded.principal,
             session_epoch = session_epoch + 1, node = excluded.node,
             peer_address = excluded.peer_address, connected_at = excluded.connected_at,
             disconnected_at = NULL, gone = 0, last_seen_at = excluded.last_seen_at
         RETURNING id, session_epoch",
        params![
            claim.app.0,
            claim.name,
            json(&claim.spec)?,
            claim.instance_id,
            resume_hash,
            claim.principal,
            claim.node,
            claim.peer_address,
            us(now),
        ],
        |row| Ok((row.get(0)?, counted(row.get(1)?))),
    )?
    .ok_or_else(|| StoreError::Internal("an executor was not stored".to_owned()))
}

/// How many more executors the app may have, some forgotten for that if need be.
pub(super) fn make_room(tx: &mut Tx<'_>, app: AppId, max: u32, now: DateTime<Utc>) -> Result<u32> {
    let sql = "SELECT count(*) FROM executor WHERE app_id = ?1";
    let known = find(tx.conn(), sql, [app.0], |row| row.get(0).map(counted32))?.unwrap_or(0);
    if known < max {
        return Ok(max - known);
    }
    let forgotten = tx.execute(
        "DELETE FROM executor WHERE id IN (
             SELECT id FROM executor e
             WHERE app_id = ?1 AND NOT cordoned AND disconnected_at < ?2 AND NOT EXISTS (
                 SELECT 1 FROM open_run r WHERE r.app_id = e.app_id AND r.executor = e.name
                     AND r.state IN ('DISPATCHED', 'RUNNING', 'CANCELING'))
             ORDER BY disconnected_at LIMIT ?3)",
        params![app.0, us(now - SILENT_KEPT), FORGOTTEN_MAX],
    )?;
    Ok(max.saturating_sub(known - u32::try_from(forgotten).unwrap_or(known)))
}

/// Signs of life of sessions.
pub(super) fn touch(tx: &mut Tx<'_>, seen: &[(i64, u64)], now: DateTime<Utc>) -> Result<()> {
    for (row, epoch) in seen {
        tx.execute(
            "UPDATE executor SET last_seen_at = ?3 WHERE id = ?1 AND session_epoch = ?2",
            params![row, count(*epoch), us(now)],
        )?;
    }
    Ok(())
}

/// The session ended, unless a later one took its place.
pub(super) fn end_session(
    tx: &mut Tx<'_>,
    row: i64,
    epoch: u64,
    left: bool,
    now: DateTime<Utc>,
) -> Result<()> {
    tx.execute(
        "UPDATE executor SET node = '', disconnected_at = coalesce(disconnected_at, ?4),
             gone = max(gone, ?3)
         WHERE id = ?1 AND session_epoch = ?2",
        params![row, count(epoch), left, us(now)],
    )?;
    Ok(())
}

/// Ends every session: the lock file admits one server, so all were held by one that is gone.
pub(super) fn end_all_sessions(tx: &mut Tx<'_>, now: DateTime<Utc>) -> Result<u64> {
    let ended = tx.execute(
        "UPDATE executor SET node = '', disconnected_at = ?1 WHERE disconnected_at IS NULL",
        [us(now)],
    )?;
    Ok(ended as u64)
}

/// A page of executors, by (app, name).
pub(super) fn list(conn: &Connection, query: &ExecutorQuery) -> Result<Vec<Executor>> {
    let sql = format!(
        "SELECT {EXECUTOR} FROM executor e JOIN app a ON a.id = e.app_id
         WHERE (?1 IS NULL OR e.app_id IN (SELECT value FROM json_each(?1)))
             AND (?2 IS NULL OR (a.name, e.name) > (?2, ?3))
             AND (NOT ?4 OR (e.disconnected_at IS NOT NULL AND NOT e.gone))
         ORDER BY a.name, e.name LIMIT ?5"
    );
    let apps = match &query.apps {
        Some(apps) => Some(json(&apps.iter().map(|app| app.0).collect::<Vec<_>>())?),
        None => None,
    };
    let (after_app, after_name) = query.after.clone().unzip();
    all(
        conn,
        &sql,
        params![apps, after_app, after_name, query.out_of_contact, query.limit],
        rows::executor,
    )
}

/// Sets or clears the cordon.
pub(super) fn cordon(
    tx: &mut Tx<'_>,
    app: AppId,
    name: &str,
    cordon: Option<&str>,
) -> Result<Executor> {
    tx.execute(
        "UPDATE executor SET cordoned = ?3, cordon_reason = ?4 WHERE app_id = ?1 AND name = ?2",
        params![app.0, name, cordon.is_some(), cordon.unwrap_or_default()],
    )?;
    get(tx.conn(), app, name)
}

/// Forgets an executor that is not connected and has no open runs.
pub(super) fn delete(tx: &mut Tx<'_>, app: AppId, name: &str) -> Result<()> {
    let row = get(tx.conn(), app, name)?;
    if row.disconnected_at.is_none() {
        return Err(StoreError::Conflict(format!("executor {name} is connected: stop it first")));
    }
    let open = owner::runs_with(tx.conn(), app.0, name)?.len();
    if open > 0 {
        let open = words::count(open as u64, "open run");
        return Err(StoreError::Conflict(format!("executor {name} still has {open}")));
    }
    tx.execute("DELETE FROM executor WHERE id = ?1", [row.row])?;
    Ok(())
}
