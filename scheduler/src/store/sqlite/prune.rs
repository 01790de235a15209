//! Retention, in bounded steps: what is to go is found by a reader, so that the writer only removes
//! it.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::{Connection, params};

use super::{
    SqliteStore,
    rows::{counted, get_run_id, json, number, us},
    writer::{Tx, all, find},
};
use crate::{
    model::ids::RunId,
    store::{Result, ops::Retention},
};

/// Rows of each kind that one step removes.
const PRUNE_ROWS_MAX: usize = 1000;
/// How long watchers may stay away and still go on where they were.
const EVENTS_KEPT: TimeDelta = TimeDelta::hours(1);
/// How long a repeated request gets the first answer.
const REQUESTS_KEPT: TimeDelta = TimeDelta::days(1);
/// How long rows of ended nodes and deleted jobs stay at least.
const GONE_KEPT: TimeDelta = TimeDelta::days(1);

/// How long executors that said Goodbye are still shown. Those that fell silent stay longer, for
/// somebody to ask why.
const LEFT_KEPT: TimeDelta = TimeDelta::hours(1);

/// One step of everything; returns whether more is left to do.
pub(super) async fn prune(
    store: &SqliteStore,
    keep: &Retention,
    now: DateTime<Utc>,
) -> Result<bool> {
    let keep = *keep;
    let runs = store.readers.read(move |conn| expired_runs(conn, &keep, now)).await?;
    store
        .writer
        .write(move |tx| {
            let mut removed = remove_runs(tx, &runs)?;
            removed = removed.max(remove_logs(tx, &keep, now)?);
            removed = removed.max(remove_small(tx, &keep, now)?);
            Ok(removed >= PRUNE_ROWS_MAX)
        })
        .await
}

fn before(now: DateTime<Utc>, keep: std::time::Duration) -> DateTime<Utc> {
    TimeDelta::from_std(keep)
        .ok()
        .and_then(|keep| now.checked_sub_signed(keep))
        .unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// Ended runs past their job's retention, else their app's, else the server's.
fn expired_runs(conn: &Connection, keep: &Retention, now: DateTime<Utc>) -> Result<Vec<RunId>> {
    let own = own_retentions(conn)?;
    let shards_until = shards_until(conn)?;
    let mut runs = Vec::new();
    for (job, kept) in &own {
        let cutoff = before(now, std::time::Duration::from_secs(*kept));
        runs.extend(all(
            conn,
            "SELECT id FROM ended_run WHERE job_id = ?1 AND id < ?2 AND ended_at < ?3
                 AND (id < ?5 OR json_extract(extra, '$.parent') IS NULL)
             ORDER BY id LIMIT ?4",
            params![
                job,
                RunId::first_at(cutoff).to_bytes(),
                us(cutoff),
                number(PRUNE_ROWS_MAX - runs.len()),
                shards_until,
            ],
            |row| get_run_id(row, 0),
        )?);
    }
    let others: Vec<i64> = own.into_keys().collect();
    let cutoff = before(now, keep.runs);
    runs.extend(all(
        conn,
        "SELECT id FROM ended_run
         WHERE id < ?1 AND ended_at < ?2 AND job_id NOT IN (SELECT value FROM json_each(?3))
             AND (id < ?5 OR json_extract(extra, '$.parent') IS NULL)
         ORDER BY id LIMIT ?4",
        params![
            RunId::first_at(cutoff).to_bytes(),
            us(cutoff),
            json(&others)?,
            number(PRUNE_ROWS_MAX - runs.len()),
            shards_until,
        ],
        |row| get_run_id(row, 0),
    )?);
    Ok(runs)
}

/// Shards before this run have no open parent. A shard goes with its parent, so not while that is
/// open; later ones may be its.
fn shards_until(conn: &Connection) -> Result<[u8; 16]> {
    let sql = "SELECT id FROM open_run WHERE json_extract(extra, '$.shard_total') > 0
                   AND json_extract(extra, '$.parent') IS NULL ORDER BY id LIMIT 1";
    let oldest = find(conn, sql, [], |row| get_run_id(row, 0))?;
    Ok(oldest.map_or([u8::MAX; 16], RunId::to_bytes))
}

/// Seconds that runs of a job are kept, of the jobs for which they are set, by row id. Jobs with a
/// retention of their own have an index, so that the others need not be read.
fn own_retentions(conn: &Connection) -> Result<HashMap<i64, u64>> {
    let rows = all(
        conn,
        "WITH app_keeps AS (
             SELECT id, iif(json_valid(spec), json_extract(spec, '$.run_retention.secs'), NULL)
                 AS secs FROM app
         ), own AS (
             SELECT id, app_id, iif(json_valid(spec),
                 json_extract(spec, '$.run_retention.secs'), NULL) AS secs
             FROM job WHERE instr(spec, '\"run_retention\":{') > 0
         )
         SELECT j.id, a.secs FROM app_keeps a CROSS JOIN job j ON j.app_id = a.id
         WHERE a.secs IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM own WHERE own.id = j.id AND own.secs IS NOT NULL)
         UNION ALL SELECT id, secs FROM own WHERE secs IS NOT NULL",
        [],
        |row| Ok((row.get(0)?, counted(row.get(1)?))),
    )?;
    Ok(rows.into_iter().collect())
}

/// Removes ended runs with all that belongs to them.
fn remove_runs(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<usize> {
    for run in runs {
        let id = run.to_bytes();
        tx.execute("DELETE FROM ended_run WHERE id = ?1", [id])?;
        tx.execute("DELETE FROM attempt WHERE run_id = ?1", [id])?;
        tx.execute("DELETE FROM log_chunk WHERE run_id = ?1", [id])?;
    }
    Ok(runs.len())
}

/// Removes logs past their retention of runs that have ended.
fn remove_logs(tx: &mut Tx<'_>, keep: &Retention, now: DateTime<Utc>) -> Result<usize> {
    let cutoff = before(now, keep.logs);
    tx.execute(
        "DELETE FROM log_chunk WHERE rowid IN (
             SELECT rowid FROM log_chunk l WHERE run_id < ?1 AND stored_at < ?2
                 AND NOT EXISTS (SELECT 1 FROM open_run r WHERE r.id = l.run_id) LIMIT ?3)",
        params![RunId::first_at(cutoff).to_bytes(), us(cutoff), number(PRUNE_ROWS_MAX)],
    )
}

/// Removes what is kept for a fixed time, and rows that nothing refers to any more.
fn remove_small(tx: &mut Tx<'_>, keep: &Retention, now: DateTime<Utc>) -> Result<usize> {
    let events = tx.execute(
        "DELETE FROM run_event WHERE seq IN (
             SELECT seq FROM run_event WHERE at < ?1 ORDER BY at LIMIT ?2)",
        params![us(now - EVENTS_KEPT), number(PRUNE_ROWS_MAX)],
    )?;
    // Requests lie in the order in which they came.
    let requests = tx.execute(
        "DELETE FROM request WHERE at < ?1 AND rowid IN (
             SELECT rowid FROM request ORDER BY rowid LIMIT ?2)",
        params![us(now - REQUESTS_KEPT), number(PRUNE_ROWS_MAX)],
    )?;
    tx.execute("DELETE FROM node WHERE gone AND last_seen_at < ?1", [us(now - GONE_KEPT)])?;
    let jobs = tx.execute(
        "DELETE FROM job WHERE id IN (
             SELECT id FROM job j WHERE deleted_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM ended_run r WHERE r.job_id = j.id)
                 AND NOT EXISTS (SELECT 1 FROM open_run r WHERE r.job_id = j.id) LIMIT ?2)",
        params![us(now - GONE_KEPT), number(PRUNE_ROWS_MAX)],
    )?;
    tx.execute(
        "DELETE FROM route_cursor WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = job_id)",
        [],
    )?;
    tx.execute(
        "DELETE FROM backfill WHERE (job_id, fire_at) IN (
             SELECT job_id, fire_at FROM backfill b WHERE made_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM open_run r WHERE r.id = b.run_id)
                 AND NOT EXISTS (SELECT 1 FROM ended_run r WHERE r.id = b.run_id) LIMIT ?2)",
        params![us(before(now, keep.runs)), number(PRUNE_ROWS_MAX)],
    )?;
    let executors = tx.execute(
        "DELETE FROM executor WHERE NOT cordoned
             AND (disconnected_at < ?1 OR (gone AND disconnected_at < ?2))",
        [us(before(now, keep.runs)), us(now - LEFT_KEPT)],
    )?;
    Ok(events.max(requests).max(jobs).max(executors))
}
