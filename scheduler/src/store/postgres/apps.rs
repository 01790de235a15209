//! Apps.

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::{Row, types::ToSql};

use super::{
    PostgresStore, alarms, calendars,
    requests::{answered, begin, commit, remember},
    rows::{Reader, big, execute, query, query_one, query_opt, to_json},
};
use crate::{
    model::{
        app::{App, AppSpec},
        ids::AppId,
        words,
    },
    store::{Result, StoreError, ops::RequestKey},
};

/// Columns that [`app`] reads, in its order.
const APP: &str = "id, name, spec::text, created_at, version";

fn app(row: &Row) -> Result<App> {
    let mut row = Reader::new(row);
    Ok(App {
        id: AppId(row.get()?),
        name: row.get()?,
        spec: row.json()?,
        created_at: row.get()?,
        version: row.number()?,
    })
}

async fn by_name(client: &impl GenericClient, name: &str) -> Result<Option<App>> {
    let sql = format!("SELECT {APP} FROM app WHERE name = $1");
    query_opt(client, &sql, &[&name]).await?.as_ref().map(app).transpose()
}

/// Inserts the app; None when its name is taken.
async fn insert(
    client: &impl GenericClient,
    name: &str,
    spec: &AppSpec,
    now: DateTime<Utc>,
) -> Result<Option<App>> {
    let sql = format!(
        "INSERT INTO app (name, spec, version, created_at) VALUES ($1, $2::text::jsonb, 1, $3)
        ON CONFLICT (name) DO NOTHING RETURNING {APP}"
    );
    let made = query_opt(client, &sql, &[&name, &to_json(spec)?, &now]).await?;
    made.as_ref().map(app).transpose()
}

pub(super) async fn ensure_app(
    store: &PostgresStore,
    name: &str,
    now: DateTime<Utc>,
) -> Result<App> {
    let client = store.keyed().await?;
    if let Some(app) = by_name(&client, name).await? {
        return Ok(app);
    }
    if let Some(app) = insert(&client, name, &AppSpec::default(), now).await? {
        return Ok(app);
    }
    by_name(&client, name).await?.ok_or_else(|| StoreError::NotFound(format!("apps/{name}")))
}

pub(super) async fn create_app(
    store: &PostgresStore,
    name: &str,
    spec: &AppSpec,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<App> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if answered(&tx, request, now).await?.is_some() {
        let app = by_name(&tx, name).await?;
        return app.ok_or_else(|| StoreError::NotFound(format!("apps/{name}")));
    }
    let Some(app) = insert(&tx, name, spec, now).await? else {
        return Err(StoreError::AlreadyExists(format!("apps/{name}")));
    };
    remember(&tx, request, &app.id.0.to_string()).await?;
    commit(tx).await?;
    Ok(app)
}

pub(super) async fn get_app(store: &PostgresStore, name: &str) -> Result<App> {
    let app = by_name(&store.client().await?, name).await?;
    app.ok_or_else(|| StoreError::NotFound(format!("apps/{name}")))
}

pub(super) async fn list_apps(
    store: &PostgresStore,
    after: &str,
    only: Option<&[String]>,
    limit: u32,
) -> Result<Vec<App>> {
    let sql = format!(
        "SELECT {APP} FROM app WHERE name > $1 AND ($2::text[] IS NULL OR name = ANY($2))
        ORDER BY name LIMIT $3"
    );
    let params: [&(dyn ToSql + Sync); 3] = [&after, &only, &i64::from(limit)];
    query(&store.client().await?, &sql, &params).await?.iter().map(app).collect()
}

pub(super) async fn update_app(
    store: &PostgresStore,
    id: AppId,
    spec: &AppSpec,
    version: u64,
) -> Result<App> {
    let sql = format!(
        "UPDATE app SET spec = $2::text::jsonb, version = version + 1
        WHERE id = $1 AND version = $3 RETURNING {APP}"
    );
    let client = store.client().await?;
    let params: [&(dyn ToSql + Sync); 3] = [&id.0, &to_json(spec)?, &big(version)];
    if let Some(row) = query_opt(&client, &sql, &params).await? {
        return app(&row);
    }
    match query_opt(&client, "SELECT name FROM app WHERE id = $1", &[&id.0]).await? {
        Some(row) => {
            let name: String = Reader::new(&row).get()?;
            Err(StoreError::Conflict(format!("apps/{name} was changed meanwhile")))
        }
        None => Err(StoreError::NotFound("the app".to_owned())),
    }
}

/// The app's row is locked first: a job or an executor made at the same time refers to it, so it
/// comes before and is counted, or after and finds no app. Ended runs go with the rows of the
/// jobs: lists join them, and the clean-up removes what nothing refers to.
pub(super) async fn delete_app(store: &PostgresStore, id: AppId) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let lock = "SELECT name FROM app WHERE id = $1 FOR UPDATE";
    if query_opt(&tx, lock, &[&id.0]).await?.is_none() {
        return Err(StoreError::NotFound("the app".to_owned()));
    }
    let sql = "SELECT (SELECT count(*) FROM job WHERE app_id = $1 AND deleted_at IS NULL),
            (SELECT count(*) FROM open_run WHERE app_id = $1)";
    let row = query_one(&tx, sql, &[&id.0]).await?;
    let mut row = Reader::new(&row);
    let (jobs, runs): (i64, i64) = (row.get()?, row.get()?);
    if jobs > 0 || runs > 0 {
        let jobs = words::count(jobs.cast_unsigned(), "job");
        let runs = words::count(runs.cast_unsigned(), "open run");
        return Err(StoreError::Conflict(format!("the app has {jobs} and {runs}")));
    }
    calendars::delete_all(&tx, id).await?;
    execute(&tx, "DELETE FROM executor WHERE app_id = $1", &[&id.0]).await?;
    execute(&tx, "DELETE FROM job WHERE app_id = $1", &[&id.0]).await?;
    execute(&tx, "DELETE FROM app WHERE id = $1", &[&id.0]).await?;
    // Its rules went with it.
    alarms::wish(&tx).await?;
    commit(tx).await
}
