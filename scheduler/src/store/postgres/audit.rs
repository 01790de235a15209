//! The audit log. An event is committed without waiting for the disk: its record lies in the log
//! before that of any change that is begun afterwards, so whatever makes the change last makes the
//! event last, too.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    filter::{self, Fields, Values},
    rows::{Reader, execute, query_once},
    scribe::{Entry, uuid},
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

#[async_trait]
impl AuditStore for PostgresStore {
    async fn write_audit(&self, event: &AuditEvent) -> Result<()> {
        self.scribe.ask(Entry::Event(Box::new(event.clone()))).await
    }

    async fn end_audit(&self, id: AuditId, code: i32, resource: &str) -> Result<()> {
        self.scribe.ask(Entry::End { id, code, resource: resource.to_owned() }).await
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
        let found = query_once(&self.client().await?, &sql, &values.params()).await?;
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
