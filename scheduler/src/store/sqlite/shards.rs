//! Parents and their shards. A parent's shards lie side by side in the order of ids, so that they
//! are found without an index of their own.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    SqliteStore, chains, follow, owner,
    rows::{at, count, counted32, get_failure, number, us, word},
    runs,
    writer::{Tx, all, find},
};
use crate::{
    model::{
        Payload,
        ids::{AttemptRef, RunId},
        run::{OpenRun, RunState},
        shards::{Split, TROUBLES_MAX, Tally, Trouble},
    },
    store::{FamilyStore, Result, ops::EndRun},
};

#[async_trait]
impl FamilyStore for SqliteStore {
    async fn split_run(
        &self,
        parent: AttemptRef,
        split: &Split,
        now: DateTime<Utc>,
    ) -> Result<bool> {
        let split = split.clone();
        self.writer.write(move |tx| split_run(tx, parent, &split, now)).await
    }

    async fn start_parents(&self, parents: &[(RunId, DateTime<Utc>)]) -> Result<()> {
        let parents = parents.to_vec();
        self.writer.write(move |tx| start_parents(tx, &parents)).await
    }

    async fn load_outputs(&self, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>> {
        let runs = runs.to_vec();
        self.readers.read(move |conn| follow::load_outputs(conn, &runs)).await
    }

    async fn chain_leads_to(&self, from: &[String], to: &str) -> Result<bool> {
        let (from, to) = (from.to_vec(), to.to_owned());
        self.readers.read(move |conn| chains::leads_to(conn, &from, &to)).await
    }
}

/// Splits a parent that still waits; false when it does not.
fn split_run(
    tx: &mut Tx<'_>,
    parent: AttemptRef,
    split: &Split,
    now: DateTime<Utc>,
) -> Result<bool> {
    tx.note_time(now);
    let AttemptRef { run, attempt, fence } = parent;
    let opened = tx.execute(
        "UPDATE open_run SET fence = fence + 1, dispatched_at = ?4, message = '',
             extra = json_set(coalesce(extra, '{}'), '$.shard_total', ?5)
         WHERE id = ?1 AND attempt = ?2 AND fence = ?3 AND state = 'QUEUED'
             AND kill_reason IS NULL",
        params![run.to_bytes(), attempt, count(fence), us(now), split.total],
    )?;
    if opened == 0 {
        return Ok(false);
    }
    tx.changed(run);
    for shard in &split.shards {
        owner::insert_run(tx, shard, now)?;
    }
    Ok(true)
}

/// QUEUED → RUNNING of split parents.
fn start_parents(tx: &mut Tx<'_>, parents: &[(RunId, DateTime<Utc>)]) -> Result<()> {
    for (run, began) in parents {
        tx.note_time(*began);
        let started = tx.execute(
            "UPDATE open_run SET state = 'RUNNING', started_at = coalesce(started_at, ?2)
             WHERE id = ?1 AND state = 'QUEUED' AND fence > 0 AND (extra ->> '$.follow') & 8",
            params![run.to_bytes(), us(*began)],
        )?;
        if started == 1 {
            tx.changed(*run);
        }
    }
    Ok(())
}

/// Ends the parents all of whose shards have ended, and marks the others as running.
pub(super) fn settle(
    tx: &mut Tx<'_>,
    parents: &BTreeSet<RunId>,
    now: DateTime<Utc>,
) -> Result<Vec<(OpenRun, RunState)>> {
    let mut ended = Vec::new();
    for id in parents {
        let Some(parent) = owner::open_run(tx.conn(), *id)? else { continue };
        let Some(tally) = tally(tx.conn(), *id)? else {
            start_parents(tx, &[(*id, now)])?;
            continue;
        };
        runs::end(tx, &[EndRun::of_parent(&parent, &tally)], now)?;
        tx.leave_in_inbox(parent.partition, *id)?;
        ended.push((parent, tally.state()));
    }
    Ok(ended)
}

/// How the parent's shards have ended; None while one is open.
fn tally(conn: &Connection, parent: RunId) -> Result<Option<Tally>> {
    let (first, last) = RunId::shards(parent);
    let (first, last) = (first.to_bytes(), last.to_bytes());
    let sql = "SELECT 1 FROM open_run WHERE id BETWEEN ?1 AND ?2 LIMIT 1";
    if find(conn, sql, params![first, last], |_| Ok(()))?.is_some() {
        return Ok(None);
    }
    let sql = "SELECT state, count(*), min(started_at) FROM ended_run
               WHERE id BETWEEN ?1 AND ?2 GROUP BY state";
    let states = all(conn, sql, params![first, last], |row| {
        let started: Option<i64> = row.get(2)?;
        Ok((word(row, 0, RunState::parse)?, counted32(row.get(1)?), started.map(at)))
    })?;
    let sql = "SELECT coalesce(extra ->> '$.shard_index', 0), state, failure FROM ended_run
               WHERE id BETWEEN ?1 AND ?2 AND state <> 'SUCCEEDED' ORDER BY id LIMIT ?3";
    let troubles = all(conn, sql, params![first, last, number(TROUBLES_MAX)], |row| {
        Ok(Trouble {
            index: counted32(row.get(0)?),
            state: word(row, 1, RunState::parse)?,
            failure: get_failure(row, 2)?,
        })
    })?;
    Ok(Some(Tally {
        started_at: states.iter().filter_map(|(.., started)| *started).min(),
        counts: states.into_iter().map(|(state, count, _)| (state, count)).collect(),
        troubles,
    }))
}
