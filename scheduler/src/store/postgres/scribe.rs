//! The audit log's writer: what calls have to say at the same time is written by one statement.

use chrono::{DateTime, Utc};
use deadpool_postgres::{GenericClient, Pool};
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    desk::{Desk, Order},
    error,
    rows::{execute, to_json},
};
use crate::{
    model::audit::{AuditEvent, AuditId},
    store::{Result, StoreError},
};

/// Entries in one statement.
const BATCH_MAX: usize = 64;
/// Entries that wait to be taken; further callers wait for room.
const WAITING_MAX: usize = 1_024;

/// What a call has to say.
pub(super) enum Entry {
    /// It begins, or has ended without a beginning.
    Event(Box<AuditEvent>),
    /// How it ended.
    End {
        /// The event.
        id: AuditId,
        /// The answer's code.
        code: i32,
        /// What it was about; empty leaves what is there.
        resource: String,
    },
}

/// Takes entries, each until it is written.
pub(super) type Scribe = Desk<Entry, ()>;

/// Hands out the scribe and what its task needs.
pub(super) fn new() -> (Scribe, mpsc::Receiver<Order<Entry, ()>>) {
    Desk::new(WAITING_MAX)
}

/// Writes what is ordered until `stop`.
pub(super) async fn run(
    pool: Pool,
    mut orders: mpsc::Receiver<Order<Entry, ()>>,
    stop: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => return,
            taken = orders.recv_many(&mut batch, BATCH_MAX) => taken,
        };
        if taken == 0 {
            return;
        }
        let written = write(&pool, &batch).await;
        // One entry that the database can't take is nobody else's fault.
        let alone = batch.len() > 1 && matches!(written, Err(StoreError::Internal(_)));
        for order in batch.drain(..) {
            let written = match alone {
                true => write(&pool, std::slice::from_ref(&order)).await,
                false => written.clone(),
            };
            let _ = order.done.send(written);
        }
    }
}

async fn write(pool: &Pool, batch: &[Order<Entry, ()>]) -> Result<()> {
    let client = pool.get().await.map_err(error::pool)?;
    let mut events = Events::default();
    let (mut ended, mut codes, mut about) = (Vec::new(), Vec::new(), Vec::new());
    for order in batch {
        match &order.what {
            Entry::Event(event) => events.push(event)?,
            Entry::End { id, code, resource } => {
                ended.push(uuid(*id));
                codes.push(*code);
                about.push(resource.as_str());
            }
        }
    }
    events.insert(&client).await?;
    if ended.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE audit_event e SET code = w.code,
            resource = CASE WHEN w.resource = '' THEN e.resource ELSE w.resource END
        FROM unnest($1::uuid[], $2::int[], $3::text[]) AS w (id, code, resource)
        WHERE e.id = ANY(ARRAY[w.id])";
    execute(&client, sql, &[&ended, &codes, &about]).await.map(|_| ())
}

/// Events, column by column.
#[derive(Default)]
struct Events<'a> {
    ids: Vec<Uuid>,
    at: Vec<DateTime<Utc>>,
    apps: Vec<&'a str>,
    principals: Vec<&'a str>,
    methods: Vec<&'a str>,
    resources: Vec<&'a str>,
    requests: Vec<&'a str>,
    peers: Vec<&'a str>,
    codes: Vec<i32>,
    fields: Vec<String>,
}

impl<'a> Events<'a> {
    fn push(&mut self, event: &'a AuditEvent) -> Result<()> {
        self.ids.push(uuid(event.id));
        self.at.push(event.at);
        self.apps.push(&event.app);
        self.principals.push(&event.principal);
        self.methods.push(&event.method);
        self.resources.push(&event.resource);
        self.requests.push(&event.request_id);
        self.peers.push(&event.peer_address);
        self.codes.push(event.code);
        self.fields.push(to_json(&event.changed_fields)?);
        Ok(())
    }

    async fn insert(&self, client: &impl GenericClient) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO audit_event (id, at, app, principal, method, resource, request_id,
                peer_address, code, changed_fields)
            SELECT w.id, w.at, w.app, w.principal, w.method, w.resource, w.request_id,
                w.peer_address, w.code, w.fields::jsonb
            FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[],
                $6::text[], $7::text[], $8::text[], $9::int[], $10::text[])
                AS w (id, at, app, principal, method, resource, request_id, peer_address, code,
                    fields)
            ON CONFLICT (id) DO NOTHING";
        let params: [&(dyn ToSql + Sync); 10] = [
            &self.ids,
            &self.at,
            &self.apps,
            &self.principals,
            &self.methods,
            &self.resources,
            &self.requests,
            &self.peers,
            &self.codes,
            &self.fields,
        ];
        execute(client, sql, &params).await.map(|_| ())
    }
}

/// An event's id as stored.
pub(super) fn uuid(id: AuditId) -> Uuid {
    Uuid::from_bytes(id.to_bytes())
}
