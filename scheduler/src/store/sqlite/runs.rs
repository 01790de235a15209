//! Changes of runs, guarded by state and fence.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::{
    follow::Events,
    owner,
    rows::{count, get_outcome, get_partition, json, outcome_text, span_us, us},
    writer::{Tx, find},
};
use crate::{
    model::{
        executor::ExecutorRef,
        follow::Follow,
        ids::{AttemptRef, JobId, PartitionId, RunId},
        run::{OpenRun, Outcome},
    },
    store::{
        Result,
        ops::{
            Ack, AttemptEnd, EndAnswer, EndRun, LateResult, MarkCanceling, PutBack, PutBackHow,
            StateSet,
        },
    },
};

/// The guard of every change: run, attempt and fence are the given ones and the state is in the
/// set, which is passed as text (see [`set_text`]).
const GUARD: &str = "id = ?1 AND attempt = ?2 AND fence = ?3 AND instr(?4, ',' || state || ',')";

/// Who says so, where it is not the scheduler itself: app `?5` and executor `?6` must have the run.
const BY: &str = "(?5 IS NULL OR app_id = ?5 AND executor = ?6)";

/// The app and the name of who says so.
fn teller(by: Option<&ExecutorRef>) -> (Option<i64>, Option<&str>) {
    by.map(|by| (by.app.0, &*by.name)).unzip()
}

/// A set of states as `,A,B,`.
fn set_text(states: StateSet) -> String {
    let mut text = String::from(",");
    for state in states.0 {
        // Writing to a String can't fail.
        let _ = write!(text, "{},", state.as_str());
    }
    text
}

/// DISPATCHED → RUNNING.
pub(super) fn ack(tx: &mut Tx<'_>, acks: &[Ack]) -> Result<Vec<AttemptRef>> {
    let mut acked = Vec::with_capacity(acks.len());
    for Ack { attempt, by, at } in acks {
        tx.note_time(*at);
        let changed = tx.execute(
            "UPDATE open_run SET state = 'RUNNING', acked_at = ?4,
                 started_at = coalesce(started_at, ?4)
             WHERE id = ?1 AND attempt = ?2 AND fence = ?3 AND state = 'DISPATCHED'
                 AND app_id = ?5 AND executor = ?6",
            params![
                attempt.run.to_bytes(),
                attempt.attempt,
                count(attempt.fence),
                us(*at),
                by.app.0,
                &*by.name,
            ],
        )?;
        if changed == 1 {
            tx.changed(attempt.run);
            acked.push(*attempt);
        }
    }
    Ok(acked)
}

/// Ends runs; one answer per request, in order.
pub(super) fn end(tx: &mut Tx<'_>, ends: &[EndRun], now: DateTime<Utc>) -> Result<Vec<EndAnswer>> {
    tx.note_time(now);
    let mut find = tx.prepare(&format!(
        "SELECT job_id, coalesce(extra ->> '$.follow', 0) FROM open_run
         WHERE {GUARD} AND {BY}"
    ))?;
    let mut events = Events::new(tx)?;
    // OR FAIL and no RETURNING: SQLite would make a journal or a table for each statement. An
    // operation is undone as a whole by its savepoint.
    let mut copy = tx.prepare(
        "INSERT OR FAIL INTO ended_run (id, job_id, app_id, revision, trigger, state, fire_at,
             due_at, created_at, attempt, fence, lost, executor, session_epoch, dispatched_at,
             acked_at, started_at, ended_at, outcome, failure, handler_start_at, duration_us,
             last_log_seq, output_type, output, output_truncated, kill_reason, message, extra,
             progress, progress_message, missed_count, missed_until)
         SELECT r.id, job_id, app_id, revision, trigger, ?2, fire_at, due_at, created_at,
             r.attempt, fence, lost, executor, session_epoch, dispatched_at,
             coalesce(acked_at, ?3), coalesce(started_at, ?3), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
             ?12, kill_reason, ?13, extra, p.fraction, coalesce(p.message, ''), ?14,
             CASE WHEN ?14 THEN fire_at END
         FROM open_run r LEFT JOIN run_progress p ON p.run_id = r.id WHERE r.id = ?1",
    )?;
    let mut remove = tx.prepare("DELETE FROM open_run WHERE id = ?1")?;
    let mut forget = tx.prepare("DELETE FROM run_progress WHERE run_id = ?1")?;
    let mut answers = Vec::with_capacity(ends.len());
    for end in ends {
        let AttemptRef { run, attempt, fence } = end.attempt;
        let (app, name) = teller(end.end.by.as_ref());
        let key = params![run.to_bytes(), attempt, count(fence), set_text(end.from), app, name];
        let found = find.query_row(key, |row| Ok((JobId(row.get(0)?), row.get(1)?))).optional()?;
        answers.push(match found {
            Some((job, follow)) => {
                copy_end(&mut copy, end, now)?;
                remove.execute([run.to_bytes()])?;
                forget.execute([run.to_bytes()])?;
                events.ended(run, Follow::from_bits(follow), end.to)?;
                tx.changed(run);
                EndAnswer::Ended(job)
            }
            None if has_ended(tx.conn(), end)? => EndAnswer::Duplicate,
            None => EndAnswer::Stale,
        });
    }
    events.tell(tx);
    Ok(answers)
}

/// Copies an open row to the ended ones, with what the request says of its end.
fn copy_end(copy: &mut CachedStatement<'_>, run: &EndRun, now: DateTime<Utc>) -> Result<()> {
    let end = &run.end;
    copy.execute(params![
        run.attempt.run.to_bytes(),
        run.to.as_str(),
        end.acked_at.map(us),
        us(now),
        end.outcome.map(outcome_text),
        end.failure.as_ref().map(json).transpose()?,
        end.started_at.map(us),
        end.duration.map(span_us),
        count(end.last_log_seq),
        run.output.as_ref().map(|output| &output.content_type),
        run.output.as_ref().map(|output| &*output.data),
        run.output_truncated,
        run.message,
        run.missed,
    ])?;
    Ok(())
}

/// Whether the attempt ended by a result of its own, at that executor. One that was given up (lost) or never ran
/// did not: its result comes too late.
fn has_ended(conn: &Connection, end: &EndRun) -> Result<bool> {
    let sql = "SELECT outcome FROM ended_run WHERE id = ?1 AND attempt = ?2 AND fence = ?3
                   AND (?4 IS NULL OR app_id = ?4 AND executor = ?5)
               UNION ALL
               SELECT outcome FROM attempt WHERE run_id = ?1 AND number = ?2 AND fence = ?3
                   AND (?4 IS NULL OR executor = ?5 AND ?4 IN (
                       SELECT app_id FROM open_run WHERE id = ?1
                       UNION ALL SELECT app_id FROM ended_run WHERE id = ?1))";
    let AttemptRef { run, attempt, fence } = end.attempt;
    let (app, name) = teller(end.end.by.as_ref());
    let key = params![run.to_bytes(), attempt, count(fence), app, name];
    let mut statement = conn.prepare_cached(sql)?;
    let mut outcomes = statement.query_map(key, |row| get_outcome(row, 0))?;
    // A run canceled in RETRY_WAIT has both rows; the attempt's own says how it ended.
    let own = outcomes.try_fold(false, |found, outcome| {
        outcome.map(|outcome| found || outcome.is_some_and(|o| o != Outcome::Lost))
    })?;
    Ok(own)
}

/// Open runs back to waiting.
pub(super) fn put_back(
    tx: &mut Tx<'_>,
    runs: &[PutBack],
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    tx.note_time(now);
    let mut changed = Vec::with_capacity(runs.len());
    for run in runs {
        let partition = match &run.how {
            PutBackHow::SameAttempt => requeue(tx, run)?,
            PutBackHow::Begun { end } => {
                keep(tx, run, end, now)?.then(|| queue_again(tx, run, end)).transpose()?.flatten()
            }
            PutBackHow::NextAttempt { end, lost } => keep(tx, run, end, now)?
                .then(|| wait_for_retry(tx, run, end, *lost))
                .transpose()?
                .flatten(),
        };
        if let Some(partition) = partition {
            note_change(tx, partition, run.attempt.run)?;
            changed.push(run.attempt);
        }
    }
    Ok(changed)
}

/// QUEUED again with the same attempt, as if it had not been sent.
fn requeue(tx: &mut Tx<'_>, run: &PutBack) -> Result<Option<PartitionId>> {
    let sql = format!(
        "UPDATE open_run SET state = 'QUEUED', due_at = ?5, message = ?6, dispatched_at = NULL,
             acked_at = NULL, kill_reason = NULL, kill_at = NULL, kill_grace_us = NULL
         WHERE {GUARD} RETURNING partition"
    );
    let AttemptRef { run: id, attempt, fence } = run.attempt;
    find(
        tx.conn(),
        &sql,
        params![
            id.to_bytes(),
            attempt,
            count(fence),
            set_text(run.from),
            us(run.due_at),
            run.message,
        ],
        |row| get_partition(row, 0),
    )
}

/// Gives an attempt that has ended a row of its own; returns whether the run stood as was said.
fn keep(tx: &mut Tx<'_>, run: &PutBack, end: &AttemptEnd, now: DateTime<Utc>) -> Result<bool> {
    let AttemptRef { run: id, attempt, fence } = run.attempt;
    let kept = tx.execute(
        &format!(
            "INSERT INTO attempt (run_id, number, fence, executor, session_epoch, outcome, failure,
                 dispatched_at, acked_at, handler_start_at, ended_at, duration_us, last_log_seq)
             SELECT id, attempt, fence, executor, session_epoch, ?5, ?6, dispatched_at,
                 coalesce(acked_at, ?7), ?8, ?9, ?10, ?11
             FROM open_run WHERE {GUARD}"
        ),
        params![
            id.to_bytes(),
            attempt,
            count(fence),
            set_text(run.from),
            end.outcome.map(outcome_text),
            end.failure.as_ref().map(json).transpose()?,
            end.acked_at.map(us),
            end.started_at.map(us),
            us(now),
            end.duration.map(span_us),
            count(end.last_log_seq),
        ],
    )?;
    Ok(kept > 0)
}

/// QUEUED with the same attempt, which had begun.
fn queue_again(tx: &mut Tx<'_>, run: &PutBack, end: &AttemptEnd) -> Result<Option<PartitionId>> {
    find(
        tx.conn(),
        "UPDATE open_run SET state = 'QUEUED', fence = fence + 1, due_at = ?2, message = ?3,
             started_at = coalesce(started_at, acked_at, ?4), dispatched_at = NULL,
             acked_at = NULL, kill_reason = NULL, kill_at = NULL, kill_grace_us = NULL
         WHERE id = ?1 RETURNING partition",
        params![run.attempt.run.to_bytes(), us(run.due_at), run.message, end.acked_at.map(us)],
        |row| get_partition(row, 0),
    )
}

/// RETRY_WAIT, for the next attempt.
fn wait_for_retry(
    tx: &mut Tx<'_>,
    run: &PutBack,
    end: &AttemptEnd,
    lost: bool,
) -> Result<Option<PartitionId>> {
    find(
        tx.conn(),
        "UPDATE open_run SET state = 'RETRY_WAIT', due_at = ?2, message = ?3, lost = lost + ?4,
             started_at = coalesce(started_at, acked_at, ?5), kill_reason = NULL, kill_at = NULL,
             kill_grace_us = NULL
         WHERE id = ?1 RETURNING partition",
        params![
            run.attempt.run.to_bytes(),
            us(run.due_at),
            run.message,
            lost,
            end.acked_at.map(us)
        ],
        |row| get_partition(row, 0),
    )
}

/// For the owner, and for watchers.
fn note_change(tx: &mut Tx<'_>, partition: PartitionId, run: RunId) -> Result<()> {
    tx.changed(run);
    tx.leave_in_inbox(partition, run)
}

/// Open runs → CANCELING.
pub(super) fn mark_canceling(
    tx: &mut Tx<'_>,
    kills: &[MarkCanceling],
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    tx.note_time(now);
    let sql = format!(
        "UPDATE open_run SET kill_reason = ?5, kill_at = ?6, kill_grace_us = ?7, message = ?8,
             state = iif(coalesce(extra ->> '$.follow', 0) & 8, state, 'CANCELING')
         WHERE {GUARD} RETURNING partition"
    );
    let mut changed = Vec::with_capacity(kills.len());
    for kill in kills {
        let AttemptRef { run, attempt, fence } = kill.attempt;
        let partition = find(
            tx.conn(),
            &sql,
            params![
                run.to_bytes(),
                attempt,
                count(fence),
                set_text(kill.from),
                kill.reason.as_str(),
                us(now),
                kill.grace.map(span_us),
                kill.message,
            ],
            |row| get_partition(row, 0),
        )?;
        if let Some(partition) = partition {
            note_change(tx, partition, run)?;
            changed.push(kill.attempt);
        }
    }
    Ok(changed)
}

/// The open rows of the runs.
pub(super) fn open_runs(conn: &Connection, runs: &[RunId]) -> Result<Vec<OpenRun>> {
    let mut open = Vec::with_capacity(runs.len());
    for run in runs {
        open.extend(owner::open_run(conn, *run)?);
    }
    Ok(open)
}

/// Why runs wait.
pub(super) fn explain_waiting(tx: &mut Tx<'_>, runs: &[(RunId, String)]) -> Result<()> {
    for (run, message) in runs {
        let changed = tx.execute(
            "UPDATE open_run SET message = ?2
             WHERE id = ?1 AND state = 'QUEUED' AND message <> ?2",
            params![run.to_bytes(), message],
        )?;
        if changed == 1 {
            tx.changed(*run);
        }
    }
    Ok(())
}

/// Keeps what a result said that came too late. Of an attempt that went to another executor since,
/// or under a fence it never had, nothing is kept: the result is not its own. Of several dispatches
/// to one executor it is of the first that is not before its fence; the one of the ended row is the
/// last of all.
pub(super) fn record_late(tx: &mut Tx<'_>, late: &[LateResult]) -> Result<()> {
    for LateResult { attempt, by, outcome } in late {
        let key = params![
            attempt.run.to_bytes(),
            attempt.attempt,
            outcome_text(*outcome),
            count(attempt.fence),
            by.app.0,
            &*by.name,
        ];
        let past = tx.execute(
            "UPDATE attempt SET late_outcome = ?3
             WHERE run_id = ?1 AND number = ?2 AND fence = (
                 SELECT min(fence) FROM attempt
                 WHERE run_id = ?1 AND number = ?2 AND fence >= ?4 AND executor = ?6)
             AND ?5 IN (
                 SELECT app_id FROM open_run WHERE id = ?1
                 UNION ALL SELECT app_id FROM ended_run WHERE id = ?1)",
            key,
        )?;
        let noted = past > 0
            || tx.execute(
                "UPDATE ended_run SET late_outcome = ?3
                 WHERE id = ?1 AND attempt = ?2 AND fence >= ?4 AND app_id = ?5 AND executor = ?6",
                key,
            )? > 0;
        if noted {
            tx.changed(attempt.run);
        }
    }
    Ok(())
}
