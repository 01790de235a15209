//! Runs of schedules that come and go with a change of their jobs; runs of other kinds that nobody has
//! sent yet.

use std::{collections::HashMap, sync::LazyLock};

use chrono::{DateTime, Utc};
use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    owner::{self, NewRuns},
    past,
    rows::{Reader, execute, query},
};
use crate::{
    model::{ids::JobId, job::Job, misfire::Decided, plan},
    store::{Result, ops::NewRun},
};

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
                r.fire_at, coalesce(r.due_at, r.fire_at), $1, r.extra::jsonb
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

/// Inserts the runs of jobs' fire times that have come and that an owner is only about to serve, each
/// job with how far its partition is planned. Where its change cuts off the past, also what its misfire
/// policy makes of those that nobody has served. Returns whether there were any.
pub(super) async fn insert_passed(
    tx: &Transaction<'_>,
    jobs: &[(&Job, DateTime<Utc>, bool)],
    now: DateTime<Utc>,
) -> Result<bool> {
    let mut runs = Vec::new();
    let mut missed = HashMap::new();
    for (job, planned_until, cuts_past) in jobs {
        runs.append(&mut plan::passed_fires(job, *planned_until, now));
        if *cuts_past {
            let (old, mut spread) = plan::missed_fires(job, *planned_until, now);
            runs.append(&mut spread);
            if let Some((first, last)) = old.span() {
                missed.insert(job.id, (*job, old, (job.id, first, last)));
            }
        }
    }
    let any = !runs.is_empty() || !missed.is_empty();
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
    insert_all(tx, &runs, now).await?;
    Ok(any)
}

/// Ends planned runs of jobs, each with why, whose fire time has come and that were never sent: nobody
/// sends them now, and each is told; shards of a run that goes on stay with it. One that is being sent
/// just now stays: the guard is read again once its lock is had. Returns whether there were any.
pub(super) async fn skip_due(
    tx: &Transaction<'_>,
    jobs: &[(JobId, &str)],
    now: DateTime<Utc>,
) -> Result<bool> {
    if jobs.is_empty() {
        return Ok(false);
    }
    let sql = "WITH due AS (
            SELECT id FROM open_run WHERE job_id = ANY($1::bigint[]) AND waited
                AND state = 'QUEUED' AND fence = 0 AND trigger IN ('SCHEDULE', 'MISFIRE')
                AND fire_at <= $2 AND extra ->> 'parent' IS NULL
            ORDER BY id FOR UPDATE
        ), gone AS (
            DELETE FROM open_run r USING due d WHERE r.id = ANY(ARRAY[d.id]) RETURNING r.*
        ), ended AS (
            INSERT INTO ended_run (id, job_id, app_id, revision, trigger, state, fire_at, due_at,
                created_at, attempt, fence, session_epoch, ended_at, message, extra)
            SELECT g.id, g.job_id, g.app_id, g.revision, g.trigger, 'SKIPPED', g.fire_at,
                nullif(g.due_at, g.fire_at), g.created_at, g.attempt, g.fence, g.session_epoch, $2,
                w.message, g.extra
            FROM gone g JOIN unnest($1::bigint[], $3::text[]) AS w (job_id, message)
                ON w.job_id = g.job_id
        ), left_behind AS (
            INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM gone
        )
        INSERT INTO run_event (at, changed) SELECT $2, array_agg(id) FROM gone
        HAVING count(*) > 0";
    let (ids, messages): (Vec<i64>, Vec<&str>) =
        jobs.iter().map(|(job, message)| (job.0, *message)).unzip();
    Ok(execute(tx, sql, &[&ids, &now, &messages]).await? > 0)
}

/// Takes planned runs of the jobs `$1` out of the table that are not due at `$2`.
pub(super) const REMOVE: &str = "planned AS (
        SELECT id FROM open_run WHERE job_id = ANY($1::bigint[]) AND waited AND state = 'QUEUED'
            AND fence = 0 AND trigger IN ('SCHEDULE', 'MISFIRE') AND due_at > $2
        ORDER BY id FOR UPDATE
    ), gone AS (
        DELETE FROM open_run r USING planned p WHERE r.id = ANY(ARRAY[p.id])
        RETURNING r.id, r.partition
    ), left_behind AS (
        INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM gone
    )";

/// Removes the jobs' planned runs that were never sent and are not due; returns their ids. One that
/// is being sent just now stays: the guard is read again once its lock is had.
pub(super) async fn remove_planned(
    tx: &Transaction<'_>,
    jobs: &[JobId],
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("WITH {REMOVE} SELECT id FROM gone"));
    let jobs: Vec<i64> = jobs.iter().map(|job| job.0).collect();
    let gone = query(tx, &SQL, &[&jobs, &now]).await?;
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
