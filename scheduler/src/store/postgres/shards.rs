//! Parents and their shards. A parent's shards lie side by side in the order of ids, so that they
//! are found without an index of their own.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use super::{
    PostgresStore, chains, follow,
    owner::NewRuns,
    rows::{OPEN_RUN, Reader, big, execute, int, open_run, query, smalls, uuids},
    runs,
};
use crate::{
    model::{
        Payload,
        ids::{AttemptRef, RunId},
        run::{OpenRun, RunState},
        shards::{Split, TROUBLES_MAX, Tally, Trouble},
    },
    store::{FamilyStore, Result, Topic, ops::EndRun},
};

#[async_trait]
impl FamilyStore for PostgresStore {
    async fn split_run(
        &self,
        parent: AttemptRef,
        split: &Split,
        now: DateTime<Utc>,
    ) -> Result<bool> {
        split_run(self, parent, split, now).await
    }

    async fn start_parents(&self, parents: &[(RunId, DateTime<Utc>)]) -> Result<()> {
        start_parents(self, parents).await
    }

    async fn load_outputs(&self, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>> {
        follow::load_outputs(self, runs).await
    }

    async fn chain_leads_to(&self, from: &[String], to: &str) -> Result<bool> {
        chains::leads_to(&self.client().await?, from, to).await
    }
}

/// The shards are made only where the parent was opened, and in the same statement.
const SPLIT: &str = "WITH opened AS (
        UPDATE open_run r SET fence = r.fence + 1, dispatched_at = $1, message = '',
            extra = jsonb_set(coalesce(r.extra, '{}'), '{shard_total}', to_jsonb($2::int))
        WHERE r.id = $3 AND r.attempt = $4 AND r.fence = $5 AND r.state = 'QUEUED'
            AND r.kill_reason IS NULL AND r.partition = ANY($6::smallint[])
        RETURNING r.id
    ), made AS (
        INSERT INTO open_run (id, job_id, app_id, partition, revision, trigger, state, fire_at,
            due_at, created_at, extra)
        SELECT r.id, r.job_id, r.app_id, r.partition, r.revision, r.trigger, 'QUEUED', r.fire_at,
            coalesce(r.due_at, r.fire_at), $1, r.extra::jsonb
        FROM unnest($7::uuid[], $8::bigint[], $9::bigint[], $10::smallint[], $11::bigint[],
            $12::text[], $13::timestamptz[], $14::timestamptz[], $15::text[])
            AS r (id, job_id, app_id, partition, revision, trigger, fire_at, due_at, extra)
        WHERE EXISTS (SELECT FROM opened)
        RETURNING id
    ), told AS (
        INSERT INTO run_event (at, changed)
        SELECT $1, array_agg(id) FROM (SELECT id FROM opened UNION ALL SELECT id FROM made) AS r
        HAVING count(*) > 0
    )
    SELECT id FROM opened";

async fn split_run(
    store: &PostgresStore,
    parent: AttemptRef,
    split: &Split,
    now: DateTime<Utc>,
) -> Result<bool> {
    let (id, attempt, fence) = (parent.run.to_uuid(), int(parent.attempt), big(parent.fence));
    let (total, held) = (int(split.total), store.pen.partitions());
    let columns = NewRuns::of(&split.shards)?;
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&now, &total, &id, &attempt, &fence, &held];
    params.extend(columns.params());
    let opened = store.pen.write(SPLIT, &params).await?;
    if !opened.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
    Ok(!opened.is_empty())
}

async fn start_parents(store: &PostgresStore, parents: &[(RunId, DateTime<Utc>)]) -> Result<()> {
    if start(&store.hot().await?, parents).await? > 0 {
        store.hints.tell(Topic::RunEvents);
    }
    Ok(())
}

/// QUEUED → RUNNING; returns how many watchers are to hear of, in events.
async fn start(client: &impl GenericClient, parents: &[(RunId, DateTime<Utc>)]) -> Result<u64> {
    let sql = "WITH started AS (
            UPDATE open_run r SET state = 'RUNNING', started_at = coalesce(r.started_at, w.at)
            FROM unnest($1::uuid[], $2::timestamptz[]) AS w (id, at)
            WHERE r.id = ANY(ARRAY[w.id]) AND r.state = 'QUEUED' AND r.fence > 0
                AND (r.extra ->> 'follow')::int & 8 <> 0
            RETURNING r.id, w.at
        )
        INSERT INTO run_event (at, changed) SELECT max(at), array_agg(id) FROM started
        HAVING count(*) > 0";
    let mut parents = parents.to_vec();
    parents.sort_unstable();
    let ids = uuids(parents.iter().map(|(id, _)| id));
    let times: Vec<DateTime<Utc>> = parents.iter().map(|(_, at)| *at).collect();
    execute(client, sql, &[&ids, &times]).await
}

/// Ends the parents all of whose shards have ended, and marks the others as running. Whoever comes
/// last to a parent's row sees the ends of all its shards: each is committed before it is settled.
pub(super) async fn settle(
    tx: &Transaction<'_>,
    parents: &BTreeSet<RunId>,
    now: DateTime<Utc>,
) -> Result<Vec<(OpenRun, RunState)>> {
    if parents.is_empty() {
        return Ok(Vec::new());
    }
    let sql =
        format!("SELECT {OPEN_RUN} FROM open_run r WHERE r.id = ANY($1) ORDER BY r.id FOR UPDATE");
    let (mut ended, mut running) = (Vec::new(), Vec::new());
    for row in query(tx, &sql, &[&uuids(parents)]).await? {
        let parent = open_run(&row)?;
        match tally(tx, parent.id).await? {
            Some(tally) => ended.push((parent, tally)),
            None => running.push((parent.id, now)),
        }
    }
    start(tx, &running).await?;
    let ends: Vec<EndRun> =
        ended.iter().map(|(parent, tally)| EndRun::of_parent(parent, tally)).collect();
    if !ends.is_empty() {
        runs::write_ends(tx, &runs::end_unless_there(), &ends, now).await?;
        let sql = "INSERT INTO run_inbox (partition, run_id)
            SELECT * FROM unnest($1::smallint[], $2::uuid[])";
        let partitions = smalls(ended.iter().map(|(parent, _)| parent.partition));
        let ids = uuids(ended.iter().map(|(parent, _)| &parent.id));
        execute(tx, sql, &[&partitions, &ids]).await?;
    }
    Ok(ended.into_iter().map(|(parent, tally)| (parent, tally.state())).collect())
}

/// How the parent's shards have ended; None while one is open.
async fn tally(tx: &Transaction<'_>, parent: RunId) -> Result<Option<Tally>> {
    let (first, last) = RunId::shards(parent);
    let (first, last) = (first.to_uuid(), last.to_uuid());
    let sql = "SELECT id FROM open_run WHERE id BETWEEN $1 AND $2 LIMIT 1";
    if !query(tx, sql, &[&first, &last]).await?.is_empty() {
        return Ok(None);
    }
    let mut tally = Tally::default();
    let sql = "SELECT state, count(*)::int, min(started_at) FROM ended_run
        WHERE id BETWEEN $1 AND $2 GROUP BY state";
    for row in query(tx, sql, &[&first, &last]).await? {
        let mut row = Reader::new(&row);
        tally.counts.push((row.word(RunState::parse)?, row.small()?));
        let started: Option<DateTime<Utc>> = row.get()?;
        tally.started_at = tally.started_at.into_iter().chain(started).min();
    }
    let sql = "SELECT coalesce((extra ->> 'shard_index')::int, 0), state, failure::text
        FROM ended_run WHERE id BETWEEN $1 AND $2 AND state <> 'SUCCEEDED' ORDER BY id LIMIT $3";
    let max = TROUBLES_MAX as i64;
    for row in query(tx, sql, &[&first, &last, &max]).await? {
        let mut row = Reader::new(&row);
        tally.troubles.push(Trouble {
            index: row.small()?,
            state: row.word(RunState::parse)?,
            failure: row.json_opt()?,
        });
    }
    Ok(Some(tally))
}
