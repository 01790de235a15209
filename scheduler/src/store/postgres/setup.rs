//! What is made sure of before a store is used: the server, the schema, the days ahead.

use chrono::{DateTime, Utc};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::SimpleQueryMessage;

use super::{
    days, error,
    session::{self, Role},
    tls::Target,
};
use crate::{
    model::ids::PARTITION_COUNT,
    store::{Result, StoreError},
};

/// Oldest server that has what the pen needs.
const SERVER_VERSION_MIN: i32 = 140_000;

/// Migrates and checks the schema; returns the class of its partition locks.
pub(super) async fn run(target: &Target) -> Result<i32> {
    let mut session = session::open(target, Role::Setup).await?;
    check_server(&session.client).await?;
    check_proxy(target, &session.client).await?;
    migrate(&mut session.client).await?;
    let class = lock_class(&session.client).await?;
    check_partitions(&session.client).await?;
    let now = session.client.query_one("SELECT now()", &[]).await.map_err(error::db)?;
    let now: DateTime<Utc> = now.try_get(0).map_err(error::db)?;
    match days::make_ahead(&session.client, now).await {
        // Somebody reads for long: upkeep tries again, and until then the default partition serves.
        Err(fault) if fault.passes() => tracing::warn!(%fault, "a day is not made yet"),
        made => made?,
    }
    Ok(class)
}

async fn check_server(client: &ClientWrapper) -> Result<()> {
    let sql = "SELECT current_setting('server_version_num')::int, current_schema()::text";
    let row = client.query_one(sql, &[]).await.map_err(error::db)?;
    let version: i32 = row.try_get(0).map_err(error::db)?;
    if version < SERVER_VERSION_MIN {
        return Err(StoreError::Conflict(format!(
            "the server is Postgres {}; version 14 or newer is needed",
            version / 10_000
        )));
    }
    if row.try_get::<_, Option<String>>(1).map_err(error::db)?.is_none() {
        return Err(StoreError::Conflict(
            "no schema of the search_path exists: create it, or correct search_path in the \
             options of the connection string"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Behind a proxy that lends server connections per transaction, locks and settings of a session
/// end up on whichever connection is free. Two clients of which one is in a transaction can't share
/// a server process, nor can one client change it, unless such a proxy is between.
async fn check_proxy(target: &Target, first: &ClientWrapper) -> Result<()> {
    let before = backend(first).await?;
    let second = session::open(target, Role::Setup).await?;
    second.client.batch_execute("BEGIN").await.map_err(error::db)?;
    let other = backend(&second.client).await?;
    let after = backend(first).await?;
    second.client.batch_execute("ROLLBACK").await.map_err(error::db)?;
    if before == other || before != after {
        return Err(StoreError::Conflict(
            "the Postgres connection string leads to a proxy with transaction pooling, where \
             session locks don't hold: give the direct address of the server as the database URL, \
             and the proxy's as the pool URL"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The server process, asked for without a prepared statement.
async fn backend(client: &ClientWrapper) -> Result<String> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await.map_err(error::db)?;
    let pid = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    pid.ok_or_else(|| StoreError::Internal("the server names no process".to_owned()))
}

/// Runs the migrations under a lock of the schema's own: of several nodes that start at once the
/// others wait and find nothing to do.
async fn migrate(client: &mut ClientWrapper) -> Result<()> {
    let lock =
        "SELECT pg_advisory_lock(hashtext('clawjob migrations'), hashtext(current_schema()))";
    client.batch_execute(lock).await.map_err(error::db)?;
    let failed = |fault: refinery::Error| match fault.kind() {
        refinery::error::Kind::Connection(..) => StoreError::Unavailable(fault.to_string()),
        _ => StoreError::Internal(format!("the schema could not be migrated: {fault}")),
    };
    let runner = clawjob_migrations::postgres();
    let report = runner.run_async(&mut **client).await.map_err(failed)?;
    for migration in report.applied_migrations() {
        tracing::info!(migration = %migration, "database schema migrated");
    }
    let applied = runner.get_applied_migrations_async(&mut **client).await.map_err(failed)?;
    if let Some(newer) = clawjob_migrations::newer(&runner, &applied) {
        crate::store::warn_of_newer_schema(newer);
    }
    let unlock =
        "SELECT pg_advisory_unlock(hashtext('clawjob migrations'), hashtext(current_schema()))";
    client.batch_execute(unlock).await.map_err(error::db)
}

/// Random, and the same for all who use the schema.
async fn lock_class(client: &ClientWrapper) -> Result<i32> {
    let sql = "INSERT INTO cluster_secret (name, value) VALUES ('partition_lock_class', $1)
        ON CONFLICT (name) DO UPDATE SET value = cluster_secret.value RETURNING value";
    let fresh = rand::random::<i32>().to_be_bytes().to_vec();
    let row = client.query_one(sql, &[&fresh]).await.map_err(error::db)?;
    let stored: Vec<u8> = row.try_get(0).map_err(error::db)?;
    let bytes = stored.try_into().map_err(|_| {
        StoreError::Corrupt("cluster_secret partition_lock_class must have 4 bytes".to_owned())
    })?;
    Ok(i32::from_be_bytes(bytes))
}

async fn check_partitions(client: &ClientWrapper) -> Result<()> {
    let row = client.query_one("SELECT count(*) FROM partition", &[]).await.map_err(error::db)?;
    let count: i64 = row.try_get(0).map_err(error::db)?;
    if count == i64::from(PARTITION_COUNT) {
        return Ok(());
    }
    Err(StoreError::Conflict(format!(
        "the database has {count} partitions and this program {PARTITION_COUNT}: they must be the \
         same on all nodes, so use the version of the program the database was made with"
    )))
}
