//! Executors: the rows behind their sessions.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    requests::{begin, commit},
    rows::{self, OPEN_RUN, Reader, big, execute, query, query_one, query_opt, to_json},
};
use crate::{
    model::{executor::Executor, ids::AppId, words},
    store::{
        Result, StoreError, Topic,
        ops::{Claim, Claimed, ExecutorQuery, FORGOTTEN_MAX, SILENT_KEPT},
    },
};

/// Columns of `executor e` and `app a` that [`executor`] reads, in its order.
const EXECUTOR: &str = "e.id, e.app_id, a.name, e.name, e.spec::text, e.instance_id, \
    e.resume_hash, e.principal, e.session_epoch, e.node, e.cordoned, e.cordon_reason, \
    e.peer_address, e.connected_at, e.disconnected_at, e.gone, e.last_seen_at";

/// Condition on `open_run r`: the current attempt is with executor `$2` of app `$1`.
const WITH_EXECUTOR: &str = "r.app_id = $1 AND r.executor = $2 \
    AND r.state IN ('DISPATCHED', 'RUNNING', 'CANCELING')";

fn executor(row: &Row) -> Result<Executor> {
    read_executor(&mut Reader::new(row))
}

fn read_executor(row: &mut Reader<'_>) -> Result<Executor> {
    Ok(Executor {
        row: row.get()?,
        app: AppId(row.get()?),
        app_name: row.get()?,
        name: row.get()?,
        spec: row.json()?,
        instance_id: row.get()?,
        resume_hash: row.get()?,
        principal: row.get()?,
        session_epoch: row.number()?,
        node: row.get()?,
        cordoned: row.get()?,
        cordon_reason: row.get()?,
        peer_address: row.get()?,
        connected_at: row.get()?,
        disconnected_at: row.get()?,
        left: row.get()?,
        last_seen_at: row.get()?,
    })
}

async fn by_name(
    client: &impl GenericClient,
    app: AppId,
    name: &str,
    lock: &str,
) -> Result<Option<Executor>> {
    let sql = format!(
        "SELECT {EXECUTOR} FROM executor e JOIN app a ON a.id = e.app_id
        WHERE e.app_id = $1 AND e.name = $2 {lock}"
    );
    query_opt(client, &sql, &[&app.0, &name]).await?.as_ref().map(executor).transpose()
}

fn not_found(name: &str) -> StoreError {
    StoreError::NotFound(format!("executor {name}"))
}

pub(super) async fn get_executor(
    store: &PostgresStore,
    app: AppId,
    name: &str,
) -> Result<Executor> {
    by_name(&store.keyed().await?, app, name, "").await?.ok_or_else(|| not_found(name))
}

pub(super) async fn claim_executor(
    store: &PostgresStore,
    claim: &Claim,
    now: DateTime<Utc>,
) -> Result<Claimed> {
    let mut client = store.keyed().await?;
    // Mostly the executor is known and free, and one statement does.
    let (executor, resumed) = match take(&client, claim, now).await? {
        Some(taken) => taken,
        None => {
            let tx = begin(&mut client).await?;
            // Of two first claims one waits for the other here.
            make(&tx, claim, now).await?;
            let Some(taken) = take(&tx, claim, now).await? else {
                let row = by_name(&tx, claim.app, &claim.name, "FOR UPDATE OF e").await?;
                let row = row.ok_or_else(|| not_found(&claim.name))?;
                return Err(claim.refusal(&row).unwrap_or_else(|| moved(&claim.name)));
            };
            commit(tx).await?;
            taken
        }
    };
    let is_new = executor.session_epoch == 1;
    let attempts = if is_new { Vec::new() } else { runs_with(&client, claim).await? };
    store.hints.tell(Topic::Session { executor: executor.row, epoch: executor.session_epoch });
    Ok(Claimed {
        executor,
        resumed,
        replaced: !is_new && !resumed,
        attempts: attempts.iter().map(rows::open_run).collect::<Result<_>>()?,
    })
}

/// Makes the session the executor's, unless another process lives under its name or there is no row:
/// what [`Claim::refusal`] and [`Claim::resumes`] say, as one guarded statement. Returns the row, and
/// whether the session resumes.
async fn take(
    client: &impl GenericClient,
    claim: &Claim,
    now: DateTime<Utc>,
) -> Result<Option<(Executor, bool)>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "WITH before AS (
                SELECT b.id, b.disconnected_at, b.last_seen_at, b.instance_id = $4
                    AND CASE WHEN $10 = ''::bytea THEN b.principal = $6
                        ELSE b.resume_hash = $10 END AS resumes
                FROM executor b WHERE b.app_id = $1 AND b.name = $2 FOR UPDATE
            )
            UPDATE executor e SET spec = $3::text::jsonb, instance_id = $4,
                resume_hash = CASE WHEN b.resumes AND $10 <> ''::bytea THEN $10 ELSE $5 END,
                principal = $6, session_epoch = e.session_epoch + 1, node = $7, peer_address = $8,
                connected_at = $9, disconnected_at = NULL, gone = false, last_seen_at = $9
            FROM before b, app a WHERE e.id = b.id AND a.id = e.app_id
                AND (b.resumes OR b.disconnected_at IS NOT NULL OR b.last_seen_at <= $11)
            RETURNING {EXECUTOR}, b.resumes"
        )
    });
    let params: [&(dyn ToSql + Sync); 11] = [
        &claim.app.0,
        &claim.name,
        &to_json(&claim.spec)?,
        &claim.instance_id,
        &claim.fresh_resume_hash,
        &claim.principal,
        &claim.node,
        &claim.peer_address,
        &now,
        &claim.resume_hash,
        &claim.alive_since,
    ];
    let Some(row) = query_opt(client, &SQL, &params).await? else { return Ok(None) };
    let mut row = Reader::new(&row);
    Ok(Some((read_executor(&mut row)?, row.get()?)))
}

fn moved(name: &str) -> StoreError {
    StoreError::Unavailable(format!("executor {name} was claimed by others meanwhile; try again"))
}

/// Open runs whose current attempt is with the executor. Once the claim is committed nothing more is
/// sent to an earlier session.
async fn runs_with(client: &impl GenericClient, claim: &Claim) -> Result<Vec<Row>> {
    let sql = format!("SELECT {OPEN_RUN} FROM open_run r WHERE {WITH_EXECUTOR}");
    match &claim.may_hold {
        None => query(client, &sql, &[&claim.app.0, &claim.name]).await,
        Some(runs) if runs.is_empty() => Ok(Vec::new()),
        Some(runs) => {
            let ids: Vec<Uuid> = runs.iter().map(|run| run.to_uuid()).collect();
            let sql = format!("{sql} AND r.id = ANY($3)");
            query(client, &sql, &[&claim.app.0, &claim.name, &ids]).await
        }
    }
}

/// Makes the row, free and with epoch 0, if it is not there.
async fn make(tx: &Transaction<'_>, claim: &Claim, now: DateTime<Utc>) -> Result<()> {
    let sql = "INSERT INTO executor (app_id, name, spec, instance_id, resume_hash, principal,
            session_epoch, node, peer_address, connected_at, disconnected_at, last_seen_at)
        VALUES ($1, $2, '{}', '', '', '', 0, '', '', $3, $3, $3)
        ON CONFLICT (app_id, name) DO NOTHING";
    execute(tx, sql, &[&claim.app.0, &claim.name, &now]).await.map(|_| ())
}

pub(super) async fn room_for_executors(
    store: &PostgresStore,
    app: AppId,
    max: u32,
    now: DateTime<Utc>,
) -> Result<u32> {
    let client = store.client().await?;
    let sql = "SELECT count(*) FROM executor WHERE app_id = $1";
    let known: i64 = Reader::new(&query_one(&client, sql, &[&app.0]).await?).get()?;
    let known = u32::try_from(known).unwrap_or(u32::MAX);
    if known < max {
        return Ok(max - known);
    }
    let sql = "DELETE FROM executor WHERE id IN (
            SELECT id FROM executor e
            WHERE app_id = $1 AND NOT cordoned AND disconnected_at < $2 AND NOT EXISTS (
                SELECT FROM open_run r WHERE r.app_id = e.app_id AND r.executor = e.name
                    AND r.state IN ('DISPATCHED', 'RUNNING', 'CANCELING'))
            ORDER BY disconnected_at LIMIT $3 FOR UPDATE SKIP LOCKED)
        AND disconnected_at IS NOT NULL";
    let (before, limit) = (now - SILENT_KEPT, i64::from(FORGOTTEN_MAX));
    let forgotten = execute(&client, sql, &[&app.0, &before, &limit]).await?;
    Ok(max.saturating_sub(known - u32::try_from(forgotten).unwrap_or(known)))
}

pub(super) async fn touch_executors(
    store: &PostgresStore,
    seen: &[(i64, u64)],
    now: DateTime<Utc>,
) -> Result<()> {
    // A node that was taken for dead and lives finds its sessions ended by others; one that ended
    // names no node any more.
    let sql = "UPDATE executor e SET last_seen_at = $3,
            disconnected_at = CASE WHEN e.node = '' THEN e.disconnected_at END
        FROM unnest($1::bigint[], $2::bigint[]) AS w (id, epoch)
        WHERE e.id = ANY(ARRAY[w.id]) AND e.session_epoch = w.epoch";
    let mut seen = seen.to_vec();
    seen.sort_unstable();
    let (ids, epochs): (Vec<i64>, Vec<i64>) =
        seen.into_iter().map(|(row, epoch)| (row, big(epoch))).unzip();
    execute(&store.hot().await?, sql, &[&ids, &epochs, &now]).await.map(|_| ())
}

pub(super) async fn end_session(
    store: &PostgresStore,
    row: i64,
    epoch: u64,
    left: bool,
    now: DateTime<Utc>,
) -> Result<()> {
    let sql = "UPDATE executor SET node = '', disconnected_at = coalesce(disconnected_at, $4),
            gone = gone OR $3
        WHERE id = $1 AND session_epoch = $2";
    execute(&store.keyed().await?, sql, &[&row, &big(epoch), &left, &now]).await.map(|_| ())
}

pub(super) async fn end_sessions_of(
    store: &PostgresStore,
    node: &str,
    now: DateTime<Utc>,
) -> Result<u64> {
    let client = store.client().await?;
    execute(&client, "DELETE FROM node_inbox WHERE node = $1", &[&node]).await?;
    let sql = "UPDATE executor SET disconnected_at = $2
        WHERE node = $1 AND disconnected_at IS NULL";
    execute(&client, sql, &[&node, &now]).await
}

pub(super) async fn list_executors(
    store: &PostgresStore,
    query: &ExecutorQuery,
) -> Result<Vec<Executor>> {
    let sql = format!(
        "SELECT {EXECUTOR} FROM executor e JOIN app a ON a.id = e.app_id
        WHERE ($1::bigint[] IS NULL OR e.app_id = ANY($1))
            AND ($2::text IS NULL OR (a.name, e.name) > ($2, $3::text))
            AND (NOT $4 OR (e.disconnected_at IS NOT NULL AND NOT e.gone))
        ORDER BY a.name, e.name LIMIT $5"
    );
    let apps: Option<Vec<i64>> =
        query.apps.as_ref().map(|apps| apps.iter().map(|app| app.0).collect());
    let (app, name) = query.after.clone().unzip();
    let params: [&(dyn ToSql + Sync); 5] =
        [&apps, &app, &name, &query.out_of_contact, &i64::from(query.limit)];
    rows::query(&store.client().await?, &sql, &params).await?.iter().map(executor).collect()
}

pub(super) async fn cordon_executor(
    store: &PostgresStore,
    app: AppId,
    name: &str,
    cordon: Option<&str>,
) -> Result<Executor> {
    let sql = "UPDATE executor SET cordoned = $3, cordon_reason = $4
        WHERE app_id = $1 AND name = $2";
    let reason = cordon.unwrap_or_default();
    let client = store.client().await?;
    execute(&client, sql, &[&app.0, &name, &cordon.is_some(), &reason]).await?;
    // The node that holds its session and the owners of jobs find it among what changed.
    let sql = "UPDATE session_load SET at = clock_timestamp() WHERE app_id = $1 AND name = $2";
    execute(&client, sql, &[&app.0, &name]).await?;
    by_name(&client, app, name, "").await?.ok_or_else(|| not_found(name))
}

pub(super) async fn delete_executor(store: &PostgresStore, app: AppId, name: &str) -> Result<()> {
    let mut client = store.client().await?;
    let tx = begin(&mut client).await?;
    let row = by_name(&tx, app, name, "FOR UPDATE OF e").await?.ok_or_else(|| not_found(name))?;
    if row.disconnected_at.is_none() {
        return Err(StoreError::Conflict(format!("executor {name} is connected: stop it first")));
    }
    let sql = format!("SELECT count(*) FROM open_run r WHERE {WITH_EXECUTOR}");
    let count: i64 = Reader::new(&query_one(&tx, &sql, &[&app.0, &name]).await?).get()?;
    if count > 0 {
        let open = words::count(count.cast_unsigned(), "open run");
        return Err(StoreError::Conflict(format!("executor {name} still has {open}")));
    }
    execute(&tx, "DELETE FROM executor WHERE id = $1", &[&row.row]).await?;
    commit(tx).await
}
