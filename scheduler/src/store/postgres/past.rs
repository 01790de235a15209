//! What became of past fire times, and runs that make up for them by hand.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore, jobs, planned,
    requests::{answered, begin, commit, remember},
    rows::{Reader, execute, query},
};
use crate::{
    model::{
        ids::{JobId, RunId},
        misfire::{Decided, MISSED_COUNT_MAX},
        run::NewRun,
    },
    store::{
        BACKFILL_RUNS_MAX, Result, StoreError, Topic,
        schedules::{Backfill, Backfilled},
    },
};

/// What was decided of each job's fire times within its span. Ids carry the fire time, so the rows
/// of a span lie together. Open runs are found by id alone: those of all spans are read once, since
/// after an outage each span may hold the runs of very many jobs.
pub(super) async fn decided(
    client: &impl GenericClient,
    spans: &[(JobId, DateTime<Utc>, DateTime<Utc>)],
) -> Result<Vec<(JobId, Decided)>> {
    let sql = "SELECT o.job_id, o.fire_at, NULL::timestamptz FROM open_run o
        WHERE o.id >= $2 AND o.id < $3 AND o.job_id = ANY($1::bigint[])
            AND o.trigger IN ('SCHEDULE', 'MISFIRE')
        UNION ALL
        SELECT w.job_id, e.fire_at, e.missed_until
        FROM unnest($1::bigint[], $4::uuid[], $5::uuid[]) AS w (job_id, first_id, end_id)
        CROSS JOIN LATERAL (
            SELECT e.fire_at, e.missed_until FROM ended_run e
            WHERE e.job_id = w.job_id AND e.id >= w.first_id AND e.id < w.end_id
                AND e.trigger IN ('SCHEDULE', 'MISFIRE') LIMIT $6
        ) AS e";
    let jobs: Vec<i64> = spans.iter().map(|(job, ..)| job.0).collect();
    let floor = |at: DateTime<Utc>| RunId::first_at(at).to_uuid();
    let first_ids: Vec<Uuid> = spans.iter().map(|(_, first, _)| floor(*first)).collect();
    let after = |last: DateTime<Utc>| floor(last + TimeDelta::milliseconds(1));
    let end_ids: Vec<Uuid> = spans.iter().map(|(.., last)| after(*last)).collect();
    let (Some(least), Some(most)) = (first_ids.iter().min(), end_ids.iter().max()) else {
        return Ok(Vec::new());
    };
    let max = i64::try_from(MISSED_COUNT_MAX).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 6] = [&jobs, least, most, &first_ids, &end_ids, &max];
    let within: HashMap<JobId, _> =
        spans.iter().map(|(job, first, last)| (*job, *first..=*last)).collect();
    let mut decided: HashMap<JobId, Decided> = HashMap::new();
    for row in query(client, sql, &params).await? {
        let mut row = Reader::new(&row);
        let job = JobId(row.get()?);
        let of = decided.entry(job).or_default();
        let fire: DateTime<Utc> = row.get()?;
        match row.get::<Option<DateTime<Utc>>>()? {
            Some(until) => of.stretches.push((fire, until)),
            None if within.get(&job).is_some_and(|span| span.contains(&fire)) => {
                of.alone.insert(fire);
            }
            None => {}
        }
    }
    Ok(decided.into_iter().collect())
}

/// The job's row is locked: two backfills of a job come one after the other, and a deletion before
/// or after.
pub(super) async fn backfill(
    store: &PostgresStore,
    backfill: &Backfill,
    now: DateTime<Utc>,
) -> Result<Backfilled> {
    if backfill.runs.len() > BACKFILL_RUNS_MAX {
        return Err(StoreError::Internal(format!("over {BACKFILL_RUNS_MAX} runs of a backfill")));
    }
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    // A dry run leaves no answer behind: the transaction is given up at its end.
    if let Some(answer) = answered(&tx, backfill.request.as_ref(), now).await? {
        return Backfilled::parse(&answer).ok_or_else(|| {
            StoreError::Corrupt(format!("the answer to a request is no backfill: {answer:?}"))
        });
    }
    jobs::lock(&tx, backfill.job).await?;
    let runs = without_run(&tx, backfill).await?;
    let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
    let had_run = count(backfill.runs.len() - runs.len());
    let done = Backfilled { made: count(runs.len()), had_run };
    if backfill.dry_run {
        return Ok(done);
    }
    let made = planned::insert_runs(&tx, &runs, now).await?;
    if made.len() != runs.len() {
        return Err(StoreError::AlreadyExists("a run of the backfill".to_owned()));
    }
    let fires: Vec<_> = runs.iter().map(|run| run.fire_at).collect();
    let ids: Vec<Uuid> = runs.iter().map(|run| run.id.to_uuid()).collect();
    let sql = "INSERT INTO backfill (job_id, fire_at, run_id, made_at)
        SELECT $1, w.fire_at, w.run_id, $2
        FROM unnest($3::timestamptz[], $4::uuid[]) AS w (fire_at, run_id)";
    execute(&tx, sql, &[&backfill.job.0, &now, &fires, &ids]).await?;
    remember(&tx, backfill.request.as_ref(), &done.to_text()).await?;
    commit(tx).await?;
    store.hints.tell(Topic::Inbox(backfill.job.partition()));
    store.hints.tell(Topic::RunEvents);
    Ok(done)
}

/// The runs whose fire time has none yet.
async fn without_run(
    tx: &deadpool_postgres::Transaction<'_>,
    backfill: &Backfill,
) -> Result<Vec<NewRun>> {
    let sql = "SELECT w.fire_at FROM unnest($2::timestamptz[], $3::uuid[]) AS w (fire_at, id)
        WHERE EXISTS (SELECT FROM open_run o WHERE o.id = w.id)
            OR EXISTS (SELECT FROM ended_run e WHERE e.id = w.id AND e.state <> 'SKIPPED')
            OR EXISTS (SELECT FROM backfill b WHERE b.job_id = $1 AND b.fire_at = w.fire_at)";
    let fires: Vec<_> = backfill.runs.iter().map(|run| run.fire_at).collect();
    let planned = fires.iter().map(|at| RunId::scheduled(backfill.job, *at).to_uuid());
    let planned: Vec<Uuid> = planned.collect();
    let mut taken = HashSet::new();
    for row in query(tx, sql, &[&backfill.job.0, &fires, &planned]).await? {
        taken.insert(Reader::new(&row).get::<DateTime<Utc>>()?);
    }
    Ok(backfill.runs.iter().filter(|run| !taken.contains(&run.fire_at)).cloned().collect())
}
