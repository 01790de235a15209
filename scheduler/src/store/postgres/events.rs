//! Counts of open runs, and the log of what changed.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{
    PostgresStore,
    rows::{Reader, query, query_one},
};
use crate::{
    model::ids::RunId,
    store::{
        Result, StoreError,
        ops::{EventCursor, OpenCounts, RunEvents},
    },
};

pub(super) async fn count_open(store: &PostgresStore, now: DateTime<Utc>) -> Result<OpenCounts> {
    let sql = "SELECT count(*) FILTER (WHERE state = 'QUEUED' AND due_at <= $1),
            count(*) FILTER (WHERE state = 'QUEUED' AND due_at > $1),
            count(*) FILTER (WHERE state IN ('DISPATCHED', 'RUNNING', 'CANCELING')),
            count(*) FILTER (WHERE state = 'RETRY_WAIT'),
            min(due_at) FILTER (WHERE state = 'QUEUED' AND due_at <= $1)
        FROM open_run";
    let row = query_one(&store.client().await?, sql, &[&now]).await?;
    let mut row = Reader::new(&row);
    Ok(OpenCounts {
        queued: row.number()?,
        scheduled: row.number()?,
        running: row.number()?,
        retry_wait: row.number()?,
        oldest_due: row.get()?,
    })
}

/// Rows are ordered by the transaction that wrote them, and only those are served whose transaction
/// is older than any still open: none can come before them later. Where no more are left the cursor
/// goes up to that horizon, so that a quiet time does not let it grow old.
pub(super) async fn run_events(
    store: &PostgresStore,
    after: Option<EventCursor>,
    limit: u32,
) -> Result<RunEvents> {
    let client = store.client().await?;
    let sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text, tx::text, seq
        FROM run_event_floor";
    let row = query_one(&client, sql, &[]).await?;
    let mut row = Reader::new(&row);
    let horizon = EventCursor { tx: number(row.get()?)?, seq: 0 };
    let floor = EventCursor { tx: number(row.get()?)?, seq: row.number()? };
    let Some(after) = after else {
        return Ok(RunEvents { changed: Vec::new(), deleted: Vec::new(), cursor: horizon });
    };
    // One beyond the horizon is of another database.
    if after < floor || after.tx > horizon.tx {
        return Err(StoreError::NotFound("the place in the event log".to_owned()));
    }
    // A plain `tx` would be the text in front, by which 10 comes before 9.
    let sql = "SELECT e.tx::text, e.seq, e.changed, e.deleted FROM run_event e
        WHERE (e.tx, e.seq) > ($1::text::xid8, $2) AND e.tx < $3::text::xid8
        ORDER BY e.tx, e.seq LIMIT $4";
    let (from, seq) = (after.tx.to_string(), i64::try_from(after.seq).unwrap_or(i64::MAX));
    let found =
        query(&client, sql, &[&from, &seq, &horizon.tx.to_string(), &i64::from(limit)]).await?;
    let mut events = RunEvents { changed: Vec::new(), deleted: Vec::new(), cursor: after };
    let mut seen = HashSet::new();
    for row in found.iter().rev() {
        let mut row = Reader::new(row);
        let place = EventCursor { tx: number(row.get()?)?, seq: row.number()? };
        events.cursor = events.cursor.max(place);
        for list in [&mut events.changed, &mut events.deleted] {
            let ids = row.get::<Vec<Uuid>>()?.into_iter().rev().map(RunId::from_uuid);
            list.extend(ids.filter(|run| seen.insert(*run)));
        }
    }
    if found.len() < limit as usize {
        events.cursor = events.cursor.max(horizon);
    }
    events.changed.reverse();
    events.deleted.reverse();
    Ok(events)
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| StoreError::Corrupt(format!("`{text}` is no transaction number")))
}
