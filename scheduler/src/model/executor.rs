//! An executor as the cluster knows it.

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{ids::AppId, run::OpenRun};

/// Which executor: a name counts within its app alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExecutorRef {
    /// Its app.
    pub app: AppId,
    /// Its name there.
    pub name: Arc<str>,
}

impl OpenRun {
    /// Whether it was sent to that executor last: no other has a say on the current attempt.
    pub fn was_sent_to(&self, app: AppId, executor: &str) -> bool {
        self.app == app && self.executor.as_deref() == Some(executor)
    }
}

/// A handler that an executor offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// Name that jobs refer to.
    pub name: String,
    /// Runs of it at once in this executor; 0 means bounded by the slots only.
    pub max_concurrency: u32,
    /// JSON Schema of the params; may be empty.
    pub params_schema: String,
    /// Free text.
    pub description: String,
}

/// Who speaks, for the console and for support.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names say it all; see SdkInfo in session.proto")]
pub struct SdkInfo {
    pub language: String,
    pub sdk_version: String,
    pub runtime_version: String,
    pub os: String,
    pub arch: String,
    pub hostname: String,
    pub pid: u32,
}

/// What an executor said of itself in Hello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutorSpec {
    /// Its handlers.
    pub handlers: Vec<Handler>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its slots, above 0.
    pub slots: u32,
    /// Its SDK.
    pub sdk: SdkInfo,
}

/// An executor as stored. The hub of the node that holds its session knows the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Executor {
    /// Row id; grows with registration, so it orders "first" and "last".
    pub row: i64,
    /// Its app.
    pub app: AppId,
    /// Its app's name.
    pub app_name: String,
    /// Its name in the app.
    pub name: String,
    /// What it said of itself last.
    pub spec: ExecutorSpec,
    /// The process.
    pub instance_id: String,
    /// SHA-256 of the resume token given to that process; empty before the first Welcome.
    pub resume_hash: Vec<u8>,
    /// Credential of the session, `tokens/{id}`.
    pub principal: String,
    /// Grows with every session.
    pub session_epoch: u64,
    /// Node that holds the session; empty when none does.
    pub node: String,
    /// No new runs.
    pub cordoned: bool,
    /// Why it was cordoned.
    pub cordon_reason: String,
    /// Address it dialled from.
    pub peer_address: String,
    /// When the session began.
    pub connected_at: DateTime<Utc>,
    /// When the session ended; None while connected.
    pub disconnected_at: Option<DateTime<Utc>>,
    /// Ended by Goodbye or by deletion of the process: it will not come back with its runs.
    pub left: bool,
    /// Last sign of life as written by the node, every 10 s.
    pub last_seen_at: DateTime<Utc>,
}
