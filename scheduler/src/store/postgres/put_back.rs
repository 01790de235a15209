//! Runs that wait again: for another executor, or for their next attempt.

use chrono::{DateTime, Utc};
use tokio_postgres::types::ToSql;

use super::{
    PostgresStore,
    ends::Ends,
    owner::Refs,
    rows::query,
    runs::{left_in_inbox, set_text},
};
use crate::{
    model::ids::AttemptRef,
    store::{
        Result,
        ops::{AttemptEnd, PutBack, PutBackHow},
    },
};

/// QUEUED again with the same attempt, as if it had not been sent.
const REQUEUE: &str = "WITH back AS (
        UPDATE open_run r SET state = 'QUEUED', due_at = w.due_at, message = w.message,
            dispatched_at = NULL, acked_at = NULL, kill_reason = NULL, kill_at = NULL,
            kill_grace_us = NULL
        FROM unnest($2::uuid[], $3::int[], $4::bigint[], $5::text[], $6::timestamptz[], $7::text[])
            AS w (id, attempt, fence, sources, due_at, message)
        WHERE r.id = ANY(ARRAY[w.id]) AND r.attempt = w.attempt AND r.fence = w.fence
            AND strpos(w.sources, r.state) > 0
        RETURNING r.id, r.attempt, r.fence, r.partition
    ), left_behind AS (
        INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM back
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT $1, array_agg(id) FROM back HAVING count(*) > 0
    )
    SELECT id, attempt, fence, partition FROM back";

/// The ended attempt gets a row of its own, and the run waits: for the next attempt, or to go on
/// with this one. The join reads the row as it was, and the update's guard makes sure that it was
/// still so.
const KEEP: &str = "WITH back AS (
        UPDATE open_run r SET state = CASE WHEN w.goes_on THEN 'QUEUED' ELSE 'RETRY_WAIT' END,
            fence = r.fence + w.goes_on::int, due_at = w.due_at, message = w.message,
            lost = r.lost + w.lost,
            dispatched_at = CASE WHEN w.goes_on THEN NULL ELSE r.dispatched_at END,
            acked_at = CASE WHEN w.goes_on THEN NULL ELSE coalesce(r.acked_at, w.acked_at) END,
            started_at = coalesce(r.started_at, r.acked_at, w.acked_at), kill_reason = NULL,
            kill_at = NULL, kill_grace_us = NULL
        FROM unnest($2::uuid[], $3::int[], $4::bigint[], $5::text[], $6::timestamptz[],
            $7::text[], $8::boolean[], $9::int[], $10::text[], $11::text[], $12::timestamptz[],
            $13::timestamptz[], $14::bigint[], $15::bigint[])
            AS w (id, attempt, fence, sources, due_at, message, goes_on, lost, outcome, failure,
                acked_at, handler_start_at, duration_us, last_log_seq)
        JOIN open_run was ON was.id = ANY(ARRAY[w.id])
        WHERE r.id = ANY(ARRAY[w.id]) AND r.attempt = w.attempt AND r.fence = w.fence
            AND strpos(w.sources, r.state) > 0
        RETURNING r.id, r.attempt, w.fence, r.partition, r.executor, r.session_epoch,
            was.dispatched_at, coalesce(was.acked_at, w.acked_at) AS acked_at, w.outcome,
            w.failure, w.handler_start_at, w.duration_us, w.last_log_seq
    ), kept AS (
        INSERT INTO attempt (run_id, number, fence, executor, session_epoch, outcome, failure,
            dispatched_at, acked_at, handler_start_at, ended_at, duration_us, last_log_seq)
        SELECT id, attempt, fence, executor, session_epoch, outcome, failure::jsonb,
            dispatched_at, acked_at, handler_start_at, $1, duration_us, last_log_seq FROM back
    ), left_behind AS (
        INSERT INTO run_inbox (partition, run_id) SELECT partition, id FROM back
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT $1, array_agg(id) FROM back HAVING count(*) > 0
    )
    SELECT id, attempt, fence, partition FROM back";

pub(super) async fn put_back(
    store: &PostgresStore,
    runs: &[PutBack],
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    let mut sorted: Vec<&PutBack> = runs.iter().collect();
    sorted.sort_by_key(|run| run.attempt.run);
    let mut same = Vec::new();
    let mut kept: Vec<(&PutBack, Kept<'_>)> = Vec::new();
    for run in sorted {
        match &run.how {
            PutBackHow::SameAttempt => same.push(run),
            PutBackHow::Begun { end } => {
                kept.push((run, Kept { end, goes_on: true, lost: false }));
            }
            PutBackHow::NextAttempt { end, lost } => {
                kept.push((run, Kept { end, goes_on: false, lost: *lost }));
            }
        }
    }
    let client = store.hot().await?;
    let mut changed = Vec::new();
    if !same.is_empty() {
        let waits = Waits::of(&same);
        changed.extend(query(&client, REQUEUE, &waits.params(&now)).await?);
    }
    if !kept.is_empty() {
        let (runs, kept): (Vec<&PutBack>, Vec<Kept<'_>>) = kept.into_iter().unzip();
        let waits = Waits::of(&runs);
        let ends = Ends::of(kept.iter().map(|kept| kept.end))?;
        let goes_on: Vec<bool> = kept.iter().map(|kept| kept.goes_on).collect();
        let lost: Vec<i32> = kept.iter().map(|kept| i32::from(kept.lost)).collect();
        let mut params: Vec<&(dyn ToSql + Sync)> = waits.params(&now).to_vec();
        params.extend([&goes_on as &(dyn ToSql + Sync), &lost, &ends.outcomes, &ends.failures]);
        params.extend([&ends.acked as &(dyn ToSql + Sync), &ends.started, &ends.durations]);
        params.push(&ends.log_seqs);
        changed.extend(query(&client, KEEP, &params).await?);
    }
    left_in_inbox(store, &changed)
}

/// An attempt that had begun, as it is kept.
struct Kept<'a> {
    end: &'a AttemptEnd,
    /// The same attempt waits for another executor.
    goes_on: bool,
    lost: bool,
}

/// Runs that wait again, column by column.
#[derive(Default)]
struct Waits<'a> {
    refs: Refs,
    sources: Vec<String>,
    dues: Vec<DateTime<Utc>>,
    messages: Vec<&'a str>,
}

impl<'a> Waits<'a> {
    fn of(runs: &[&'a PutBack]) -> Self {
        Self {
            refs: Refs::of(runs.iter().map(|run| run.attempt)),
            sources: runs.iter().map(|run| set_text(run.from)).collect(),
            dues: runs.iter().map(|run| run.due_at).collect(),
            messages: runs.iter().map(|run| run.message.as_str()).collect(),
        }
    }

    fn params<'b>(&'b self, now: &'b DateTime<Utc>) -> [&'b (dyn ToSql + Sync); 7] {
        [
            now,
            &self.refs.ids,
            &self.refs.attempts,
            &self.refs.fences,
            &self.sources,
            &self.dues,
            &self.messages,
        ]
    }
}
