//! The store's operations on the audit log.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Result, ops::Condition};
use crate::model::audit::{AuditEvent, AuditId};

/// Events that one step of pruning removes.
pub const AUDIT_PRUNE_MAX: u32 = 1_000;

/// Which events, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditQuery {
    /// Only those about things in these apps, by name; None means all.
    pub apps: Option<Vec<String>>,
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// Older than this one.
    pub before: Option<AuditId>,
    /// At most so many.
    pub limit: u32,
}

impl AuditQuery {
    /// The ids between which all events lie whose instants the conditions let through: the ids
    /// have an index, and begin with the millisecond of the instant.
    pub(super) fn id_span(&self) -> (Option<AuditId>, Option<AuditId>) {
        let (mut first, mut end) = (None, self.before);
        for condition in &self.conditions {
            let Condition::Time { from, until, .. } = condition else { continue };
            first = first.max(from.map(AuditId::first_at));
            let until =
                until.map(|until| AuditId::first_at(until + chrono::TimeDelta::milliseconds(1)));
            end = match (end, until) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        (first, end)
    }
}

/// Who did what.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Writes an event. Once it returns, no later commit of this store can outlive the event.
    async fn write_audit(&self, event: &AuditEvent) -> Result<()>;

    /// Writes down the answer's code, and the resource where only the answer named it (empty
    /// leaves it).
    async fn end_audit(&self, id: AuditId, code: i32, resource: &str) -> Result<()>;

    /// A page of events, newest first.
    async fn list_audit(&self, query: &AuditQuery) -> Result<Vec<AuditEvent>>;

    /// Removes at most [`AUDIT_PRUNE_MAX`] events older than the instant. Returns how many.
    async fn prune_audit(&self, before: DateTime<Utc>) -> Result<u64>;
}
