//! What routes go by: uses that were counted, and newest dispatches.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::{
    SqliteStore,
    rows::{counted, from_json_opt},
    writer::find,
};
use crate::{
    model::{
        ids::JobId,
        route::{Use, Uses},
    },
    store::{
        Result,
        routes::{DISPATCHES_LOOKED_AT, RouteStore},
    },
};

#[async_trait]
impl RouteStore for SqliteStore {
    async fn load_uses(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Uses)>> {
        let jobs = jobs.to_vec();
        self.readers.read(move |conn| load_uses(conn, &jobs)).await
    }

    async fn last_dispatches(
        &self,
        jobs: &[JobId],
        _now: DateTime<Utc>,
    ) -> Result<Vec<(JobId, u64)>> {
        let jobs = jobs.to_vec();
        self.readers.read(move |conn| last_dispatches(conn, &jobs)).await
    }
}

fn load_uses(conn: &Connection, jobs: &[JobId]) -> Result<Vec<(JobId, Uses)>> {
    let mut found = Vec::new();
    for job in jobs {
        let sql = "SELECT uses FROM route_cursor WHERE job_id = ?1";
        let uses =
            find(conn, sql, [job.0], |row| Ok(from_json_opt::<Vec<Use>>(row, 0).ok().flatten()))?;
        found.extend(uses.flatten().map(|uses| (*job, Arc::new(uses))));
    }
    Ok(found)
}

/// The executor of a job's newest dispatch. Runs of one dispatch have one time, and were placed in
/// the order in which they were due. A run that waits for its next attempt was sent as the one
/// before. An executor is looked up for each run, whatever the planner thinks of that.
const LAST_DISPATCH: &str = "SELECT x.id FROM (
        SELECT app_id, executor, dispatched_at, due_at, id, extra FROM open_run WHERE job_id = ?1
        UNION ALL
        SELECT r.app_id, a.executor, a.dispatched_at, r.due_at, r.id, r.extra
        FROM open_run r JOIN attempt a ON a.run_id = r.id WHERE r.job_id = ?1 AND r.attempt > 1
        UNION ALL
        SELECT * FROM (SELECT app_id, executor, dispatched_at, due_at, id, extra FROM ended_run
            WHERE job_id = ?1 ORDER BY id DESC LIMIT ?2)
    ) AS l CROSS JOIN executor x ON x.app_id = l.app_id AND x.name = l.executor
    WHERE l.dispatched_at IS NOT NULL AND l.extra ->> '$.target_executor' IS NULL
    ORDER BY l.dispatched_at DESC, l.due_at DESC, l.id DESC LIMIT 1";

fn last_dispatches(conn: &Connection, jobs: &[JobId]) -> Result<Vec<(JobId, u64)>> {
    let mut found = Vec::new();
    for job in jobs {
        for limit in DISPATCHES_LOOKED_AT {
            let executor: Option<i64> =
                find(conn, LAST_DISPATCH, params![job.0, limit], |row| row.get(0))?;
            if let Some(executor) = executor {
                found.push((*job, counted(executor)));
                break;
            }
        }
    }
    Ok(found)
}
