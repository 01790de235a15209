//! Progress, checkpoints and logs of attempts.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore,
    ends::parse_outcome,
    owner::Refs,
    requests::{begin, commit},
    rows::{Reader, big, execute, int, query, query_opt, uuids},
};
use crate::{
    model::{Payload, ids::RunId, run::Outcome},
    store::{
        Result, StoreError, Topic,
        log_chunk::{self, CHUNK_DROPPED_MAX, LOG_PAGE_CHUNKS_MAX, NewChunk, Reach, Step},
        ops::{LogAppend, LogPage, LogQuery, ProgressRow},
    },
};

/// Chunks of a log that are read in one statement: a few megabytes at most.
const CHUNKS_PER_READ: usize = 64;

pub(super) async fn save_progress(store: &PostgresStore, progress: &[ProgressRow]) -> Result<()> {
    let sql = "WITH kept AS (
            INSERT INTO run_progress AS p (run_id, attempt, fraction, message, checkpoint_type,
                checkpoint)
            SELECT w.id, w.attempt, w.fraction, w.message, w.checkpoint_type, w.checkpoint
            FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::real[], $5::text[], $6::text[],
                $7::bytea[]) AS w (id, attempt, fence, fraction, message, checkpoint_type,
                checkpoint)
            JOIN open_run r ON r.id = ANY(ARRAY[w.id]) AND r.attempt = w.attempt AND r.fence = w.fence
            ON CONFLICT (run_id) DO UPDATE SET attempt = excluded.attempt,
                fraction = excluded.fraction, message = excluded.message,
                checkpoint_type = coalesce(excluded.checkpoint_type, p.checkpoint_type),
                checkpoint = CASE WHEN excluded.checkpoint_type IS NULL THEN p.checkpoint
                    ELSE excluded.checkpoint END
            RETURNING run_id
        )
        INSERT INTO run_event (at, changed) SELECT now(), array_agg(run_id) FROM kept
        HAVING count(*) > 0";
    let newest = newest(progress);
    let refs = Refs::of(newest.iter().map(|row| row.attempt));
    let fractions: Vec<Option<f32>> = newest.iter().map(|row| row.fraction).collect();
    let messages: Vec<&str> = newest.iter().map(|row| row.message.as_str()).collect();
    let checkpoints: Vec<Option<&Payload>> =
        newest.iter().map(|row| row.checkpoint.as_ref()).collect();
    let types: Vec<Option<&str>> =
        checkpoints.iter().map(|payload| payload.map(|p| p.content_type.as_str())).collect();
    let bytes: Vec<Option<&[u8]>> =
        checkpoints.iter().map(|payload| payload.map(|p| &*p.data)).collect();
    let params: [&(dyn ToSql + Sync); 7] =
        [&refs.ids, &refs.attempts, &refs.fences, &fractions, &messages, &types, &bytes];
    if execute(&store.hot().await?, sql, &params).await? > 0 {
        store.hints.tell(Topic::RunEvents);
    }
    Ok(())
}

/// One row per run, sorted by id: a statement may write each but once. The last word counts, and a
/// checkpoint outlives a later word without one.
fn newest(progress: &[ProgressRow]) -> Vec<ProgressRow> {
    let mut newest: HashMap<RunId, ProgressRow> = HashMap::new();
    for row in progress {
        let mut row = row.clone();
        if let Some(earlier) = newest.remove(&row.attempt.run) {
            row.checkpoint = row.checkpoint.or(earlier.checkpoint);
        }
        newest.insert(row.attempt.run, row);
    }
    let mut rows: Vec<ProgressRow> = newest.into_values().collect();
    rows.sort_unstable_by_key(|row| row.attempt.run);
    rows
}

pub(super) async fn load_checkpoints(
    store: &PostgresStore,
    runs: &[RunId],
) -> Result<Vec<(RunId, Payload)>> {
    let sql = "SELECT p.run_id, p.checkpoint_type, p.checkpoint FROM unnest($1::uuid[]) AS w (id)
        JOIN run_progress p ON p.run_id = ANY(ARRAY[w.id]) WHERE p.checkpoint_type IS NOT NULL";
    let mut found = Vec::new();
    for row in query(&store.hot().await?, sql, &[&uuids(runs)]).await? {
        let mut row = Reader::new(&row);
        let run = row.run()?;
        found.extend(row.payload()?.map(|payload| (run, payload)));
    }
    Ok(found)
}

type Key = (Uuid, i32);

async fn reaches(client: &impl GenericClient, keys: &[Key]) -> Result<HashMap<Key, Reach>> {
    let sql = "SELECT w.run_id, w.attempt, c.first_seq, c.last_seq, c.bytes, c.fence, c.base
        FROM unnest($1::uuid[], $2::int[]) AS w (run_id, attempt) CROSS JOIN LATERAL (
            SELECT first_seq, last_seq, bytes, fence, base FROM log_chunk l
            WHERE l.run_id = w.run_id AND l.attempt = w.attempt ORDER BY first_seq DESC LIMIT 1
        ) AS c";
    let (runs, attempts): (Vec<Uuid>, Vec<i32>) = keys.iter().copied().unzip();
    let mut reaches = HashMap::new();
    for row in query(client, sql, &[&runs, &attempts]).await? {
        let mut row = Reader::new(&row);
        let key = (row.get()?, row.get()?);
        let reach = Reach {
            last_chunk: Some(row.number()?),
            last_seq: row.number()?,
            bytes: row.number()?,
            fence: row.number()?,
            base: row.number()?,
        };
        reaches.insert(key, reach);
    }
    Ok(reaches)
}

/// Chunks of one attempt come one after the other: a lock per attempt, taken in order, keeps two
/// batches of a session that moved between nodes from storing a record twice.
pub(super) async fn append_logs(
    store: &PostgresStore,
    chunks: &[LogAppend],
    now: DateTime<Utc>,
) -> Result<Vec<u64>> {
    let mut keys: Vec<Key> = chunks.iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut client = store.hot().await?;
    let tx = begin(&mut client).await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended(w.run_id::text, w.attempt))
        FROM unnest($1::uuid[], $2::int[]) AS w (run_id, attempt)";
    let (runs, attempts): (Vec<Uuid>, Vec<i32>) = keys.iter().copied().unzip();
    query(&tx, lock, &[&runs, &attempts]).await?;
    let mut reaches = reaches(&tx, &keys).await?;
    let mut inserts = Inserts::default();
    let mut through = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let reach = reaches.entry(key(chunk)).or_default();
        inserts.add(key(chunk), reach.add(chunk, now)?);
        through.push(reach.through(chunk.attempt.fence));
    }
    inserts.store(&tx, now).await?;
    commit(tx).await?;
    for chunk in chunks {
        store.hints.tell(Topic::Logs(chunk.attempt.run));
    }
    Ok(through)
}

fn key(chunk: &LogAppend) -> Key {
    (chunk.attempt.run.to_uuid(), int(chunk.attempt.attempt))
}

/// Chunks to store, and counts that go to chunks already stored.
#[derive(Default)]
struct Inserts {
    rows: Vec<(Key, NewChunk)>,
    /// (attempt, first number of its last chunk) → (last number, dropped more).
    counts: HashMap<(Key, u64), (u64, u64)>,
}

impl Inserts {
    fn add(&mut self, key: Key, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Count { first_seq, last_seq, dropped } => {
                self.count(key, first_seq, last_seq, dropped);
            }
            Step::Insert(chunk) => self.rows.push((key, chunk)),
        }
    }

    fn count(&mut self, key: Key, first_seq: u64, last_seq: u64, dropped: u64) {
        let new = self.rows.iter_mut().find(|(of, row)| *of == key && row.first_seq == first_seq);
        if let Some((_, row)) = new {
            row.last_seq = last_seq;
            row.dropped = (row.dropped + dropped).min(CHUNK_DROPPED_MAX);
            return;
        }
        let count = self.counts.entry((key, first_seq)).or_default();
        *count = (last_seq, (count.1 + dropped).min(CHUNK_DROPPED_MAX));
    }

    async fn store(&self, client: &impl GenericClient, now: DateTime<Utc>) -> Result<()> {
        if !self.rows.is_empty() {
            let sql = "INSERT INTO log_chunk (run_id, attempt, first_seq, last_seq, record_count,
                    dropped, bytes, fence, base, records, stored_at)
                SELECT w.*, $11 FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::bigint[],
                    $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                    $10::bytea[]) AS w";
            let (runs, attempts): (Vec<Uuid>, Vec<i32>) = self.rows.iter().map(|row| row.0).unzip();
            let column = |get: fn(&NewChunk) -> u64| {
                self.rows.iter().map(|(_, row)| big(get(row))).collect::<Vec<i64>>()
            };
            let records: Vec<&[u8]> =
                self.rows.iter().map(|(_, row)| row.records.as_slice()).collect();
            let params: [&(dyn ToSql + Sync); 11] = [
                &runs,
                &attempts,
                &column(|row| row.first_seq),
                &column(|row| row.last_seq),
                &column(|row| row.count),
                &column(|row| row.dropped),
                &column(|row| row.bytes),
                &column(|row| row.fence),
                &column(|row| row.base),
                &records,
                &now,
            ];
            execute(client, sql, &params).await?;
        }
        for (((run, attempt), first_seq), (last_seq, dropped)) in &self.counts {
            let sql = "UPDATE log_chunk SET last_seq = $4, dropped = least(dropped + $5, $6)
                WHERE run_id = $1 AND attempt = $2 AND first_seq = $3";
            let (first_seq, last_seq, dropped) = (big(*first_seq), big(*last_seq), big(*dropped));
            let max = big(CHUNK_DROPPED_MAX);
            execute(client, sql, &[run, attempt, &first_seq, &last_seq, &dropped, &max]).await?;
        }
        Ok(())
    }
}

/// How a log stands: which attempt is meant, and how that ended.
struct Standing {
    attempt: i32,
    /// Its last dispatch.
    fence: u64,
    ended_at: Option<DateTime<Utc>>,
    /// Number of the last record, as the attempt's own result told it; None when it ended without.
    last_log_seq: Option<u64>,
    dropped: u64,
}

pub(super) async fn list_logs(store: &PostgresStore, asked: &LogQuery) -> Result<LogPage> {
    let client = store.client().await?;
    // The end is read before the records: what it promises is stored by then.
    let standing = standing(&client, asked).await?;
    let (run, attempt) = (asked.run.to_uuid(), standing.attempt);
    let mut page = LogPage {
        attempt: attempt.unsigned_abs(),
        through_seq: asked.after_seq,
        dropped: standing.dropped,
        ended_at: standing.ended_at,
        ..LogPage::default()
    };
    let reaches = reaches(&client, &[(run, attempt)]).await?;
    let reach = reaches.get(&(run, attempt)).copied().unwrap_or_default();
    let at_end = read_chunks(&client, run, asked, &mut page).await?;
    if at_end {
        // Records that were dropped for the cap have numbers, too: go on behind them.
        page.through_seq = page.through_seq.max(reach.last_seq);
    }
    page.complete = at_end
        && page.ended_at.is_some()
        && standing.last_log_seq.is_none_or(|last| reach.through(standing.fence) >= last);
    Ok(page)
}

/// Reads the chunks after what was asked for, a few at a time; returns whether the log's end was
/// reached.
async fn read_chunks(
    client: &impl GenericClient,
    run: Uuid,
    asked: &LogQuery,
    page: &mut LogPage,
) -> Result<bool> {
    let sql = "SELECT first_seq, records FROM log_chunk
        WHERE run_id = $1 AND attempt = $2 AND last_seq > $3 AND first_seq > $4
        ORDER BY first_seq LIMIT $5";
    let attempt = i32::try_from(page.attempt).unwrap_or(i32::MAX);
    let step = i64::try_from(CHUNKS_PER_READ).unwrap_or(i64::MAX);
    let mut last_chunk = -1_i64;
    for _ in 0..LOG_PAGE_CHUNKS_MAX / CHUNKS_PER_READ {
        let params: [&(dyn ToSql + Sync); 5] =
            [&run, &attempt, &big(asked.after_seq), &last_chunk, &step];
        let chunks = query(client, sql, &params).await?;
        for row in &chunks {
            let mut row = Reader::new(row);
            last_chunk = row.get()?;
            let records = log_chunk::decode(row.get()?)?;
            if !log_chunk::fill_page(page, asked, records) {
                return Ok(false);
            }
        }
        if chunks.len() < CHUNKS_PER_READ {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An attempt goes on though an executor that ran it has stopped: only its last dispatch ends it.
async fn standing(client: &impl GenericClient, asked: &LogQuery) -> Result<Standing> {
    let sql = "WITH run AS (
            SELECT attempt, fence, NULL::timestamptz AS ended_at, 0::bigint AS last_log_seq,
                NULL::text AS outcome FROM open_run WHERE id = $1
            UNION ALL
            SELECT attempt, fence, ended_at, coalesce(last_log_seq, 0), outcome
            FROM ended_run WHERE id = $1
        ), chosen AS (
            SELECT CASE WHEN $2 > 0 THEN $2
                ELSE coalesce((SELECT max(attempt) FROM log_chunk WHERE run_id = $1), run.attempt)
                END AS number
            FROM run
        )
        SELECT c.number, coalesce(a.fence, r.fence, 0), coalesce(a.ended_at, r.ended_at),
            coalesce(a.last_log_seq, r.last_log_seq),
            CASE WHEN a.run_id IS NULL THEN r.outcome ELSE a.outcome END,
            (SELECT coalesce(sum(dropped), 0)::bigint FROM log_chunk
                WHERE run_id = $1 AND attempt = c.number)
        FROM chosen c LEFT JOIN run r ON r.attempt >= c.number LEFT JOIN LATERAL (
            SELECT * FROM attempt WHERE run_id = $1 AND number = c.number
                AND (number < r.attempt OR fence = r.fence)
            ORDER BY fence DESC LIMIT 1
        ) a ON true";
    let found = query_opt(client, sql, &[&asked.run.to_uuid(), &int(asked.attempt)]).await?;
    let row = found.ok_or_else(|| StoreError::NotFound(format!("run {}", asked.run)))?;
    let mut row = Reader::new(&row);
    let attempt = row.get()?;
    let fence = row.number()?;
    let ended_at = row.get()?;
    let last: Option<i64> = row.get()?;
    let outcome = row.word_opt(parse_outcome)?;
    let told = outcome.is_some_and(|outcome| outcome != Outcome::Lost);
    Ok(Standing {
        attempt,
        fence,
        ended_at,
        last_log_seq: last.filter(|_| told).map(i64::unsigned_abs),
        dropped: row.number()?,
    })
}
