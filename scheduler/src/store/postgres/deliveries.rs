//! The outbox of alarms. Several nodes claim from it at once: each row goes to one of them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore, alarms,
    rows::{Reader, execute, int, query, query_one},
};
use crate::{
    model::{
        alarm::{
            Alarm, AlarmCondition, AlarmId, AlarmRule, AlarmRuleId, AlarmRuleSpec, EndedRun, Streak,
        },
        ids::{AppId, RunId},
        run::RunState,
    },
    store::{
        Result,
        alarms::{AlarmStore, CLAIM_CANDIDATES_MAX},
        ops::{
            AlarmQuery, AlarmRuleQuery, DeliveryClaim, DeliveryEnd, DeliveryId, NewAlarmRule,
            OwedCounts, OwedDelivery, RequestKey, fault_prefix,
        },
    },
};

/// Of each target come the longest due; whoever is first locks a row, and what another has claimed
/// since is not due any more.
const CLAIM: &str = "WITH candidate AS (
        SELECT alarm_id, channel, target, due_at FROM alarm_delivery
        WHERE due_at <= $1 AND target <> ALL($2::text[])
            AND ($3 OR rule_id IS NOT NULL OR owed_at < $4)
        ORDER BY due_at LIMIT $5
    ), placed AS (
        SELECT alarm_id, channel, due_at,
            row_number() OVER (PARTITION BY target ORDER BY due_at, alarm_id, channel) AS place
        FROM candidate
    ), chosen AS (
        SELECT alarm_id, channel FROM placed WHERE place <= $6 ORDER BY due_at LIMIT $7
    ), locked AS (
        SELECT d.alarm_id, d.channel FROM alarm_delivery d JOIN chosen USING (alarm_id, channel)
        WHERE d.due_at <= $1 FOR UPDATE OF d SKIP LOCKED
    ), claimed AS (
        UPDATE alarm_delivery d SET attempt = d.attempt + 1, due_at = $8
        FROM locked l WHERE d.alarm_id = l.alarm_id AND d.channel = l.channel
        RETURNING d.alarm_id, d.channel, d.attempt, d.target, d.owed_at, d.rule_id
    )
    SELECT c.alarm_id, c.channel, c.attempt, c.target, c.owed_at, c.rule_id, r.spec::text, m.rule,
        m.condition, m.facts::text, m.fire_at, m.last_error
    FROM claimed c JOIN alarm m ON m.id = c.alarm_id LEFT JOIN alarm_rule r ON r.id = c.rule_id
    ORDER BY c.owed_at, c.alarm_id, c.channel";

async fn claim(
    store: &PostgresStore,
    claim: &DeliveryClaim,
    now: DateTime<Utc>,
) -> Result<Vec<OwedDelivery>> {
    let params: [&(dyn ToSql + Sync); 8] = [
        &now,
        &claim.without,
        &claim.with_default,
        &claim.given_up_before,
        &i64::from(CLAIM_CANDIDATES_MAX),
        &i64::from(claim.per_target),
        &i64::from(claim.limit),
        &claim.lease_until,
    ];
    query(&store.client().await?, CLAIM, &params).await?.iter().map(delivery).collect()
}

/// What can't be read is left empty: it must not keep the others from being delivered.
fn delivery(row: &Row) -> Result<OwedDelivery> {
    let mut row = Reader::new(row);
    let alarm = AlarmId::from_bytes(row.get::<Uuid>()?.into_bytes());
    let channel = row.get::<i16>()?.unsigned_abs();
    Ok(OwedDelivery {
        id: DeliveryId { alarm, channel },
        attempt: row.small()?,
        target: row.get()?,
        owed_at: row.get()?,
        rule: row.get::<Option<i64>>()?.map(AlarmRuleId),
        spec: row.json_opt().unwrap_or_default(),
        rule_name: row.get()?,
        condition: row.word(AlarmCondition::parse)?,
        facts: row.json().unwrap_or_default(),
        fire_at: row.get()?,
        last_fault: OwedDelivery::fault_of(channel, row.get()?),
    })
}

/// The error of one channel stands until that channel has the alarm, or another fails.
async fn end(store: &PostgresStore, id: DeliveryId, attempt: u32, end: &DeliveryEnd) -> Result<()> {
    let client = store.client().await?;
    let alarm = id.alarm.to_uuid();
    let channel = i16::try_from(id.channel).unwrap_or(i16::MAX);
    let told = |error: &str| fault_prefix(id.channel) + error;
    let attempt = int(attempt);
    match end {
        DeliveryEnd::Delivered => {
            let sql = "WITH gone AS (
                    DELETE FROM alarm_delivery WHERE alarm_id = $1 AND channel = $2 RETURNING 1
                )
                UPDATE alarm SET deliveries = deliveries + 1,
                    last_error = CASE WHEN starts_with(last_error, $3) THEN '' ELSE last_error END
                WHERE id = $1 AND EXISTS (SELECT FROM gone)";
            execute(&client, sql, &[&alarm, &channel, &told("")]).await?;
        }
        DeliveryEnd::Retry(due_at, error) => {
            let sql = "WITH moved AS (
                    UPDATE alarm_delivery SET due_at = $4
                    WHERE alarm_id = $1 AND channel = $2 AND attempt = $3 RETURNING 1
                )
                UPDATE alarm SET last_error = $5 WHERE id = $1 AND EXISTS (SELECT FROM moved)";
            let params: [&(dyn ToSql + Sync); 5] =
                [&alarm, &channel, &attempt, due_at, &told(error)];
            execute(&client, sql, &params).await?;
        }
        DeliveryEnd::GivenUp(error) => {
            let sql = "WITH gone AS (
                    DELETE FROM alarm_delivery
                    WHERE alarm_id = $1 AND channel = $2 AND attempt = $3 RETURNING 1
                )
                UPDATE alarm SET last_error = $4 WHERE id = $1 AND EXISTS (SELECT FROM gone)";
            let params: [&(dyn ToSql + Sync); 4] = [&alarm, &channel, &attempt, &told(error)];
            execute(&client, sql, &params).await?;
        }
    }
    Ok(())
}

async fn count(store: &PostgresStore) -> Result<OwedCounts> {
    let sql = "SELECT count(*), min(owed_at) FROM alarm_delivery";
    let row = query_one(&store.client().await?, sql, &[]).await?;
    let mut row = Reader::new(&row);
    Ok(OwedCounts { owed: row.number()?, oldest: row.get()? })
}

#[async_trait]
impl AlarmStore for PostgresStore {
    async fn create_alarm_rule(
        &self,
        rule: &NewAlarmRule,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<AlarmRule> {
        alarms::create_rule(self, rule, request, now).await
    }

    async fn get_alarm_rule(&self, app: AppId, name: &str) -> Result<AlarmRule> {
        alarms::get_rule(self, app, name).await
    }

    async fn list_alarm_rules(&self, query: &AlarmRuleQuery) -> Result<Vec<AlarmRule>> {
        alarms::list_rules(self, query).await
    }

    async fn update_alarm_rule(
        &self,
        id: AlarmRuleId,
        spec: &AlarmRuleSpec,
        version: u64,
        by: &str,
        now: DateTime<Utc>,
    ) -> Result<AlarmRule> {
        alarms::update_rule(self, id, spec, version, by, now).await
    }

    async fn delete_alarm_rule(&self, id: AlarmRuleId, version: Option<u64>) -> Result<()> {
        alarms::delete_rule(self, id, version).await
    }

    async fn wish_default_ends(&self, states: &[RunState]) -> Result<()> {
        alarms::wish_default(self, states).await
    }

    async fn watching_rules(&self, apps: &[AppId]) -> Result<Vec<AlarmRule>> {
        alarms::watching(self, apps).await
    }

    async fn ended_runs(&self, runs: &[RunId]) -> Result<Vec<EndedRun>> {
        alarms::ended(self, runs).await
    }

    async fn last_states(&self, streak: &Streak) -> Result<Vec<RunState>> {
        alarms::last_states(self, streak).await
    }

    async fn claim_deliveries(
        &self,
        wanted: &DeliveryClaim,
        now: DateTime<Utc>,
    ) -> Result<Vec<OwedDelivery>> {
        claim(self, wanted, now).await
    }

    async fn end_delivery(&self, id: DeliveryId, attempt: u32, how: &DeliveryEnd) -> Result<()> {
        end(self, id, attempt, how).await
    }

    async fn count_owed(&self) -> Result<OwedCounts> {
        count(self).await
    }

    async fn list_alarms(&self, query: &AlarmQuery) -> Result<Vec<Alarm>> {
        alarms::list(self, query).await
    }

    async fn acknowledge_alarm(
        &self,
        app: AppId,
        id: AlarmId,
        by: &str,
        comment: &str,
        now: DateTime<Utc>,
    ) -> Result<Alarm> {
        alarms::acknowledge(self, app, id, by, comment, now).await
    }

    async fn prune_alarms(&self, before: DateTime<Utc>) -> Result<u64> {
        alarms::prune(self, before).await
    }
}
