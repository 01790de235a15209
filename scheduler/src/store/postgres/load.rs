//! What an owner keeps in memory: jobs, open runs, and what changed of them.

use std::{collections::BTreeSet, sync::Arc};

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::{
    PostgresStore, calendars,
    rows::{
        self, JOB, OPEN_RUN, Reader, big, execute, open_run, parse_json, query, read_all, smalls,
        uuids,
    },
};
use crate::{
    model::{
        ids::{JobId, PartitionId, RunId},
        job::Job,
        run::OpenRun,
    },
    store::{
        Result,
        ops::{InboxBatch, OpenRuns, RevisionSpec, RunScope},
    },
};

/// Ids taken out of the inbox at once.
const INBOX_BATCH_MAX: i64 = 1_000;

pub(super) async fn load_jobs(
    store: &PostgresStore,
    changed: &[(PartitionId, u64)],
) -> Result<Vec<Job>> {
    let mut sql = format!(
        "SELECT {JOB} FROM unnest($1::smallint[], $2::bigint[]) AS c (partition, version)
        JOIN job j ON j.partition = ANY(ARRAY[c.partition]) AND j.jobs_version > c.version
        JOIN app a ON a.id = j.app_id"
    );
    let partitions = smalls(changed.iter().map(|(partition, _)| *partition));
    let versions: Vec<i64> = changed.iter().map(|(_, version)| big(*version)).collect();
    // Of changed jobs there are few, and an owner waits for them; of all jobs there may be any number.
    // No pinned plan may name a table that has no key for it: beside its cost all others are alike.
    let client = if changed.iter().all(|(_, version)| *version > 0) {
        store.hot().await?
    } else {
        sql += " WHERE c.version > 0 OR j.deleted_at IS NULL
            OR j.id IN (SELECT DISTINCT job_id FROM open_run)";
        store.client().await?
    };
    let job = |row: &Row| rows::job_with(row, |text| store.specs.read(text));
    let mut jobs = read_all(&client, &sql, &[&partitions, &versions], job).await?;
    calendars::attach(&client, &mut jobs).await?;
    Ok(jobs)
}

pub(super) async fn load_open_runs(store: &PostgresStore, scope: &RunScope) -> Result<OpenRuns> {
    let client = match scope {
        // Asked for with each change of jobs, and an owner waits for it.
        RunScope::Unsent(_) => store.hot().await?,
        _ => store.client().await?,
    };
    let base = format!("SELECT {OPEN_RUN} FROM open_run r WHERE");
    let found = match scope {
        RunScope::Partitions(partitions) => {
            let ids = smalls(partitions.iter().copied());
            query(&client, &format!("{base} r.partition = ANY($1)"), &[&ids]).await?
        }
        RunScope::Jobs(jobs) => {
            let ids: Vec<i64> = jobs.iter().map(|job| job.0).collect();
            query(&client, &format!("{base} r.job_id = ANY($1)"), &[&ids]).await?
        }
        RunScope::Unsent(jobs) => {
            let ids: Vec<i64> = jobs.iter().map(|job| job.0).collect();
            let sql = format!(
                "SELECT {OPEN_RUN} FROM unnest($1::bigint[]) AS w (id)
                JOIN open_run r ON r.job_id = ANY(ARRAY[w.id]) AND r.waited AND r.fence = 0"
            );
            query(&client, &sql, &[&ids]).await?
        }
        RunScope::Executor(app, name) => {
            let sql = format!(
                "{base} r.app_id = $1 AND r.executor = $2
                AND r.state IN ('DISPATCHED', 'RUNNING', 'CANCELING')"
            );
            query(&client, &sql, &[&app.0, name]).await?
        }
    };
    with_specs(&client, found.iter().map(open_run).collect::<Result<_>>()?).await
}

/// The runs with the specs of the revisions they refer to.
pub(super) async fn with_specs(
    client: &impl GenericClient,
    runs: Vec<OpenRun>,
) -> Result<OpenRuns> {
    let wanted: BTreeSet<(i64, i64)> =
        runs.iter().map(|run| (run.job.0, big(run.revision))).collect();
    if wanted.is_empty() {
        return Ok(OpenRuns { runs, specs: Vec::new() });
    }
    let (jobs, revisions): (Vec<i64>, Vec<i64>) = wanted.into_iter().unzip();
    let sql = "SELECT v.job_id, v.revision, v.spec::text
        FROM unnest($1::bigint[], $2::bigint[]) AS w (job_id, revision)
        JOIN job_revision v ON v.job_id = ANY(ARRAY[w.job_id])
            AND v.revision = ANY(ARRAY[w.revision])";
    let found = query(client, sql, &[&jobs, &revisions]).await?;
    let specs = found.iter().map(|row| {
        let mut row = Reader::new(row);
        Ok(RevisionSpec {
            job: JobId(row.get()?),
            revision: row.number()?,
            // An unreadable one is left empty, as in the job itself.
            spec: Arc::new(parse_json(row.get()?).unwrap_or_default()),
        })
    });
    Ok(OpenRuns { runs, specs: specs.collect::<Result<_>>()? })
}

/// Ids and rows come of one snapshot, so a row is at least as new as the change its id told of; a
/// later change has a row of its own in the inbox. Its rows are found once and removed where they lie:
/// joined to them, the table could be read once for each of its rows, seconds for some thousand.
pub(super) async fn take_inbox(
    store: &PostgresStore,
    partitions: &[PartitionId],
) -> Result<InboxBatch> {
    let sql = format!(
        "WITH taken AS (
            DELETE FROM run_inbox WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM run_inbox
                WHERE partition = ANY($1::smallint[]) AND partition = ANY($2::smallint[])
                ORDER BY partition, seq LIMIT $3
            )) RETURNING run_id
        )
        SELECT t.run_id, r.id IS NOT NULL, {OPEN_RUN}
        FROM (SELECT DISTINCT run_id FROM taken) AS t LEFT JOIN open_run r ON r.id = t.run_id"
    );
    let (asked, held) = (smalls(partitions.iter().copied()), store.pen.partitions());
    let found = store.pen.write(&sql, &[&asked, &held, &INBOX_BATCH_MAX]).await?;
    let mut batch = InboxBatch::default();
    let mut runs = Vec::new();
    for row in &found {
        let mut row = Reader::new(row);
        batch.ids.push(row.run()?);
        if row.get()? {
            runs.push(rows::read_open_run(&mut row)?);
        }
    }
    if !runs.is_empty() {
        batch.open = with_specs(&store.client().await?, runs).await?;
    }
    Ok(batch)
}

pub(super) async fn open_runs(store: &PostgresStore, runs: &[RunId]) -> Result<Vec<OpenRun>> {
    let sql = format!(
        "SELECT {OPEN_RUN} FROM unnest($1::uuid[]) AS w (id)
        JOIN open_run r ON r.id = ANY(ARRAY[w.id])"
    );
    let found = query(&store.hot().await?, &sql, &[&uuids(runs)]).await?;
    found.iter().map(open_run).collect()
}

pub(super) async fn still_open(store: &PostgresStore, runs: &[RunId]) -> Result<Vec<RunId>> {
    let sql = "SELECT r.id FROM unnest($1::uuid[]) AS w (id)
        JOIN open_run r ON r.id = ANY(ARRAY[w.id])";
    let found = query(&store.hot().await?, sql, &[&uuids(runs)]).await?;
    found.iter().map(|row| Reader::new(row).run()).collect()
}

/// The newest run by id is the one that ended last, but for runs that overlapped: among the last
/// few of a job the newest end is looked for.
pub(super) async fn last_ends(
    store: &PostgresStore,
    jobs: &[JobId],
) -> Result<Vec<(JobId, DateTime<Utc>)>> {
    let sql = "SELECT w.job_id, e.ended_at FROM unnest($1::bigint[]) AS w (job_id)
        CROSS JOIN LATERAL (
            SELECT max(l.ended_at) AS ended_at FROM (
                SELECT e.ended_at FROM ended_run e WHERE e.job_id = w.job_id
                AND e.state <> 'SKIPPED' ORDER BY e.id DESC LIMIT 16
            ) AS l
        ) AS e WHERE e.ended_at IS NOT NULL";
    let ids: Vec<i64> = jobs.iter().map(|job| job.0).collect();
    let found = query(&store.client().await?, sql, &[&ids]).await?;
    let ends = found.iter().map(|row| {
        let mut row = Reader::new(row);
        Ok((JobId(row.get()?), row.get()?))
    });
    ends.collect()
}

pub(super) async fn show_next_fires(
    store: &PostgresStore,
    next: &[(JobId, Option<DateTime<Utc>>)],
) -> Result<()> {
    let sql = "UPDATE job j SET next_fire_at = n.at
        FROM unnest($1::bigint[], $2::timestamptz[]) AS n (id, at)
        WHERE j.id = ANY(ARRAY[n.id]) AND j.next_fire_at IS DISTINCT FROM n.at";
    let mut next = next.to_vec();
    next.sort_unstable_by_key(|(job, _)| *job);
    let (jobs, times): (Vec<i64>, Vec<_>) = next.iter().map(|(job, at)| (job.0, *at)).unzip();
    execute(&store.hot().await?, sql, &[&jobs, &times]).await.map(|_| ())
}
