//! The audit log. An event is committed without waiting for the disk: its record lies in the log
//! before that of any change that is begun afterwards, so whatever makes the change last makes the
//! event last, too.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore, error,
    filter::{self, Fields, Values},
    requests::{begin, commit},
    rows::{Reader, execute, to_json},
};
use crate::{
    model::audit::{AuditEvent, AuditId},
    store::{
        Result,
        audit::{AUDIT_PRUNE_MAX, AuditQuery, AuditStore},
        fields::audit_column,
    },
};

/// Columns that [`event`] reads, in its order.
const EVENT: &str = "id, at, app, principal, method, resource, request_id, peer_address, code, \
    changed_fields::text";

/// The transaction's commit waits for no disk.
const LAZILY: &str = "SET LOCAL synchronous_commit = off";

/// Fields of `audit_event`.
const FIELDS: Fields = Fields {
    column: |field| match field {
        "code" => Some("code::text"),
        field => audit_column(field),
    },
    label: "NULL",
};

fn event(row: &Row) -> Result<AuditEvent> {
    let mut row = Reader::new(row);
    Ok(AuditEvent {
        id: AuditId::from_bytes(row.get::<Uuid>()?.into_bytes()),
        at: row.get()?,
        app: row.get()?,
        principal: row.get()?,
        method: row.get()?,
        resource: row.get()?,
        request_id: row.get()?,
        peer_address: row.get()?,
        code: row.get()?,
        changed_fields: row.json()?,
    })
}

fn uuid(id: AuditId) -> Uuid {
    Uuid::from_bytes(id.to_bytes())
}

impl PostgresStore {
    async fn write_lazily(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<()> {
        let mut client = self.client().await?;
        let tx = begin(&mut client).await?;
        execute(&tx, LAZILY, &[]).await?;
        execute(&tx, sql, params).await?;
        commit(tx).await
    }
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn write_audit(&self, event: &AuditEvent) -> Result<()> {
        let sql = "INSERT INTO audit_event (id, at, app, principal, method, resource, request_id,
                peer_address, code, changed_fields)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb)";
        let params: [&(dyn ToSql + Sync); 10] = [
            &uuid(event.id),
            &event.at,
            &event.app,
            &event.principal,
            &event.method,
            &event.resource,
            &event.request_id,
            &event.peer_address,
            &event.code,
            &to_json(&event.changed_fields)?,
        ];
        self.write_lazily(sql, &params).await
    }

    async fn end_audit(&self, id: AuditId, code: i32, resource: &str) -> Result<()> {
        let sql = "UPDATE audit_event SET code = $2,
                resource = CASE WHEN $3::text = '' THEN resource ELSE $3 END
            WHERE id = $1";
        self.write_lazily(sql, &[&uuid(id), &code, &resource]).await
    }

    async fn list_audit(&self, query: &AuditQuery) -> Result<Vec<AuditEvent>> {
        let mut values = Values::default();
        let mut tests = vec!["true".to_owned()];
        if let Some(apps) = &query.apps {
            tests.push(format!("app = ANY({}::text[])", values.bind(apps.clone())));
        }
        let (first, end) = query.id_span();
        if let Some(first) = first {
            tests.push(format!("id >= {}::uuid", values.bind(uuid(first))));
        }
        if let Some(end) = end {
            tests.push(format!("id < {}::uuid", values.bind(uuid(end))));
        }
        for condition in &query.conditions {
            tests.push(filter::sql(condition, &FIELDS, &mut values)?);
        }
        let sql = format!(
            "SELECT {EVENT} FROM audit_event WHERE {} ORDER BY id DESC LIMIT {}",
            tests.join(" AND "),
            query.limit
        );
        let found = self.client().await?.query(&sql, &values.params()).await.map_err(error::db)?;
        found.iter().map(event).collect()
    }

    async fn prune_audit(&self, before: DateTime<Utc>) -> Result<u64> {
        let sql = "DELETE FROM audit_event WHERE id IN (
                SELECT id FROM audit_event WHERE id < $1 ORDER BY id LIMIT $2)";
        let first = uuid(AuditId::first_at(before));
        let limit = i64::from(AUDIT_PRUNE_MAX);
        execute(&self.client().await?, sql, &[&first, &limit]).await
    }
}
