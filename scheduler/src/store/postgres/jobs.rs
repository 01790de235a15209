//! Jobs, their revisions, and runs by hand.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore, calendars, chains,
    owner::{self, NewRuns},
    past,
    requests::{answered, begin, commit, remember},
    rows::{
        self, JOB, PARTITION, Reader, big, execute, job_state, query, query_opt, small_id, to_json,
    },
};
use crate::{
    model::{
        ids::{JobId, PartitionId, RunId},
        job::{Job, JobSpec},
        misfire::Decided,
        plan,
    },
    store::{
        NAMESAKES_MAX, Result, StoreError, Topic,
        ops::{JobChange, NewJob, NewRun, PartitionRow, Replan, ReplanInput, RequestKey},
    },
};

pub(super) async fn get_job(store: &PostgresStore, app: &str, name: &str) -> Result<Job> {
    let sql = format!(
        "SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id
        WHERE a.name = $1 AND j.name = $2 AND j.deleted_at IS NULL"
    );
    let client = store.client().await?;
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

async fn by_id(client: &impl GenericClient, id: JobId) -> Result<Job> {
    let sql = format!("SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id WHERE j.id = $1");
    match query_opt(client, &sql, &[&id.0]).await? {
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
    let mut client = store.client().await?;
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
    let partition = raise_jobs_version(&tx, id.partition(), now).await?;
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
        &to_json(&new.spec)?,
        &big(partition.jobs_version),
        &now,
        &new.updated_by,
    ];
    Ok(execute(tx, sql, &params).await? == 1)
}

/// Locks the partition, before anything else of a job, and raises the version.
async fn raise_jobs_version(
    tx: &Transaction<'_>,
    id: PartitionId,
    now: DateTime<Utc>,
) -> Result<PartitionRow> {
    let raised = raise_versions(tx, &[small_id(id)], now).await?;
    raised.into_iter().next().ok_or_else(|| StoreError::Internal(format!("no partition {id:?}")))
}

/// Locks partitions and raises their versions; where there are several, their rows are locked already.
/// Owners add runs under a lock that they share and that is had alone here until the end: what follows
/// sees all that they added before, and they add nothing more to the jobs as they were.
pub(super) async fn raise_versions(
    tx: &Transaction<'_>,
    ids: &[i16],
    now: DateTime<Utc>,
) -> Result<Vec<PartitionRow>> {
    let sql = format!(
        "WITH raised AS (
            UPDATE partition p SET jobs_version = p.jobs_version + 1 WHERE p.id = ANY($1)
            RETURNING {PARTITION}
        )
        SELECT {PARTITION}, pg_advisory_xact_lock('partition'::regclass::oid::int, p.id)
        FROM raised p ORDER BY p.id"
    );
    query(tx, &sql, &[&ids]).await?.iter().map(|row| rows::partition(row, now)).collect()
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

/// Inserts runs of schedules; returns the ids. Whether a run has ended is asked again afterwards:
/// one that ended while the insert was under way is in no snapshot of it.
pub(super) async fn insert_all(
    tx: &Transaction<'_>,
    runs: &[NewRun],
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let made = insert_runs(tx, runs, now).await?;
    let sql = "DELETE FROM open_run o USING unnest($1::uuid[]) AS w (id)
        WHERE o.id = ANY(ARRAY[w.id]) AND EXISTS (SELECT FROM ended_run e WHERE e.id = w.id)";
    execute(tx, sql, &[&made]).await?;
    Ok(made)
}

/// Inserts runs with their ids in the inbox; those that exist already are left as they are.
/// Returns the ids inserted.
pub(super) async fn insert_runs(
    tx: &Transaction<'_>,
    runs: &[NewRun],
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>> {
    let sql = "WITH made AS (
            INSERT INTO open_run (id, job_id, app_id, partition, revision, trigger, state, fire_at,
                due_at, created_at, extra)
            SELECT r.id, r.job_id, r.app_id, r.partition, r.revision, r.trigger, 'QUEUED',
                r.fire_at, r.due_at, $1, r.extra::jsonb
            FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::bigint[],
                $7::text[], $8::timestamptz[], $9::timestamptz[], $10::text[])
                AS r (id, job_id, app_id, partition, revision, trigger, fire_at, due_at, extra)
            WHERE NOT EXISTS (SELECT FROM ended_run e WHERE e.id = r.id)
            ON CONFLICT (id) DO NOTHING RETURNING id, partition, due_at
        ), left_behind AS (
            INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM made
        ), told AS (
            INSERT INTO run_event (at, changed) SELECT $1, array_agg(id) FROM made
            WHERE due_at <= $1 HAVING count(*) > 0
        )
        SELECT id FROM made";
    let mut sorted: Vec<&NewRun> = runs.iter().collect();
    sorted.sort_by_key(|run| run.id);
    sorted.dedup_by_key(|run| run.id);
    let columns = NewRuns::of(sorted)?;
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&now];
    params.extend(columns.params());
    let made = query(tx, sql, &params).await?;
    made.iter().map(|row| Reader::new(row).get()).collect()
}

pub(super) async fn change_job(
    store: &PostgresStore,
    id: JobId,
    change: &JobChange,
    replan: Replan,
    now: DateTime<Utc>,
) -> Result<Job> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let partition = raise_jobs_version(&tx, id.partition(), now).await?;
    let before = by_id(&tx, id).await?;
    if let Some(refusal) = change.refusal(&before) {
        return Err(refusal);
    }
    if let Some(spec) = &change.spec {
        chains::refuse_cycle(&tx, &before.resource_name(), spec).await?;
    }
    let passed = [(&before, partition.planned_until)];
    insert_passed(&tx, &passed, change.cuts_past(), now).await?;
    if change.drop_due {
        skip_due(&tx, id, change.skip_message(), now).await?;
    }
    let mut gone = remove_planned(&tx, &[id], now).await?;
    let nothing = JobSpec::default();
    let named = if change.delete { &nothing } else { change.spec.as_ref().unwrap_or(&before.spec) };
    calendars::link(&tx, id, &before.spec, named).await?;
    let after = with_calendars(&tx, change.applied(before, now)).await?;
    update_job(&tx, &after, change.spec.is_some(), &partition, now).await?;
    let made = insert_planned(&tx, &after, partition, replan, now).await?;
    gone.retain(|run| !made.contains(run));
    tell_gone(&tx, &gone, now).await?;
    commit(tx).await?;
    for topic in [Topic::Jobs(after.partition), Topic::Inbox(after.partition), Topic::RunEvents] {
        store.hints.tell(topic);
    }
    Ok(after)
}

/// Inserts the runs of jobs' fire times that have come and that an owner is only about to serve, each
/// job with how far its partition is planned. Where the change `cuts_past`, also what their misfire
/// policies make of those that nobody has served.
pub(super) async fn insert_passed(
    tx: &Transaction<'_>,
    jobs: &[(&Job, DateTime<Utc>)],
    cuts_past: bool,
    now: DateTime<Utc>,
) -> Result<()> {
    let mut runs = Vec::new();
    let mut missed = HashMap::new();
    for (job, planned_until) in jobs {
        runs.append(&mut plan::passed_fires(job, *planned_until, now));
        if cuts_past {
            let (old, mut spread) = plan::missed_fires(job, *planned_until, now);
            runs.append(&mut spread);
            if let Some((first, last)) = old.span() {
                missed.insert(job.id, (*job, old, (job.id, first, last)));
            }
        }
    }
    if !missed.is_empty() {
        let spans: Vec<_> = missed.values().map(|(.., span)| *span).collect();
        let mut decided: HashMap<JobId, Decided> =
            past::decided(tx, &spans).await?.into_iter().collect();
        let mut skips = Vec::new();
        for (id, (job, old, _)) in missed {
            let decided = decided.remove(&id).unwrap_or_default();
            let (mut made_up, skip) = plan::settle_missed(job, old, &decided, now);
            runs.append(&mut made_up);
            skips.extend(skip);
        }
        owner::insert_skips(tx, &skips, now).await?;
    }
    insert_all(tx, &runs, now).await.map(|_| ())
}

async fn update_job(
    tx: &Transaction<'_>,
    job: &Job,
    new_revision: bool,
    partition: &PartitionRow,
    now: DateTime<Utc>,
) -> Result<()> {
    let spec = new_revision.then(|| to_json(&*job.spec)).transpose()?;
    // Without a new spec the stored text stays, also one that can't be read here.
    let sql = "WITH revised AS (
            INSERT INTO job_revision (job_id, revision, spec, updated_at, updated_by)
            SELECT $1, $4, $3::text::jsonb, $7, $8 WHERE $3::text IS NOT NULL
        )
        UPDATE job SET state = $2, spec = coalesce($3::text::jsonb, spec), revision = $4,
            version = $5, jobs_version = $6, updated_at = $7, updated_by = $8, pause_until = $9,
            pause_reason = $10, effective_from = $11, problem = $12, deleted_at = $13,
            next_fire_at = NULL
        WHERE id = $1";
    let params: [&(dyn ToSql + Sync); 13] = [
        &job.id.0,
        &job_state(job.state),
        &spec,
        &big(job.revision),
        &big(job.version),
        &big(partition.jobs_version),
        &job.updated_at,
        &job.updated_by,
        &job.pause_until,
        &job.pause_reason,
        &job.effective_from,
        &job.problem,
        &job.deleted.then_some(now),
    ];
    execute(tx, sql, &params).await.map(|_| ())
}

/// Ends the job's planned runs whose fire time has come and that were never sent: nobody sends them
/// now, and each is told; shards of a run that goes on stay with it. One that is being sent just now
/// stays: the guard is read again once its lock is had.
async fn skip_due(
    tx: &Transaction<'_>,
    job: JobId,
    message: &str,
    now: DateTime<Utc>,
) -> Result<()> {
    let sql = "WITH due AS (
            SELECT id FROM open_run WHERE job_id = $1 AND state = 'QUEUED' AND fence = 0
                AND trigger IN ('SCHEDULE', 'MISFIRE') AND fire_at <= $2
                AND extra ->> 'parent' IS NULL
            ORDER BY id FOR UPDATE
        ), gone AS (
            DELETE FROM open_run r USING due d WHERE r.id = d.id RETURNING r.*
        ), ended AS (
            INSERT INTO ended_run (id, job_id, app_id, revision, trigger, state, fire_at, due_at,
                created_at, attempt, fence, session_epoch, ended_at, message, extra)
            SELECT id, job_id, app_id, revision, trigger, 'SKIPPED', fire_at,
                nullif(due_at, fire_at), created_at, attempt, fence, session_epoch, $2, $3, extra
            FROM gone
        ), left_behind AS (
            INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM gone
        )
        INSERT INTO run_event (at, changed) SELECT $2, array_agg(id) FROM gone
        HAVING count(*) > 0";
    execute(tx, sql, &[&job.0, &now, &message]).await.map(|_| ())
}

/// Removes the jobs' planned runs that were never sent and are not due; returns their ids. One that
/// is being sent just now stays: the guard is read again once its lock is had.
pub(super) async fn remove_planned(
    tx: &Transaction<'_>,
    jobs: &[JobId],
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>> {
    let sql = "WITH planned AS (
            SELECT id FROM open_run WHERE job_id = ANY($1::bigint[]) AND state = 'QUEUED'
                AND fence = 0 AND trigger IN ('SCHEDULE', 'MISFIRE') AND due_at > $2
            ORDER BY id FOR UPDATE
        ), gone AS (
            DELETE FROM open_run r USING planned p WHERE r.id = p.id RETURNING r.id, r.partition
        ), left_behind AS (
            INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM gone
        )
        SELECT id FROM gone";
    let jobs: Vec<i64> = jobs.iter().map(|job| job.0).collect();
    let gone = query(tx, sql, &[&jobs, &now]).await?;
    gone.iter().map(|row| Reader::new(row).get()).collect()
}

/// Whoever watches planned runs is told of those that are not there any more.
pub(super) async fn tell_gone(
    tx: &Transaction<'_>,
    gone: &[Uuid],
    now: DateTime<Utc>,
) -> Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO run_event (at, changed, deleted) VALUES ($1, '{}', $2)";
    execute(tx, sql, &[&now, &gone]).await.map(|_| ())
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
    let mut client = store.client().await?;
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
