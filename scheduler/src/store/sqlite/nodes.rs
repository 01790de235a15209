//! The node's row, partitions and cluster secrets.

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::{Connection, params};

use super::{
    rows::{PARTITION, at, count, counted, from_json, get_at, json, partition, span, span_us, us},
    writer::{Tx, all, find},
};
use crate::{
    model::ids::{JobId, PartitionId},
    store::{
        Result, StoreError,
        ops::{Advance, NodeRow, PartitionRow},
    },
};

/// Nodes that were not seen for longer are not listed.
const NODE_SHOWN: TimeDelta = TimeDelta::days(1);

/// Returns the bytes stored under `name`, storing `fresh` if there are none.
pub(super) fn cluster_secret(tx: &mut Tx<'_>, name: &str, fresh: &[u8]) -> Result<Vec<u8>> {
    tx.execute(
        "INSERT OR IGNORE INTO cluster_secret (name, value) VALUES (?1, ?2)",
        params![name, fresh],
    )?;
    find(tx.conn(), "SELECT value FROM cluster_secret WHERE name = ?1", [name], |row| row.get(0))?
        .ok_or_else(|| StoreError::Internal(format!("secret {name} was not stored")))
}

/// Writes the node's row. The lock file admits one server, so all other nodes are gone.
pub(super) fn put_node(tx: &mut Tx<'_>, node: &NodeRow) -> Result<()> {
    let partitions: Vec<u16> = node.partitions.iter().map(|p| p.0).collect();
    tx.execute(
        "INSERT OR REPLACE INTO node (id, version, advertise_address, draining, gone, started_at,
             last_seen_at, sessions, partitions, clock_offset_us, lag_us, database_latency_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            node.id,
            node.version,
            node.advertise_address,
            node.draining,
            node.gone,
            us(node.started_at),
            us(node.last_seen_at),
            node.sessions,
            json(&partitions)?,
            node.clock_offset_us,
            span_us(node.lag),
            span_us(node.database_latency),
        ],
    )?;
    tx.execute("UPDATE node SET gone = 1 WHERE id <> ?1 AND NOT gone", [&node.id])?;
    Ok(())
}

/// Marks a node as gone.
pub(super) fn remove_node(tx: &mut Tx<'_>, id: &str, now: DateTime<Utc>) -> Result<()> {
    tx.execute(
        "UPDATE node SET gone = 1, last_seen_at = ?2, sessions = 0, partitions = '[]'
         WHERE id = ?1",
        params![id, us(now)],
    )?;
    Ok(())
}

/// Nodes seen within the last day, by start.
pub(super) fn list_nodes(conn: &Connection, now: DateTime<Utc>) -> Result<Vec<NodeRow>> {
    all(
        conn,
        "SELECT id, version, advertise_address, draining, gone, started_at, last_seen_at,
             sessions, partitions, clock_offset_us, lag_us, database_latency_us
         FROM node WHERE last_seen_at >= ?1 ORDER BY started_at, id",
        [us(now - NODE_SHOWN)],
        |row| {
            Ok(NodeRow {
                id: row.get(0)?,
                version: row.get(1)?,
                advertise_address: row.get(2)?,
                draining: row.get(3)?,
                gone: row.get(4)?,
                started_at: get_at(row, 5)?,
                last_seen_at: get_at(row, 6)?,
                sessions: row.get(7)?,
                partitions: from_json::<Vec<u16>>(row, 8)?.into_iter().map(PartitionId).collect(),
                clock_offset_us: row.get(9)?,
                lag: span(row.get(10)?),
                database_latency: span(row.get(11)?),
            })
        },
    )
}

/// Takes every partition asked for that the node does not hold: there is no other node. The epoch
/// is raised all the same, so that whatever was begun under an earlier one is refused.
pub(super) fn take_partitions(
    tx: &mut Tx<'_>,
    node: &str,
    want: &[PartitionId],
    now: DateTime<Utc>,
) -> Result<Vec<PartitionRow>> {
    let mut taken = Vec::with_capacity(want.len());
    for id in want {
        let sql = format!(
            "UPDATE partition SET epoch = epoch + 1, node = ?2,
                 planned_until = coalesce(planned_until, ?3),
                 served_until = coalesce(served_until, ?3)
             WHERE id = ?1 RETURNING {PARTITION}"
        );
        let row = find(tx.conn(), &sql, params![id.0, node, us(now)], |row| partition(row, now))?;
        taken.extend(row);
    }
    Ok(taken)
}

/// Gives partitions back.
pub(super) fn release_partitions(tx: &mut Tx<'_>, partitions: &[PartitionId]) -> Result<()> {
    for id in partitions {
        tx.execute("UPDATE partition SET node = '' WHERE id = ?1", [id.0])?;
    }
    Ok(())
}

/// The partitions' rows.
pub(super) fn check_partitions(
    conn: &Connection,
    partitions: &[PartitionId],
) -> Result<Vec<PartitionRow>> {
    let sql = format!("SELECT {PARTITION} FROM partition");
    let mut rows = all(conn, &sql, [], |row| partition(row, at(0)))?;
    rows.retain(|row| partitions.contains(&row.id));
    Ok(rows)
}

/// One partition's row; one that nobody has planned yet is planned up to `now`.
pub(super) fn find_partition(
    conn: &Connection,
    id: PartitionId,
    now: DateTime<Utc>,
) -> Result<Option<PartitionRow>> {
    let sql = format!("SELECT {PARTITION} FROM partition WHERE id = ?1");
    find(conn, &sql, [id.0], |row| partition(row, now))
}

/// Raises the version of the partition's jobs; returns the new one.
pub(super) fn raise_jobs_version(tx: &mut Tx<'_>, id: PartitionId) -> Result<u64> {
    find(
        tx.conn(),
        "UPDATE partition SET jobs_version = jobs_version + 1 WHERE id = ?1
         RETURNING jobs_version",
        [id.0],
        |row| row.get(0).map(counted),
    )?
    .ok_or_else(|| StoreError::Internal(format!("partition {} has no row", id.0)))
}

/// The version of a partition's jobs, if it still has the epoch that the owner planned with.
pub(super) fn jobs_version(conn: &Connection, row: &Advance) -> Result<Option<u64>> {
    let sql = "SELECT jobs_version FROM partition WHERE id = ?1 AND epoch = ?2";
    let params = params![row.partition.0, count(row.epoch)];
    find(conn, sql, params, |row| row.get(0).map(counted))
}

/// Whether the job changed after that version of its partition's.
pub(super) fn has_changed(conn: &Connection, job: JobId, version: u64) -> Result<bool> {
    let sql = "SELECT 1 FROM job WHERE id = ?1 AND jobs_version > ?2";
    Ok(find(conn, sql, params![job.0, count(version)], |_| Ok(()))?.is_some())
}

/// Moves a partition's times.
pub(super) fn advance(tx: &mut Tx<'_>, to: &Advance) -> Result<()> {
    let sql = "UPDATE partition SET planned_until = max(coalesce(planned_until, ?2), ?2),
             served_until = max(coalesce(served_until, ?3), ?3)
         WHERE id = ?1";
    let params = params![to.partition.0, us(to.planned_until), us(to.served_until)];
    tx.execute(sql, params).map(drop)
}
