//! What lists may ask for, and what counts and events say.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::model::{
    ids::{AppId, JobId, RunId},
    run::RunRecord,
};

/// A comparison on a named field, joined by AND with the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The field equals one of the values (or none of them when negated).
    OneOf {
        /// Column-like name that the query's doc lists.
        field: &'static str,
        /// Texts.
        values: Vec<String>,
        /// NOT.
        negated: bool,
    },
    /// The field is at or after / before the instant.
    Time {
        /// Column-like name.
        field: &'static str,
        /// Lower bound, inclusive.
        from: Option<DateTime<Utc>>,
        /// Upper bound, exclusive.
        until: Option<DateTime<Utc>>,
    },
    /// A label has the value.
    Label {
        /// Its key.
        key: String,
        /// Its value; None asks only whether it is there.
        value: Option<String>,
        /// NOT.
        negated: bool,
    },
    /// The run is a shard of this parent; with None, it is a shard of none.
    ShardOf(Option<RunId>),
    /// The text occurs in the field, whatever the case.
    Contains {
        /// Column-like name.
        field: &'static str,
        /// Part of it.
        text: String,
        /// NOT.
        negated: bool,
    },
}

/// Order of a list of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobOrder {
    /// By (app name, job name).
    #[default]
    Name,
    /// Newest first.
    Created,
    /// By next fire, those without one last.
    NextFire,
}

/// Which jobs. Fields for conditions: `state`, `handler`, `owner`, `display_name`, `name`,
/// `next_fire_time`, labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Order.
    pub order: JobOrder,
    /// The last job of the page before, as [`Job`] gave it: go on after it.
    pub after: Option<JobKey>,
    /// At most so many.
    pub limit: u32,
}

/// Where a page of jobs ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKey {
    /// The job.
    pub id: JobId,
    /// App name.
    pub app_name: String,
    /// Job name.
    pub name: String,
    /// For [`JobOrder::NextFire`].
    pub next_fire_at: Option<DateTime<Utc>>,
}

/// Which runs, by id (time). Fields for conditions: `state`, `trigger`, `executor`, `fire_time`,
/// `create_time`, labels. SCHEDULED runs (QUEUED, due after `now`) come only when
/// `scheduled` says so.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// Only these jobs; None means all.
    pub jobs: Option<Vec<JobId>>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Which of the planned ones.
    pub scheduled: Scheduled,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Go on after this id.
    pub after: Option<RunId>,
    /// At most so many.
    pub limit: u32,
    /// With params, output, attempts.
    pub full: bool,
    /// The caller's now, to tell SCHEDULED from QUEUED.
    pub now: DateTime<Utc>,
}

/// What a bounded look at runs found.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPage {
    /// As [`RunQuery`] wants them.
    pub runs: Vec<RunRecord>,
    /// Up to here it was looked, with more behind: the page after a full one begins behind its last
    /// run, the page after any other one behind this.
    pub until: Option<RunId>,
}

/// How a list treats runs that are planned but not due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduled {
    /// Left out.
    #[default]
    Without,
    /// Along with the others that match.
    With,
    /// Nothing else.
    Only,
}

/// Open runs by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Due and waiting.
    pub queued: u64,
    /// Planned, not due.
    pub scheduled: u64,
    /// DISPATCHED, RUNNING, CANCELING.
    pub running: u64,
    /// RETRY_WAIT.
    pub retry_wait: u64,
    /// When the oldest waiting run was due.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// A place in the run event log; grows with commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    /// Transaction id on Postgres; 0 on SQLite.
    pub tx: u64,
    /// Row number.
    pub seq: u64,
}

/// A stretch of the run event log.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvents {
    /// Runs that changed, in order, each once per batch.
    pub changed: Vec<RunId>,
    /// Runs whose row is gone (a planned run that was removed after it had been shown).
    pub deleted: Vec<RunId>,
    /// Go on from here.
    pub cursor: EventCursor,
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Ended runs.
    pub runs: Duration,
    /// Logs.
    pub logs: Duration,
}
