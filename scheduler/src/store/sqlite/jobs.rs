//! Jobs, their revisions, runs by hand, and answers to repeated requests.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    calendars, chains, nodes, owner, past,
    rows::{self, JOB, count, get_run_id, job_state_text, us},
    runs,
    writer::{Tx, all, find},
};
use crate::{
    model::{
        ids::{AppId, AttemptRef, JobId, RunId},
        job::{Job, JobSpec},
        misfire::Missed,
        plan,
    },
    store::{
        NAMESAKES_MAX, Result, StoreError, Topic,
        ops::{EndRun, JobChange, NewJob, NewRun, Replan, ReplanInput, RequestKey},
        specs,
    },
};

/// What was answered to the request before, if it was made before.
pub(super) fn answered(tx: &Tx<'_>, request: Option<&RequestKey>) -> Result<Option<String>> {
    request.map_or(Ok(None), |request| find_answer(tx.conn(), request))
}

/// The answer to the request, if it was made before.
pub(super) fn find_answer(conn: &Connection, request: &RequestKey) -> Result<Option<String>> {
    let sql = "SELECT body_hash, answer FROM request WHERE key = ?1";
    let found = find(conn, sql, [&request.key], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?))
    })?;
    match found {
        Some((hash, _)) if hash != request.body_hash => Err(StoreError::Conflict(
            "the request id was used before for another request".to_owned(),
        )),
        found => Ok(found.map(|(_, answer)| answer)),
    }
}

/// Keeps the answer for a repeat of the request.
pub(super) fn remember(
    tx: &Tx<'_>,
    request: Option<&RequestKey>,
    answer: &str,
    now: DateTime<Utc>,
) -> Result<()> {
    let Some(request) = request else { return Ok(()) };
    tx.execute(
        "INSERT INTO request (key, body_hash, answer, at) VALUES (?1, ?2, ?3, ?4)",
        params![request.key, request.body_hash, answer, us(now)],
    )?;
    Ok(())
}

/// One job by name.
pub(super) fn get(conn: &Connection, app: &str, name: &str) -> Result<Job> {
    let sql = format!(
        "SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id
         WHERE a.name = ?1 AND j.name = ?2 AND j.deleted_at IS NULL"
    );
    let found = find(conn, &sql, [app, name], rows::job)?;
    let mut job = found.ok_or_else(|| StoreError::NotFound(format!("apps/{app}/jobs/{name}")))?;
    calendars::attach(conn, std::slice::from_mut(&mut job))?;
    Ok(job)
}

/// Two searches, since the index of names has living jobs only.
pub(super) fn named(conn: &Connection, app: &str, name: &str) -> Result<Vec<JobId>> {
    let sql = "SELECT j.id FROM app a JOIN job j ON j.app_id = a.id
                   WHERE a.name = ?1 AND j.name = ?2 AND j.deleted_at IS NULL
               UNION ALL SELECT j.id FROM app a JOIN job j ON j.app_id = a.id
                   WHERE a.name = ?1 AND j.name = ?2 AND j.deleted_at IS NOT NULL
               ORDER BY 1 DESC LIMIT ?3";
    all(conn, sql, params![app, name, NAMESAKES_MAX], |row| row.get(0).map(JobId))
}

/// The job with its calendars, deleted or not.
pub(super) fn stored(conn: &Connection, id: JobId) -> Result<Job> {
    let sql = format!("SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id WHERE j.id = ?1");
    let found = find(conn, &sql, [id.0], rows::job)?;
    let mut job = found.ok_or_else(|| StoreError::NotFound("the job".to_owned()))?;
    calendars::attach(conn, std::slice::from_mut(&mut job))?;
    Ok(job)
}

/// Creates a job with its first revision and the runs of its first seconds.
pub(super) fn create(
    tx: &mut Tx<'_>,
    new: &NewJob,
    replan: Replan,
    now: DateTime<Utc>,
) -> Result<Job> {
    tx.note_time(now);
    if let Some(answer) = answered(tx, new.request.as_ref())? {
        let id = answer.parse().map_err(|_| {
            StoreError::Corrupt(format!("the answer to a request is no job: {answer:?}"))
        })?;
        return stored(tx.conn(), JobId(id));
    }
    let name = free_name(tx.conn(), new.app, &new.name)?;
    chains::refuse_cycle(tx.conn(), &name, &new.spec)?;
    let id = find(
        tx.conn(),
        "INSERT INTO job (app_id, name, partition, state, spec, revision, version, jobs_version,
             created_at, updated_at, updated_by, effective_from)
         VALUES (?1, ?2, 0, ?3, ?4, 1, 1, 0, ?5, ?5, ?6, ?5) RETURNING id",
        params![
            new.app.0,
            new.name,
            job_state_text(new.state),
            specs::write(&new.spec)?,
            us(now),
            new.updated_by,
        ],
        |row| row.get(0).map(JobId),
    )?
    .ok_or_else(|| StoreError::Internal("a job was not stored".to_owned()))?;
    let partition = id.partition();
    let jobs_version = nodes::raise_jobs_version(tx, partition)?;
    tx.execute(
        "UPDATE job SET partition = ?2, jobs_version = ?3 WHERE id = ?1",
        params![id.0, partition.0, count(jobs_version)],
    )?;
    calendars::link(tx, id, &JobSpec::default(), &new.spec)?;
    let job = stored(tx.conn(), id)?;
    insert_revision(tx, &job)?;
    insert_planned(tx, &job, replan, now)?;
    remember(tx, new.request.as_ref(), &id.0.to_string(), now)?;
    tx.hint(Topic::Jobs(partition));
    Ok(job)
}

/// The resource name of a new job, unless it is taken.
fn free_name(conn: &Connection, app: AppId, name: &str) -> Result<String> {
    let sql = "SELECT a.name, (SELECT count(*) FROM job j
                   WHERE j.app_id = a.id AND j.name = ?2 AND j.deleted_at IS NULL)
               FROM app a WHERE a.id = ?1";
    let found = find(conn, sql, params![app.0, name], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    match found {
        None => Err(StoreError::NotFound("the app".to_owned())),
        Some((app, 1..)) => Err(StoreError::AlreadyExists(format!("apps/{app}/jobs/{name}"))),
        Some((app, _)) => Ok(format!("apps/{app}/jobs/{name}")),
    }
}

fn insert_revision(tx: &Tx<'_>, job: &Job) -> Result<()> {
    tx.execute(
        "INSERT INTO job_revision (job_id, revision, spec, updated_at, updated_by)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            job.id.0,
            count(job.revision),
            specs::write(&job.spec)?,
            us(job.updated_at),
            job.updated_by,
        ],
    )?;
    Ok(())
}

/// Inserts what the replan makes, and leaves it to the owner; returns the ids.
pub(super) fn insert_planned(
    tx: &mut Tx<'_>,
    job: &Job,
    replan: impl FnOnce(&ReplanInput) -> Vec<NewRun>,
    now: DateTime<Utc>,
) -> Result<HashSet<RunId>> {
    let partition = nodes::find_partition(tx.conn(), job.partition, now)?
        .ok_or_else(|| StoreError::Internal(format!("partition {} has no row", job.partition.0)))?;
    let input = ReplanInput { job: job.clone(), partition, now };
    let mut made = HashSet::new();
    for run in replan(&input) {
        if owner::insert_run(tx, &run, now)? {
            tx.leave_in_inbox(job.partition, run.id)?;
            made.insert(run.id);
        }
    }
    Ok(made)
}

/// Inserts the runs of a job's fire times that have come and that its owner is only about to serve.
/// Where the change `cuts_past`, also what its misfire policy makes of those that nobody has served.
pub(super) fn insert_passed(
    tx: &mut Tx<'_>,
    job: &Job,
    cuts_past: bool,
    now: DateTime<Utc>,
) -> Result<()> {
    let mut missed = Missed::default();
    let passed = |input: &ReplanInput| {
        let planned_until = input.partition.planned_until;
        let mut runs = plan::passed_fires(&input.job, planned_until, now);
        if cuts_past {
            let (old, mut spread) = plan::missed_fires(&input.job, planned_until, now);
            missed = old;
            runs.append(&mut spread);
        }
        runs
    };
    insert_planned(tx, job, passed, now)?;
    let Some((first, last)) = missed.span() else { return Ok(()) };
    let decided = past::decided(tx.conn(), &[(job.id, first, last)])?.pop();
    let decided = decided.map(|(_, decided)| decided).unwrap_or_default();
    let (made_up, skip) = plan::settle_missed(job, missed, &decided, now);
    insert_planned(tx, job, |_| made_up, now)?;
    skip.iter().try_for_each(|skip| owner::insert_skip(tx, skip, now))
}

/// Changes a job: removes its unsent planned runs, applies the change, plans anew.
pub(super) fn change(
    tx: &mut Tx<'_>,
    id: JobId,
    change: &JobChange,
    replan: Replan,
    now: DateTime<Utc>,
) -> Result<Job> {
    tx.note_time(now);
    let before = stored(tx.conn(), id)?;
    if let Some(refusal) = change.refusal(&before) {
        return Err(refusal);
    }
    if let Some(spec) = &change.spec {
        chains::refuse_cycle(tx.conn(), &before.resource_name(), spec)?;
    }
    let jobs_version = nodes::raise_jobs_version(tx, before.partition)?;
    insert_passed(tx, &before, change.cuts_past(), now)?;
    if change.drop_due {
        skip_due(tx, &before, change.skip_message(), now)?;
    }
    let gone = remove_planned(tx, &before, now)?;
    let nothing = JobSpec::default();
    let named = if change.delete { &nothing } else { change.spec.as_ref().unwrap_or(&before.spec) };
    calendars::link(tx, id, &before.spec, named)?;
    let mut after = change.applied(before, now);
    calendars::attach(tx.conn(), std::slice::from_mut(&mut after))?;
    tx.execute(
        "UPDATE job SET state = ?2, spec = ?3, revision = ?4, version = ?5, jobs_version = ?6,
             updated_at = ?7, updated_by = ?8, pause_until = ?9, pause_reason = ?10,
             effective_from = ?11, problem = ?12, deleted_at = ?13, next_fire_at = NULL
         WHERE id = ?1",
        params![
            id.0,
            job_state_text(after.state),
            specs::write(&after.spec)?,
            count(after.revision),
            count(after.version),
            count(jobs_version),
            us(after.updated_at),
            after.updated_by,
            after.pause_until.map(us),
            after.pause_reason,
            us(after.effective_from),
            after.problem,
            after.deleted.then(|| us(now)),
        ],
    )?;
    if change.spec.is_some() {
        insert_revision(tx, &after)?;
    }
    let made = insert_planned(tx, &after, replan, now)?;
    // Whoever watches planned runs is told of those that are not there any more.
    for run in gone.into_iter().filter(|run| !made.contains(run)) {
        tx.deleted(run);
    }
    tx.hint(Topic::Jobs(after.partition));
    Ok(after)
}

/// Ends the job's planned runs whose fire time has come and that were never sent: nobody sends them
/// now, and each is told; shards of a run that goes on stay with it.
fn skip_due(tx: &mut Tx<'_>, job: &Job, message: &str, now: DateTime<Utc>) -> Result<()> {
    let due = all(
        tx.conn(),
        "SELECT id, attempt FROM open_run
         WHERE job_id = ?1 AND state = 'QUEUED' AND fence = 0
             AND trigger IN ('SCHEDULE', 'MISFIRE') AND fire_at <= ?2
             AND extra ->> '$.parent' IS NULL",
        params![job.id.0, us(now)],
        |row| Ok(AttemptRef { run: get_run_id(row, 0)?, attempt: row.get(1)?, fence: 0 }),
    )?;
    let skips: Vec<EndRun> =
        due.iter().map(|attempt| EndRun::skip(*attempt, message.to_owned())).collect();
    runs::end(tx, &skips, now)?;
    due.iter().try_for_each(|attempt| tx.leave_in_inbox(job.partition, attempt.run))
}

/// Removes the job's planned runs that were never sent and are not due; returns their ids.
pub(super) fn remove_planned(tx: &mut Tx<'_>, job: &Job, now: DateTime<Utc>) -> Result<Vec<RunId>> {
    let gone = all(
        tx.conn(),
        "DELETE FROM open_run
         WHERE job_id = ?1 AND state = 'QUEUED' AND fence = 0
             AND trigger IN ('SCHEDULE', 'MISFIRE') AND due_at > ?2
         RETURNING id",
        params![job.id.0, us(now)],
        |row| get_run_id(row, 0),
    )?;
    gone.iter().try_for_each(|run| tx.leave_in_inbox(job.partition, *run))?;
    Ok(gone)
}

/// Revisions of a job, newest first.
pub(super) fn list_revisions(
    conn: &Connection,
    job: JobId,
    before: u64,
    limit: u32,
) -> Result<Vec<Job>> {
    let sql = "SELECT j.id, j.app_id, a.name, j.name, j.partition, j.state, v.spec,
                   v.revision, j.version, j.created_at, v.updated_at, v.updated_by, j.pause_until,
                   j.pause_reason, j.effective_from, j.next_fire_at, j.problem, j.deleted_at
               FROM job_revision v JOIN job j ON j.id = v.job_id JOIN app a ON a.id = j.app_id
               WHERE v.job_id = ?1 AND (?2 = 0 OR v.revision < ?2)
               ORDER BY v.revision DESC LIMIT ?3";
    all(conn, sql, params![job.0, count(before), limit], rows::job)
}

/// Makes a run by hand and leaves it to the owner.
pub(super) fn create_run(
    tx: &mut Tx<'_>,
    run: &NewRun,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<RunId> {
    tx.note_time(now);
    if let Some(answer) = answered(tx, request)? {
        return answer.parse().map_err(|_| {
            StoreError::Corrupt(format!("the answer to a request is no run: {answer:?}"))
        });
    }
    let job = stored(tx.conn(), run.job)?;
    if job.deleted {
        return Err(StoreError::NotFound(job.resource_name()));
    }
    if !owner::insert_run(tx, run, now)? {
        return Err(StoreError::AlreadyExists(format!("run {}", run.id)));
    }
    tx.leave_in_inbox(job.partition, run.id)?;
    remember(tx, request, &run.id.to_string(), now)?;
    Ok(run.id)
}
