//! An app: a set of interchangeable executors, and the unit of permission.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::ids::AppId;

/// What an operator may set on an app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppSpec {
    /// Shown instead of the id.
    pub display_name: String,
    /// Runs at once over all its jobs; 0 means no limit.
    pub max_concurrency: u32,
    /// The same by handler name.
    pub handler_max_concurrency: BTreeMap<String, u32>,
    /// How long an executor may be out of contact; absent means the server's value.
    pub lost_after: Option<Duration>,
    /// How long ended runs are kept; absent means the server's value.
    pub run_retention: Option<Duration>,
}

/// An app as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Row id.
    pub id: AppId,
    /// Its name, also its resource id.
    pub name: String,
    /// What an operator set.
    pub spec: AppSpec,
    /// When it came into being.
    pub created_at: DateTime<Utc>,
    /// Grows with every change: the etag.
    pub version: u64,
}
