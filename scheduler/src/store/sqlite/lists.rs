//! What readers see: lists of jobs, runs in full or in lists, counts, events.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params, params_from_iter, types::Value};

use super::{
    calendars,
    filter::{ENDED_RUN_FIELDS, Fields, JOB_FIELDS, OPEN_RUN_FIELDS, OPEN_STATE, Where},
    rows::{
        self, JOB, OPEN_RUN, count, counted, counted32, get_at, get_at_opt, get_failure,
        get_outcome, get_payload, get_span_opt, us,
    },
    writer::{all, find},
};
use crate::{
    model::{
        ids::{AppId, RunId},
        job::Job,
        run::{Attempt, RunRecord, RunState},
    },
    store::{
        Result, StoreError,
        fields::{named_ends, named_open},
        ops::{
            Condition, EventCursor, JobOrder, JobQuery, OpenCounts, RunEvents, RunQuery, Scheduled,
        },
    },
};

/// A page of jobs.
pub(super) fn jobs(conn: &Connection, query: &JobQuery) -> Result<Vec<Job>> {
    let mut filter = Where::new(Vec::new());
    filter.and("j.deleted_at IS NULL", []);
    filter.and_in("j.app_id", app_ids(query.apps.as_deref()))?;
    for condition in &query.conditions {
        filter.and_condition(condition, &JOB_FIELDS)?;
    }
    let one_app = query.apps.as_ref().is_some_and(|apps| apps.len() == 1);
    if let Some(after) = &query.after {
        let id = Value::from(after.id.0);
        match (query.order, after.next_fire_at) {
            (JobOrder::Name, _) if one_app => filter.and("j.name > ?", [after.name.clone().into()]),
            (JobOrder::Name, _) => {
                let (app, name) = (after.app_name.clone().into(), after.name.clone().into());
                filter.and("(a.name, j.name) > (?, ?)", [app, name]);
            }
            (JobOrder::Created, _) => filter.and("j.id < ?", [id]),
            (JobOrder::NextFire, Some(at)) => filter.and(
                "(j.next_fire_at, j.id) > (?, ?) OR j.next_fire_at IS NULL",
                [us(at).into(), id],
            ),
            (JobOrder::NextFire, None) => {
                filter.and("j.next_fire_at IS NULL AND j.id > ?", [id]);
            }
        }
    }
    // SQLite keeps the order of a CROSS JOIN: by name the rows come sorted out of two indexes.
    let (from, order) = match query.order {
        JobOrder::Name => ("app a CROSS JOIN job j ON j.app_id = a.id", "a.name, j.name"),
        JobOrder::Created => ("job j JOIN app a ON a.id = j.app_id", "j.id DESC"),
        JobOrder::NextFire => {
            ("job j JOIN app a ON a.id = j.app_id", "j.next_fire_at NULLS LAST, j.id")
        }
    };
    let (clause, params) = filter.finish(&format!("ORDER BY {order} LIMIT {}", query.limit));
    let sql = format!("SELECT {JOB} FROM {from} {clause}");
    let mut jobs = all(conn, &sql, params_from_iter(params), rows::job)?;
    calendars::attach(conn, &mut jobs)?;
    Ok(jobs)
}

fn app_ids(apps: Option<&[AppId]>) -> Option<Vec<i64>> {
    apps.map(|apps| apps.iter().map(|app| app.0).collect())
}

/// Columns that [`record`] reads behind [`OPEN_RUN`], of an open run.
const OPEN_REST: &str = "a.name, j.name, NULL, NULL, NULL, 0, NULL, p.fraction, \
     coalesce(p.message, ''), 0, NULL, NULL, NULL, NULL, 0, NULL";
/// Where they come from.
const OPEN_FROM: &str = "open_run r JOIN job j ON j.id = r.job_id JOIN app a ON a.id = r.app_id \
     LEFT JOIN run_progress p ON p.run_id = r.id";
/// The same of an ended run: first what [`OPEN_RUN`] names.
const ENDED_RUN: &str = "r.id, r.job_id, r.app_id, j.partition, r.revision, r.trigger, r.state, \
     r.fire_at, r.due_at, r.created_at, r.attempt, r.fence, r.lost, r.executor, r.session_epoch, \
     r.dispatched_at, r.acked_at, r.started_at, r.kill_reason, NULL, NULL, r.message, r.extra";
/// Then the rest; the output is left in its pages when only the basics are asked for.
const ENDED_REST: &str = "a.name, j.name, r.ended_at, r.output_type, iif(?2, r.output, NULL), \
     r.output_truncated, r.failure, r.progress, r.progress_message, r.missed_count, \
     r.missed_until, r.outcome, r.handler_start_at, r.duration_us, r.last_log_seq, r.late_outcome";
/// Where they come from.
const ENDED_FROM: &str = "ended_run r JOIN job j ON j.id = r.job_id JOIN app a ON a.id = r.app_id";

/// Reads an open or ended run with, in `attempts`, its current attempt if that was sent.
fn record(row: &Row<'_>, full: bool) -> rusqlite::Result<RunRecord> {
    let mut run = rows::open_run(row)?;
    let failure = get_failure(row, 29)?;
    let ended_at = get_at_opt(row, 25)?;
    let outcome = get_outcome(row, 34)?;
    let mut attempts = Vec::new();
    if full && (run.dispatched_at.is_some() || outcome.is_some()) {
        attempts.push(Attempt {
            number: run.attempt,
            fence: run.fence,
            executor: run.executor.as_deref().map(str::to_owned),
            session_epoch: run.session_epoch,
            outcome,
            failure: failure.clone(),
            dispatched_at: run.dispatched_at,
            acked_at: run.acked_at,
            started_at: get_at_opt(row, 35)?,
            ended_at,
            duration: get_span_opt(row, 36)?,
            log_records: 0,
            log_dropped: 0,
            late_outcome: get_outcome(row, 38)?,
        });
    }
    if let Some(extra) = run.extra.as_mut().filter(|_| !full) {
        extra.params = None;
    }
    Ok(RunRecord {
        run,
        app_name: row.get::<_, String>(23)?.into(),
        job_name: row.get::<_, String>(24)?.into(),
        ended_at,
        output: get_payload(row, 26)?,
        output_truncated: row.get(28)?,
        failure,
        progress: row.get(30)?,
        progress_message: row.get(31)?,
        missed_count: row.get(32)?,
        missed_until: get_at_opt(row, 33)?,
        attempts,
    })
}

/// One run in full.
pub(super) fn run(conn: &Connection, id: RunId) -> Result<RunRecord> {
    find_run(conn, id, true)?.ok_or_else(|| StoreError::NotFound(format!("run {id}")))
}

/// Runs by id, those that exist.
pub(super) fn runs_by_id(conn: &Connection, ids: &[RunId], full: bool) -> Result<Vec<RunRecord>> {
    let mut records = Vec::with_capacity(ids.len());
    for id in ids {
        records.extend(find_run(conn, *id, full)?);
    }
    Ok(records)
}

fn find_run(conn: &Connection, id: RunId, full: bool) -> Result<Option<RunRecord>> {
    let sql = format!("SELECT {OPEN_RUN}, {OPEN_REST} FROM {OPEN_FROM} WHERE r.id = ?1");
    let mut found = find(conn, &sql, [id.to_bytes()], |row| record(row, full))?;
    if found.is_none() {
        let sql = format!("SELECT {ENDED_RUN}, {ENDED_REST} FROM {ENDED_FROM} WHERE r.id = ?1");
        found = find(conn, &sql, params![id.to_bytes(), full], |row| record(row, full))?;
    }
    if let Some(record) = found.as_mut().filter(|_| full) {
        add_attempts(conn, record)?;
    }
    Ok(found)
}

/// A page of runs: both tables are read in order of the id, and the pages merged.
pub(super) fn runs(conn: &Connection, query: &RunQuery) -> Result<Vec<RunRecord>> {
    let open = format!("SELECT {OPEN_RUN}, {OPEN_REST} FROM {OPEN_FROM}");
    let ended = format!("SELECT {ENDED_RUN}, {ENDED_REST} FROM {ENDED_FROM}");
    let mut records = Vec::new();
    // A table that has none of the states that are asked for is left alone.
    if named_open(&query.conditions).is_none_or(|states| !states.is_empty()) {
        records = page_of(conn, query, &open, &OPEN_RUN_FIELDS, true)?;
    }
    let may_have_ended = named_ends(&query.conditions).is_none_or(|states| !states.is_empty());
    if query.scheduled != Scheduled::Only && may_have_ended {
        records.extend(page_of(conn, query, &ended, &ENDED_RUN_FIELDS, false)?);
        records.sort_by_key(|record| record.run.id);
        if !query.ascending {
            records.reverse();
        }
        records.truncate(query.limit as usize);
    }
    if query.full {
        for record in &mut records {
            add_attempts(conn, record)?;
        }
    }
    Ok(records)
}

fn page_of(
    conn: &Connection,
    query: &RunQuery,
    select: &str,
    fields: &Fields,
    open: bool,
) -> Result<Vec<RunRecord>> {
    let mut filter = Where::new(vec![us(query.now).into(), query.full.into()]);
    // The first parameter is bound even where no condition needs it.
    filter.and("?1 IS NOT NULL AND ?2 IS NOT NULL", []);
    // A job's runs are fewer than its app's.
    let app = if query.jobs.is_some() { "+r.app_id" } else { "r.app_id" };
    filter.and_in(app, app_ids(query.apps.as_deref()))?;
    let jobs = query.jobs.as_ref().map(|jobs| jobs.iter().map(|job| job.0).collect());
    filter.and_in("r.job_id", jobs)?;
    for condition in &query.conditions {
        filter.and_condition(condition, fields)?;
    }
    if !open && query.conditions.iter().any(asks_for_trouble) {
        // Said in so many words for the partial index.
        filter.and("r.state <> 'SUCCEEDED'", []);
    }
    if open {
        match query.scheduled {
            Scheduled::With => {}
            Scheduled::Without => filter.and(&format!("{OPEN_STATE} <> 'SCHEDULED'"), []),
            Scheduled::Only => filter.and(&format!("{OPEN_STATE} = 'SCHEDULED'"), []),
        }
    }
    if let Some(after) = query.after {
        let id = Value::Blob(after.to_bytes().to_vec());
        filter.and(if query.ascending { "r.id > ?" } else { "r.id < ?" }, [id]);
    }
    let order = if query.ascending { "ASC" } else { "DESC" };
    let (clause, params) = filter.finish(&format!("ORDER BY r.id {order} LIMIT {}", query.limit));
    all(conn, &format!("{select} {clause}"), params_from_iter(params), |row| {
        record(row, query.full)
    })
}

/// Whether the condition lets no run that went well through.
fn asks_for_trouble(condition: &Condition) -> bool {
    let Condition::OneOf { field: "state", values, negated } = condition else { return false };
    values.iter().any(|state| state == RunState::Succeeded.as_str()) == *negated
}

/// Puts the attempts before the current one in front, and counts the log records of all.
fn add_attempts(conn: &Connection, record: &mut RunRecord) -> Result<()> {
    let id = record.run.id.to_bytes();
    let mut attempts = all(
        conn,
        "SELECT number, executor, session_epoch, outcome, failure, dispatched_at, acked_at,
             handler_start_at, ended_at, duration_us, late_outcome, fence
         FROM attempt WHERE run_id = ?1 ORDER BY fence",
        [id],
        past_attempt,
    )?;
    // While a run waits for its next attempt the row still names the one that is over.
    let last = attempts.last().map_or(0, |attempt| attempt.fence);
    attempts.extend(record.attempts.drain(..).filter(|current| current.fence > last));
    for attempt in &mut attempts {
        let sql = "SELECT coalesce(sum(record_count), 0), coalesce(sum(dropped), 0)
                   FROM log_chunk WHERE run_id = ?1 AND attempt = ?2 AND fence IN (0, ?3)";
        // Of chunks without a fence only the attempt is known.
        let counts = find(conn, sql, params![id, attempt.number, count(attempt.fence)], |row| {
            Ok((counted(row.get(0)?), counted(row.get(1)?)))
        })?;
        (attempt.log_records, attempt.log_dropped) = counts.unwrap_or_default();
    }
    record.show_attempts(attempts);
    Ok(())
}

fn past_attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        number: counted32(row.get(0)?),
        executor: row.get(1)?,
        session_epoch: counted(row.get(2)?),
        outcome: get_outcome(row, 3)?,
        failure: get_failure(row, 4)?,
        dispatched_at: get_at_opt(row, 5)?,
        acked_at: get_at_opt(row, 6)?,
        started_at: get_at_opt(row, 7)?,
        ended_at: Some(get_at(row, 8)?),
        duration: get_span_opt(row, 9)?,
        log_records: 0,
        log_dropped: 0,
        late_outcome: get_outcome(row, 10)?,
        fence: counted(row.get(11)?),
    })
}

/// Open runs by what they do.
pub(super) fn count_open(conn: &Connection, now: DateTime<Utc>) -> Result<OpenCounts> {
    let counts = find(
        conn,
        "SELECT coalesce(sum(state = 'QUEUED' AND due_at <= ?1), 0),
             coalesce(sum(state = 'QUEUED' AND due_at > ?1), 0),
             coalesce(sum(state IN ('DISPATCHED', 'RUNNING', 'CANCELING')), 0),
             coalesce(sum(state = 'RETRY_WAIT'), 0),
             min(CASE WHEN state = 'QUEUED' AND due_at <= ?1 THEN due_at END)
         FROM open_run",
        [us(now)],
        |row| {
            Ok(OpenCounts {
                queued: counted(row.get(0)?),
                scheduled: counted(row.get(1)?),
                running: counted(row.get(2)?),
                retry_wait: counted(row.get(3)?),
                oldest_due: get_at_opt(row, 4)?,
            })
        },
    )?;
    Ok(counts.unwrap_or_default())
}

/// Events after the cursor, the last word on each run.
pub(super) fn run_events(
    conn: &Connection,
    after: Option<EventCursor>,
    limit: u32,
) -> Result<RunEvents> {
    let (oldest, newest) = event_range(conn)?;
    let Some(after) = after else {
        let cursor = EventCursor { tx: 0, seq: newest };
        return Ok(RunEvents { changed: Vec::new(), deleted: Vec::new(), cursor });
    };
    // One beyond the end is of another database file.
    if after.seq + 1 < oldest || after.seq > newest {
        return Err(StoreError::NotFound("the place in the event log".to_owned()));
    }
    let batches = all(
        conn,
        "SELECT seq, changed, deleted FROM run_event WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        params![count(after.seq), limit],
        |row| {
            let seq = counted(row.get(0)?);
            Ok((seq, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?))
        },
    )?;
    let mut events = RunEvents { changed: Vec::new(), deleted: Vec::new(), cursor: after };
    let mut seen = HashSet::new();
    for (seq, changed, deleted) in batches.iter().rev() {
        events.cursor.seq = events.cursor.seq.max(*seq);
        events.changed.extend(run_ids(changed).rev().filter(|run| seen.insert(*run)));
        events.deleted.extend(run_ids(deleted).rev().filter(|run| seen.insert(*run)));
    }
    events.changed.reverse();
    events.deleted.reverse();
    Ok(events)
}

/// The first number that is kept, and the last that was given.
fn event_range(conn: &Connection) -> Result<(u64, u64)> {
    let range = find(
        conn,
        "SELECT (SELECT min(seq) FROM run_event),
             coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'run_event'), 0)",
        [],
        |row| Ok((row.get::<_, Option<i64>>(0)?, counted(row.get(1)?))),
    )?;
    let (oldest, newest) = range.unwrap_or_default();
    Ok((oldest.map_or(newest + 1, counted), newest))
}

fn run_ids(bytes: &[u8]) -> impl DoubleEndedIterator<Item = RunId> + '_ {
    let (ids, _) = bytes.as_chunks::<16>();
    ids.iter().map(|id| RunId::from_bytes(*id))
}
