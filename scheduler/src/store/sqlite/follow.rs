//! Ends that somebody follows up.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{CachedStatement, Connection, Row, params};

use super::{
    alarms, owner,
    rows::{count, counted, from_json_opt, get_at, get_payload, get_run_id, json, word},
    shards,
    writer::{Tx, all, find},
};
use crate::{
    model::{
        Payload,
        follow::Follow,
        ids::{AppId, JobId, RunId},
        run::{NewRun, RunState, TriggerKind},
    },
    store::{
        Result, Topic,
        ops::{EndEvent, Followup, Settled},
    },
};

/// Writes the events of a batch of ends.
pub(super) struct Events<'a> {
    insert: CachedStatement<'a>,
    /// States of which every end is wished for.
    wished: Vec<RunState>,
    written: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(tx: &Tx<'a>) -> Result<Self> {
        let states = all(tx.conn(), "SELECT DISTINCT state FROM end_wish", [], |row| {
            word(row, 0, RunState::parse)
        })?;
        let insert = tx.prepare(
            "INSERT INTO end_event (run_id, job_id, app_id, revision, trigger, state, fire_at,
                 ended_at, extra)
             SELECT id, job_id, app_id, revision, trigger, state, fire_at, ended_at,
                 json_remove(extra, '$.params')
             FROM ended_run WHERE id = ?1",
        )?;
        Ok(Self { insert, wished: states, written: false })
    }

    /// The run has just ended in `state`; leaves an event if anybody waits for that.
    pub(super) fn ended(&mut self, run: RunId, follow: Follow, state: RunState) -> Result<()> {
        if !follow.at_end(state).is_nothing() || self.wished.contains(&state) {
            self.insert.execute([run.to_bytes()])?;
            self.written = true;
        }
        Ok(())
    }

    /// Wakes whoever follows the ends up.
    pub(super) fn tell(self, tx: &mut Tx<'_>) {
        if self.written {
            tx.hint(Topic::Ends);
        }
    }
}

/// Ends that wait, oldest first.
pub(super) fn end_events(conn: &Connection, limit: u32, aside: &[u64]) -> Result<Vec<EndEvent>> {
    let sql = "SELECT seq, run_id, job_id, app_id, revision, trigger, state, fire_at, ended_at,
                   extra
               FROM end_event WHERE seq NOT IN (SELECT value FROM json_each(?2))
               ORDER BY seq LIMIT ?1";
    all(conn, sql, params![limit, json(&aside)?], end_event)
}

fn end_event(row: &Row<'_>) -> rusqlite::Result<EndEvent> {
    Ok(EndEvent {
        seq: counted(row.get(0)?),
        run: get_run_id(row, 1)?,
        job: JobId(row.get(2)?),
        app: AppId(row.get(3)?),
        revision: counted(row.get(4)?),
        trigger: word(row, 5, TriggerKind::parse)?,
        state: word(row, 6, RunState::parse)?,
        fire_at: get_at(row, 7)?,
        ended_at: get_at(row, 8)?,
        extra: from_json_opt(row, 9)?,
    })
}

/// What the ended runs returned.
pub(super) fn load_outputs(conn: &Connection, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>> {
    let mut outputs = Vec::new();
    for run in runs {
        let sql = "SELECT output_type, output FROM ended_run WHERE id = ?1";
        let output = find(conn, sql, [run.to_bytes()], |row| get_payload(row, 0))?;
        outputs.extend(output.flatten().map(|output| (*run, output)));
    }
    Ok(outputs)
}

/// Takes events away and writes what follows from them.
pub(super) fn settle_ends(
    tx: &mut Tx<'_>,
    followups: &[Followup],
    now: DateTime<Utc>,
) -> Result<Settled> {
    tx.note_time(now);
    let mut settled = Settled::default();
    let mut parents = BTreeSet::new();
    for followup in followups {
        let taken =
            tx.execute("DELETE FROM end_event WHERE seq = ?1", params![count(followup.seq)])?;
        if taken == 0 {
            continue;
        }
        settled.events.push(followup.seq);
        for run in &followup.starts {
            if start(tx, run, now)? {
                settled.started.push(run.id);
            }
        }
        parents.extend(followup.parent);
        alarms::insert(tx, &followup.alarms, now)?;
    }
    let ended = shards::settle(tx, &parents, now)?;
    settled.parents = ended.into_iter().map(|(parent, state)| (parent.id, state)).collect();
    Ok(settled)
}

/// Makes the run, if its job is still there and it was not made before.
fn start(tx: &mut Tx<'_>, run: &NewRun, now: DateTime<Utc>) -> Result<bool> {
    let sql = "SELECT 1 FROM job WHERE id = ?1 AND deleted_at IS NULL";
    let there = find(tx.conn(), sql, [run.job.0], |_| Ok(()))?.is_some();
    if !there || !owner::insert_run(tx, run, now)? {
        return Ok(false);
    }
    tx.leave_in_inbox(run.job.partition(), run.id)?;
    Ok(true)
}
