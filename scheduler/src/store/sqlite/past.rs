//! What became of past fire times, and runs that make up for them by hand.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    jobs::{self, answered, remember},
    owner,
    rows::{get_at, get_at_opt, number, us},
    writer::{Tx, all, find},
};
use crate::{
    model::{
        ids::{JobId, RunId},
        misfire::{Decided, MISSED_COUNT_MAX},
    },
    store::{
        BACKFILL_RUNS_MAX, Result, StoreError,
        schedules::{Backfill, Backfilled},
    },
};

/// What was decided of each job's fire times within its span. Ids carry the fire time, so the rows
/// of a span lie together.
pub(super) fn decided(
    conn: &Connection,
    spans: &[(JobId, DateTime<Utc>, DateTime<Utc>)],
) -> Result<Vec<(JobId, Decided)>> {
    let sql = "SELECT fire_at, NULL FROM open_run
             WHERE job_id = ?1 AND trigger IN ('SCHEDULE', 'MISFIRE') AND fire_at BETWEEN ?4 AND ?5
         UNION ALL SELECT * FROM (SELECT fire_at, missed_until FROM ended_run
             WHERE job_id = ?1 AND id >= ?2 AND id < ?3 AND trigger IN ('SCHEDULE', 'MISFIRE')
             LIMIT ?6)";
    let mut found = Vec::with_capacity(spans.len());
    for (job, first, last) in spans {
        let (from, until) = ids(*first, *last);
        let span = params![
            job.0,
            from.to_bytes(),
            until.to_bytes(),
            us(*first),
            us(*last),
            number(MISSED_COUNT_MAX)
        ];
        let rows = all(conn, sql, span, |row| Ok((get_at(row, 0)?, get_at_opt(row, 1)?)))?;
        let mut decided = Decided::default();
        for (fire, until) in rows {
            match until {
                Some(until) => decided.stretches.push((fire, until)),
                None => {
                    decided.alone.insert(fire);
                }
            }
        }
        found.push((*job, decided));
    }
    Ok(found)
}

/// Bounds of the ids of runs with these fire times: the first, and the first after them.
fn ids(first: DateTime<Utc>, last: DateTime<Utc>) -> (RunId, RunId) {
    (RunId::first_at(first), RunId::first_at(last + chrono::TimeDelta::milliseconds(1)))
}

/// Makes runs for the fire times that have none.
pub(super) fn backfill(
    tx: &mut Tx<'_>,
    backfill: &Backfill,
    now: DateTime<Utc>,
) -> Result<Backfilled> {
    tx.note_time(now);
    if let Some(answer) = answered(tx, backfill.request.as_ref())? {
        return Backfilled::parse(&answer).ok_or_else(|| {
            StoreError::Corrupt(format!("the answer to a request is no backfill: {answer:?}"))
        });
    }
    if backfill.runs.len() > BACKFILL_RUNS_MAX {
        return Err(StoreError::Internal(format!("over {BACKFILL_RUNS_MAX} runs of a backfill")));
    }
    let job = jobs::stored(tx.conn(), backfill.job)?;
    if job.deleted {
        return Err(StoreError::NotFound(job.resource_name()));
    }
    let mut done = Backfilled::default();
    for run in &backfill.runs {
        let sql = "SELECT EXISTS (SELECT 1 FROM open_run WHERE id = ?1)
                 OR EXISTS (SELECT 1 FROM ended_run WHERE id = ?1 AND state <> 'SKIPPED')
                 OR EXISTS (SELECT 1 FROM backfill WHERE job_id = ?2 AND fire_at = ?3)";
        let planned = RunId::scheduled(job.id, run.fire_at);
        let key = params![planned.to_bytes(), job.id.0, us(run.fire_at)];
        if find(tx.conn(), sql, key, |row| row.get::<_, bool>(0))? == Some(true) {
            done.had_run += 1;
            continue;
        }
        done.made += 1;
        if backfill.dry_run {
            continue;
        }
        if !owner::insert_run(tx, run, now)? {
            return Err(StoreError::AlreadyExists(format!("run {}", run.id)));
        }
        tx.leave_in_inbox(job.partition, run.id)?;
        tx.execute(
            "INSERT INTO backfill (job_id, fire_at, run_id, made_at) VALUES (?1, ?2, ?3, ?4)",
            params![job.id.0, us(run.fire_at), run.id.to_bytes(), us(now)],
        )?;
    }
    if !backfill.dry_run {
        remember(tx, backfill.request.as_ref(), &done.to_text(), now)?;
    }
    Ok(done)
}
