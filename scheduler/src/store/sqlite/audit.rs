//! The audit log. What is written here before a change comes before it in the one writer's queue:
//! either both are on disk, or the event alone.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Row, params, params_from_iter};

use super::{
    SqliteStore,
    filter::{Fields, Where},
    rows::{from_json, get_at, json, us},
    writer::all,
};
use crate::{
    model::audit::{AuditEvent, AuditId},
    store::{
        Result,
        audit::{AUDIT_PRUNE_MAX, AuditQuery, AuditStore},
        fields::audit_column,
    },
};

/// Columns that [`event`] reads, in order.
const EVENT: &str = "id, at, app, principal, method, resource, request_id, peer_address, code, \
     changed_fields";

/// Fields of `audit_event`.
const FIELDS: Fields = Fields {
    column: |field| match field {
        "code" => Some("CAST(code AS TEXT)"),
        field => audit_column(field),
    },
    label: "NULL",
};

fn event(row: &Row<'_>) -> rusqlite::Result<AuditEvent> {
    Ok(AuditEvent {
        id: AuditId::from_bytes(row.get(0)?),
        at: get_at(row, 1)?,
        app: row.get(2)?,
        principal: row.get(3)?,
        method: row.get(4)?,
        resource: row.get(5)?,
        request_id: row.get(6)?,
        peer_address: row.get(7)?,
        code: row.get(8)?,
        changed_fields: from_json(row, 9)?,
    })
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn write_audit(&self, event: &AuditEvent) -> Result<()> {
        let event = event.clone();
        let write = self.writer.write(move |tx| {
            let sql = format!(
                "INSERT INTO audit_event ({EVENT})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
            );
            let row = params![
                event.id.to_bytes(),
                us(event.at),
                event.app,
                event.principal,
                event.method,
                event.resource,
                event.request_id,
                event.peer_address,
                event.code,
                json(&event.changed_fields)?,
            ];
            tx.execute(&sql, row).map(drop)
        });
        write.await
    }

    async fn end_audit(&self, id: AuditId, code: i32, resource: &str) -> Result<()> {
        let resource = resource.to_owned();
        let write = self.writer.write(move |tx| {
            let sql = "UPDATE audit_event
                 SET code = ?2, resource = iif(?3 = '', resource, ?3) WHERE id = ?1";
            tx.execute(sql, params![id.to_bytes(), code, resource]).map(drop)
        });
        write.await
    }

    async fn list_audit(&self, query: &AuditQuery) -> Result<Vec<AuditEvent>> {
        let query = query.clone();
        let read = self.readers.read(move |conn| {
            let mut filter = Where::new(Vec::new());
            if let Some(apps) = &query.apps {
                filter.and("app IN (SELECT value FROM json_each(?))", [json(apps)?.into()]);
            }
            let (first, end) = query.id_span();
            if let Some(first) = first {
                filter.and("id >= ?", [first.to_bytes().to_vec().into()]);
            }
            if let Some(end) = end {
                filter.and("id < ?", [end.to_bytes().to_vec().into()]);
            }
            for condition in &query.conditions {
                filter.and_condition(condition, &FIELDS)?;
            }
            let (clause, params) =
                filter.finish(&format!("ORDER BY id DESC LIMIT {}", query.limit));
            let sql = format!("SELECT {EVENT} FROM audit_event {clause}");
            all(conn, &sql, params_from_iter(params), event)
        });
        read.await
    }

    async fn prune_audit(&self, before: DateTime<Utc>) -> Result<u64> {
        let write = self.writer.write(move |tx| {
            let sql = "DELETE FROM audit_event WHERE id IN (
                 SELECT id FROM audit_event WHERE id < ?1 ORDER BY id LIMIT ?2)";
            let first = AuditId::first_at(before).to_bytes();
            Ok(tx.execute(sql, params![first, AUDIT_PRUNE_MAX])? as u64)
        });
        write.await
    }
}
