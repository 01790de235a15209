//! Counts of open runs, and the log of what changed.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
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

/// How far the log can be read for good, and where it begins.
struct Reach {
    /// Every transaction before this one has ended.
    horizon: EventCursor,
    /// The next transaction; no place is beyond it.
    end: EventCursor,
    /// Rows before this one are gone.
    floor: EventCursor,
}

/// The reach by what goes on in the whole server, and whether a row has been held back by that for
/// more than a moment.
const REACH: &str =
    "SELECT pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text, f.tx::text, f.seq,
        coalesce((SELECT e.at < clock_timestamp() - interval '1 second' FROM run_event e
            WHERE e.tx >= pg_snapshot_xmin(s) ORDER BY e.tx, e.seq LIMIT 1), false)
    FROM (SELECT pg_current_snapshot() AS s) AS now, run_event_floor f";

/// The same horizon without the transactions of other databases of the server, which can't write
/// here however long they go on. One that ended meanwhile, or that is only prepared, counts: nothing
/// tells whose it is.
const OWN_HORIZON: &str = "SELECT coalesce((
        SELECT x FROM pg_snapshot_xip(s) AS x WHERE NOT EXISTS (
            SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid = x::xid
                AND a.datname <> current_database())
        ORDER BY x LIMIT 1), pg_snapshot_xmax(s))::text
    FROM (SELECT pg_current_snapshot() AS s) AS now";

impl Reach {
    async fn read(client: &impl GenericClient) -> Result<Self> {
        let row = query_one(client, REACH, &[]).await?;
        let mut row = Reader::new(&row);
        let mut start = || Result::Ok(EventCursor { tx: number(row.get()?)?, seq: 0 });
        let (horizon, end, floor) = (start()?, start()?, start()?);
        let floor = EventCursor { seq: row.number()?, ..floor };
        let held_back: bool = row.get()?;
        let mut reach = Self { horizon, end, floor };
        if held_back {
            let row = query_one(client, OWN_HORIZON, &[]).await?;
            let own = EventCursor { tx: number(Reader::new(&row).get()?)?, seq: 0 };
            reach.horizon = reach.horizon.max(own);
        }
        Ok(reach)
    }
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
    let Reach { horizon, end, floor } = Reach::read(&client).await?;
    let Some(after) = after else {
        return Ok(RunEvents { changed: Vec::new(), deleted: Vec::new(), cursor: horizon });
    };
    // One beyond the end is of another database.
    if after < floor || after.tx > end.tx {
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
