//! The outbox of alarms.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::{
    SqliteStore, alarms,
    rows::{at, counted, counted32, from_json, from_json_opt, get_at, json, us, word},
    writer::{Tx, all, find},
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

/// What is due and may be claimed, the longest due first.
const CANDIDATES: &str = "SELECT alarm_id, channel, target FROM alarm_delivery
     WHERE due_at <= ?1 AND target NOT IN (SELECT value FROM json_each(?2))
         AND (?3 OR rule_id IS NOT NULL OR owed_at < ?4)
     ORDER BY due_at, alarm_id, channel LIMIT ?5";

/// Of each target the longest due, as many as may be had.
fn choose(
    conn: &Connection,
    claim: &DeliveryClaim,
    now: DateTime<Utc>,
) -> Result<Vec<([u8; 16], i64)>> {
    let key = params![
        us(now),
        json(&claim.without)?,
        claim.with_default,
        us(claim.given_up_before),
        CLAIM_CANDIDATES_MAX,
    ];
    let due = all(conn, CANDIDATES, key, |row| {
        Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
    })?;
    let mut taken: HashMap<String, u32> = HashMap::new();
    let mut chosen = Vec::new();
    for (alarm, channel, target) in due {
        let places = taken.entry(target).or_default();
        if *places < claim.per_target && chosen.len() < claim.limit as usize {
            *places += 1;
            chosen.push((alarm, channel));
        }
    }
    Ok(chosen)
}

fn claim(tx: &mut Tx<'_>, claim: &DeliveryClaim, now: DateTime<Utc>) -> Result<Vec<OwedDelivery>> {
    let sql = "SELECT d.alarm_id, d.channel, d.attempt, d.target, d.owed_at, d.rule_id, r.spec,
             m.rule, m.condition, m.facts, m.fire_at, m.last_error
         FROM alarm_delivery d JOIN alarm m ON m.id = d.alarm_id
             LEFT JOIN alarm_rule r ON r.id = d.rule_id
         WHERE d.alarm_id = ?1 AND d.channel = ?2";
    let mut claimed = Vec::new();
    for (alarm, channel) in choose(tx.conn(), claim, now)? {
        tx.execute(
            "UPDATE alarm_delivery SET attempt = attempt + 1, due_at = ?3
             WHERE alarm_id = ?1 AND channel = ?2",
            params![alarm, channel, us(claim.lease_until)],
        )?;
        claimed.extend(find(tx.conn(), sql, params![alarm, channel], delivery)?);
    }
    claimed.sort_by_key(|owed| (owed.owed_at, owed.id.alarm, owed.id.channel));
    Ok(claimed)
}

/// What can't be read is left empty: it must not keep the others from being delivered.
fn delivery(row: &Row<'_>) -> rusqlite::Result<OwedDelivery> {
    let channel = u16::try_from(row.get::<_, i64>(1)?).unwrap_or(u16::MAX);
    Ok(OwedDelivery {
        id: DeliveryId { alarm: AlarmId::from_bytes(row.get(0)?), channel },
        attempt: counted32(row.get(2)?),
        target: row.get(3)?,
        owed_at: get_at(row, 4)?,
        rule: row.get::<_, Option<i64>>(5)?.map(AlarmRuleId),
        spec: from_json_opt(row, 6).unwrap_or_default(),
        rule_name: row.get(7)?,
        condition: word(row, 8, AlarmCondition::parse)?,
        facts: from_json(row, 9).unwrap_or_default(),
        fire_at: get_at(row, 10)?,
        last_fault: OwedDelivery::fault_of(channel, &row.get::<_, String>(11)?),
    })
}

/// The error of one channel stands until that channel has the alarm, or another fails.
fn end(tx: &mut Tx<'_>, id: DeliveryId, attempt: u32, end: &DeliveryEnd) -> Result<()> {
    let (alarm, channel) = (id.alarm.to_bytes(), id.channel);
    let told = |error: &str| fault_prefix(channel) + error;
    let fail = |error: &str| {
        tx.execute("UPDATE alarm SET last_error = ?2 WHERE id = ?1", params![alarm, told(error)])
    };
    match end {
        DeliveryEnd::Delivered => {
            let gone = tx.execute(
                "DELETE FROM alarm_delivery WHERE alarm_id = ?1 AND channel = ?2",
                params![alarm, channel],
            )?;
            if gone == 1 {
                tx.execute(
                    "UPDATE alarm SET deliveries = deliveries + 1,
                         last_error = iif(instr(last_error, ?2) = 1, '', last_error)
                     WHERE id = ?1",
                    params![alarm, told("")],
                )?;
            }
        }
        DeliveryEnd::Retry(due_at, error) => {
            let moved = tx.execute(
                "UPDATE alarm_delivery SET due_at = ?4
                 WHERE alarm_id = ?1 AND channel = ?2 AND attempt = ?3",
                params![alarm, channel, attempt, us(*due_at)],
            )?;
            if moved == 1 {
                fail(error)?;
            }
        }
        DeliveryEnd::GivenUp(error) => {
            let gone = tx.execute(
                "DELETE FROM alarm_delivery WHERE alarm_id = ?1 AND channel = ?2 AND attempt = ?3",
                params![alarm, channel, attempt],
            )?;
            if gone == 1 {
                fail(error)?;
            }
        }
    }
    Ok(())
}

fn count(conn: &Connection) -> Result<OwedCounts> {
    let sql = "SELECT count(*), min(owed_at) FROM alarm_delivery";
    let counts = find(conn, sql, [], |row| {
        let oldest: Option<i64> = row.get(1)?;
        Ok(OwedCounts { owed: counted(row.get(0)?), oldest: oldest.map(at) })
    })?;
    Ok(counts.unwrap_or_default())
}

#[async_trait]
impl AlarmStore for SqliteStore {
    async fn create_alarm_rule(
        &self,
        rule: &NewAlarmRule,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<AlarmRule> {
        let rule = rule.clone();
        let request = request.cloned();
        self.writer.write(move |tx| alarms::create_rule(tx, &rule, request.as_ref(), now)).await
    }

    async fn get_alarm_rule(&self, app: AppId, name: &str) -> Result<AlarmRule> {
        let name = name.to_owned();
        self.readers.read(move |conn| alarms::get_rule(conn, app, &name)).await
    }

    async fn list_alarm_rules(&self, query: &AlarmRuleQuery) -> Result<Vec<AlarmRule>> {
        let query = query.clone();
        self.readers.read(move |conn| alarms::list_rules(conn, &query)).await
    }

    async fn update_alarm_rule(
        &self,
        id: AlarmRuleId,
        spec: &AlarmRuleSpec,
        version: u64,
        by: &str,
        now: DateTime<Utc>,
    ) -> Result<AlarmRule> {
        let spec = spec.clone();
        let by = by.to_owned();
        self.writer.write(move |tx| alarms::update_rule(tx, id, &spec, version, &by, now)).await
    }

    async fn delete_alarm_rule(&self, id: AlarmRuleId, version: Option<u64>) -> Result<()> {
        self.writer.write(move |tx| alarms::delete_rule(tx, id, version)).await
    }

    async fn wish_default_ends(&self, states: &[RunState]) -> Result<()> {
        let states = states.to_vec();
        self.writer.write(move |tx| alarms::wish_default(tx, &states)).await
    }

    async fn watching_rules(&self, apps: &[AppId]) -> Result<Vec<AlarmRule>> {
        let apps = apps.to_vec();
        self.readers.read(move |conn| alarms::watching(conn, &apps)).await
    }

    async fn ended_runs(&self, runs: &[RunId]) -> Result<Vec<EndedRun>> {
        let runs = runs.to_vec();
        self.readers.read(move |conn| alarms::ended(conn, &runs)).await
    }

    async fn last_states(&self, streak: &Streak) -> Result<Vec<RunState>> {
        let streak = streak.clone();
        self.readers.read(move |conn| alarms::last_states(conn, &streak)).await
    }

    /// Looks before it writes: mostly nothing is due, and then the writer is not troubled.
    async fn claim_deliveries(
        &self,
        wanted: &DeliveryClaim,
        now: DateTime<Utc>,
    ) -> Result<Vec<OwedDelivery>> {
        let first = wanted.clone();
        if self.readers.read(move |conn| choose(conn, &first, now)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = wanted.clone();
        self.writer.write(move |tx| claim(tx, &wanted, now)).await
    }

    async fn end_delivery(&self, id: DeliveryId, attempt: u32, how: &DeliveryEnd) -> Result<()> {
        let how = how.clone();
        self.writer.write(move |tx| end(tx, id, attempt, &how)).await
    }

    async fn count_owed(&self) -> Result<OwedCounts> {
        self.readers.read(count).await
    }

    async fn list_alarms(&self, query: &AlarmQuery) -> Result<Vec<Alarm>> {
        let query = query.clone();
        self.readers.read(move |conn| alarms::list(conn, &query)).await
    }

    async fn acknowledge_alarm(
        &self,
        app: AppId,
        id: AlarmId,
        by: &str,
        comment: &str,
        now: DateTime<Utc>,
    ) -> Result<Alarm> {
        let (by, comment) = (by.to_owned(), comment.to_owned());
        self.writer.write(move |tx| alarms::acknowledge(tx, app, id, &by, &comment, now)).await
    }

    async fn prune_alarms(&self, before: DateTime<Utc>) -> Result<u64> {
        self.writer.write(move |tx| alarms::prune(tx, before)).await
    }
}
