//! Permits: asked for under one lock, so that each owner sees what all before it were given.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore,
    pen::Turn,
    rows::{Reader, execute, small_id, uuids},
};
use crate::{
    model::ids::{AppId, PartitionId, RunId},
    store::{
        PermitStore, Result, Topic,
        permits::{Limit, Permit, TURN_KEPT, give_out},
    },
};

const INSERT: &str = "INSERT INTO run_permit (run_id, app_id, handler, partition, place, granted,
        asked_at)
    SELECT w.run_id, w.app_id, w.handler, w.partition, w.place, w.granted, $1
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::timestamptz[],
        $7::boolean[]) AS w (run_id, app_id, handler, partition, place, granted)
    ON CONFLICT (run_id) DO UPDATE SET granted = excluded.granted, asked_at = excluded.asked_at";

#[async_trait]
impl PermitStore for PostgresStore {
    async fn ask_permits(
        &self,
        asked: &[Permit],
        limits: &[Limit],
        now: DateTime<Utc>,
    ) -> Result<Vec<RunId>> {
        let held = self.pen.partitions();
        let work = async |turn: &Turn<'_>| ask(turn, &held, asked, limits, now).await;
        self.pen.in_turn(work).await
    }

    async fn count_permits(&self, under_way: &[Permit], now: DateTime<Utc>) -> Result<()> {
        let held = self.pen.partitions();
        let runs: Vec<RunId> = under_way.iter().map(|permit| permit.run).collect();
        let work = async |turn: &Turn<'_>| {
            let sql = "DELETE FROM run_permit
                WHERE partition = ANY($1::smallint[]) AND run_id <> ALL($2::uuid[])";
            turn.query(sql, &[&held, &uuids(&runs)]).await?;
            insert(turn, under_way, &runs, now).await?;
            let sql = "UPDATE partition SET counted_epoch = epoch
                WHERE id = ANY($1::smallint[]) AND counted_epoch <> epoch";
            turn.query(sql, &[&held]).await.map(|_| ())
        };
        self.pen.in_turn(work).await?;
        self.hints.tell(Topic::Permits);
        Ok(())
    }

    async fn return_permits(&self, runs: &[RunId]) -> Result<()> {
        let sql = "DELETE FROM run_permit WHERE run_id = ANY($1::uuid[])";
        if execute(&self.lazy().await?, sql, &[&uuids(runs)]).await? > 0 {
            self.hints.tell(Topic::Permits);
        }
        Ok(())
    }
}

/// Looks what is given out already, and writes what is given now and who waits.
async fn ask(
    turn: &Turn<'_>,
    held: &[i16],
    asked: &[Permit],
    limits: &[Limit],
    now: DateTime<Utc>,
) -> Result<Vec<RunId>> {
    let sql = "SELECT EXISTS (SELECT FROM partition WHERE counted_epoch <> epoch)";
    for row in &turn.query(sql, &[]).await? {
        if Reader::new(row).get()? {
            return Ok(Vec::new());
        }
    }
    let apps: Vec<i64> = asked.iter().map(|permit| permit.app.0).collect();
    let sql = "DELETE FROM run_permit WHERE NOT granted AND app_id = ANY($1::bigint[])
        AND (partition = ANY($2::smallint[]) OR asked_at < $3)";
    turn.query(sql, &[&apps, &held, &(now - TURN_KEPT)]).await?;
    let sql = "SELECT run_id, app_id, handler, partition, place, granted FROM run_permit
        WHERE app_id = ANY($1::bigint[])";
    let (mut given, mut waiting) = (Vec::new(), Vec::new());
    for row in &turn.query(sql, &[&apps]).await? {
        let mut row = Reader::new(row);
        let permit = Permit {
            run: row.run()?,
            app: AppId(row.get()?),
            handler: row.get()?,
            partition: PartitionId(row.get::<i16>()?.unsigned_abs()),
            place: row.get()?,
        };
        match row.get()? {
            true => given.push((permit.app, permit.handler)),
            false => waiting.push(permit),
        }
    }
    let granted = give_out(&given, &waiting, asked, limits);
    insert(turn, asked, &granted, now).await?;
    Ok(granted)
}

async fn insert(
    turn: &Turn<'_>,
    permits: &[Permit],
    granted: &[RunId],
    now: DateTime<Utc>,
) -> Result<()> {
    let runs: Vec<Uuid> = permits.iter().map(|permit| permit.run.to_uuid()).collect();
    let apps: Vec<i64> = permits.iter().map(|permit| permit.app.0).collect();
    let handlers: Vec<&str> = permits.iter().map(|permit| permit.handler.as_str()).collect();
    let partitions: Vec<i16> = permits.iter().map(|permit| small_id(permit.partition)).collect();
    let places: Vec<DateTime<Utc>> = permits.iter().map(|permit| permit.place).collect();
    let given: Vec<bool> = permits.iter().map(|permit| granted.contains(&permit.run)).collect();
    let params: [&(dyn ToSql + Sync); 7] =
        [&now, &runs, &apps, &handlers, &partitions, &places, &given];
    turn.query(INSERT, &params).await.map(|_| ())
}
