//! Calendars, and the jobs that use them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::{
    jobs::{self, answered, remember},
    nodes,
    rows::{self, JOB, count, counted, from_json, json, us},
    writer::{Tx, all, find},
};
use crate::{
    model::{
        calendar::{CALENDAR_JOBS_MAX, Calendar, CalendarSpec, Calendars, Coverage},
        ids::{AppId, JobId},
        job::{Job, JobSpec},
        words,
    },
    store::{
        Result, StoreError, Topic,
        ops::{NewRun, ReplanInput},
        schedules::{CalendarQuery, NewCalendar},
    },
};

/// Columns that [`calendar`] reads, in order, of `calendar c JOIN app a`.
const CALENDAR: &str = "c.id, c.app_id, a.name, c.name, c.spec, c.version";

fn calendar(row: &Row<'_>) -> rusqlite::Result<Calendar> {
    Ok(Calendar {
        id: row.get(0)?,
        app: AppId(row.get(1)?),
        app_name: row.get(2)?,
        name: row.get(3)?,
        spec: from_json(row, 4)?,
        version: counted(row.get(5)?),
    })
}

fn by_id(conn: &Connection, id: i64) -> Result<Calendar> {
    let sql =
        format!("SELECT {CALENDAR} FROM calendar c JOIN app a ON a.id = c.app_id WHERE c.id = ?1");
    find(conn, &sql, [id], calendar)?.ok_or_else(|| StoreError::NotFound("the calendar".to_owned()))
}

/// Creates a calendar.
pub(super) fn create(tx: &mut Tx<'_>, new: &NewCalendar, now: DateTime<Utc>) -> Result<Calendar> {
    if let Some(answer) = answered(tx, new.request.as_ref())? {
        let id = answer.parse().map_err(|_| {
            StoreError::Corrupt(format!("the answer to a request is no calendar: {answer:?}"))
        })?;
        return by_id(tx.conn(), id);
    }
    let sql = "INSERT INTO calendar (app_id, name, spec, version)
         SELECT id, ?2, ?3, 1 FROM app WHERE id = ?1 ON CONFLICT DO NOTHING RETURNING id";
    let made = find(tx.conn(), sql, params![new.app.0, new.name, json(&new.spec)?], |row| {
        row.get::<_, i64>(0)
    })?;
    let Some(id) = made else {
        let app = find(tx.conn(), "SELECT name FROM app WHERE id = ?1", [new.app.0], |row| {
            row.get::<_, String>(0)
        })?;
        return Err(match app {
            Some(app) => StoreError::AlreadyExists(format!("apps/{app}/calendars/{}", new.name)),
            None => StoreError::NotFound("the app".to_owned()),
        });
    };
    remember(tx, new.request.as_ref(), &id.to_string(), now)?;
    by_id(tx.conn(), id)
}

/// One calendar by name.
pub(super) fn get(conn: &Connection, app: &str, name: &str) -> Result<Calendar> {
    let sql = format!(
        "SELECT {CALENDAR} FROM calendar c JOIN app a ON a.id = c.app_id
         WHERE a.name = ?1 AND c.name = ?2"
    );
    find(conn, &sql, [app, name], calendar)?
        .ok_or_else(|| StoreError::NotFound(format!("apps/{app}/calendars/{name}")))
}

/// A page of calendars, by (app, name).
pub(super) fn list(conn: &Connection, query: &CalendarQuery) -> Result<Vec<Calendar>> {
    let sql = format!(
        "SELECT {CALENDAR} FROM app a CROSS JOIN calendar c ON c.app_id = a.id
         WHERE (?1 IS NULL OR a.id IN (SELECT value FROM json_each(?1)))
             AND (a.name, c.name) > (?2, ?3)
         ORDER BY a.name, c.name LIMIT ?4"
    );
    let apps = query.apps.as_ref().map(|apps| apps.iter().map(|app| app.0).collect::<Vec<_>>());
    let apps = apps.map(|apps| json(&apps)).transpose()?;
    let (app, name) = query.after.clone().unwrap_or_default();
    all(conn, &sql, params![apps, app, name, query.limit], calendar)
}

/// What the calendars of these names cover. One that can't be read is reported and left out.
pub(super) fn load(conn: &Connection, names: &BTreeSet<String>) -> Result<Calendars> {
    let mut found = BTreeMap::new();
    for name in names {
        let Some((app, own)) = split(name) else { continue };
        match get(conn, app, own) {
            Ok(calendar) => {
                found.insert(name.clone(), Arc::new(Coverage::new(&calendar.spec)));
            }
            Err(StoreError::NotFound(_)) => {}
            Err(StoreError::Corrupt(fault)) => {
                tracing::error!(calendar = %name, %fault, "a calendar can't be read");
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(Arc::new(found))
}

fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("apps/")?.split_once("/calendars/")
}

/// Gives jobs the calendars that their schedules name.
pub(super) fn attach(conn: &Connection, jobs: &mut [Job]) -> Result<()> {
    let names: BTreeSet<String> =
        jobs.iter().flat_map(|job| job.spec.calendars()).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    let calendars = load(conn, &names)?;
    for job in jobs.iter_mut().filter(|job| !job.spec.calendars().is_empty()) {
        job.calendars = calendars.clone();
    }
    Ok(())
}

/// Notes which calendars a job's schedules name now, in place of those before.
pub(super) fn link(tx: &Tx<'_>, job: JobId, before: &JobSpec, after: &JobSpec) -> Result<()> {
    let (old, new) = (before.calendars(), after.calendars());
    if old == new {
        return Ok(());
    }
    tx.execute("DELETE FROM job_calendar WHERE job_id = ?1", [job.0])?;
    for name in new {
        let calendar = match split(name) {
            Some((app, own)) => get(tx.conn(), app, own)?,
            None => return Err(StoreError::NotFound(name.to_owned())),
        };
        let sql = "SELECT count(*) FROM job_calendar WHERE calendar_id = ?1";
        let users = find(tx.conn(), sql, [calendar.id], |row| row.get(0).map(counted))?;
        if users.unwrap_or(0) >= CALENDAR_JOBS_MAX as u64 {
            return Err(StoreError::Conflict(format!(
                "{name} is used by {CALENDAR_JOBS_MAX} jobs already; make a second calendar"
            )));
        }
        let sql = "INSERT INTO job_calendar (calendar_id, job_id) VALUES (?1, ?2)";
        tx.execute(sql, params![calendar.id, job.0])?;
    }
    Ok(())
}

/// Replaces the content and plans the jobs that use the calendar anew.
pub(super) fn update(
    tx: &mut Tx<'_>,
    id: i64,
    spec: &CalendarSpec,
    version: u64,
    replan: &mut dyn FnMut(&ReplanInput) -> Vec<NewRun>,
    now: DateTime<Utc>,
) -> Result<Calendar> {
    tx.note_time(now);
    let before = by_id(tx.conn(), id)?;
    for job in users_of(tx.conn(), id)? {
        jobs::insert_passed(tx, &job, true, now)?;
    }
    let sql = "UPDATE calendar SET spec = ?2, version = version + 1 WHERE id = ?1 AND version = ?3";
    if tx.execute(sql, params![id, json(spec)?, count(version)])? == 0 {
        let name = before.resource_name();
        return Err(StoreError::Conflict(format!("{name} was changed meanwhile")));
    }
    let mut versions = BTreeMap::new();
    for job in &users_of(tx.conn(), id)? {
        let version = match versions.get(&job.partition) {
            Some(version) => *version,
            None => {
                let version = nodes::raise_jobs_version(tx, job.partition)?;
                versions.insert(job.partition, version);
                tx.hint(Topic::Jobs(job.partition));
                version
            }
        };
        let gone = jobs::remove_planned(tx, job, now)?;
        let restarted = job.restarts_with_calendars().then(|| us(now));
        let sql = "UPDATE job SET jobs_version = ?2, next_fire_at = NULL, problem = '',
                 effective_from = max(effective_from, coalesce(?3, effective_from))
             WHERE id = ?1";
        tx.execute(sql, params![job.id.0, count(version), restarted])?;
        let job = Job { next_fire_at: None, problem: String::new(), ..job.clone() };
        let made = jobs::insert_planned(tx, &job, &mut *replan, now)?;
        for run in gone.into_iter().filter(|run| !made.contains(run)) {
            tx.deleted(run);
        }
    }
    by_id(tx.conn(), id)
}

/// The jobs that use the calendar.
fn users_of(conn: &Connection, id: i64) -> Result<Vec<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM job_calendar u JOIN job j ON j.id = u.job_id
         JOIN app a ON a.id = j.app_id WHERE u.calendar_id = ?1 AND j.deleted_at IS NULL"
    );
    let mut jobs = all(conn, &sql, [id], rows::job)?;
    attach(conn, &mut jobs)?;
    Ok(jobs)
}

/// Deletes a calendar that no job uses.
pub(super) fn delete(tx: &mut Tx<'_>, id: i64) -> Result<()> {
    let sql = "SELECT count(*) FROM job_calendar WHERE calendar_id = ?1";
    match find(tx.conn(), sql, [id], |row| row.get::<_, i64>(0))? {
        None | Some(0) => {}
        Some(users) => return Err(in_use(users)),
    }
    match tx.execute("DELETE FROM calendar WHERE id = ?1", [id])? {
        0 => Err(StoreError::NotFound("the calendar".to_owned())),
        _ => Ok(()),
    }
}

fn in_use(users: i64) -> StoreError {
    let users = words::count(users.cast_unsigned(), "job");
    StoreError::Conflict(format!("it is used by {users}"))
}

/// Deletes the calendars of an app that is deleted; none of them may be used by another's jobs.
pub(super) fn delete_all(tx: &Tx<'_>, app: AppId) -> Result<()> {
    let sql = "SELECT count(*) FROM calendar c JOIN job_calendar u ON u.calendar_id = c.id
         WHERE c.app_id = ?1";
    match find(tx.conn(), sql, [app.0], |row| row.get::<_, i64>(0))? {
        None | Some(0) => {}
        Some(users) => {
            return Err(StoreError::Conflict(format!(
                "{users} jobs of other apps use calendars of the app"
            )));
        }
    }
    tx.execute("DELETE FROM calendar WHERE app_id = ?1", [app.0])?;
    Ok(())
}
