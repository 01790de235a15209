//! Apps.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    alarms, calendars, jobs,
    rows::{self, APP, count, json, us},
    writer::{Tx, all, find},
};
use crate::{
    model::{
        app::{App, AppSpec},
        ids::AppId,
        words,
    },
    store::{Result, StoreError, ops::RequestKey},
};

/// The app of that name, made if need be.
pub(super) fn ensure(tx: &mut Tx<'_>, name: &str, now: DateTime<Utc>) -> Result<App> {
    if let Some(app) = by_name(tx.conn(), name)? {
        return Ok(app);
    }
    insert(tx, name, &AppSpec::default(), now)
}

/// Creates an app; a repeated request gets the app of the first one.
pub(super) fn create(
    tx: &mut Tx<'_>,
    name: &str,
    spec: &AppSpec,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<App> {
    if jobs::answered(tx, request)?.is_some() {
        return get(tx.conn(), name);
    }
    if by_name(tx.conn(), name)?.is_some() {
        return Err(StoreError::AlreadyExists(format!("apps/{name}")));
    }
    let app = insert(tx, name, spec, now)?;
    jobs::remember(tx, request, &app.id.0.to_string(), now)?;
    Ok(app)
}

fn insert(tx: &mut Tx<'_>, name: &str, spec: &AppSpec, now: DateTime<Utc>) -> Result<App> {
    let sql = format!(
        "INSERT INTO app (name, spec, version, created_at) VALUES (?1, ?2, 1, ?3) RETURNING {APP}"
    );
    find(tx.conn(), &sql, params![name, json(spec)?, us(now)], rows::app)?
        .ok_or_else(|| StoreError::Internal(format!("app {name} was not stored")))
}

fn by_name(conn: &Connection, name: &str) -> Result<Option<App>> {
    find(conn, &format!("SELECT {APP} FROM app WHERE name = ?1"), [name], rows::app)
}

/// One app.
pub(super) fn get(conn: &Connection, name: &str) -> Result<App> {
    by_name(conn, name)?.ok_or_else(|| StoreError::NotFound(format!("apps/{name}")))
}

/// Apps by name after `after`.
pub(super) fn list(
    conn: &Connection,
    after: &str,
    only: Option<&[String]>,
    limit: u32,
) -> Result<Vec<App>> {
    let sql = format!(
        "SELECT {APP} FROM app
         WHERE name > ?1 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
         ORDER BY name LIMIT ?3"
    );
    let only = only.map(|names| json(&names)).transpose()?;
    all(conn, &sql, params![after, only, limit], rows::app)
}

/// Replaces the spec if the version is still `version`.
pub(super) fn update(tx: &mut Tx<'_>, id: AppId, spec: &AppSpec, version: u64) -> Result<App> {
    let sql = format!(
        "UPDATE app SET spec = ?2, version = version + 1 WHERE id = ?1 AND version = ?3
         RETURNING {APP}"
    );
    let updated = find(tx.conn(), &sql, params![id.0, json(spec)?, count(version)], rows::app)?;
    match updated {
        Some(app) => Ok(app),
        None => {
            let name = find(tx.conn(), "SELECT name FROM app WHERE id = ?1", [id.0], |row| {
                row.get::<_, String>(0)
            })?;
            Err(match name {
                Some(name) => StoreError::Conflict(format!("apps/{name} was changed meanwhile")),
                None => StoreError::NotFound("the app".to_owned()),
            })
        }
    }
}

/// Deletes an app with its executors' rows. Its ended runs go with its jobs' rows: lists join
/// them, and the clean-up removes what nothing refers to.
pub(super) fn delete(tx: &mut Tx<'_>, id: AppId) -> Result<()> {
    let counted = find(
        tx.conn(),
        "SELECT (SELECT count(*) FROM job WHERE app_id = ?1 AND deleted_at IS NULL),
             (SELECT count(*) FROM open_run WHERE app_id = ?1)",
        [id.0],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    )?;
    if let Some((jobs, runs)) = counted
        && (jobs > 0 || runs > 0)
    {
        let jobs = words::count(jobs.cast_unsigned(), "job");
        let runs = words::count(runs.cast_unsigned(), "open run");
        return Err(StoreError::Conflict(format!("the app has {jobs} and {runs}")));
    }
    calendars::delete_all(tx, id)?;
    tx.execute("DELETE FROM executor WHERE app_id = ?1", [id.0])?;
    tx.execute("DELETE FROM job WHERE app_id = ?1", [id.0])?;
    match tx.execute("DELETE FROM app WHERE id = ?1", [id.0])? {
        0 => Err(StoreError::NotFound("the app".to_owned())),
        // Its rules went with it.
        _ => alarms::wish(tx),
    }
}
