//! Answers to repeated requests, and transactions.

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Object, Transaction};

use super::rows::{Reader, answer, execute, query_opt};
use crate::store::{Result, StoreError, ops::RequestKey};

/// Begins a transaction.
pub(super) async fn begin(client: &mut Object) -> Result<Transaction<'_>> {
    answer(client.transaction()).await
}

/// Ends a transaction well.
pub(super) async fn commit(tx: Transaction<'_>) -> Result<()> {
    answer(tx.commit()).await
}

/// What was answered to the request before, if it was made before. Otherwise its key is taken: the
/// same request at the same time waits for this transaction.
pub(super) async fn answered(
    tx: &Transaction<'_>,
    request: Option<&RequestKey>,
    now: DateTime<Utc>,
) -> Result<Option<String>> {
    let Some(request) = request else { return Ok(None) };
    let sql = "INSERT INTO request (key, body_hash, answer, at) VALUES ($1, $2, '', $3)
        ON CONFLICT (key) DO NOTHING";
    if execute(tx, sql, &[&request.key, &request.body_hash, &now]).await? == 1 {
        return Ok(None);
    }
    find_answer(tx, request).await
}

/// The answer to the request, if it was made before.
pub(super) async fn find_answer(
    client: &impl GenericClient,
    request: &RequestKey,
) -> Result<Option<String>> {
    let sql = "SELECT body_hash, answer FROM request WHERE key = $1";
    let Some(row) = query_opt(client, sql, &[&request.key]).await? else { return Ok(None) };
    let mut row = Reader::new(&row);
    if row.get::<Vec<u8>>()? != request.body_hash {
        return Err(StoreError::Conflict(
            "the request id was used before for another request".to_owned(),
        ));
    }
    row.get().map(Some)
}

/// Keeps the answer for a repeat of the request.
pub(super) async fn remember(
    tx: &Transaction<'_>,
    request: Option<&RequestKey>,
    answer: &str,
) -> Result<()> {
    let Some(request) = request else { return Ok(()) };
    let sql = "UPDATE request SET answer = $2 WHERE key = $1";
    execute(tx, sql, &[&request.key, &answer]).await.map(|_| ())
}
