//! Alarm rules, and the alarms they raised.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params, params_from_iter};

use super::{
    filter::{Fields, Where},
    jobs,
    rows::{
        count, counted, counted32, from_json, get_at, get_at_opt, get_failure, get_run_id, json,
        us, word,
    },
    writer::{Tx, all, find},
};
use crate::{
    model::{
        alarm::{
            Alarm, AlarmCondition, AlarmId, AlarmRule, AlarmRuleId, AlarmRuleSpec, EndedRun,
            NewAlarm, Streak,
        },
        ids::{AppId, JobId, RunId},
        run::{RunState, TriggerKind},
    },
    store::{
        Result, StoreError, Topic,
        alarms::ALARM_PRUNE_MAX,
        ops::{AlarmQuery, AlarmRuleQuery, NewAlarmRule, RequestKey},
    },
};

/// Columns of `alarm_rule r JOIN app a` that [`rule`] reads, in its order.
const RULE: &str = "r.id, r.app_id, a.name, r.name, r.spec, r.version";

fn rule(row: &Row<'_>) -> rusqlite::Result<AlarmRule> {
    Ok(AlarmRule {
        id: AlarmRuleId(row.get(0)?),
        app: AppId(row.get(1)?),
        app_name: row.get(2)?,
        name: row.get(3)?,
        spec: from_json(row, 4)?,
        version: counted(row.get(5)?),
    })
}

/// Columns of `alarm m JOIN app a` that [`alarm`] reads, in its order.
const ALARM: &str = "m.id, a.name, m.rule, m.condition, m.facts, m.fire_at, m.acknowledged_at, \
     m.acknowledged_by, m.comment, m.deliveries, m.last_error";

fn alarm(row: &Row<'_>) -> rusqlite::Result<Alarm> {
    Ok(Alarm {
        id: AlarmId::from_bytes(row.get(0)?),
        app_name: row.get(1)?,
        rule_name: row.get(2)?,
        condition: word(row, 3, AlarmCondition::parse)?,
        facts: from_json(row, 4)?,
        fire_at: get_at(row, 5)?,
        acknowledged_at: get_at_opt(row, 6)?,
        acknowledged_by: row.get(7)?,
        comment: row.get(8)?,
        deliveries: counted32(row.get(9)?),
        last_error: row.get(10)?,
    })
}

/// Creates a rule; a repeated request gets the rule of the first one.
pub(super) fn create_rule(
    tx: &mut Tx<'_>,
    new: &NewAlarmRule,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<AlarmRule> {
    if jobs::answered(tx, request)?.is_some() {
        return get_rule(tx.conn(), new.app, &new.name);
    }
    let made = tx.execute(
        "INSERT INTO alarm_rule (app_id, name, spec, version, created_at, updated_at, updated_by)
         VALUES (?1, ?2, ?3, 1, ?4, ?4, ?5) ON CONFLICT (app_id, name) DO NOTHING",
        params![new.app.0, new.name, json(&new.spec)?, us(now), new.updated_by],
    )?;
    if made == 0 {
        return Err(StoreError::AlreadyExists(format!("alarm rule {}", new.name)));
    }
    let made = get_rule(tx.conn(), new.app, &new.name)?;
    jobs::remember(tx, request, &made.id.0.to_string(), now)?;
    wish(tx)?;
    Ok(made)
}

/// One rule by name.
pub(super) fn get_rule(conn: &Connection, app: AppId, name: &str) -> Result<AlarmRule> {
    let sql = format!(
        "SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id
         WHERE r.app_id = ?1 AND r.name = ?2"
    );
    find(conn, &sql, params![app.0, name], rule)?
        .ok_or_else(|| StoreError::NotFound(format!("alarm rule {name}")))
}

/// A page of rules.
pub(super) fn list_rules(conn: &Connection, query: &AlarmRuleQuery) -> Result<Vec<AlarmRule>> {
    let mut filter = Where::new(Vec::new());
    filter.and_in("r.app_id", ids(query.apps.as_deref()))?;
    if let Some((app, name)) = &query.after {
        let key = [app.clone().into(), name.clone().into()];
        filter.and("(a.name, r.name) > (?, ?)", key);
    }
    let (clause, params) = filter.finish(&format!("ORDER BY a.name, r.name LIMIT {}", query.limit));
    let sql = format!("SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id {clause}");
    all(conn, &sql, params_from_iter(params), rule)
}

fn ids(apps: Option<&[AppId]>) -> Option<Vec<i64>> {
    apps.map(|apps| apps.iter().map(|app| app.0).collect())
}

/// Replaces the spec if the version is still `version`.
pub(super) fn update_rule(
    tx: &mut Tx<'_>,
    id: AlarmRuleId,
    spec: &AlarmRuleSpec,
    version: u64,
    by: &str,
    now: DateTime<Utc>,
) -> Result<AlarmRule> {
    let changed = tx.execute(
        "UPDATE alarm_rule SET spec = ?2, version = version + 1, updated_at = ?4, updated_by = ?5
         WHERE id = ?1 AND version = ?3",
        params![id.0, json(spec)?, count(version), us(now), by],
    )?;
    let sql =
        format!("SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id WHERE r.id = ?1");
    match find(tx.conn(), &sql, [id.0], rule)? {
        Some(rule) if changed == 1 => {
            wish(tx)?;
            Ok(rule)
        }
        found => Err(changed_or_gone(found.is_some())),
    }
}

/// Removes a rule with what its channels are owed.
pub(super) fn delete_rule(tx: &mut Tx<'_>, id: AlarmRuleId, version: Option<u64>) -> Result<()> {
    let gone = tx.execute(
        "DELETE FROM alarm_rule WHERE id = ?1 AND (?2 IS NULL OR version = ?2)",
        params![id.0, version.map(count)],
    )?;
    if gone == 0 {
        let there = find(tx.conn(), "SELECT 1 FROM alarm_rule WHERE id = ?1", [id.0], |_| Ok(()))?;
        return Err(changed_or_gone(there.is_some()));
    }
    tx.execute("DELETE FROM alarm_delivery WHERE rule_id = ?1", [id.0])?;
    wish(tx)
}

/// Wishes for the ends that some enabled rule is about: asked after every change of a rule.
pub(super) fn wish(tx: &Tx<'_>) -> Result<()> {
    tx.execute("DELETE FROM end_wish WHERE wisher = 'rules'", [])?;
    tx.execute(
        "INSERT INTO end_wish (state, wisher)
         SELECT DISTINCT s.column2, 'rules' FROM alarm_rule r
         JOIN (VALUES ('RUN_FAILED', 'FAILED'), ('RUN_FAILED', 'TIMED_OUT'), ('RUN_LOST', 'LOST'),
             ('RUN_SUCCEEDED', 'SUCCEEDED')) AS s
             ON s.column1 = json_extract(r.spec, '$.condition')
         WHERE NOT json_extract(r.spec, '$.disabled')",
        [],
    )?;
    Ok(())
}

/// Wishes for the ends that the configuration's alarm is about.
pub(super) fn wish_default(tx: &Tx<'_>, states: &[RunState]) -> Result<()> {
    tx.execute("DELETE FROM end_wish WHERE wisher = 'default'", [])?;
    for state in states {
        tx.execute(
            "INSERT INTO end_wish (state, wisher) VALUES (?1, 'default')",
            [state.as_str()],
        )?;
    }
    Ok(())
}

fn changed_or_gone(there: bool) -> StoreError {
    if there {
        StoreError::Conflict("the alarm rule was changed meanwhile".to_owned())
    } else {
        StoreError::NotFound("the alarm rule".to_owned())
    }
}

/// All enabled rules of the apps; one that can't be read must not silence the others.
pub(super) fn watching(conn: &Connection, apps: &[AppId]) -> Result<Vec<AlarmRule>> {
    let sql = format!(
        "SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id
         WHERE r.app_id IN (SELECT value FROM json_each(?1))
             AND NOT json_extract(r.spec, '$.disabled')
         ORDER BY r.id"
    );
    let readable = |row: &Row<'_>| {
        let told = |fault| tracing::error!(%fault, "an alarm rule can't be read; it is left out");
        Ok(rule(row).map_err(told).ok())
    };
    let rules = all(conn, &sql, [json(&ids(Some(apps)))?], readable)?;
    Ok(rules.into_iter().flatten().collect())
}

/// What rules look at of ended runs.
pub(super) fn ended(conn: &Connection, runs: &[RunId]) -> Result<Vec<EndedRun>> {
    let sql = "SELECT r.id, r.app_id, a.name, r.job_id, j.name, j.spec, r.state, r.trigger,
             r.attempt, r.fire_at, r.ended_at, r.executor, r.failure, coalesce(r.message, ''),
             json_extract(coalesce(r.extra, '{}'), '$.parent') IS NOT NULL
         FROM ended_run r JOIN job j ON j.id = r.job_id JOIN app a ON a.id = r.app_id
         WHERE r.id = ?1";
    let mut found = Vec::with_capacity(runs.len());
    for run in runs {
        found.extend(find(conn, sql, [run.to_bytes()], ended_run)?);
    }
    Ok(found)
}

fn ended_run(row: &Row<'_>) -> rusqlite::Result<EndedRun> {
    Ok(EndedRun {
        run: get_run_id(row, 0)?,
        app: AppId(row.get(1)?),
        app_name: row.get::<_, String>(2)?.into(),
        job: JobId(row.get(3)?),
        job_name: row.get::<_, String>(4)?.into(),
        // A job that can't be read has no owner or labels to look at, but its runs still end.
        spec: Arc::new(from_json(row, 5).unwrap_or_default()),
        state: word(row, 6, RunState::parse)?,
        trigger: word(row, 7, TriggerKind::parse)?,
        attempt: counted32(row.get(8)?),
        fire_at: get_at(row, 9)?,
        ended_at: get_at(row, 10)?,
        executor: row.get::<_, Option<String>>(11)?.map(Arc::from),
        failure: get_failure(row, 12)?,
        message: row.get(13)?,
        is_shard: row.get(14)?,
    })
}

/// Read by id, which goes by fire time and has an index; the few that overlapped are put in the
/// order of their ends.
pub(super) fn last_states(conn: &Connection, streak: &Streak) -> Result<Vec<RunState>> {
    let sql = "SELECT state FROM (
             SELECT id, state, ended_at FROM ended_run
             WHERE job_id = ?1 AND ended_at <= ?2 AND state <> 'SKIPPED' AND state <> 'CANCELED'
                 AND json_extract(coalesce(extra, '{}'), '$.parent') IS NULL
             ORDER BY id DESC LIMIT ?4)
         WHERE ended_at > coalesce((SELECT max(fire_at) FROM alarm
             WHERE rule_id = ?3 AND job_id = ?1 AND fire_at < ?2), -9223372036854775808)
         ORDER BY ended_at DESC, id DESC";
    let key = params![streak.job.0, us(streak.until), streak.rule.0, streak.take];
    all(conn, sql, key, |row| word(row, 0, RunState::parse))
}

/// Writes alarms and what they owe, in the transaction that takes their runs' ends in hand. An
/// alarm that is there already stays as it is; one of an app that is gone is not written.
pub(super) fn insert(tx: &mut Tx<'_>, alarms: &[NewAlarm], now: DateTime<Utc>) -> Result<()> {
    for alarm in alarms {
        let made = tx.execute(
            "INSERT INTO alarm (id, app_id, job_id, rule_id, rule, job, condition, facts, fire_at)
             SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM app WHERE id = ?2
             ON CONFLICT (id) DO NOTHING",
            params![
                alarm.id.to_bytes(),
                alarm.app.0,
                alarm.job.0,
                alarm.rule.map(|rule| rule.0),
                alarm.rule_name,
                alarm.facts.job,
                alarm.condition.as_str(),
                json(&alarm.facts)?,
                us(alarm.fire_at),
            ],
        )?;
        for (channel, target) in alarm.targets.iter().enumerate().filter(|_| made == 1) {
            tx.execute(
                "INSERT INTO alarm_delivery (alarm_id, channel, rule_id, target, owed_at, due_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
                params![
                    alarm.id.to_bytes(),
                    i64::try_from(channel).unwrap_or(i64::MAX),
                    alarm.rule.map(|rule| rule.0),
                    target,
                    us(now),
                ],
            )?;
        }
    }
    if !alarms.is_empty() {
        tx.hint(Topic::Alarms);
    }
    Ok(())
}

/// Fields of `alarm m`.
const ALARM_FIELDS: Fields = Fields {
    column: |field| {
        Some(match field {
            "rule" => "m.rule",
            "job" => "m.job",
            "condition" => "m.condition",
            "acknowledged" => "iif(m.acknowledged_at IS NULL, 'false', 'true')",
            "fire_time" => "m.fire_at",
            _ => return None,
        })
    },
    label: "NULL",
};

/// A page of alarms.
pub(super) fn list(conn: &Connection, query: &AlarmQuery) -> Result<Vec<Alarm>> {
    let mut filter = Where::new(Vec::new());
    filter.and_in("m.app_id", ids(query.apps.as_deref()))?;
    if let Some(before) = query.before {
        filter.and("m.id < ?", [before.to_bytes().to_vec().into()]);
    }
    for condition in &query.conditions {
        filter.and_condition(condition, &ALARM_FIELDS)?;
    }
    let (clause, params) = filter.finish(&format!("ORDER BY m.id DESC LIMIT {}", query.limit));
    let sql = format!("SELECT {ALARM} FROM alarm m JOIN app a ON a.id = m.app_id {clause}");
    all(conn, &sql, params_from_iter(params), alarm)
}

/// Marks an alarm as seen; the first time counts.
pub(super) fn acknowledge(
    tx: &mut Tx<'_>,
    app: AppId,
    id: AlarmId,
    by: &str,
    comment: &str,
    now: DateTime<Utc>,
) -> Result<Alarm> {
    tx.execute(
        "UPDATE alarm SET acknowledged_at = ?3, acknowledged_by = ?4, comment = ?5
         WHERE id = ?2 AND app_id = ?1 AND acknowledged_at IS NULL",
        params![app.0, id.to_bytes(), us(now), by, comment],
    )?;
    let sql = format!(
        "SELECT {ALARM} FROM alarm m JOIN app a ON a.id = m.app_id
         WHERE m.id = ?2 AND m.app_id = ?1"
    );
    find(tx.conn(), &sql, params![app.0, id.to_bytes()], alarm)?
        .ok_or_else(|| StoreError::NotFound(format!("alarm {id}")))
}

/// Removes alarms that were raised before the instant.
pub(super) fn prune(tx: &mut Tx<'_>, before: DateTime<Utc>) -> Result<u64> {
    let gone = tx.execute(
        "DELETE FROM alarm WHERE id IN (SELECT id FROM alarm WHERE id < ?1 ORDER BY id LIMIT ?2)",
        params![AlarmId::first_at(before).to_bytes(), ALARM_PRUNE_MAX],
    )?;
    Ok(gone as u64)
}
