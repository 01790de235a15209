//! Alarm rules, and the alarms they raised.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    filter::{self, Fields, Values},
    requests::{answered, begin, commit, remember},
    rows::{Reader, big, execute, parse_json, query, query_once, query_opt, to_json, uuids},
};
use crate::{
    model::{
        alarm::{
            Alarm, AlarmCondition, AlarmId, AlarmRule, AlarmRuleId, AlarmRuleSpec, EndedRun,
            NewAlarm, Streak,
        },
        ids::{AppId, JobId, RunId},
        job::JobSpec,
        run::{RunState, TriggerKind},
    },
    store::{
        Result, StoreError,
        alarms::ALARM_PRUNE_MAX,
        ops::{AlarmQuery, AlarmRuleQuery, NewAlarmRule, RequestKey},
    },
};

/// Columns of `alarm_rule r JOIN app a` that [`rule`] reads, in its order.
const RULE: &str = "r.id, r.app_id, a.name, r.name, r.spec::text, r.version";

fn rule(row: &Row) -> Result<AlarmRule> {
    let mut row = Reader::new(row);
    Ok(AlarmRule {
        id: AlarmRuleId(row.get()?),
        app: AppId(row.get()?),
        app_name: row.get()?,
        name: row.get()?,
        spec: row.json()?,
        version: row.number()?,
    })
}

/// Columns of `alarm m JOIN app a` that [`alarm`] reads, in its order.
const ALARM: &str = "m.id, a.name, m.rule, m.condition, m.facts::text, m.fire_at, \
    m.acknowledged_at, m.acknowledged_by, m.comment, m.deliveries, m.last_error";

fn alarm(row: &Row) -> Result<Alarm> {
    let mut row = Reader::new(row);
    Ok(Alarm {
        id: AlarmId::from_bytes(row.get::<Uuid>()?.into_bytes()),
        app_name: row.get()?,
        rule_name: row.get()?,
        condition: row.word(AlarmCondition::parse)?,
        facts: row.json()?,
        fire_at: row.get()?,
        acknowledged_at: row.get()?,
        acknowledged_by: row.get()?,
        comment: row.get()?,
        deliveries: row.small()?,
        last_error: row.get()?,
    })
}

pub(super) async fn create_rule(
    store: &PostgresStore,
    new: &NewAlarmRule,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<AlarmRule> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    if answered(&tx, request, now).await?.is_some() {
        return by_name(&tx, new.app, &new.name).await;
    }
    let sql = "INSERT INTO alarm_rule (app_id, name, spec, version, created_at, updated_at,
            updated_by)
        VALUES ($1, $2, $3::text::jsonb, 1, $4, $4, $5)
        ON CONFLICT (app_id, name) DO NOTHING";
    let params: [&(dyn ToSql + Sync); 5] =
        [&new.app.0, &new.name, &to_json(&new.spec)?, &now, &new.updated_by];
    if execute(&tx, sql, &params).await? == 0 {
        return Err(StoreError::AlreadyExists(format!("alarm rule {}", new.name)));
    }
    let made = by_name(&tx, new.app, &new.name).await?;
    remember(&tx, request, &made.id.0.to_string()).await?;
    wish(&tx).await?;
    commit(tx).await?;
    Ok(made)
}

async fn by_name(client: &impl GenericClient, app: AppId, name: &str) -> Result<AlarmRule> {
    let sql = format!(
        "SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id
        WHERE r.app_id = $1 AND r.name = $2"
    );
    match query_opt(client, &sql, &[&app.0, &name]).await? {
        Some(row) => rule(&row),
        None => Err(StoreError::NotFound(format!("alarm rule {name}"))),
    }
}

pub(super) async fn get_rule(store: &PostgresStore, app: AppId, name: &str) -> Result<AlarmRule> {
    by_name(&store.client().await?, app, name).await
}

pub(super) async fn list_rules(
    store: &PostgresStore,
    wanted: &AlarmRuleQuery,
) -> Result<Vec<AlarmRule>> {
    let sql = format!(
        "SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id
        WHERE ($1::bigint[] IS NULL OR r.app_id = ANY($1)) AND (a.name, r.name) > ($2, $3)
        ORDER BY a.name, r.name LIMIT $4"
    );
    let apps = ids(wanted.apps.as_deref());
    let (app, name) = wanted.after.clone().unwrap_or_default();
    let params: [&(dyn ToSql + Sync); 4] = [&apps, &app, &name, &i64::from(wanted.limit)];
    query(&store.client().await?, &sql, &params).await?.iter().map(rule).collect()
}

fn ids(apps: Option<&[AppId]>) -> Option<Vec<i64>> {
    apps.map(|apps| apps.iter().map(|app| app.0).collect())
}

pub(super) async fn update_rule(
    store: &PostgresStore,
    id: AlarmRuleId,
    spec: &AlarmRuleSpec,
    version: u64,
    by: &str,
    now: DateTime<Utc>,
) -> Result<AlarmRule> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let sql = format!(
        "UPDATE alarm_rule r SET spec = $2::text::jsonb, version = r.version + 1, updated_at = $4,
            updated_by = $5
        FROM app a WHERE r.id = $1 AND r.version = $3 AND a.id = r.app_id RETURNING {RULE}"
    );
    let params: [&(dyn ToSql + Sync); 5] = [&id.0, &to_json(spec)?, &big(version), &now, &by];
    let Some(row) = query_opt(&tx, &sql, &params).await? else {
        return Err(changed_or_gone(&tx, id).await);
    };
    let changed = rule(&row)?;
    wish(&tx).await?;
    commit(tx).await?;
    Ok(changed)
}

pub(super) async fn delete_rule(
    store: &PostgresStore,
    id: AlarmRuleId,
    version: Option<u64>,
) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let sql = "DELETE FROM alarm_rule WHERE id = $1 AND ($2::bigint IS NULL OR version = $2)";
    if execute(&tx, sql, &[&id.0, &version.map(big)]).await? == 0 {
        return Err(changed_or_gone(&tx, id).await);
    }
    execute(&tx, "DELETE FROM alarm_delivery WHERE rule_id = $1", &[&id.0]).await?;
    wish(&tx).await?;
    commit(tx).await
}

/// Wishes for the ends that some enabled rule is about: asked after every change of a rule. The
/// lock lets one change of rules after the other do so, and each sees those before it; ends that
/// read the wishes don't wait for it.
pub(super) async fn wish(tx: &Transaction<'_>) -> Result<()> {
    execute(tx, "LOCK TABLE end_wish IN SHARE ROW EXCLUSIVE MODE", &[]).await?;
    execute(tx, "DELETE FROM end_wish WHERE wisher = 'rules'", &[]).await?;
    let sql = "INSERT INTO end_wish (state, wisher)
        SELECT DISTINCT s.state, 'rules' FROM alarm_rule r
        JOIN (VALUES ('RUN_FAILED', 'FAILED'), ('RUN_FAILED', 'TIMED_OUT'), ('RUN_LOST', 'LOST'),
            ('RUN_SUCCEEDED', 'SUCCEEDED')) AS s (condition, state)
            ON s.condition = r.spec ->> 'condition'
        WHERE r.spec ->> 'disabled' = 'false'";
    execute(tx, sql, &[]).await.map(|_| ())
}

/// Wishes for the ends that the configuration's alarm is about.
pub(super) async fn wish_default(store: &PostgresStore, states: &[RunState]) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    execute(&tx, "LOCK TABLE end_wish IN SHARE ROW EXCLUSIVE MODE", &[]).await?;
    execute(&tx, "DELETE FROM end_wish WHERE wisher = 'default'", &[]).await?;
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let sql = "INSERT INTO end_wish (state, wisher) SELECT s, 'default' FROM unnest($1::text[]) s";
    execute(&tx, sql, &[&states]).await?;
    commit(tx).await
}

/// Why a rule of that version was not found.
async fn changed_or_gone(client: &impl GenericClient, id: AlarmRuleId) -> StoreError {
    match query_opt(client, "SELECT name FROM alarm_rule WHERE id = $1", &[&id.0]).await {
        Ok(Some(_)) => StoreError::Conflict("the alarm rule was changed meanwhile".to_owned()),
        Ok(None) => StoreError::NotFound("the alarm rule".to_owned()),
        Err(fault) => fault,
    }
}

/// One that can't be read must not silence the others.
pub(super) async fn watching(store: &PostgresStore, apps: &[AppId]) -> Result<Vec<AlarmRule>> {
    let sql = format!(
        "SELECT {RULE} FROM alarm_rule r JOIN app a ON a.id = r.app_id
        WHERE r.app_id = ANY($1::bigint[]) AND r.spec ->> 'disabled' = 'false' ORDER BY r.id"
    );
    let apps = ids(Some(apps));
    let found = query(&store.client().await?, &sql, &[&apps]).await?;
    let told = |fault| tracing::error!(%fault, "an alarm rule can't be read; it is left out");
    Ok(found.iter().filter_map(|row| rule(row).map_err(told).ok()).collect())
}

pub(super) async fn ended(store: &PostgresStore, runs: &[RunId]) -> Result<Vec<EndedRun>> {
    let sql = "SELECT r.id, r.app_id, a.name, r.job_id, j.name, j.spec::text, r.state, r.trigger,
            r.attempt, r.fire_at, r.ended_at, r.executor, r.failure::text, coalesce(r.message, ''),
            (r.extra ->> 'parent') IS NOT NULL
        FROM ended_run r JOIN job j ON j.id = r.job_id JOIN app a ON a.id = r.app_id
        WHERE r.id = ANY($1::uuid[])";
    let found = query(&store.client().await?, sql, &[&uuids(runs)]).await?;
    found.iter().map(ended_run).collect()
}

fn ended_run(row: &Row) -> Result<EndedRun> {
    let mut row = Reader::new(row);
    Ok(EndedRun {
        run: row.run()?,
        app: AppId(row.get()?),
        app_name: Arc::from(row.get::<&str>()?),
        job: JobId(row.get()?),
        job_name: Arc::from(row.get::<&str>()?),
        // A job that can't be read has no owner or labels to look at, but its runs still end.
        spec: Arc::new(parse_json::<JobSpec>(row.get()?).unwrap_or_default()),
        state: row.word(RunState::parse)?,
        trigger: row.word(TriggerKind::parse)?,
        attempt: row.small()?,
        fire_at: row.get()?,
        ended_at: row.get()?,
        executor: row.get::<Option<&str>>()?.map(Arc::from),
        failure: row.json_opt()?,
        message: row.get()?,
        is_shard: row.get()?,
    })
}

/// Read by id, which goes by fire time and has an index; the few that overlapped are put in the
/// order of their ends.
pub(super) async fn last_states(store: &PostgresStore, streak: &Streak) -> Result<Vec<RunState>> {
    let sql = "SELECT state FROM (
            SELECT id, state, ended_at FROM ended_run
            WHERE job_id = $1 AND ended_at <= $2 AND state NOT IN ('SKIPPED', 'CANCELED')
                AND (extra ->> 'parent') IS NULL
            ORDER BY id DESC LIMIT $4) e
        WHERE ended_at > coalesce((SELECT max(fire_at) FROM alarm
            WHERE rule_id = $3 AND job_id = $1 AND fire_at < $2), '-infinity')
        ORDER BY ended_at DESC, id DESC";
    let params: [&(dyn ToSql + Sync); 4] =
        [&streak.job.0, &streak.until, &streak.rule.0, &i64::from(streak.take)];
    let found = query(&store.client().await?, sql, &params).await?;
    found.iter().map(|row| Reader::new(row).word(RunState::parse)).collect()
}

/// Writes alarms and what they owe, in the transaction that takes their runs' ends in hand. An
/// alarm that is there already stays as it is; one of an app that is gone is not written.
pub(super) async fn insert(
    tx: &Transaction<'_>,
    alarms: &[&NewAlarm],
    now: DateTime<Utc>,
) -> Result<()> {
    if alarms.is_empty() {
        return Ok(());
    }
    let sql = "WITH made AS (
            INSERT INTO alarm (id, app_id, job_id, rule_id, rule, job, condition, facts, fire_at)
            SELECT n.id, n.app_id, n.job_id, n.rule_id, n.rule, n.job, n.condition, n.facts::jsonb,
                n.fire_at
            FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[],
                $6::text[], $7::text[], $8::text[], $9::timestamptz[])
                AS n (id, app_id, job_id, rule_id, rule, job, condition, facts, fire_at)
            JOIN app a ON a.id = n.app_id
            ON CONFLICT (id) DO NOTHING RETURNING id, rule_id
        )
        INSERT INTO alarm_delivery (alarm_id, channel, rule_id, target, owed_at, due_at)
        SELECT m.id, d.channel, m.rule_id, d.target, $13::timestamptz, $13
        FROM made m
        JOIN unnest($10::uuid[], $11::smallint[], $12::text[]) AS d (alarm, channel, target)
            ON d.alarm = m.id";
    let column = |of: fn(&NewAlarm) -> String| alarms.iter().map(|a| of(a)).collect::<Vec<_>>();
    let keys: Vec<Uuid> = alarms.iter().map(|alarm| alarm.id.to_uuid()).collect();
    let apps: Vec<i64> = alarms.iter().map(|alarm| alarm.app.0).collect();
    let jobs: Vec<i64> = alarms.iter().map(|alarm| alarm.job.0).collect();
    let rules: Vec<Option<i64>> = alarms.iter().map(|a| a.rule.map(|rule| rule.0)).collect();
    let rule_names = column(|alarm| alarm.rule_name.clone());
    let job_names = column(|alarm| alarm.facts.job.clone());
    let conditions = column(|alarm| alarm.condition.as_str().to_owned());
    let facts: Result<Vec<String>> = alarms.iter().map(|alarm| to_json(&alarm.facts)).collect();
    let facts = facts?;
    let times: Vec<DateTime<Utc>> = alarms.iter().map(|alarm| alarm.fire_at).collect();
    let (mut owing, mut channels, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for alarm in alarms {
        for (channel, target) in alarm.targets.iter().enumerate() {
            owing.push(alarm.id.to_uuid());
            channels.push(i16::try_from(channel).unwrap_or(i16::MAX));
            targets.push(target.as_str());
        }
    }
    let params: [&(dyn ToSql + Sync); 13] = [
        &keys,
        &apps,
        &jobs,
        &rules,
        &rule_names,
        &job_names,
        &conditions,
        &facts,
        &times,
        &owing,
        &channels,
        &targets,
        &now,
    ];
    execute(tx, sql, &params).await.map(|_| ())
}

/// Fields of `alarm m`.
const ALARM_FIELDS: Fields = Fields {
    column: |field| {
        Some(match field {
            "rule" => "m.rule",
            "job" => "m.job",
            "condition" => "m.condition",
            "acknowledged" => "(m.acknowledged_at IS NOT NULL)::text",
            "fire_time" => "m.fire_at",
            _ => return None,
        })
    },
    label: "NULL",
};

pub(super) async fn list(store: &PostgresStore, wanted: &AlarmQuery) -> Result<Vec<Alarm>> {
    let mut values = Values::default();
    let mut tests = vec!["true".to_owned()];
    if let Some(apps) = ids(wanted.apps.as_deref()) {
        tests.push(format!("m.app_id = ANY({}::bigint[])", values.bind(apps)));
    }
    if let Some(before) = wanted.before {
        tests.push(format!("m.id < {}::uuid", values.bind(before.to_uuid())));
    }
    for condition in &wanted.conditions {
        tests.push(filter::sql(condition, &ALARM_FIELDS, &mut values)?);
    }
    let sql = format!(
        "SELECT {ALARM} FROM alarm m JOIN app a ON a.id = m.app_id WHERE {}
        ORDER BY m.id DESC LIMIT {}",
        tests.join(" AND "),
        wanted.limit
    );
    let found = query_once(&store.client().await?, &sql, &values.params()).await?;
    found.iter().map(alarm).collect()
}

pub(super) async fn acknowledge(
    store: &PostgresStore,
    app: AppId,
    id: AlarmId,
    by: &str,
    comment: &str,
    now: DateTime<Utc>,
) -> Result<Alarm> {
    let sql = format!(
        "UPDATE alarm m SET acknowledged_at = coalesce(m.acknowledged_at, $3),
            acknowledged_by = CASE WHEN m.acknowledged_at IS NULL THEN $4 ELSE m.acknowledged_by END,
            comment = CASE WHEN m.acknowledged_at IS NULL THEN $5 ELSE m.comment END
        FROM app a WHERE m.id = $2 AND m.app_id = $1 AND a.id = m.app_id RETURNING {ALARM}"
    );
    let params: [&(dyn ToSql + Sync); 5] = [&app.0, &id.to_uuid(), &now, &by, &comment];
    match query_opt(&store.client().await?, &sql, &params).await? {
        Some(row) => alarm(&row),
        None => Err(StoreError::NotFound(format!("alarm {id}"))),
    }
}

pub(super) async fn prune(store: &PostgresStore, before: DateTime<Utc>) -> Result<u64> {
    let sql = "DELETE FROM alarm WHERE id IN (
            SELECT id FROM alarm WHERE id < $1 ORDER BY id LIMIT $2)";
    let limit = i64::from(ALARM_PRUNE_MAX);
    let first = AlarmId::first_at(before).to_uuid();
    execute(&store.client().await?, sql, &[&first, &limit]).await
}
