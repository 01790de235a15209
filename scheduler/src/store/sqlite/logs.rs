//! Progress, checkpoints and logs of attempts.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    rows::{at, count, counted, counted32, get_outcome, get_payload, number, us},
    writer::{Tx, find},
};
use crate::{
    model::{
        Payload,
        ids::{AttemptRef, RunId},
        run::Outcome,
    },
    store::{
        Result, StoreError, Topic,
        log_chunk::{self, CHUNK_DROPPED_MAX, LOG_PAGE_CHUNKS_MAX, Reach, Step},
        ops::{LogAppend, LogPage, LogQuery, ProgressRow},
    },
};

/// Keeps the newest progress and checkpoint of attempts that go on.
pub(super) fn save_progress(tx: &mut Tx<'_>, progress: &[ProgressRow]) -> Result<()> {
    for row in progress {
        let kept = tx.execute(
            "INSERT INTO run_progress (run_id, attempt, fraction, message, checkpoint_type,
                 checkpoint)
             SELECT id, attempt, ?4, ?5, ?6, ?7 FROM open_run
             WHERE id = ?1 AND attempt = ?2 AND fence = ?3
             ON CONFLICT (run_id) DO UPDATE SET
                 attempt = excluded.attempt,
                 fraction = excluded.fraction,
                 message = excluded.message,
                 checkpoint_type = coalesce(excluded.checkpoint_type, checkpoint_type),
                 checkpoint = CASE WHEN excluded.checkpoint_type IS NULL THEN checkpoint
                     ELSE excluded.checkpoint END",
            params![
                row.attempt.run.to_bytes(),
                row.attempt.attempt,
                count(row.attempt.fence),
                row.fraction,
                row.message,
                row.checkpoint.as_ref().map(|checkpoint| &checkpoint.content_type),
                row.checkpoint.as_ref().map(|checkpoint| &*checkpoint.data),
            ],
        )?;
        if kept == 1 {
            tx.changed(row.attempt.run);
        }
    }
    Ok(())
}

/// The newest checkpoint of each run.
pub(super) fn load_checkpoints(conn: &Connection, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>> {
    let mut found = Vec::new();
    for run in runs {
        let sql = "SELECT checkpoint_type, checkpoint FROM run_progress WHERE run_id = ?1";
        let checkpoint = find(conn, sql, [run.to_bytes()], |row| get_payload(row, 0))?.flatten();
        found.extend(checkpoint.map(|checkpoint| (*run, checkpoint)));
    }
    Ok(found)
}

fn reach(conn: &Connection, run: RunId, attempt: u32) -> Result<Reach> {
    let found = find(
        conn,
        "SELECT first_seq, last_seq, bytes, fence, base FROM log_chunk
         WHERE run_id = ?1 AND attempt = ?2 ORDER BY first_seq DESC LIMIT 1",
        params![run.to_bytes(), attempt],
        |row| {
            Ok(Reach {
                last_chunk: Some(counted(row.get(0)?)),
                last_seq: counted(row.get(1)?),
                bytes: counted(row.get(2)?),
                fence: counted(row.get(3)?),
                base: counted(row.get(4)?),
            })
        },
    )?;
    Ok(found.unwrap_or_default())
}

/// Appends log records. Returns, per chunk, the number of the last record of its dispatch that is
/// stored now, as the dispatch counts them.
pub(super) fn append(
    tx: &mut Tx<'_>,
    chunks: &[LogAppend],
    now: DateTime<Utc>,
) -> Result<Vec<u64>> {
    tx.note_time(now);
    let mut through = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        through.push(append_one(tx, chunk, now)?);
        tx.hint(Topic::Logs(chunk.attempt.run));
    }
    Ok(through)
}

fn append_one(tx: &mut Tx<'_>, chunk: &LogAppend, now: DateTime<Utc>) -> Result<u64> {
    let AttemptRef { run, attempt, fence } = chunk.attempt;
    let mut reach = reach(tx.conn(), run, attempt)?;
    match reach.add(chunk, now)? {
        Step::Nothing => {}
        Step::Count { first_seq, last_seq, dropped } => {
            tx.execute(
                "UPDATE log_chunk SET last_seq = ?4, dropped = min(dropped + ?5, ?6)
                 WHERE run_id = ?1 AND attempt = ?2 AND first_seq = ?3",
                params![
                    run.to_bytes(),
                    attempt,
                    count(first_seq),
                    count(last_seq),
                    count(dropped),
                    count(CHUNK_DROPPED_MAX),
                ],
            )?;
        }
        Step::Insert(new) => {
            tx.execute(
                "INSERT INTO log_chunk (run_id, attempt, first_seq, last_seq, dropped, stored_at,
                     bytes, record_count, fence, base, records)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    run.to_bytes(),
                    attempt,
                    count(new.first_seq),
                    count(new.last_seq),
                    count(new.dropped),
                    us(now),
                    count(new.bytes),
                    count(new.count),
                    count(new.fence),
                    count(new.base),
                    new.records,
                ],
            )?;
        }
    }
    Ok(reach.through(fence))
}

/// Log records of one attempt after `after_seq`, oldest first.
pub(super) fn list(conn: &Connection, query: &LogQuery) -> Result<LogPage> {
    let (current, ended) = standing(conn, query.run)?
        .ok_or_else(|| StoreError::NotFound(format!("run {}", query.run)))?;
    let attempt = match query.attempt {
        0 => last_logged(conn, query.run)?.unwrap_or(current.attempt),
        given => given,
    };
    let mut page = LogPage { attempt, through_seq: query.after_seq, ..LogPage::default() };
    let reach = reach(conn, query.run, attempt)?;
    let at_end = read_chunks(conn, query, &mut page, reach.last_seq)?;
    page.dropped = find(
        conn,
        "SELECT coalesce(sum(dropped), 0) FROM log_chunk WHERE run_id = ?1 AND attempt = ?2",
        params![query.run.to_bytes(), attempt],
        |row| row.get(0).map(counted),
    )?
    .unwrap_or(0);
    if let Some(end) = attempt_end(conn, current, attempt, ended)? {
        page.ended_at = Some(at(end.ended_at));
        let all = reach.through(end.fence) >= end.last_log_seq;
        page.complete = at_end && (end.given_up || all);
    }
    Ok(page)
}

/// Reads the chunks after the page's `through_seq`; returns whether the log's end was reached.
fn read_chunks(
    conn: &Connection,
    query: &LogQuery,
    page: &mut LogPage,
    last_seq: u64,
) -> Result<bool> {
    let mut statement = conn.prepare_cached(
        "SELECT records FROM log_chunk
         WHERE run_id = ?1 AND attempt = ?2 AND last_seq > ?3 ORDER BY first_seq LIMIT ?4",
    )?;
    let mut chunks = statement.query(params![
        query.run.to_bytes(),
        page.attempt,
        count(page.through_seq),
        number(LOG_PAGE_CHUNKS_MAX),
    ])?;
    let mut looked_at = 0;
    while let Some(row) = chunks.next()? {
        looked_at += 1;
        let records = log_chunk::decode(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?;
        if !log_chunk::fill_page(page, query, records) {
            return Ok(false);
        }
    }
    if looked_at == LOG_PAGE_CHUNKS_MAX {
        return Ok(false);
    }
    // Records that were dropped for the cap have numbers, too: go on behind them.
    page.through_seq = page.through_seq.max(last_seq);
    Ok(true)
}

/// The run's current attempt, and whether the run has ended; None when it is unknown.
fn standing(conn: &Connection, run: RunId) -> Result<Option<(AttemptRef, bool)>> {
    let sql = "SELECT attempt, fence, 0 FROM open_run WHERE id = ?1
               UNION ALL SELECT attempt, fence, 1 FROM ended_run WHERE id = ?1";
    find(conn, sql, [run.to_bytes()], |row| {
        let (attempt, fence) = (counted32(row.get(0)?), counted(row.get(1)?));
        Ok((AttemptRef { run, attempt, fence }, row.get(2)?))
    })
}

fn last_logged(conn: &Connection, run: RunId) -> Result<Option<u32>> {
    let sql = "SELECT max(attempt) FROM log_chunk WHERE run_id = ?1";
    let last: Option<Option<i64>> = find(conn, sql, [run.to_bytes()], |row| row.get(0))?;
    Ok(last.flatten().map(counted32))
}

/// How an attempt ended.
struct End {
    ended_at: i64,
    last_log_seq: u64,
    /// It did not tell its last number: no result of its own ended it.
    given_up: bool,
    /// Its last dispatch.
    fence: u64,
}

/// None while it goes on, though an executor may have stopped that ran it before.
fn attempt_end(
    conn: &Connection,
    current: AttemptRef,
    attempt: u32,
    ended: bool,
) -> Result<Option<End>> {
    let read = |row: &rusqlite::Row<'_>| {
        let outcome = get_outcome(row, 2)?;
        Ok(End {
            ended_at: row.get(0)?,
            last_log_seq: counted(row.get(1)?),
            given_up: outcome.is_none_or(|outcome| outcome == Outcome::Lost),
            fence: counted(row.get(3)?),
        })
    };
    let run = current.run.to_bytes();
    let past = conn
        .prepare_cached(
            "SELECT ended_at, last_log_seq, outcome, fence FROM attempt
             WHERE run_id = ?1 AND number = ?2 AND (?2 < ?3 OR fence = ?4)
             ORDER BY fence DESC LIMIT 1",
        )?
        .query_row(params![run, attempt, current.attempt, count(current.fence)], read)
        .optional()?;
    if past.is_some() || !ended || attempt > current.attempt {
        return Ok(past);
    }
    let sql = "SELECT ended_at, last_log_seq, outcome, fence FROM ended_run WHERE id = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([run], read).optional()?)
}
