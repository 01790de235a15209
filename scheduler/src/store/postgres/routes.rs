//! What routes go by: uses that were counted, and newest dispatches.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use deadpool_postgres::Object;

use super::{
    PostgresStore,
    rows::{Reader, query},
};
use crate::{
    model::{
        ids::{JobId, RunId},
        route::{Use, Uses},
    },
    store::{
        Result,
        routes::{DISPATCHES_LOOKED_AT, RouteStore},
    },
};

/// Most jobs have run within the last day: so far back is looked at once, which leaves the partitions
/// of all other days alone. An hour more, for those that run daily.
const NEAR: TimeDelta = TimeDelta::hours(25);

/// Runs of one dispatch have one time, and were placed in the order in which they were due. A run
/// that waits for its next attempt was sent as the one before. Open runs are found by their id alone,
/// so all of them are looked at, once for all jobs; of ended ones, the newest of each job.
const LAST_DISPATCH: &str = "WITH open AS MATERIALIZED (
        SELECT r.job_id, r.app_id, r.executor, r.dispatched_at, r.due_at, r.id, r.extra, r.attempt
        FROM open_run r WHERE r.job_id = ANY($1::bigint[])
            AND r.extra ->> 'target_executor' IS NULL
    ), sent AS (
        SELECT job_id, app_id, executor, dispatched_at, due_at, id FROM open
        UNION ALL
        SELECT o.job_id, o.app_id, a.executor, a.dispatched_at, o.due_at, o.id FROM open o
        JOIN attempt a ON a.run_id = o.id WHERE o.attempt > 1
        UNION ALL
        SELECT e.job_id, e.app_id, e.executor, e.dispatched_at, coalesce(e.due_at, e.fire_at), e.id
        FROM unnest($1::bigint[]) AS w (job_id) CROSS JOIN LATERAL (
            SELECT * FROM ended_run e WHERE e.job_id = w.job_id AND e.id >= $2
            ORDER BY e.id DESC LIMIT $3
        ) AS e WHERE e.extra ->> 'target_executor' IS NULL
    ), newest AS (
        SELECT DISTINCT ON (s.job_id) s.job_id, x.id AS row
        FROM sent s JOIN executor x ON x.app_id = s.app_id AND x.name = s.executor
        WHERE s.dispatched_at IS NOT NULL
        ORDER BY s.job_id, s.dispatched_at DESC, s.due_at DESC, s.id DESC
    )
    SELECT j.id, n.row, j.created_at < $4
    FROM job j LEFT JOIN newest n ON n.job_id = j.id WHERE j.id = ANY($1::bigint[])";

#[async_trait]
impl RouteStore for PostgresStore {
    async fn load_uses(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Uses)>> {
        let sql = "SELECT c.job_id, c.uses::text FROM unnest($1::bigint[]) AS w (id)
            JOIN route_cursor c ON c.job_id = ANY(ARRAY[w.id])";
        let ids: Vec<i64> = jobs.iter().map(|job| job.0).collect();
        let found = query(&self.hot().await?, sql, &[&ids]).await?;
        let uses = found.iter().map(|row| {
            let mut row = Reader::new(row);
            let job = JobId(row.get()?);
            Ok(row.json_opt::<Vec<Use>>().ok().flatten().map(|uses| (job, Arc::new(uses))))
        });
        uses.filter_map(Result::transpose).collect()
    }

    async fn last_dispatches(
        &self,
        jobs: &[JobId],
        now: DateTime<Utc>,
    ) -> Result<Vec<(JobId, u64)>> {
        let near = now - NEAR;
        let client = self.client().await?;
        let jobs: Vec<i64> = jobs.iter().map(|job| job.0).collect();
        let [few, many] = DISPATCHES_LOOKED_AT;
        let (mut found, older) = look(&client, &jobs, near, (near, few)).await?;
        if !older.is_empty() {
            found.extend(look(&client, &older, near, (DateTime::UNIX_EPOCH, many)).await?.0);
        }
        Ok(found)
    }
}

/// Looks at so many runs since an instant; also gives the jobs of which none was found and that are
/// older than `near`.
async fn look(
    client: &Object,
    jobs: &[i64],
    near: DateTime<Utc>,
    (since, limit): (DateTime<Utc>, u32),
) -> Result<(Vec<(JobId, u64)>, Vec<i64>)> {
    let floor = RunId::first_at(since).to_uuid();
    let rows = query(client, LAST_DISPATCH, &[&jobs, &floor, &i64::from(limit), &near]).await?;
    let (mut found, mut older) = (Vec::new(), Vec::new());
    for row in &rows {
        let mut row = Reader::new(row);
        let job: i64 = row.get()?;
        match (row.get::<Option<i64>>()?, row.get()?) {
            (Some(executor), _) => found.push((JobId(job), executor.unsigned_abs())),
            (None, true) => older.push(job),
            (None, false) => {}
        }
    }
    Ok((found, older))
}
