//! Retention, in bounded steps.
//!
//! Ended runs go with their day, whole, once all of it is past the longest retention of any job.
//! Row by row go only those that are kept for a shorter time than that, and those of the default
//! partition.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use deadpool_postgres::Object;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore, days,
    nodes::NODE_LISTED,
    rows::{Reader, execute, query, query_one},
};
use crate::{
    model::ids::RunId,
    store::{Result, StoreError, ops::Retention},
};

/// Rows of each kind that one step removes.
const PRUNE_ROWS_MAX: usize = 1000;
/// Days that one step drops.
const PRUNE_DAYS_MAX: usize = 2;
/// How long watchers may stay away and still go on where they were.
const EVENTS_KEPT: TimeDelta = TimeDelta::hours(1);
/// How long a repeated request gets the first answer.
const REQUESTS_KEPT: TimeDelta = TimeDelta::days(1);
/// How long rows of deleted jobs stay at least.
const DELETED_KEPT: TimeDelta = TimeDelta::days(1);

/// One step of everything; returns whether more is left to do.
pub(super) async fn prune(
    store: &PostgresStore,
    keep: &Retention,
    now: DateTime<Utc>,
) -> Result<bool> {
    let client = store.client().await?;
    // Somebody who reads for long keeps a day from being made or dropped: it is tried again.
    let days = async {
        days::make_ahead(&client, now).await?;
        days::drop_old(&client, longest(&client, keep).await?, now, PRUNE_DAYS_MAX).await
    };
    let dropped = match days.await {
        Ok(dropped) => dropped,
        Err(StoreError::Unavailable(fault)) => {
            tracing::debug!(%fault, "day partitions are left for later");
            0
        }
        Err(fault) => return Err(fault),
    };
    let mut removed = remove_runs(&client, keep, now).await?;
    removed = removed.max(remove_logs(&client, keep, now).await?);
    removed = removed.max(remove_events(&client, now).await?);
    removed = removed.max(remove_small(&client, keep, now).await?);
    Ok(dropped >= PRUNE_DAYS_MAX || removed >= PRUNE_ROWS_MAX)
}

fn before(now: DateTime<Utc>, keep: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(keep)
        .ok()
        .and_then(|keep| now.checked_sub_signed(keep))
        .unwrap_or(DateTime::<Utc>::UNIX_EPOCH)
}

/// The longest time that anything of a run is kept.
async fn longest(client: &Object, keep: &Retention) -> Result<Duration> {
    let sql = "SELECT greatest(
            (SELECT max((spec -> 'run_retention' ->> 'secs')::bigint) FROM job
                WHERE spec -> 'run_retention' ->> 'secs' IS NOT NULL),
            (SELECT max((spec -> 'run_retention' ->> 'secs')::bigint) FROM app))";
    let seconds: Option<i64> = Reader::new(&query_one(client, sql, &[]).await?).get()?;
    Ok(keep.runs.max(Duration::from_secs(seconds.unwrap_or(0).unsigned_abs())))
}

/// Removes ended runs past their job's retention, else their app's, else the server's, with all
/// that belongs to them; and what belonged to runs that went with their day.
async fn remove_runs(client: &Object, keep: &Retention, now: DateTime<Utc>) -> Result<usize> {
    let sql = "SELECT id, (spec -> 'run_retention' ->> 'secs')::bigint FROM job
        WHERE spec -> 'run_retention' ->> 'secs' IS NOT NULL
        UNION ALL
        SELECT j.id, (a.spec -> 'run_retention' ->> 'secs')::bigint
        FROM app a JOIN job j ON j.app_id = a.id
        WHERE a.spec -> 'run_retention' ->> 'secs' IS NOT NULL
            AND j.spec -> 'run_retention' ->> 'secs' IS NULL";
    let mut own: Vec<i64> = Vec::new();
    let mut cutoffs: Vec<Uuid> = Vec::new();
    for row in &query(client, sql, &[]).await? {
        let mut row = Reader::new(row);
        own.push(row.get()?);
        cutoffs.push(first_id(before(now, Duration::from_secs(row.number()?))));
    }
    let sql = "SELECT e.id FROM unnest($1::bigint[], $2::uuid[]) AS w (job_id, cutoff)
        CROSS JOIN LATERAL (
            SELECT id FROM ended_run e WHERE e.job_id = w.job_id AND e.id < w.cutoff
            ORDER BY id LIMIT $3
        ) AS e LIMIT $3";
    let mut removed = match own.is_empty() {
        true => 0,
        false => remove(client, sql, &[&own, &cutoffs, &limit(PRUNE_ROWS_MAX)]).await?,
    };
    let left = limit(PRUNE_ROWS_MAX.saturating_sub(removed));
    let sql = match own.is_empty() {
        // Their days will be dropped; only what lies in no day is removed here.
        true => {
            "SELECT id FROM ended_run_default WHERE id < $2 AND job_id <> ALL($1::bigint[])
            ORDER BY id LIMIT $3"
        }
        false => {
            "SELECT id FROM ended_run WHERE id < $2 AND job_id <> ALL($1::bigint[])
            ORDER BY id LIMIT $3"
        }
    };
    let cutoff = first_id(before(now, keep.runs));
    removed += remove(client, sql, &[&own, &cutoff, &left]).await?;
    let oldest = first_id(before(now, longest(client, keep).await?));
    let sql = "DELETE FROM attempt WHERE (run_id, number) IN (
            SELECT run_id, number FROM attempt a WHERE run_id < $1
            AND NOT EXISTS (SELECT FROM open_run r WHERE r.id = a.run_id)
            AND NOT EXISTS (SELECT FROM ended_run e WHERE e.id = a.run_id)
            ORDER BY run_id LIMIT $2)";
    let orphans = execute(client, sql, &[&oldest, &limit(PRUNE_ROWS_MAX)]).await?;
    Ok(removed.max(counted(orphans)))
}

/// Removes the ended runs that a query finds.
async fn remove(client: &Object, find: &str, params: &[&(dyn ToSql + Sync)]) -> Result<usize> {
    let sql = format!(
        "WITH old AS MATERIALIZED ({find}), attempts AS (
            DELETE FROM attempt a USING old WHERE a.run_id = old.id
        ), logs AS (
            DELETE FROM log_chunk l USING old WHERE l.run_id = old.id
        )
        DELETE FROM ended_run e USING old WHERE e.id = old.id"
    );
    Ok(counted(execute(client, &sql, params).await?))
}

/// Removes logs past their retention, and progress, of runs that have ended.
async fn remove_logs(client: &Object, keep: &Retention, now: DateTime<Utc>) -> Result<usize> {
    let cutoff = before(now, keep.logs);
    let sql = "DELETE FROM log_chunk WHERE (run_id, attempt, first_seq) IN (
            SELECT run_id, attempt, first_seq FROM log_chunk l
            WHERE run_id < $1 AND stored_at < $2
                AND NOT EXISTS (SELECT FROM open_run r WHERE r.id = l.run_id)
            ORDER BY run_id, attempt, first_seq LIMIT $3)";
    let logs = execute(client, sql, &[&first_id(cutoff), &cutoff, &limit(PRUNE_ROWS_MAX)]).await?;
    let sql = "DELETE FROM run_progress WHERE run_id IN (
            SELECT run_id FROM run_progress p
            WHERE NOT EXISTS (SELECT FROM open_run r WHERE r.id = p.run_id) LIMIT $1)";
    execute(client, sql, &[&limit(PRUNE_ROWS_MAX)]).await?;
    Ok(counted(logs))
}

/// Removes old events, and notes how far.
async fn remove_events(client: &Object, now: DateTime<Utc>) -> Result<usize> {
    let sql = "WITH old AS (
            DELETE FROM run_event WHERE (tx, seq) IN (
                SELECT tx, seq FROM run_event WHERE at < $1 ORDER BY tx, seq LIMIT $2)
            RETURNING tx, seq
        ), newest AS (
            SELECT tx, seq FROM old ORDER BY tx DESC, seq DESC LIMIT 1
        ), noted AS (
            UPDATE run_event_floor f SET tx = n.tx, seq = n.seq FROM newest n
            WHERE (n.tx, n.seq) > (f.tx, f.seq)
        )
        SELECT count(*) FROM old";
    let row = query_one(client, sql, &[&(now - EVENTS_KEPT), &limit(PRUNE_ROWS_MAX)]).await?;
    Ok(counted(Reader::new(&row).number()?))
}

/// Removes what is kept for a fixed time, and rows that nothing refers to any more.
async fn remove_small(client: &Object, keep: &Retention, now: DateTime<Utc>) -> Result<usize> {
    let max = limit(PRUNE_ROWS_MAX);
    let sql = "DELETE FROM request WHERE key IN (
            SELECT key FROM request WHERE at < $1 LIMIT $2)";
    let requests = execute(client, sql, &[&(now - REQUESTS_KEPT), &max]).await?;
    let sql = "DELETE FROM node WHERE last_seen_at < $1";
    execute(client, sql, &[&(now - NODE_LISTED)]).await?;
    let sql = "DELETE FROM job WHERE id IN (
            SELECT id FROM job j WHERE deleted_at < $1
                AND NOT EXISTS (SELECT FROM ended_run r WHERE r.job_id = j.id)
                AND NOT EXISTS (SELECT FROM open_run r WHERE r.job_id = j.id) LIMIT $2)";
    let jobs = execute(client, sql, &[&(now - DELETED_KEPT), &max]).await?;
    let sql = "DELETE FROM route_cursor c
        WHERE NOT EXISTS (SELECT FROM job j WHERE j.id = c.job_id)";
    execute(client, sql, &[]).await?;
    let sql = "DELETE FROM executor WHERE id IN (
            SELECT id FROM executor WHERE disconnected_at < $1 AND NOT cordoned LIMIT $2)";
    let executors = execute(client, sql, &[&before(now, keep.runs), &max]).await?;
    Ok(counted(requests.max(jobs).max(executors)))
}

fn first_id(at: DateTime<Utc>) -> Uuid {
    RunId::first_at(at).to_uuid()
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

fn counted(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
