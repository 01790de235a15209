//! Calendars, and the jobs that use them.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Object, Transaction};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore, jobs, planned,
    requests::{answered, begin, commit, remember},
    rows::{self, JOB, Reader, big, execute, query, query_one, query_opt, to_json},
};
use crate::{
    model::{
        calendar::{CALENDAR_JOBS_MAX, Calendar, CalendarSpec, Calendars, Coverage},
        ids::{AppId, JobId, PartitionId},
        job::{Job, JobSpec},
        words,
    },
    store::{
        Result, StoreError, Topic,
        ops::{NewRun, PartitionRow, ReplanInput},
        schedules::{CalendarQuery, NewCalendar},
    },
};

/// Columns of `calendar c` and `app a` that [`calendar`] reads, in its order.
const CALENDAR: &str = "c.id, c.app_id, a.name, c.name, c.spec::text, c.version";
/// How often a change is begun anew because a job of another partition came to use the calendar.
const UPDATE_TRIES_MAX: usize = 8;

fn calendar(row: &Row) -> Result<Calendar> {
    let mut row = Reader::new(row);
    Ok(Calendar {
        id: row.get()?,
        app: AppId(row.get()?),
        app_name: row.get()?,
        name: row.get()?,
        spec: row.json()?,
        version: row.number()?,
    })
}

async fn by_id(client: &impl GenericClient, id: i64) -> Result<Calendar> {
    let sql =
        format!("SELECT {CALENDAR} FROM calendar c JOIN app a ON a.id = c.app_id WHERE c.id = $1");
    match query_opt(client, &sql, &[&id]).await? {
        Some(row) => calendar(&row),
        None => Err(StoreError::NotFound("the calendar".to_owned())),
    }
}

pub(super) async fn create(
    store: &PostgresStore,
    new: &NewCalendar,
    now: DateTime<Utc>,
) -> Result<Calendar> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if let Some(answer) = answered(&tx, new.request.as_ref(), now).await? {
        let id = answer.parse().map_err(|_| {
            StoreError::Corrupt(format!("the answer to a request is no calendar: {answer:?}"))
        })?;
        return by_id(&tx, id).await;
    }
    let sql = "SELECT name FROM app WHERE id = $1 FOR SHARE";
    let Some(app) = query_opt(&tx, sql, &[&new.app.0]).await? else {
        return Err(StoreError::NotFound("the app".to_owned()));
    };
    let app: String = Reader::new(&app).get()?;
    let sql = "INSERT INTO calendar (app_id, name, spec, version)
        VALUES ($1, $2, $3::text::jsonb, 1) ON CONFLICT DO NOTHING RETURNING id";
    let params: [&(dyn ToSql + Sync); 3] = [&new.app.0, &new.name, &to_json(&new.spec)?];
    let Some(made) = query_opt(&tx, sql, &params).await? else {
        return Err(StoreError::AlreadyExists(format!("apps/{app}/calendars/{}", new.name)));
    };
    let id: i64 = Reader::new(&made).get()?;
    remember(&tx, new.request.as_ref(), &id.to_string()).await?;
    let made = by_id(&tx, id).await?;
    commit(tx).await?;
    Ok(made)
}

pub(super) async fn get(store: &PostgresStore, app: &str, name: &str) -> Result<Calendar> {
    let sql = format!(
        "SELECT {CALENDAR} FROM calendar c JOIN app a ON a.id = c.app_id
        WHERE a.name = $1 AND c.name = $2"
    );
    match query_opt(&store.client().await?, &sql, &[&app, &name]).await? {
        Some(row) => calendar(&row),
        None => Err(StoreError::NotFound(format!("apps/{app}/calendars/{name}"))),
    }
}

pub(super) async fn list(store: &PostgresStore, asked: &CalendarQuery) -> Result<Vec<Calendar>> {
    let sql = format!(
        "SELECT {CALENDAR} FROM calendar c JOIN app a ON a.id = c.app_id
        WHERE ($1::bigint[] IS NULL OR a.id = ANY($1)) AND (a.name, c.name) > ($2, $3)
        ORDER BY a.name, c.name LIMIT $4"
    );
    let apps = asked.apps.as_ref().map(|apps| apps.iter().map(|app| app.0).collect::<Vec<_>>());
    let (app, name) = asked.after.clone().unwrap_or_default();
    let params: [&(dyn ToSql + Sync); 4] = [&apps, &app, &name, &i64::from(asked.limit)];
    query(&store.client().await?, &sql, &params).await?.iter().map(calendar).collect()
}

/// What the calendars of these names cover. One that can't be read is reported and left out.
pub(super) async fn load(
    client: &impl GenericClient,
    names: &BTreeSet<String>,
) -> Result<Calendars> {
    let sql = format!(
        "SELECT {CALENDAR} FROM unnest($1::text[], $2::text[]) AS w (app, name)
        JOIN app a ON a.name = w.app JOIN calendar c ON c.app_id = a.id AND c.name = w.name"
    );
    let (apps, own): (Vec<&str>, Vec<&str>) = names.iter().filter_map(|name| split(name)).unzip();
    let mut found = BTreeMap::new();
    for row in query(client, &sql, &[&apps, &own]).await? {
        match calendar(&row) {
            Ok(calendar) => {
                found.insert(calendar.resource_name(), Arc::new(Coverage::new(&calendar.spec)));
            }
            Err(fault) => tracing::error!(%fault, "a calendar can't be read"),
        }
    }
    Ok(Arc::new(found))
}

fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("apps/")?.split_once("/calendars/")
}

/// Gives jobs the calendars that their schedules name.
pub(super) async fn attach(client: &impl GenericClient, jobs: &mut [Job]) -> Result<()> {
    let names: BTreeSet<String> =
        jobs.iter().flat_map(|job| job.spec.calendars()).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    let calendars = load(client, &names).await?;
    for job in jobs.iter_mut().filter(|job| !job.spec.calendars().is_empty()) {
        job.calendars = calendars.clone();
    }
    Ok(())
}

/// Notes which calendars a job's schedules name now, in place of those before. Their rows are
/// locked against a change: it comes before, and what is planned here follows it, or after, and
/// finds the job among its users.
pub(super) async fn link(
    tx: &Transaction<'_>,
    job: JobId,
    before: &JobSpec,
    after: &JobSpec,
) -> Result<()> {
    let (old, new) = (before.calendars(), after.calendars());
    if old.is_empty() && new.is_empty() {
        return Ok(());
    }
    let sql = "SELECT c.id, a.name, c.name
        FROM unnest($1::text[], $2::text[]) AS w (app, name) JOIN app a ON a.name = w.app
        JOIN calendar c ON c.app_id = a.id AND c.name = w.name ORDER BY c.id FOR SHARE OF c";
    let (apps, own): (Vec<&str>, Vec<&str>) = new.iter().filter_map(|name| split(name)).unzip();
    let mut calendars: Vec<i64> = Vec::with_capacity(new.len());
    let mut found = BTreeSet::new();
    for row in query(tx, sql, &[&apps, &own]).await? {
        let mut row = Reader::new(&row);
        calendars.push(row.get()?);
        let (app, name): (&str, &str) = (row.get()?, row.get()?);
        found.insert(format!("apps/{app}/calendars/{name}"));
    }
    if let Some(missing) = new.iter().find(|name| !found.contains(**name)) {
        return Err(StoreError::NotFound((*missing).to_owned()));
    }
    if old == new {
        return Ok(());
    }
    execute(tx, "DELETE FROM job_calendar WHERE job_id = $1", &[&job.0]).await?;
    for calendar in calendars {
        let sql = "INSERT INTO job_calendar (calendar_id, job_id) SELECT $1, $2
            WHERE (SELECT count(*) FROM job_calendar WHERE calendar_id = $1) < $3";
        let max = big(CALENDAR_JOBS_MAX as u64);
        if execute(tx, sql, &[&calendar, &job.0, &max]).await? == 0 {
            return Err(StoreError::Conflict(format!(
                "a calendar is used by {CALENDAR_JOBS_MAX} jobs already; make a second one"
            )));
        }
    }
    Ok(())
}

pub(super) async fn update(
    store: &PostgresStore,
    id: i64,
    spec: &CalendarSpec,
    version: u64,
    replan: &mut (dyn FnMut(&ReplanInput) -> Vec<NewRun> + Send),
    now: DateTime<Utc>,
) -> Result<Calendar> {
    let mut client = store.client().await?;
    for _ in 0..UPDATE_TRIES_MAX {
        if let Some((calendar, partitions)) =
            try_update(&mut client, id, spec, version, replan, now).await?
        {
            for partition in partitions {
                store.hints.tell(Topic::Jobs(partition));
                store.hints.tell(Topic::Inbox(partition));
            }
            store.hints.tell(Topic::RunEvents);
            return Ok(calendar);
        }
    }
    Err(StoreError::Conflict("jobs begin to use the calendar all the time; try again".to_owned()))
}

/// One try: the partitions of the jobs that use it, then the calendar, are locked, in the order of
/// a job's change. `None` when a job of yet another partition came to use it meanwhile.
async fn try_update(
    client: &mut Object,
    id: i64,
    spec: &CalendarSpec,
    version: u64,
    replan: &mut (dyn FnMut(&ReplanInput) -> Vec<NewRun> + Send),
    now: DateTime<Utc>,
) -> Result<Option<(Calendar, Vec<PartitionId>)>> {
    let tx = begin(client).await?;
    let partitions = lock_partitions(&tx, id, now).await?;
    let mut before = users_of(&tx, id, "").await?;
    attach(&tx, &mut before).await?;
    let planned = |job: &Job| partitions.get(&job.partition).map(|row| row.planned_until);
    let passed: Vec<_> = before.iter().filter_map(|job| Some((job, planned(job)?, true))).collect();
    planned::insert_passed(&tx, &passed, now).await?;
    let sql = "UPDATE calendar SET spec = $2::text::jsonb, version = version + 1
        WHERE id = $1 AND version = $3";
    if execute(&tx, sql, &[&id, &to_json(spec)?, &big(version)]).await? == 0 {
        let name = by_id(&tx, id).await?.resource_name();
        return Err(StoreError::Conflict(format!("{name} was changed meanwhile")));
    }
    let mut users = users_of(&tx, id, "FOR UPDATE OF j").await?;
    if users.iter().any(|job| !partitions.contains_key(&job.partition)) {
        return Ok(None);
    }
    attach(&tx, &mut users).await?;
    let ids: Vec<JobId> = users.iter().map(|job| job.id).collect();
    let mut gone = planned::remove_planned(&tx, &ids, now).await?;
    let sql = "UPDATE job j SET jobs_version = p.jobs_version, next_fire_at = NULL, problem = '',
            effective_from = CASE WHEN j.id = ANY($2::bigint[]) THEN greatest(j.effective_from, $3)
                ELSE j.effective_from END
        FROM partition p WHERE j.id = ANY($1::bigint[]) AND p.id = j.partition";
    let raw: Vec<i64> = ids.iter().map(|job| job.0).collect();
    let restarted = users.iter().filter(|job| job.restarts_with_calendars());
    let restarted: Vec<i64> = restarted.map(|job| job.id.0).collect();
    execute(&tx, sql, &[&raw, &restarted, &now]).await?;
    let mut runs = Vec::new();
    for job in users {
        let Some(partition) = partitions.get(&job.partition) else { continue };
        let job = Job { next_fire_at: None, problem: String::new(), ..job };
        runs.append(&mut replan(&ReplanInput { job, partition: *partition, now }));
    }
    let made: HashSet<Uuid> = planned::insert_all(&tx, &runs, now).await?.into_iter().collect();
    gone.retain(|run| !made.contains(run));
    planned::tell_gone(&tx, &gone, now).await?;
    let calendar = by_id(&tx, id).await?;
    commit(tx).await?;
    Ok(Some((calendar, partitions.into_keys().collect())))
}

/// The jobs that use the calendar, in order, without what their calendars cover.
async fn users_of(tx: &Transaction<'_>, id: i64, lock: &str) -> Result<Vec<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM job_calendar u JOIN job j ON j.id = u.job_id
        JOIN app a ON a.id = j.app_id
        WHERE u.calendar_id = $1 AND j.deleted_at IS NULL ORDER BY j.id {lock}"
    );
    query(tx, &sql, &[&id]).await?.iter().map(rows::job).collect()
}

/// Locks the partitions of the jobs that use the calendar, in order, then these jobs against new runs,
/// and raises the partitions' versions. Once a partition is locked, none of its jobs comes to use it.
async fn lock_partitions(
    tx: &Transaction<'_>,
    id: i64,
    now: DateTime<Utc>,
) -> Result<BTreeMap<PartitionId, PartitionRow>> {
    let sql = "SELECT p.id FROM partition p WHERE p.id IN (
            SELECT j.partition FROM job_calendar u JOIN job j ON j.id = u.job_id
            WHERE u.calendar_id = $1 AND j.deleted_at IS NULL)
        ORDER BY p.id FOR UPDATE";
    let mut held: Vec<i16> = Vec::new();
    for row in query(tx, sql, &[&id]).await? {
        held.push(Reader::new(&row).get()?);
    }
    let sql = "SELECT j.id FROM job_calendar u JOIN job j ON j.id = u.job_id
        WHERE u.calendar_id = $1 AND j.deleted_at IS NULL AND j.partition = ANY($2::smallint[])";
    let mut users = Vec::new();
    for row in query(tx, sql, &[&id, &held]).await? {
        users.push(JobId(Reader::new(&row).get()?));
    }
    let mut partitions = BTreeMap::new();
    for row in jobs::raise_versions(tx, &users, now).await? {
        partitions.insert(row.id, row);
    }
    Ok(partitions)
}

pub(super) async fn delete(store: &PostgresStore, id: i64) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let sql = "SELECT id FROM calendar WHERE id = $1 FOR UPDATE";
    if query_opt(&tx, sql, &[&id]).await?.is_none() {
        return Err(StoreError::NotFound("the calendar".to_owned()));
    }
    let sql = "SELECT count(*) FROM job_calendar WHERE calendar_id = $1";
    let users: i64 = Reader::new(&query_one(&tx, sql, &[&id]).await?).get()?;
    if users > 0 {
        let users = words::count(users.cast_unsigned(), "job");
        return Err(StoreError::Conflict(format!("it is used by {users}")));
    }
    execute(&tx, "DELETE FROM calendar WHERE id = $1", &[&id]).await?;
    commit(tx).await
}

/// Deletes the calendars of an app that is deleted; none of them may be used by another's jobs.
pub(super) async fn delete_all(tx: &Transaction<'_>, app: AppId) -> Result<()> {
    let sql = "SELECT id FROM calendar WHERE app_id = $1 ORDER BY id FOR UPDATE";
    query(tx, sql, &[&app.0]).await?;
    let sql = "SELECT count(*) FROM calendar c JOIN job_calendar u ON u.calendar_id = c.id
        WHERE c.app_id = $1";
    let users: i64 = Reader::new(&query_one(tx, sql, &[&app.0]).await?).get()?;
    if users > 0 {
        return Err(StoreError::Conflict(format!(
            "{users} jobs of other apps use calendars of the app"
        )));
    }
    execute(tx, "DELETE FROM calendar WHERE app_id = $1", &[&app.0]).await.map(|_| ())
}
