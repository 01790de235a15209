//! Retention, in bounded steps.
//!
//! Ended runs go with their day, whole, once all of it is past the longest retention of any job.
//! Row by row go only those that are kept for a shorter time than that, and those of the default
//! partition.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use deadpool_postgres::Object;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore, days,
    nodes::NODE_LISTED,
    rows::{Reader, execute, query, query_one},
};
use crate::{
    model::ids::RunId,
    store::{Result, ops::Retention},
};

/// Rows of each kind that one step removes.
const PRUNE_ROWS_MAX: usize = 1000;
/// Jobs with a retention of their own whose runs one step looks for.
const PRUNE_JOBS_MAX: usize = 200;
/// Rows that one step looks at to find those of jobs without.
const SWEEP_ROWS_MAX: usize = 2000;
/// Days that one step drops.
const PRUNE_DAYS_MAX: usize = 2;
/// How long watchers may stay away and still go on where they were.
const EVENTS_KEPT: TimeDelta = TimeDelta::hours(1);
/// How long a repeated request gets the first answer.
const REQUESTS_KEPT: TimeDelta = TimeDelta::days(1);
/// How long rows of deleted jobs stay at least.
const DELETED_KEPT: TimeDelta = TimeDelta::days(1);

/// How long executors that said Goodbye are still shown. Those that fell silent stay longer, for
/// somebody to ask why.
const LEFT_KEPT: TimeDelta = TimeDelta::hours(1);

/// One step of everything; returns whether more is left to do.
pub(super) async fn prune(
    store: &PostgresStore,
    keep: &Retention,
    now: DateTime<Utc>,
) -> Result<bool> {
    let client = store.client().await?;
    let longest = longest(&client, keep).await?;
    let parent = oldest_parent(&client).await?;
    // Somebody who reads for long keeps a day from being made or dropped: it is tried again.
    let days = async {
        days::make_ahead(&client, now).await?;
        let oldest = before(now, longest).min(parent.map_or(now, RunId::time)).date_naive();
        days::drop_old(&client, oldest, PRUNE_DAYS_MAX).await
    };
    let dropped = match days.await {
        Ok(dropped) => dropped,
        Err(fault) if fault.passes() => {
            tracing::debug!(%fault, "day partitions are left for later");
            0
        }
        Err(fault) => return Err(fault),
    };
    // A shard goes with its parent, so not while that is open; later ones may be its.
    let shards_until = parent.map_or(Uuid::max(), RunId::to_uuid);
    let limits = Limits { keep, longest, shards_until, now };
    let more = remove_runs(store, &client, &limits).await?;
    let mut removed = remove_logs(&client, keep, now).await?;
    removed = removed.max(remove_events(&client, now).await?);
    removed = removed.max(remove_small(&client, keep, now).await?);
    Ok(more || dropped >= PRUNE_DAYS_MAX || removed >= PRUNE_ROWS_MAX)
}

fn before(now: DateTime<Utc>, keep: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(keep)
        .ok()
        .and_then(|keep| now.checked_sub_signed(keep))
        .unwrap_or(DateTime::<Utc>::UNIX_EPOCH)
}

/// What may go.
struct Limits<'a> {
    keep: &'a Retention,
    longest: Duration,
    /// Shards before this run have no open parent.
    shards_until: Uuid,
    now: DateTime<Utc>,
}

/// The first open run that has shards.
async fn oldest_parent(client: &Object) -> Result<Option<RunId>> {
    let sql = "SELECT id FROM open_run WHERE (extra ->> 'shard_total')::int > 0
            AND extra -> 'parent' IS NULL ORDER BY id LIMIT 1";
    query(client, sql, &[]).await?.first().map(|row| Reader::new(row).run()).transpose()
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

/// How far the clean-up of runs has come. Each process begins anew, which costs no more than looks.
#[derive(Default)]
pub(super) struct Progress {
    /// In this round, jobs with a retention of their own have been looked at up to this one.
    job: i64,
    /// Runs kept for the server's time have been looked at up to this one.
    swept: Uuid,
    /// On this day that was begun anew: a run that goes on for long ends behind it.
    day: Option<NaiveDate>,
}

/// Removes ended runs past their job's retention, else their app's, else the server's, with all
/// that belongs to them; and what belonged to runs that went with their day.
async fn remove_runs(store: &PostgresStore, client: &Object, limits: &Limits<'_>) -> Result<bool> {
    let Limits { keep, longest, shards_until, now } = *limits;
    let own = remove_by_job(store, client, limits).await?;
    let others = match longest > keep.runs {
        true => sweep(store, client, limits).await?,
        // Their days are dropped; only what lies in no day is removed here.
        false => {
            let sql = format!(
                "SELECT e.id FROM ended_run_default e
                WHERE e.id < $1 AND e.ended_at < $2 AND {KEPT_AS_USUAL}
                    AND (e.id < $4 OR e.extra -> 'parent' IS NULL)
                ORDER BY e.id LIMIT $3"
            );
            let cutoff = before(now, keep.runs);
            let params: [&(dyn ToSql + Sync); 4] =
                [&first_id(cutoff), &cutoff, &limit(PRUNE_ROWS_MAX), &shards_until];
            remove(client, &query(client, &sql, &params).await?).await? >= PRUNE_ROWS_MAX
        }
    };
    let oldest = first_id(before(now, longest));
    let sql = "DELETE FROM attempt WHERE (run_id, number) IN (
            SELECT run_id, number FROM attempt a WHERE run_id < $1
            AND NOT EXISTS (SELECT FROM open_run r WHERE r.id = a.run_id)
            AND NOT EXISTS (SELECT FROM ended_run e WHERE e.id = a.run_id)
            ORDER BY run_id LIMIT $2)";
    let orphans = execute(client, sql, &[&oldest, &limit(PRUNE_ROWS_MAX)]).await?;
    Ok(own || others || counted(orphans) >= PRUNE_ROWS_MAX)
}

/// Of a run `e`: it is kept for the server's time, not for its job's or app's.
const KEPT_AS_USUAL: &str = "NOT EXISTS (SELECT FROM job j WHERE j.id = e.job_id
        AND j.spec -> 'run_retention' ->> 'secs' IS NOT NULL)
    AND NOT EXISTS (SELECT FROM app a WHERE a.id = e.app_id
        AND a.spec -> 'run_retention' ->> 'secs' IS NOT NULL)";

/// Removes runs of the next few jobs with a retention of their own or of their app's, found by the
/// job's index. Returns whether more is left to do before a pause.
async fn remove_by_job(
    store: &PostgresStore,
    client: &Object,
    limits: &Limits<'_>,
) -> Result<bool> {
    let from = store.pruned.lock().job;
    let sql = "SELECT id, secs FROM (
            SELECT id, (spec -> 'run_retention' ->> 'secs')::bigint AS secs FROM job
            WHERE spec -> 'run_retention' ->> 'secs' IS NOT NULL AND id > $1
            UNION ALL
            SELECT j.id, (a.spec -> 'run_retention' ->> 'secs')::bigint
            FROM app a JOIN job j ON j.app_id = a.id
            WHERE a.spec -> 'run_retention' ->> 'secs' IS NOT NULL
                AND j.spec -> 'run_retention' ->> 'secs' IS NULL AND j.id > $1
        ) AS own ORDER BY id LIMIT $2";
    let mut jobs: Vec<i64> = Vec::new();
    let mut ids: Vec<Uuid> = Vec::new();
    let mut times: Vec<DateTime<Utc>> = Vec::new();
    for row in &query(client, sql, &[&from, &limit(PRUNE_JOBS_MAX)]).await? {
        let mut row = Reader::new(row);
        jobs.push(row.get()?);
        let cutoff = before(limits.now, Duration::from_secs(row.number()?));
        ids.push(first_id(cutoff));
        times.push(cutoff);
    }
    let Some(last) = jobs.last().copied() else {
        store.pruned.lock().job = 0;
        return Ok(false);
    };
    // In no order, since the planner takes each job for an ordinary one and would read all runs of a
    // big one to sort them; days are gone through from the oldest on all the same. On a hot
    // connection, since that reads by indexes alone: these learn which runs are gone, where a bitmap
    // would lead each step to all that were removed before.
    let sql = "SELECT e.id FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[])
            AS w (job_id, cutoff, cutoff_at)
        CROSS JOIN LATERAL (
            SELECT id FROM ended_run e
            WHERE e.job_id = w.job_id AND e.id < w.cutoff AND e.ended_at < w.cutoff_at
                AND (e.id < $5 OR e.extra -> 'parent' IS NULL)
            LIMIT $4
        ) AS e LIMIT $4";
    let params: [&(dyn ToSql + Sync); 5] =
        [&jobs, &ids, &times, &limit(PRUNE_ROWS_MAX), &limits.shards_until];
    let found = query(&store.hot().await?, sql, &params).await?;
    if remove(client, &found).await? >= PRUNE_ROWS_MAX {
        return Ok(true);
    }
    let round_over = jobs.len() < PRUNE_JOBS_MAX;
    store.pruned.lock().job = if round_over { 0 } else { last };
    Ok(!round_over)
}

/// Removes runs kept for the server's time among those that are kept for longer: a bounded number
/// of rows is looked at, and never twice on one day. Returns whether there are more to look at.
async fn sweep(store: &PostgresStore, client: &Object, limits: &Limits<'_>) -> Result<bool> {
    let now = limits.now;
    let from = {
        let mut progress = store.pruned.lock();
        if progress.day.replace(now.date_naive()) != Some(now.date_naive()) {
            progress.swept = Uuid::nil();
        }
        progress.swept
    };
    let cutoff = before(now, limits.keep.runs);
    // Step by step, so that no plan begins with all jobs.
    let sql = format!(
        "WITH seen AS MATERIALIZED (
            SELECT id, job_id, app_id, ended_at, extra -> 'parent' IS NOT NULL AS shard
            FROM ended_run WHERE id > $1 AND id < $2
            ORDER BY id LIMIT $3
        ), old AS MATERIALIZED (
            SELECT e.id FROM seen e WHERE e.ended_at < $4 AND (e.id < $5 OR NOT e.shard)
                AND {KEPT_AS_USUAL}
        )
        SELECT id, count(*) OVER (), array(SELECT id FROM old) FROM seen ORDER BY id DESC LIMIT 1"
    );
    let params: [&(dyn ToSql + Sync); 5] =
        [&from, &first_id(cutoff), &limit(SWEEP_ROWS_MAX), &cutoff, &limits.shards_until];
    let seen = query(client, &sql, &params).await?;
    let Some(row) = seen.first() else { return Ok(false) };
    let mut row = Reader::new(row);
    let (until, count): (Uuid, i64) = (row.get()?, row.get()?);
    remove_by_id(client, &row.get::<Vec<Uuid>>()?).await?;
    store.pruned.lock().swept = until;
    Ok(count >= limit(SWEEP_ROWS_MAX))
}

/// Removes the ended runs that were found. Returns how many these are.
async fn remove(client: &Object, found: &[Row]) -> Result<usize> {
    let ids: Vec<Uuid> = found.iter().map(|row| Reader::new(row).get()).collect::<Result<_>>()?;
    remove_by_id(client, &ids).await?;
    Ok(ids.len())
}

/// Removes ended runs with all that belongs to them. Their ids alone, and not a search, lead to the
/// days they are in: with all days at hand the planner would look at the indexes of each.
async fn remove_by_id(client: &Object, ids: &[Uuid]) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "WITH attempts AS (
            DELETE FROM attempt WHERE run_id = ANY($1)
        ), logs AS (
            DELETE FROM log_chunk WHERE run_id = ANY($1)
        )
        DELETE FROM ended_run WHERE id = ANY($1)";
    execute(client, sql, &[&ids]).await.map(|_| ())
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
    let sql = "DELETE FROM backfill WHERE (job_id, fire_at) IN (
            SELECT job_id, fire_at FROM backfill b WHERE made_at < $1
                AND NOT EXISTS (SELECT FROM open_run r WHERE r.id = b.run_id)
                AND NOT EXISTS (SELECT FROM ended_run r WHERE r.id = b.run_id) LIMIT $2)";
    execute(client, sql, &[&before(now, keep.runs), &max]).await?;
    let sql = "DELETE FROM executor WHERE id IN (
            SELECT id FROM executor WHERE NOT cordoned
                AND (disconnected_at < $1 OR (gone AND disconnected_at < $3)) LIMIT $2)";
    let kept = [before(now, keep.runs), now - LEFT_KEPT];
    let executors = execute(client, sql, &[&kept[0], &max, &kept[1]]).await?;
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
