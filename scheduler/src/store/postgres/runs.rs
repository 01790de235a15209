//! Changes of runs by results and by hand: batches on pooled connections, guarded by state and
//! fence. Rows are sorted by id, so that two batches never wait for each other in a ring.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    ends::{Ends, Tellers, outcome_text},
    owner::Refs,
    rows::{Reader, attempt_ref, execute, micros, query, query_one, sparse},
};
use crate::{
    model::ids::{AttemptRef, JobId, PartitionId, RunId},
    store::{
        Result, StoreError, Topic,
        ops::{Ack, EndAnswer, EndRun, LateResult, MarkCanceling, StateSet},
    },
};

/// A set of states as one text: no state's name is part of another's.
pub(super) fn set_text(states: StateSet) -> String {
    let names: Vec<&str> = states.0.iter().map(|state| state.as_str()).collect();
    names.join(",")
}

const ACK: &str = "WITH acked AS (
        UPDATE open_run r SET state = 'RUNNING', acked_at = w.at,
            started_at = coalesce(r.started_at, w.at)
        FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::timestamptz[], $5::bigint[],
            $6::text[]) AS w (id, attempt, fence, at, app_id, executor)
        WHERE r.id = ANY(ARRAY[w.id]) AND r.state = 'DISPATCHED' AND r.attempt = w.attempt
            AND r.fence = w.fence AND r.app_id = w.app_id AND r.executor = w.executor
        RETURNING r.id, r.attempt, r.fence, w.at
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT max(at), array_agg(id) FROM acked
        HAVING count(*) > 0
    )
    SELECT id, attempt, fence FROM acked";

pub(super) async fn ack_runs(store: &PostgresStore, acks: &[Ack]) -> Result<Vec<AttemptRef>> {
    let mut acks: Vec<&Ack> = acks.iter().collect();
    acks.sort_unstable_by_key(|ack| ack.attempt.run);
    let refs = Refs::of(acks.iter().map(|ack| ack.attempt));
    let times: Vec<DateTime<Utc>> = acks.iter().map(|ack| ack.at).collect();
    let by = Tellers::of(acks.iter().map(|ack| &ack.by));
    let params: [&(dyn ToSql + Sync); 6] =
        [&refs.ids, &refs.attempts, &refs.fences, &times, &by.apps, &by.names];
    let acked = query(&store.hot().await?, ACK, &params).await?;
    told(store, &acked);
    acked.iter().map(attempt_ref).collect()
}

/// The row is deleted where it is open and inserted where it has ended, in one statement: no
/// moment shows it in both or in neither. Where nobody tells of progress, none is looked for. Who
/// waits for an end, by the run's own word or by a wish for its state, gets an event; most ends
/// have none, and the wishes are read once for all rows. What has ended is told in one row of two
/// lists: each row of an answer is made, sent and read apart.
///
/// Lists that are unnested one by one, side by side, are read as they are; together, as a table, each is
/// copied first, which for so many columns took a microsecond of a run.
const END: &str = "WITH want AS (
        SELECT unnest($2::uuid[]) AS id, unnest($3::int[]) AS attempt, unnest($4::bigint[]) AS fence,
            unnest($5::text[]) AS sources, unnest($6::int[]) AS place, unnest($7::text[]) AS state,
            unnest($8::text[]) AS outcome, unnest($9::text[]) AS failure,
            unnest($10::timestamptz[]) AS acked_at, unnest($11::timestamptz[]) AS handler_start_at,
            unnest($12::bigint[]) AS duration_us, unnest($13::bigint[]) AS last_log_seq,
            unnest($14::text[]) AS output_type, unnest($15::bytea[]) AS output,
            unnest($16::boolean[]) AS output_truncated, unnest($17::text[]) AS message,
            unnest($18::bigint[]) AS by_app, unnest($19::text[]) AS by_executor,
            unnest($20::boolean[]) AS missed
    ), gone AS (
        DELETE FROM open_run r USING want w
        WHERE r.id = ANY(ARRAY[w.id]) AND r.attempt = w.attempt AND r.fence = w.fence
            AND strpos(w.sources, r.state) > 0
            AND (w.by_app IS NULL OR r.app_id = w.by_app AND r.executor = w.by_executor)
        RETURNING r.id, r.job_id, r.app_id, r.revision, r.trigger, w.state, r.fire_at, r.due_at,
            r.created_at, r.attempt, r.fence, r.lost, r.executor, r.session_epoch,
            r.dispatched_at, coalesce(r.acked_at, w.acked_at) AS acked_at,
            coalesce(r.started_at, w.acked_at) AS started_at, w.outcome, w.failure,
            w.handler_start_at, w.duration_us, w.last_log_seq, w.output_type, w.output,
            w.output_truncated, r.kill_reason, w.message, r.extra, w.place, w.missed
    ), progress AS (
        DELETE FROM run_progress p USING gone g
        WHERE p.run_id = ANY(ARRAY[g.id]) AND EXISTS (SELECT FROM run_progress)
        RETURNING p.run_id, p.fraction, p.message
    ), ended AS (
        INSERT INTO ended_run (id, job_id, app_id, revision, trigger, state, fire_at, due_at,
            created_at, attempt, fence, lost, executor, session_epoch, dispatched_at, acked_at,
            started_at, ended_at, outcome, failure, handler_start_at, duration_us, last_log_seq,
            output_type, output, output_truncated, kill_reason, message, extra, progress,
            progress_message, missed_count, missed_until)
        SELECT g.id, g.job_id, g.app_id, g.revision, g.trigger, g.state, g.fire_at,
            nullif(g.due_at, g.fire_at), g.created_at, g.attempt, g.fence, nullif(g.lost, 0),
            g.executor, g.session_epoch, g.dispatched_at, nullif(g.acked_at, g.started_at),
            g.started_at, $1, g.outcome, g.failure::jsonb, g.handler_start_at, g.duration_us,
            nullif(g.last_log_seq, 0), g.output_type, g.output, nullif(g.output_truncated, false),
            g.kill_reason, nullif(g.message, ''), g.extra, p.fraction, nullif(p.message, ''),
            CASE WHEN g.missed THEN 1 END, CASE WHEN g.missed THEN g.fire_at END
        FROM gone g LEFT JOIN progress p ON p.run_id = g.id
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT $1, ARRAY(SELECT id FROM gone)
        WHERE EXISTS (SELECT FROM gone)
    ), followed AS (
        INSERT INTO end_event (run_id, job_id, app_id, revision, trigger, state, fire_at, ended_at,
            extra)
        SELECT g.id, g.job_id, g.app_id, g.revision, g.trigger, g.state, g.fire_at, $1,
            g.extra - 'params'
        FROM gone g
        WHERE g.state = ANY(ARRAY(SELECT state FROM end_wish))
            OR (g.extra ->> 'follow')::int & CASE g.state WHEN 'SUCCEEDED' THEN 3
                WHEN 'FAILED' THEN 5 WHEN 'TIMED_OUT' THEN 5 WHEN 'LOST' THEN 5 ELSE 1 END <> 0
        RETURNING seq
    )
    SELECT coalesce(array_agg(place), '{}'), coalesce(array_agg(job_id), '{}'),
        EXISTS (SELECT FROM followed) FROM gone";

/// Where [`END`] stops inserting, and how it goes on when that met a row: the usual way without
/// ON CONFLICT saves a log record per row.
const END_INSERTED: &str = "ON p.run_id = g.id";
const END_UNLESS_THERE: &str = "ON p.run_id = g.id ON CONFLICT (id) DO NOTHING";

/// [`END`] for where a row may have ended before, whose first end stays.
pub(super) fn end_unless_there() -> String {
    END.replace(END_INSERTED, END_UNLESS_THERE)
}

/// What [`END`] did.
pub(super) struct Ended {
    /// Where in the batch each ended run stood, and in the same order its job.
    runs: Vec<(usize, JobId)>,
    /// Whether somebody waits for one of the ends.
    followed: bool,
}

/// Ends runs by [`END`].
pub(super) async fn write_ends(
    client: &impl GenericClient,
    sql: &str,
    ends: &[EndRun],
    now: DateTime<Utc>,
) -> Result<Ended> {
    let columns = RunEnds::of(ends)?;
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&now];
    params.extend(columns.params());
    let row = query_one(client, sql, &params).await?;
    let mut row = Reader::new(&row);
    let places = row.get::<Vec<i32>>()?.into_iter();
    let places = places.map(|place| usize::try_from(place).unwrap_or(usize::MAX));
    let jobs = row.get::<Vec<i64>>()?.into_iter().map(JobId);
    Ok(Ended { runs: places.zip(jobs).collect(), followed: row.get()? })
}

pub(super) async fn end_runs(
    store: &PostgresStore,
    ends: &[EndRun],
    now: DateTime<Utc>,
) -> Result<Vec<EndAnswer>> {
    let client = store.hot().await?;
    let ended = match write_ends(&client, END, ends, now).await {
        // A row in both tables should not be; but it must not keep the whole batch from ending.
        Err(StoreError::AlreadyExists(row)) => {
            tracing::error!(%row, "a run that goes on has ended before; its first end stays");
            write_ends(&client, &end_unless_there(), ends, now).await?
        }
        ended => ended?,
    };
    if !ended.runs.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
    if ended.followed {
        store.hints.tell(Topic::Ends);
    }
    let mut answers = vec![EndAnswer::Stale; ends.len()];
    for (place, job) in ended.runs {
        if let Some(answer) = answers.get_mut(place) {
            *answer = EndAnswer::Ended(job);
        }
    }
    let left: Vec<(usize, &EndRun)> = std::iter::zip(&answers, ends)
        .enumerate()
        .filter(|(_, (answer, _))| **answer == EndAnswer::Stale)
        .map(|(place, (_, end))| (place, end))
        .collect();
    if left.is_empty() {
        return Ok(answers);
    }
    // A statement of its own: it sees what another batch committed while this one waited for it.
    drop(client);
    for place in own_ends(store, &left).await? {
        if let Some(answer) = answers.get_mut(place) {
            *answer = EndAnswer::Duplicate;
        }
    }
    Ok(answers)
}

/// Which of the attempts ended by a result of their own, at that executor; their places. One that
/// was given up (lost) or never ran did not: its result comes too late. Of a run that was canceled
/// in RETRY_WAIT both rows speak of the attempt, and the attempt's own says how it ended.
async fn own_ends(store: &PostgresStore, ends: &[(usize, &EndRun)]) -> Result<Vec<usize>> {
    let sql = "SELECT w.place FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::int[],
            $5::bigint[], $6::text[]) AS w (id, attempt, fence, place, by_app, by_executor)
        WHERE EXISTS (SELECT FROM ended_run e WHERE e.id = w.id AND e.attempt = w.attempt
                AND e.fence = w.fence AND e.outcome <> 'LOST'
                AND (w.by_app IS NULL OR e.app_id = w.by_app AND e.executor = w.by_executor))
            OR EXISTS (SELECT FROM attempt a WHERE a.run_id = w.id AND a.number = w.attempt
                AND a.fence = w.fence AND a.outcome <> 'LOST'
                AND (w.by_app IS NULL OR a.executor = w.by_executor AND w.by_app IN (
                    SELECT app_id FROM open_run WHERE id = w.id
                    UNION ALL SELECT app_id FROM ended_run WHERE id = w.id)))";
    let refs = Refs::of(ends.iter().map(|(_, end)| end.attempt));
    let places: Vec<i32> =
        ends.iter().map(|(place, _)| i32::try_from(*place).unwrap_or(i32::MAX)).collect();
    let mut by = Tellers::default();
    ends.iter().for_each(|(_, end)| by.push(end.end.by.as_ref()));
    let params: [&(dyn ToSql + Sync); 6] =
        [&refs.ids, &refs.attempts, &refs.fences, &places, &by.apps, &by.names];
    let known = query(&store.client().await?, sql, &params).await?;
    let place = |row: &Row| -> Result<usize> {
        Ok(usize::try_from(Reader::new(row).small()?).unwrap_or(usize::MAX))
    };
    known.iter().map(place).collect()
}

/// Ends of runs, column by column and sorted by id.
#[derive(Default)]
struct RunEnds<'a> {
    refs: Refs,
    sources: Vec<String>,
    places: Vec<i32>,
    states: Vec<&'static str>,
    ends: Ends<'a>,
    output_types: Vec<Option<&'a str>>,
    outputs: Vec<Option<&'a [u8]>>,
    truncated: Vec<Option<bool>>,
    messages: Vec<Option<&'a str>>,
    missed: Vec<Option<bool>>,
}

impl<'a> RunEnds<'a> {
    fn of(ends: &'a [EndRun]) -> Result<Self> {
        let mut sorted: Vec<(usize, &EndRun)> = ends.iter().enumerate().collect();
        sorted.sort_by_key(|(_, end)| end.attempt.run);
        let mut columns = Self {
            refs: Refs::of(sorted.iter().map(|(_, end)| end.attempt)),
            ends: Ends::of(sorted.iter().map(|(_, end)| &end.end))?,
            ..Self::default()
        };
        for (place, end) in sorted {
            columns.sources.push(set_text(end.from));
            columns.places.push(i32::try_from(place).unwrap_or(i32::MAX));
            columns.states.push(end.to.as_str());
            columns.output_types.push(end.output.as_ref().map(|o| o.content_type.as_str()));
            columns.outputs.push(end.output.as_ref().map(|o| &*o.data));
            columns.truncated.push(end.output_truncated.then_some(true));
            columns.messages.push((!end.message.is_empty()).then_some(&end.message));
            columns.missed.push(end.missed.then_some(true));
        }
        columns.ends.failures = sparse(columns.ends.failures);
        columns.output_types = sparse(columns.output_types);
        columns.outputs = sparse(columns.outputs);
        columns.truncated = sparse(columns.truncated);
        columns.messages = sparse(columns.messages);
        columns.missed = sparse(columns.missed);
        Ok(columns)
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 19] {
        [
            &self.refs.ids,
            &self.refs.attempts,
            &self.refs.fences,
            &self.sources,
            &self.places,
            &self.states,
            &self.ends.outcomes,
            &self.ends.failures,
            &self.ends.acked,
            &self.ends.started,
            &self.ends.durations,
            &self.ends.log_seqs,
            &self.output_types,
            &self.outputs,
            &self.truncated,
            &self.messages,
            &self.ends.by.apps,
            &self.ends.by.names,
            &self.missed,
        ]
    }
}

const CANCEL: &str = "WITH marked AS (
        UPDATE open_run r SET kill_reason = w.reason, kill_at = $1, kill_grace_us = w.grace_us,
            message = w.message,
            state = CASE WHEN (r.extra ->> 'follow')::int & 8 <> 0 THEN r.state ELSE 'CANCELING' END
        FROM unnest($2::uuid[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
            $8::text[]) AS w (id, attempt, fence, sources, reason, grace_us, message)
        WHERE r.id = ANY(ARRAY[w.id]) AND r.attempt = w.attempt AND r.fence = w.fence
            AND strpos(w.sources, r.state) > 0
        RETURNING r.id, r.attempt, r.fence, r.partition
    ), left_behind AS (
        INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM marked
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT $1, array_agg(id) FROM marked
        HAVING count(*) > 0
    )
    SELECT id, attempt, fence, partition FROM marked";

pub(super) async fn mark_canceling(
    store: &PostgresStore,
    kills: &[MarkCanceling],
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    let mut kills: Vec<&MarkCanceling> = kills.iter().collect();
    kills.sort_by_key(|kill| kill.attempt.run);
    let refs = Refs::of(kills.iter().map(|kill| kill.attempt));
    let sources: Vec<String> = kills.iter().map(|kill| set_text(kill.from)).collect();
    let reasons: Vec<&str> = kills.iter().map(|kill| kill.reason.as_str()).collect();
    let graces: Vec<Option<i64>> = kills.iter().map(|kill| kill.grace.map(micros)).collect();
    let messages: Vec<&str> = kills.iter().map(|kill| kill.message.as_str()).collect();
    let params: [&(dyn ToSql + Sync); 8] =
        [&now, &refs.ids, &refs.attempts, &refs.fences, &sources, &reasons, &graces, &messages];
    left_in_inbox(store, &query(&store.hot().await?, CANCEL, &params).await?)
}

/// Reads id, attempt, fence and partition, and tells the owners and watchers.
pub(super) fn left_in_inbox(store: &PostgresStore, changed: &[Row]) -> Result<Vec<AttemptRef>> {
    let mut partitions = HashSet::new();
    for row in changed {
        let id: i16 = row.try_get(3).map_err(super::error::db)?;
        partitions.insert(PartitionId(id.unsigned_abs()));
    }
    for partition in partitions {
        store.hints.tell(Topic::Inbox(partition));
    }
    told(store, changed);
    changed.iter().map(attempt_ref).collect()
}

/// Tells watchers if anything changed.
fn told(store: &PostgresStore, changed: &[Row]) {
    if !changed.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
}

pub(super) async fn explain_waiting(store: &PostgresStore, runs: &[(RunId, String)]) -> Result<()> {
    let sql = "WITH explained AS (
            UPDATE open_run r SET message = w.message
            FROM unnest($1::uuid[], $2::text[]) AS w (id, message)
            WHERE r.id = ANY(ARRAY[w.id]) AND r.state = 'QUEUED' AND r.message <> w.message
            RETURNING r.id
        )
        INSERT INTO run_event (at, changed) SELECT now(), array_agg(id) FROM explained
        HAVING count(*) > 0";
    let words: HashMap<RunId, &str> = runs.iter().map(|(id, why)| (*id, why.as_str())).collect();
    let mut words: Vec<(RunId, &str)> = words.into_iter().collect();
    words.sort_unstable();
    let (ids, words): (Vec<Uuid>, Vec<&str>) =
        words.into_iter().map(|(id, why)| (id.to_uuid(), why)).unzip();
    if execute(&store.hot().await?, sql, &[&ids, &words]).await? > 0 {
        store.hints.tell(Topic::RunEvents);
    }
    Ok(())
}

/// Of an attempt that went to another executor since, or under a fence it never had, nothing is
/// kept: the result is not its own. Of several dispatches to one executor it is of the first that
/// is not before its fence; the one of the ended row is the last of all.
pub(super) async fn record_late(store: &PostgresStore, late: &[LateResult]) -> Result<()> {
    let sql = "WITH want AS (
            SELECT w.*, (SELECT min(a.fence) FROM attempt a
                WHERE a.run_id = w.id AND a.number = w.attempt AND a.fence >= w.fence
                    AND a.executor = w.by_executor) AS past
            FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::text[], $5::bigint[],
                $6::text[]) AS w (id, attempt, fence, outcome, by_app, by_executor)
        ), past AS (
            UPDATE attempt a SET late_outcome = w.outcome FROM want w
            WHERE a.run_id = w.id AND a.number = w.attempt AND a.fence = w.past
                AND w.by_app IN (
                    SELECT app_id FROM open_run WHERE id = w.id
                    UNION ALL SELECT app_id FROM ended_run WHERE id = w.id)
            RETURNING w.id
        ), last AS (
            UPDATE ended_run e SET late_outcome = w.outcome FROM want w
            WHERE e.id = w.id AND e.attempt = w.attempt AND e.fence >= w.fence
                AND w.past IS NULL AND e.app_id = w.by_app AND e.executor = w.by_executor
            RETURNING w.id
        ), noted AS (SELECT id FROM past UNION SELECT id FROM last)
        INSERT INTO run_event (at, changed) SELECT now(), array_agg(id) FROM noted
        HAVING count(*) > 0";
    let mut late: Vec<&LateResult> = late.iter().collect();
    late.sort_by_key(|late| (late.attempt.run, late.attempt.attempt));
    let refs = Refs::of(late.iter().map(|late| late.attempt));
    let outcomes: Vec<&str> = late.iter().map(|late| outcome_text(late.outcome)).collect();
    let by = Tellers::of(late.iter().map(|late| &late.by));
    let params: [&(dyn ToSql + Sync); 6] =
        [&refs.ids, &refs.attempts, &refs.fences, &outcomes, &by.apps, &by.names];
    if execute(&store.client().await?, sql, &params).await? > 0 {
        store.hints.tell(Topic::RunEvents);
    }
    Ok(())
}
