//! Nodes, and the partitions this one holds.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio_postgres::Row;

use super::{
    PostgresStore,
    rows::{self, PARTITION, Reader, execute, int, micros, query, smalls},
};
use crate::{
    model::ids::PartitionId,
    store::{
        Result,
        ops::{NodeRow, PartitionRow},
    },
};

/// How long a node is listed after it was last seen.
pub(super) const NODE_LISTED: TimeDelta = TimeDelta::days(1);

pub(super) async fn put_node(store: &PostgresStore, node: &NodeRow) -> Result<()> {
    let sql = "INSERT INTO node (id, version, advertise_address, draining, gone, started_at,
            last_seen_at, sessions, partitions, clock_offset_us, lag_us, database_latency_us,
            lock_key)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        ON CONFLICT (id) DO UPDATE SET version = excluded.version,
            advertise_address = excluded.advertise_address, draining = excluded.draining,
            gone = excluded.gone, started_at = excluded.started_at,
            last_seen_at = excluded.last_seen_at, sessions = excluded.sessions,
            partitions = excluded.partitions, clock_offset_us = excluded.clock_offset_us,
            lag_us = excluded.lag_us, database_latency_us = excluded.database_latency_us,
            lock_key = excluded.lock_key";
    let partitions: Vec<i32> = node.partitions.iter().map(|id| i32::from(id.0)).collect();
    execute(
        &store.client().await?,
        sql,
        &[
            &node.id,
            &node.version,
            &node.advertise_address,
            &node.draining,
            &node.gone,
            &node.started_at,
            &node.last_seen_at,
            &int(node.sessions),
            &partitions,
            &node.clock_offset_us,
            &micros(node.lag),
            &micros(node.database_latency),
            &store.node_lock,
        ],
    )
    .await
    .map(|_| ())
}

pub(super) async fn remove_node(store: &PostgresStore, id: &str, now: DateTime<Utc>) -> Result<()> {
    let sql = "UPDATE node SET gone = true, last_seen_at = $2, sessions = 0, partitions = '{}'
        WHERE id = $1";
    execute(&store.client().await?, sql, &[&id, &now]).await.map(|_| ())
}

pub(super) async fn list_nodes(store: &PostgresStore, now: DateTime<Utc>) -> Result<Vec<NodeRow>> {
    let sql = "SELECT id, version, advertise_address, draining, gone, started_at, last_seen_at,
            sessions, partitions, clock_offset_us, lag_us, database_latency_us
        FROM node WHERE last_seen_at > $1 ORDER BY started_at, id";
    let since = now - NODE_LISTED;
    query(&store.client().await?, sql, &[&since]).await?.iter().map(node).collect()
}

fn node(row: &Row) -> Result<NodeRow> {
    let mut row = Reader::new(row);
    Ok(NodeRow {
        id: row.get()?,
        version: row.get()?,
        advertise_address: row.get()?,
        draining: row.get()?,
        gone: row.get()?,
        started_at: row.get()?,
        last_seen_at: row.get()?,
        sessions: row.small()?,
        partitions: {
            let ids: Vec<i32> = row.get()?;
            ids.into_iter().filter_map(|id| u16::try_from(id).ok()).map(PartitionId).collect()
        },
        clock_offset_us: row.get()?,
        lag: row.duration()?.unwrap_or(Duration::ZERO),
        database_latency: row.duration()?.unwrap_or(Duration::ZERO),
    })
}

/// A lock is only tried, never waited for: a waiter that is cut off would be granted it. The update
/// reads the newest version of a row, so the epoch grows even if the last owner's statement
/// committed while this one was on its way.
pub(super) async fn take_partitions(
    store: &PostgresStore,
    node: &str,
    want: &[PartitionId],
    now: DateTime<Utc>,
) -> Result<Vec<PartitionRow>> {
    let sql = format!(
        "WITH locked AS MATERIALIZED (
            SELECT w.p::smallint AS id FROM unnest($2::int[]) AS w (p)
            WHERE pg_try_advisory_lock($1::int, w.p)
        )
        UPDATE partition p SET epoch = p.epoch + 1, node = $3,
            planned_until = coalesce(p.planned_until, $4),
            served_until = coalesce(p.served_until, $4)
        FROM locked WHERE p.id = locked.id RETURNING {PARTITION}"
    );
    store.seen.forget();
    let taken = store.pen.take(want, &sql, &[&node, &now]).await?;
    sorted(taken.iter().map(|row| rows::partition(row, now)).collect())
}

pub(super) async fn check_partitions(
    store: &PostgresStore,
    partitions: &[PartitionId],
) -> Result<Vec<PartitionRow>> {
    // The newest version of each row is found first, however many an old snapshot keeps.
    let sql = format!(
        "SELECT {PARTITION} FROM unnest($1::smallint[]) AS w (id) CROSS JOIN LATERAL (
            SELECT * FROM partition q WHERE q.id = w.id ORDER BY q.moves DESC LIMIT 1
        ) AS p"
    );
    let ids = smalls(partitions.iter().copied());
    let found = store.pen.check(partitions, &sql, &[&ids]).await?;
    sorted(found.iter().map(|row| rows::partition(row, DateTime::<Utc>::MIN_UTC)).collect())
}

fn sorted(rows: Result<Vec<PartitionRow>>) -> Result<Vec<PartitionRow>> {
    let mut rows = rows?;
    rows.sort_unstable_by_key(|row| row.id);
    Ok(rows)
}

pub(super) async fn database_time(store: &PostgresStore) -> Result<DateTime<Utc>> {
    let row = rows::query_one(&store.client().await?, "SELECT clock_timestamp()", &[]).await?;
    Reader::new(&row).get()
}

pub(super) async fn cluster_secret(
    store: &PostgresStore,
    name: &str,
    fresh: &[u8],
) -> Result<Vec<u8>> {
    let sql = "INSERT INTO cluster_secret (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = cluster_secret.value RETURNING value";
    let row = rows::query_one(&store.client().await?, sql, &[&name, &fresh]).await?;
    Reader::new(&row).get()
}
