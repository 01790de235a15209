//! Nodes among each other: all that is not the pen's is written without waiting for the disk.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    pen::{self, NODE_LOCK_MIN},
    rows::{self, JOB, OPEN_RUN, Reader, big, execute, query, small_id, to_json},
};
use crate::{
    model::{
        ids::{AppId, JobId, PartitionId, RunId},
        job::Job,
    },
    store::{
        ClusterStore, Result, StoreError, Topic,
        cluster::{HANDED_MAX, Hand, Handed, Peer, SessionLoad, Survey, mark_of},
    },
};

#[async_trait]
impl ClusterStore for PostgresStore {
    async fn survey(&self) -> Result<Survey> {
        let seen = self.pen.survey().await?;
        self.hints.seen(seen.alone);
        if seen.joined {
            self.hints.tell(Topic::Partitions);
        }
        Ok(seen.survey)
    }

    async fn resign(&self) -> Result<()> {
        self.pen.resign().await?;
        self.hints.tell(Topic::Partitions);
        Ok(())
    }

    async fn peers(&self) -> Result<Vec<Peer>> {
        let sql = format!(
            "SELECT DISTINCT n.id, n.advertise_address, n.drain_asked, n.sessions
            FROM pg_locks l JOIN node n ON n.lock_key = l.objid::bigint
            WHERE {} AND l.objid::bigint >= $2",
            pen::OF_CLASS
        );
        let (class, first) = (self.pen.class(), i64::from(NODE_LOCK_MIN));
        let found = query(&self.client().await?, &sql, &[&class, &first]).await?;
        found.iter().map(peer).collect()
    }

    async fn ask_to_drain(&self, node: &str) -> Result<()> {
        let sql = "UPDATE node SET drain_asked = true WHERE id = $1 AND NOT gone";
        if execute(&self.client().await?, sql, &[&node]).await? == 0 {
            return Err(StoreError::NotFound(format!("node {node}")));
        }
        self.hints.tell(Topic::Partitions);
        Ok(())
    }

    async fn publish_sessions(&self, sessions: &[SessionLoad]) -> Result<()> {
        publish(self, sessions).await
    }

    async fn read_sessions(&self, since: Option<DateTime<Utc>>) -> Result<Vec<SessionLoad>> {
        let sql = "SELECT l.executor, l.app_id, l.name, l.node, l.epoch, l.at, l.ended_at, l.load,
                e.cordoned
            FROM session_load l JOIN executor e ON e.id = l.executor
            WHERE $1::timestamptz IS NULL OR l.at > $1";
        query(&self.client().await?, sql, &[&since]).await?.iter().map(session).collect()
    }

    async fn hand_over(&self, hands: &[Hand]) -> Result<()> {
        let sql = "INSERT INTO node_inbox (node, run_id, fence, again)
            SELECT w.node, w.run_id, w.fence, w.again
            FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::boolean[])
                AS w (node, run_id, fence, again)";
        let nodes: Vec<&str> = hands.iter().map(|hand| &*hand.node).collect();
        let runs: Vec<Uuid> = hands.iter().map(|hand| hand.attempt.run.to_uuid()).collect();
        let fences: Vec<i64> = hands.iter().map(|hand| big(hand.attempt.fence)).collect();
        let again: Vec<bool> = hands.iter().map(|hand| hand.again).collect();
        execute(&self.lazy().await?, sql, &[&nodes, &runs, &fences, &again]).await?;
        for node in nodes.into_iter().collect::<BTreeSet<_>>() {
            self.hints.tell(Topic::Handed { node: mark_of(node) });
        }
        Ok(())
    }

    /// What was dispatched anew since is left out: its row tells of a session elsewhere.
    async fn take_handed(&self, node: &str) -> Result<Vec<Handed>> {
        let sql = format!(
            "WITH taken AS (
                DELETE FROM node_inbox WHERE ctid = ANY(ARRAY(
                    SELECT ctid FROM node_inbox WHERE node = $1 ORDER BY seq LIMIT $2
                ))
                RETURNING seq, run_id, fence, again OR fence IS NULL AS again
            )
            SELECT {OPEN_RUN}, t.again FROM taken t JOIN open_run r ON r.id = ANY(ARRAY[t.run_id])
                AND r.fence = coalesce(t.fence, r.fence)
            ORDER BY t.seq"
        );
        let most = i64::try_from(HANDED_MAX).unwrap_or(i64::MAX);
        let found = query(&self.lazy().await?, &sql, &[&node, &most]).await?;
        let handed = found.iter().map(|row| {
            let mut row = Reader::new(row);
            Ok(Handed { run: rows::read_open_run(&mut row)?, again: row.get()? })
        });
        handed.collect()
    }

    async fn tell_owners(&self, runs: &[(RunId, Option<PartitionId>)]) -> Result<()> {
        let sql = "INSERT INTO run_inbox (partition, run_id)
            SELECT coalesce(w.partition, r.partition), w.id
            FROM unnest($1::uuid[], $2::smallint[]) AS w (id, partition)
            LEFT JOIN open_run r ON r.id = w.id AND w.partition IS NULL
            WHERE coalesce(w.partition, r.partition) IS NOT NULL
            RETURNING partition";
        let ids: Vec<Uuid> = runs.iter().map(|(run, _)| run.to_uuid()).collect();
        let partitions: Vec<Option<i16>> =
            runs.iter().map(|(_, partition)| partition.map(small_id)).collect();
        let told = query(&self.lazy().await?, sql, &[&ids, &partitions]).await?;
        let mut partitions = BTreeSet::new();
        for row in &told {
            partitions.insert(Reader::new(row).get::<i16>()?);
        }
        for id in partitions {
            self.hints.tell(Topic::Inbox(PartitionId(id.unsigned_abs())));
        }
        Ok(())
    }

    async fn load_revisions(&self, revisions: &[(JobId, u64)]) -> Result<Vec<Job>> {
        let columns = JOB.replace("j.spec", "v.spec").replace("j.revision", "v.revision");
        let sql = format!(
            "SELECT {columns} FROM unnest($1::bigint[], $2::bigint[]) AS w (job_id, revision)
            JOIN job_revision v ON v.job_id = w.job_id AND v.revision = w.revision
            JOIN job j ON j.id = v.job_id JOIN app a ON a.id = j.app_id"
        );
        let (jobs, numbers): (Vec<i64>, Vec<i64>) =
            revisions.iter().map(|(job, revision)| (job.0, big(*revision))).unzip();
        let found = query(&self.client().await?, &sql, &[&jobs, &numbers]).await?;
        found.iter().map(rows::job).collect()
    }
}

/// Sorted by row, so that two nodes never wait for each other in a ring.
async fn publish(store: &PostgresStore, sessions: &[SessionLoad]) -> Result<()> {
    let sql = "INSERT INTO session_load AS l (executor, app_id, name, node, epoch, at, ended_at,
            load)
        SELECT w.executor, w.app_id, w.name, w.node, w.epoch, clock_timestamp(), w.ended_at, w.load
        FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[],
            $6::timestamptz[], $7::text[])
            AS w (executor, app_id, name, node, epoch, ended_at, load)
        JOIN executor e ON e.id = ANY(ARRAY[w.executor])
        ON CONFLICT (executor) DO UPDATE SET node = excluded.node, epoch = excluded.epoch,
            at = excluded.at, ended_at = excluded.ended_at, load = excluded.load
        WHERE l.epoch <= excluded.epoch";
    let mut sorted: Vec<&SessionLoad> = sessions.iter().collect();
    sorted.sort_unstable_by_key(|session| session.executor);
    let executors: Vec<i64> = sorted.iter().map(|session| session.executor).collect();
    let apps: Vec<i64> = sorted.iter().map(|session| session.app.0).collect();
    let names: Vec<&str> = sorted.iter().map(|session| &*session.name).collect();
    let nodes: Vec<&str> = sorted.iter().map(|session| &*session.node).collect();
    let epochs: Vec<i64> = sorted.iter().map(|session| big(session.epoch)).collect();
    let ended: Vec<Option<DateTime<Utc>>> = sorted.iter().map(|session| session.ended_at).collect();
    let loads: Vec<String> =
        sorted.iter().map(|session| to_json(&session.load)).collect::<Result<_>>()?;
    let params: [&(dyn ToSql + Sync); 7] =
        [&executors, &apps, &names, &nodes, &epochs, &ended, &loads];
    execute(&store.lazy().await?, sql, &params).await.map(|_| ())
}

fn peer(row: &Row) -> Result<Peer> {
    let mut row = Reader::new(row);
    Ok(Peer {
        id: row.get()?,
        advertise_address: row.get()?,
        drain_asked: row.get()?,
        sessions: row.small()?,
    })
}

fn session(row: &Row) -> Result<SessionLoad> {
    let mut row = Reader::new(row);
    Ok(SessionLoad {
        executor: row.get()?,
        app: AppId(row.get()?),
        name: row.get::<&str>()?.into(),
        node: row.get::<&str>()?.into(),
        epoch: row.number()?,
        at: row.get()?,
        ended_at: row.get()?,
        // One that can't be read takes nothing: a newer version of the program may have written it.
        load: rows::parse_json(row.get()?).unwrap_or_default(),
        cordoned: row.get()?,
    })
}
