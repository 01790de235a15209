//! Nodes among each other, where there is one: it owns everything, and nothing is handed over.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::params;

use super::{
    SqliteStore, owner,
    rows::{self, count},
    writer::all,
};
use crate::{
    model::{
        ids::{JobId, PartitionId, RunId},
        job::Job,
    },
    store::{
        ClusterStore, PermitStore, Result, StoreError,
        cluster::{Hand, Handed, Peer, SessionLoad, Survey},
        permits::{Limit, Permit},
    },
};

/// The one owner counts in its memory.
#[async_trait]
impl PermitStore for SqliteStore {
    async fn ask_permits(&self, _: &[Permit], _: &[Limit], _: DateTime<Utc>) -> Result<Vec<RunId>> {
        Ok(Vec::new())
    }

    async fn count_permits(&self, _: &[Permit], _: DateTime<Utc>) -> Result<()> {
        Ok(())
    }

    async fn return_permits(&self, _: &[RunId]) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl ClusterStore for SqliteStore {
    async fn survey(&self) -> Result<Survey> {
        Ok(Survey { owners: 1, locked: Vec::new() })
    }

    async fn resign(&self) -> Result<()> {
        Ok(())
    }

    async fn peers(&self) -> Result<Vec<Peer>> {
        Ok(Vec::new())
    }

    async fn ask_to_drain(&self, node: &str) -> Result<()> {
        Err(StoreError::NotFound(format!("node {node}")))
    }

    async fn publish_sessions(&self, _: &[SessionLoad]) -> Result<()> {
        Ok(())
    }

    async fn read_sessions(&self, _: Option<DateTime<Utc>>) -> Result<Vec<SessionLoad>> {
        Ok(Vec::new())
    }

    async fn hand_over(&self, _: &[Hand]) -> Result<()> {
        Ok(())
    }

    async fn take_handed(&self, _: &str) -> Result<Vec<Handed>> {
        Ok(Vec::new())
    }

    async fn tell_owners(&self, runs: &[(RunId, Option<PartitionId>)]) -> Result<()> {
        let runs = runs.to_vec();
        self.writer
            .write(move |tx| {
                for (run, partition) in runs {
                    let partition = match partition {
                        Some(known) => Some(known),
                        None => owner::open_run(tx.conn(), run)?.map(|run| run.partition),
                    };
                    if let Some(partition) = partition {
                        tx.leave_in_inbox(partition, run)?;
                    }
                }
                Ok(())
            })
            .await
    }

    async fn load_revisions(&self, revisions: &[(JobId, u64)]) -> Result<Vec<Job>> {
        let revisions = revisions.to_vec();
        self.readers
            .read(move |conn| {
                let sql = "SELECT j.id, j.app_id, a.name, j.name, j.partition, j.state, v.spec,
                        v.revision, j.version, j.created_at, j.updated_at, j.updated_by,
                        j.pause_until, j.pause_reason, j.effective_from, j.next_fire_at, j.problem,
                        j.deleted_at
                    FROM job_revision v JOIN job j ON j.id = v.job_id JOIN app a ON a.id = j.app_id
                    WHERE v.job_id = ?1 AND v.revision = ?2";
                let mut jobs = Vec::with_capacity(revisions.len());
                for (job, revision) in revisions {
                    jobs.extend(all(conn, sql, params![job.0, count(revision)], rows::job)?);
                }
                Ok(jobs)
            })
            .await
    }
}
