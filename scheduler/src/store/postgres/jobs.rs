//! Jobs, their revisions, and runs by hand.

use std::{collections::BTreeSet, sync::LazyLock};

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore, calendars, chains,
    planned::{insert_all, insert_runs},
    requests::{answered, begin, commit, remember},
    rows::{self, JOB, PARTITION, Reader, big, execute, job_state, query, query_opt, small_id},
};
use crate::{
    model::{
        ids::{JobId, RunId},
        job::{Job, JobSpec},
    },
    store::{
        NAMESAKES_MAX, Result, StoreError, Topic,
        ops::{NewJob, NewRun, PartitionRow, Replan, ReplanInput, RequestKey},
        specs,
    },
};

pub(super) async fn get_job(store: &PostgresStore, app: &str, name: &str) -> Result<Job> {
    let sql = format!(
        "SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id
        WHERE a.name = $1 AND j.name = $2 AND j.deleted_at IS NULL"
    );
    let client = store.keyed().await?;
    match query_opt(&client, &sql, &[&app, &name]).await? {
        Some(row) => with_calendars(&client, rows::job(&row)?).await,
        None => Err(StoreError::NotFound(format!("apps/{app}/jobs/{name}"))),
    }
}

/// Two searches, since the index of names has living jobs only.
pub(super) async fn named(store: &PostgresStore, app: &str, name: &str) -> Result<Vec<JobId>> {
    let sql = "SELECT j.id FROM app a JOIN job j ON j.app_id = a.id
            WHERE a.name = $1 AND j.name = $2 AND j.deleted_at IS NULL
        UNION ALL SELECT j.id FROM app a JOIN job j ON j.app_id = a.id
            WHERE a.name = $1 AND j.name = $2 AND j.deleted_at IS NOT NULL
        ORDER BY id DESC LIMIT $3";
    let params: [&(dyn ToSql + Sync); 3] = [&app, &name, &i64::from(NAMESAKES_MAX)];
    let found = query(&store.client().await?, sql, &params).await?;
    found.iter().map(|row| Reader::new(row).get().map(JobId)).collect()
}

async fn with_calendars(client: &impl GenericClient, mut job: Job) -> Result<Job> {
    calendars::attach(client, std::slice::from_mut(&mut job)).await?;
    Ok(job)
}

static BY_ID: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id WHERE j.id = $1")
});

async fn by_id(client: &impl GenericClient, id: JobId) -> Result<Job> {
    match query_opt(client, &BY_ID, &[&id.0]).await? {
        Some(row) => with_calendars(client, rows::job(&row)?).await,
        None => Err(StoreError::NotFound("the job".to_owned())),
    }
}

pub(super) async fn create_job(
    store: &PostgresStore,
    new: &NewJob,
    replan: Replan,
    now: DateTime<Utc>,
) -> Result<Job> {
    let mut client = store.keyed().await?;
    let tx = begin(&mut client).await?;
    if let Some(answer) = answered(&tx, new.request.as_ref(), now).await? {
        let id = answer.parse().map_err(|_| {
            StoreError::Corrupt(format!("the answer to a request is no job: {answer:?}"))
        })?;
        return by_id(&tx, JobId(id)).await;
    }
    let sql = "SELECT nextval(pg_get_serial_sequence('job', 'id')), name FROM app WHERE id = $1";
    let Some(row) = query_opt(&tx, sql, &[&new.app.0]).await? else {
        return Err(StoreError::NotFound("the app".to_owned()));
    };
    let mut row = Reader::new(&row);
    let id = JobId(row.get()?);
    let app_name: String = row.get()?;
    let partition = raise_jobs_version(&tx, id, now).await?;
    let name = format!("apps/{app_name}/jobs/{}", new.name);
    chains::refuse_cycle(&tx, &name, &new.spec).await?;
    if !insert_job(&tx, id, new, &partition, now).await? {
        return Err(StoreError::AlreadyExists(name));
    }
    calendars::link(&tx, id, &JobSpec::default(), &new.spec).await?;
    let job = by_id(&tx, id).await?;
    insert_planned(&tx, &job, partition, replan, now).await?;
    remember(&tx, new.request.as_ref(), &id.0.to_string()).await?;
    commit(tx).await?;
    store.hints.tell(Topic::Jobs(job.partition));
    Ok(job)
}

/// Inserts the job and its first revision; false when its name is taken.
async fn insert_job(
    tx: &Transaction<'_>,
    id: JobId,
    new: &NewJob,
    partition: &PartitionRow,
    now: DateTime<Utc>,
) -> Result<bool> {
    let sql = "WITH made AS (
            INSERT INTO job (id, app_id, name, partition, state, spec, revision, version,
                jobs_version, created_at, updated_at, updated_by, effective_from)
            OVERRIDING SYSTEM VALUE
            VALUES ($1, $2, $3, $4, $5, $6::text::jsonb, 1, 1, $7, $8, $8, $9, $8)
            ON CONFLICT (app_id, name) WHERE deleted_at IS NULL DO NOTHING
            RETURNING id, spec
        )
        INSERT INTO job_revision (job_id, revision, spec, updated_at, updated_by)
        SELECT id, 1, spec, $8, $9 FROM made";
    let params: [&(dyn ToSql + Sync); 9] = [
        &id.0,
        &new.app.0,
        &new.name,
        &small_id(partition.id),
        &job_state(new.state),
        &specs::write(&new.spec)?,
        &big(partition.jobs_version),
        &now,
        &new.updated_by,
    ];
    Ok(execute(tx, sql, &params).await? == 1)
}

/// Locks the partition, before anything else of a job, and raises the version.
async fn raise_jobs_version(
    tx: &Transaction<'_>,
    job: JobId,
    now: DateTime<Utc>,
) -> Result<PartitionRow> {
    only(raise_versions(tx, &[job], now).await?, job)
}

fn only(partitions: Vec<PartitionRow>, job: JobId) -> Result<PartitionRow> {
    let none = || StoreError::Internal(format!("no partition {:?}", job.partition()));
    partitions.into_iter().next().ok_or_else(none)
}

/// Locks the partitions of jobs and raises their versions; where there are several, their rows are
/// locked already. Owners add runs of a job under a lock that they share and that is had alone here until
/// the end: what follows sees all that they added before, and they add nothing more to the jobs as they
/// were. The locks of jobs follow those of their partitions, so nobody waits for another in a circle.
pub(super) async fn raise_versions(
    tx: &Transaction<'_>,
    jobs: &[JobId],
    now: DateTime<Utc>,
) -> Result<Vec<PartitionRow>> {
    let raised = query(tx, &RAISE, &Locks::of(jobs).params()).await?;
    raised.iter().map(|row| rows::partition(row, now)).collect()
}

pub(super) static RAISE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH raised AS (
            UPDATE partition p SET jobs_version = p.jobs_version + 1 WHERE p.id = ANY($1)
            RETURNING {PARTITION}
        )
        SELECT {PARTITION}, ARRAY(
            SELECT pg_advisory_xact_lock('job'::regclass::oid::int, s.stripe)::text
            FROM unnest($2::int[], $3::smallint[]) AS s (stripe, partition) WHERE s.partition = p.id)
        FROM raised p ORDER BY p.id"
    )
});

/// What [`RAISE`] locks, column by column, each once.
pub(super) struct Locks {
    partitions: Vec<i16>,
    stripes: Vec<i32>,
    /// Of each stripe.
    partition: Vec<i16>,
}

impl Locks {
    pub(super) fn of(jobs: &[JobId]) -> Self {
        let all = jobs.iter().map(|job| (i32::from(job.stripe()), small_id(job.partition())));
        let all: BTreeSet<(i32, i16)> = all.collect();
        let partitions: BTreeSet<i16> = all.iter().map(|(_, partition)| *partition).collect();
        let (stripes, partition) = all.into_iter().unzip();
        Self { partitions: partitions.into_iter().collect(), stripes, partition }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.partitions, &self.stripes, &self.partition]
    }
}

/// Inserts what the replan makes, and leaves it to the owner; returns the ids.
async fn insert_planned(
    tx: &Transaction<'_>,
    job: &Job,
    partition: PartitionRow,
    replan: Replan,
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>> {
    let runs = replan(&ReplanInput { job: job.clone(), partition, now });
    insert_all(tx, &runs, now).await
}

pub(super) async fn list_revisions(
    store: &PostgresStore,
    job: JobId,
    before: u64,
    limit: u32,
) -> Result<Vec<Job>> {
    let columns = JOB
        .replace("j.spec", "v.spec")
        .replace("j.revision", "v.revision")
        .replace("j.updated_", "v.updated_");
    let sql = format!(
        "SELECT {columns} FROM job_revision v JOIN job j ON j.id = v.job_id
        JOIN app a ON a.id = j.app_id WHERE v.job_id = $1 AND ($2 = 0::bigint OR v.revision < $2)
        ORDER BY v.revision DESC LIMIT $3"
    );
    let params: [&(dyn ToSql + Sync); 3] = [&job.0, &big(before), &i64::from(limit)];
    query(&store.client().await?, &sql, &params).await?.iter().map(rows::job).collect()
}

/// The job's row is locked against a change: a run by hand and a deletion come one after the other.
pub(super) async fn create_run(
    store: &PostgresStore,
    run: &NewRun,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<RunId> {
    let mut client = store.keyed().await?;
    let tx = begin(&mut client).await?;
    if let Some(answer) = answered(&tx, request, now).await? {
        return answer.parse().map_err(|_| {
            StoreError::Corrupt(format!("the answer to a request is no run: {answer:?}"))
        });
    }
    share(&tx, run.job).await?;
    if insert_runs(&tx, std::slice::from_ref(run), now).await?.is_empty() {
        return Err(StoreError::AlreadyExists(format!("run {}", run.id)));
    }
    remember(&tx, request, &run.id.to_string()).await?;
    commit(tx).await?;
    store.hints.tell(Topic::Inbox(run.job.partition()));
    store.hints.tell(Topic::RunEvents);
    Ok(run.id)
}

/// Locks the job's row against a change; fails when it was deleted.
async fn share(tx: &Transaction<'_>, job: JobId) -> Result<()> {
    refuse_deleted(tx, job, "FOR SHARE OF j").await
}

/// Locks the job's row; fails when it was deleted.
pub(super) async fn lock(tx: &Transaction<'_>, job: JobId) -> Result<()> {
    refuse_deleted(tx, job, "FOR UPDATE OF j").await
}

async fn refuse_deleted(tx: &Transaction<'_>, job: JobId, how: &str) -> Result<()> {
    let sql = format!(
        "SELECT a.name || '/jobs/' || j.name, j.deleted_at IS NOT NULL
        FROM job j JOIN app a ON a.id = j.app_id WHERE j.id = $1 {how}"
    );
    let Some(row) = query_opt(tx, &sql, &[&job.0]).await? else {
        return Err(StoreError::NotFound("the job".to_owned()));
    };
    let mut row = Reader::new(&row);
    let name: String = row.get()?;
    if row.get()? {
        return Err(StoreError::NotFound(format!("apps/{name}")));
    }
    Ok(())
}
