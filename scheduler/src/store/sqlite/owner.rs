//! What the owner of partitions loads, and what it writes: plan, dispatch, wake.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    calendars, nodes,
    rows::{self, JOB, OPEN_RUN, count, from_json, get_run_id, json, number, us},
    writer::{Tx, all, find},
};
use crate::{
    model::{
        ids::{AttemptRef, JobId, PartitionId, RunId},
        job::{Job, JobSpec},
        run::{OpenRun, RunState, Skip},
    },
    store::{
        Result,
        ops::{
            Addressee, Dispatch, InboxBatch, NewRun, OpenRuns, Plan, PlanRow, Planned,
            RevisionSpec, RunScope, Uses,
        },
        specs::SharedSpecs,
    },
};

/// Ids that one look into the inbox takes out.
const INBOX_BATCH_MAX: usize = 1000;
/// Condition on `open_run r`: the current attempt is with executor `?2` of app `?1`.
const WITH_EXECUTOR: &str = "r.app_id = ?1 AND r.executor = ?2 \
    AND r.state IN ('DISPATCHED', 'RUNNING', 'CANCELING')";

/// Jobs that changed after the given version of their partition; for version 0 all that live or have
/// open runs.
pub(super) fn load_jobs(
    conn: &Connection,
    specs: &SharedSpecs,
    changed: &[(PartitionId, u64)],
) -> Result<Vec<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id
         WHERE j.partition = ?1 AND j.jobs_version > ?2 AND (?2 > 0 OR j.deleted_at IS NULL
             OR EXISTS (SELECT 1 FROM open_run r WHERE r.job_id = j.id))"
    );
    let mut jobs = Vec::new();
    for (partition, version) in changed {
        let params = params![partition.0, count(*version)];
        jobs.extend(all(conn, &sql, params, |row| rows::job_with(row, |text| specs.read(text)))?);
    }
    calendars::attach(conn, &mut jobs)?;
    Ok(jobs)
}

/// Open runs of the scope, with the specs they refer to.
pub(super) fn load_open_runs(conn: &Connection, scope: &RunScope) -> Result<OpenRuns> {
    let runs = match scope {
        RunScope::Partitions(partitions) => {
            let ids: Vec<u16> = partitions.iter().map(|p| p.0).collect();
            let filter = "r.partition IN (SELECT value FROM json_each(?1))";
            readable_runs(conn, filter, params![json(&ids)?])?
        }
        RunScope::Jobs(jobs) => {
            let ids: Vec<i64> = jobs.iter().map(|job| job.0).collect();
            let filter = "r.job_id IN (SELECT value FROM json_each(?1))";
            readable_runs(conn, filter, params![json(&ids)?])?
        }
        RunScope::Unsent(jobs) => {
            let ids: Vec<i64> = jobs.iter().map(|job| job.0).collect();
            let filter = "r.job_id IN (SELECT value FROM json_each(?1)) AND r.fence = 0";
            readable_runs(conn, filter, params![json(&ids)?])?
        }
        RunScope::Executor(app, name) => runs_with(conn, app.0, name)?,
    };
    let specs = load_specs(conn, &runs)?;
    Ok(OpenRuns { runs, specs })
}

/// Open runs whose current attempt is with the executor.
pub(super) fn runs_with(conn: &Connection, app: i64, executor: &str) -> Result<Vec<OpenRun>> {
    readable_runs(conn, WITH_EXECUTOR, params![app, executor])
}

/// Those of the runs whose current attempt is with the executor.
pub(super) fn those_with(
    conn: &Connection,
    app: i64,
    executor: &str,
    ids: &[RunId],
) -> Result<Vec<OpenRun>> {
    let filter = format!("r.id = ?3 AND {WITH_EXECUTOR}");
    let mut runs = Vec::new();
    for id in ids {
        runs.extend(readable_runs(conn, &filter, params![app, executor, id.to_bytes()])?);
    }
    Ok(runs)
}

/// Open runs that fit the filter. A row that can't be read is reported and left out: one damaged
/// run must not keep the others from running.
fn readable_runs(
    conn: &Connection,
    filter: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<OpenRun>> {
    let sql = format!("SELECT {OPEN_RUN} FROM open_run r WHERE {filter} ORDER BY r.id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(params)?;
    let mut runs = Vec::new();
    while let Some(row) = found.next()? {
        match rows::open_run(row) {
            Ok(run) => runs.push(run),
            Err(error) => tracing::error!(%error, "an open run can't be read; it is left out"),
        }
    }
    Ok(runs)
}

/// The specs of the revisions that the runs refer to, each once. One that can't be read is
/// reported and left out.
fn load_specs(conn: &Connection, runs: &[OpenRun]) -> Result<Vec<RevisionSpec>> {
    let wanted: HashSet<(JobId, u64)> = runs.iter().map(|run| (run.job, run.revision)).collect();
    let mut specs = Vec::with_capacity(wanted.len());
    for (job, revision) in wanted {
        let sql = "SELECT spec FROM job_revision WHERE job_id = ?1 AND revision = ?2";
        match find(conn, sql, params![job.0, count(revision)], |row| from_json::<JobSpec>(row, 0)) {
            Ok(Some(spec)) => specs.push(RevisionSpec { job, revision, spec: Arc::new(spec) }),
            Ok(None) => tracing::error!(job = job.0, revision, "a run's revision is missing"),
            Err(error) => tracing::error!(job = job.0, revision, %error, "a revision is damaged"),
        }
    }
    Ok(specs)
}

/// The open row of a run.
pub(super) fn open_run(conn: &Connection, run: RunId) -> Result<Option<OpenRun>> {
    let sql = format!("SELECT {OPEN_RUN} FROM open_run r WHERE r.id = ?1");
    find(conn, &sql, [run.to_bytes()], rows::open_run)
}

/// Takes the waiting ids out of the inbox of the partitions.
pub(super) fn take_inbox(tx: &mut Tx<'_>, partitions: &[PartitionId]) -> Result<InboxBatch> {
    let mut batch = InboxBatch::default();
    // Mostly nothing waits: one look at the whole table instead of one per partition.
    let waiting = all(
        tx.conn(),
        "SELECT partition, run_id FROM run_inbox ORDER BY partition, run_id LIMIT ?1",
        [number(INBOX_BATCH_MAX)],
        |row| Ok((PartitionId(row.get(0)?), get_run_id(row, 1)?)),
    )?;
    for (partition, run) in waiting.into_iter().filter(|(id, _)| partitions.contains(id)) {
        let sql = "DELETE FROM run_inbox WHERE partition = ?1 AND run_id = ?2";
        tx.execute(sql, params![partition.0, run.to_bytes()])?;
        batch.ids.push(run);
    }
    for id in &batch.ids {
        batch.open.runs.extend(open_run(tx.conn(), *id)?);
    }
    batch.open.specs = load_specs(tx.conn(), &batch.open.runs)?;
    Ok(batch)
}

/// Which of the runs have not ended.
pub(super) fn still_open(conn: &Connection, runs: &[RunId]) -> Result<Vec<RunId>> {
    let mut open = Vec::new();
    for run in runs {
        let sql = "SELECT id FROM open_run WHERE id = ?1";
        open.extend(find(conn, sql, [run.to_bytes()], |row| get_run_id(row, 0))?);
    }
    Ok(open)
}

/// The newest end of a run of each job.
pub(super) fn last_ends(conn: &Connection, jobs: &[JobId]) -> Result<Vec<(JobId, DateTime<Utc>)>> {
    let mut ends = Vec::new();
    for job in jobs {
        let sql = "SELECT max(ended_at) FROM ended_run WHERE job_id = ?1 AND state <> 'SKIPPED'";
        let end: Option<Option<i64>> = find(conn, sql, [job.0], |row| row.get(0))?;
        ends.extend(end.flatten().map(|end| (*job, rows::at(end))));
    }
    Ok(ends)
}

/// Refreshes `next_fire_at` of jobs.
pub(super) fn show_next_fires(
    tx: &mut Tx<'_>,
    next: &[(JobId, Option<DateTime<Utc>>)],
) -> Result<()> {
    for (job, fire) in next {
        tx.execute("UPDATE job SET next_fire_at = ?2 WHERE id = ?1", params![job.0, fire.map(us)])?;
    }
    Ok(())
}

/// Inserts planned runs and skips of the partitions whose row is as the owner knows it.
pub(super) fn plan(tx: &mut Tx<'_>, plan: &Plan, now: DateTime<Utc>) -> Result<Planned> {
    tx.note_time(now);
    let mut planned = Planned::default();
    let only_adds = !plan.runs.is_empty() && plan.skips.is_empty();
    let mut behind = HashMap::new();
    for advance in &plan.advances {
        let Some(version) = nodes::jobs_version(tx.conn(), advance)? else { continue };
        if version != advance.jobs_version {
            if !only_adds {
                continue;
            }
            behind.insert(advance.partition, advance.jobs_version);
        }
        if plan.runs.is_empty() {
            nodes::advance(tx, advance)?;
        }
        planned.advanced.push(advance.partition);
    }
    for PlanRow { run, to } in &plan.runs {
        let partition = run.job.partition();
        if !planned.advanced.contains(&partition) {
            continue;
        }
        if let Some(version) = behind.get(&partition)
            && nodes::has_changed(tx.conn(), run.job, *version)?
        {
            planned.changed.push(run.job);
            continue;
        }
        if insert_run_to(tx, run, to.as_ref(), now)? {
            planned.inserted.push(run.id);
        }
    }
    count_uses(tx, &plan.uses)?;
    for skip in &plan.skips {
        if planned.advanced.contains(&skip.job.partition()) {
            insert_skip(tx, skip, now)?;
        }
    }
    Ok(planned)
}

/// Inserts a run as QUEUED, attempt 1, fence 0, unless its id exists already, open or ended.
/// Watchers hear of it once it is due: until then lists leave it out.
pub(super) fn insert_run(tx: &mut Tx<'_>, run: &NewRun, now: DateTime<Utc>) -> Result<bool> {
    insert_run_to(tx, run, None, now)
}

/// The same, as DISPATCHED with fence 1 where it has an addressee.
fn insert_run_to(
    tx: &mut Tx<'_>,
    run: &NewRun,
    to: Option<&Addressee>,
    now: DateTime<Utc>,
) -> Result<bool> {
    let extra = run.extra.as_deref().map(json).transpose()?;
    let state = if to.is_some() { RunState::Dispatched } else { RunState::Queued };
    let inserted = tx.execute(
        "INSERT OR FAIL INTO open_run (id, job_id, app_id, partition, revision, trigger, state,
             fire_at, due_at, created_at, extra, executor, session_epoch, fence, dispatched_at)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?11, ?7, ?8, ?9, ?10, ?12, ?13, ?14, ?15
         WHERE NOT EXISTS (SELECT 1 FROM ended_run WHERE id = ?1)
         ON CONFLICT DO NOTHING",
        params![
            run.id.to_bytes(),
            run.job.0,
            run.app.0,
            run.job.partition().0,
            count(run.revision),
            run.trigger.as_str(),
            us(run.fire_at),
            us(run.due_at),
            us(now),
            extra,
            state.as_str(),
            to.map(|to| &*to.executor),
            to.map_or(0, |to| count(to.session_epoch)),
            u8::from(to.is_some()),
            to.map(|_| us(now)),
        ],
    )?;
    if inserted == 1 && run.due_at <= now {
        tx.changed(run.id);
    }
    Ok(inserted == 1)
}

/// Inserts a decision not to run as an ended row, unless its id exists already.
pub(super) fn insert_skip(tx: &mut Tx<'_>, skip: &Skip, now: DateTime<Utc>) -> Result<()> {
    let inserted = tx.execute(
        "INSERT INTO ended_run (id, job_id, app_id, revision, trigger, state, fire_at, due_at,
             created_at, attempt, fence, lost, session_epoch, ended_at, message, missed_count,
             missed_until)
         SELECT ?1, ?2, ?3, ?4, 'SCHEDULE', ?5, ?6, ?6, ?7, 1, 0, 0, 0, ?7, ?8, ?9, ?10
         WHERE NOT EXISTS (SELECT 1 FROM open_run WHERE id = ?1)
         ON CONFLICT DO NOTHING",
        params![
            skip.id.to_bytes(),
            skip.job.0,
            skip.app.0,
            count(skip.revision),
            RunState::Skipped.as_str(),
            us(skip.fire_at),
            us(now),
            skip.message,
            skip.missed_count,
            us(skip.missed_until),
        ],
    )?;
    if inserted == 1 {
        tx.changed(skip.id);
    }
    Ok(())
}

/// QUEUED → DISPATCHED. Returns the refs to send, with the new fence.
pub(super) fn dispatch(
    tx: &mut Tx<'_>,
    batch: &Dispatch,
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    tx.note_time(now);
    let mut sent = Vec::with_capacity(batch.rows.len());
    let mut update = tx.prepare(
        "UPDATE open_run SET state = 'DISPATCHED', executor = ?4, session_epoch = ?5,
             fence = fence + 1, dispatched_at = ?6, acked_at = NULL, message = ''
         WHERE id = ?1 AND attempt = ?2 AND fence = ?3 AND state = 'QUEUED'",
    )?;
    for row in &batch.rows {
        let AttemptRef { run, attempt, fence } = row.attempt;
        let changed = update.execute(params![
            run.to_bytes(),
            attempt,
            count(fence),
            &*row.to.executor,
            count(row.to.session_epoch),
            us(now),
        ])?;
        if changed == 1 {
            sent.push(AttemptRef { run, attempt, fence: fence + 1 });
            tx.changed(run);
        }
    }
    count_uses(tx, &batch.uses)?;
    Ok(sent)
}

/// Writes what routes have counted.
fn count_uses(tx: &mut Tx<'_>, uses: &[(JobId, Uses)]) -> Result<()> {
    for (job, uses) in uses {
        tx.execute(
            "INSERT INTO route_cursor (job_id, cursor, uses) VALUES (?1, 0, ?2)
             ON CONFLICT (job_id) DO UPDATE SET uses = excluded.uses",
            params![job.0, json(&**uses)?],
        )?;
    }
    Ok(())
}

/// RETRY_WAIT → QUEUED with the next attempt. Returns them as they are now.
pub(super) fn wake_retries(
    tx: &mut Tx<'_>,
    runs: &[AttemptRef],
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    tx.note_time(now);
    let mut woken = Vec::with_capacity(runs.len());
    for AttemptRef { run, attempt, fence } in runs {
        let changed = tx.execute(
            "UPDATE open_run SET state = 'QUEUED', attempt = attempt + 1, dispatched_at = NULL,
                 acked_at = NULL, message = ''
             WHERE id = ?1 AND attempt = ?2 AND fence = ?3 AND state = 'RETRY_WAIT'",
            params![run.to_bytes(), attempt, count(*fence)],
        )?;
        if changed == 1 {
            woken.push(AttemptRef { run: *run, attempt: attempt + 1, fence: *fence });
            tx.changed(*run);
        }
    }
    Ok(woken)
}
