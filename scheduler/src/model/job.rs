//! A job: what to run, when, where, and its policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Payload,
    calendar::Calendars,
    follow::Follow,
    ids::{AppId, JobId, PartitionId},
    retry::RetryPolicy,
    run::{RunExtra, RunState},
    schedule::{Schedule, Trigger},
};

/// Waiting runs of one job before further ones are skipped, unless the job says otherwise.
pub const MAX_QUEUED_DEFAULT: u32 = 100;
/// A fire time served later than this is a misfire, unless the job says otherwise.
pub const MISFIRE_THRESHOLD_DEFAULT: Duration = Duration::from_secs(5);
/// `MisfirePolicy::FireAll` fires at most this many missed fire times, unless the job says otherwise.
pub const MISFIRE_MAX_DEFAULT: u32 = 100;
/// `MisfirePolicy::FireAll` looks back at most this far, unless the job says otherwise.
pub const MISFIRE_WINDOW_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Time between a kill and giving the handler up, unless the job says otherwise.
pub const KILL_GRACE_DEFAULT: Duration = Duration::from_secs(10);

/// Whether the schedule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Fires by its schedules.
    Active,
    /// Fires only by hand.
    Paused,
    /// No schedule of it will ever fire again.
    Expired,
}

/// What to do when a run is due while another run of the job is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OverlapPolicy {
    /// Run beside it.
    Allow,
    /// Record the new one as SKIPPED.
    #[default]
    Skip,
    /// Wait for it, up to `max_queued`.
    Queue,
    /// Kill the old one.
    Replace,
}

/// What to do with fire times that passed unserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MisfirePolicy {
    /// Fire the newest; record the older ones as one SKIPPED row.
    #[default]
    FireOnce,
    /// Record the gap as one SKIPPED row.
    Skip,
    /// Fire all, the newest `misfire_max` within `misfire_window`.
    FireAll,
}

/// What a run does while its executor is out of contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DisconnectPolicy {
    /// Goes on.
    #[default]
    Continue,
    /// Is stopped by the executor before the scheduler declares it lost.
    Stop,
}

/// What happens to a run whose executor was declared lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LostPolicy {
    /// A new attempt, up to `max_lost` losses.
    #[default]
    Retry,
    /// The run ends LOST.
    Fail,
}

/// Which of the eligible executors gets a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RouteStrategy {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// Any.
    Random,
    /// The oldest registration.
    First,
    /// The newest registration.
    Last,
    /// The same key goes to the same executor while it is there.
    ConsistentHash,
    /// The one with the fewest runs of this job.
    LeastFrequentlyUsed,
    /// The one whose last run of this job is longest ago.
    LeastRecentlyUsed,
    /// The first healthy one in registration order.
    Failover,
    /// The next one under the busy threshold.
    Busyover,
    /// The one with the most free slots.
    LeastLoaded,
}

impl RouteStrategy {
    /// Goes by what earlier runs of the job got.
    pub fn remembers(self) -> bool {
        self == Self::RoundRobin || self.counts()
    }

    /// Goes by how often, or when, each executor got a run of the job, which is stored.
    pub fn counts(self) -> bool {
        matches!(self, Self::LeastFrequentlyUsed | Self::LeastRecentlyUsed)
    }
}

/// Where a run may go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// All must match the executor's labels.
    pub required_labels: BTreeMap<String, String>,
    /// Number of shards; 0 means one plain run.
    pub shard_total: u32,
    /// One shard per matching executor.
    pub broadcast: bool,
    /// How one of several is picked.
    pub route: RouteStrategy,
    /// Key of `RouteStrategy::ConsistentHash`; empty means the job's name.
    pub route_key: String,
    /// `RouteStrategy::Busyover`: share of slots or cpu (0..1) above which one is passed over.
    pub busy_threshold: f32,
}

/// Everything about a job that a revision keeps. Absent optional values mean the server's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// Shown instead of the id.
    pub display_name: String,
    /// Free text.
    pub description: String,
    /// Each fires by itself; a fire time two of them share is one run.
    pub schedules: Vec<Schedule>,
    /// Name of the function in the executor.
    pub handler: String,
    /// Given to the handler.
    pub params: Option<Payload>,
    /// Where it may run.
    pub placement: Placement,
    /// When a failed attempt is repeated.
    pub retry: RetryPolicy,
    /// Budget of an attempt.
    pub timeout: Option<Duration>,
    /// See [`KILL_GRACE_DEFAULT`].
    pub kill_grace: Option<Duration>,
    /// See [`OverlapPolicy`].
    pub overlap: OverlapPolicy,
    /// See [`MisfirePolicy`].
    pub misfire: MisfirePolicy,
    /// See [`MISFIRE_THRESHOLD_DEFAULT`].
    pub misfire_threshold: Option<Duration>,
    /// See [`MISFIRE_MAX_DEFAULT`]; 0 means the default.
    pub misfire_max: u32,
    /// See [`MISFIRE_WINDOW_DEFAULT`].
    pub misfire_window: Option<Duration>,
    /// See [`DisconnectPolicy`].
    pub disconnect_policy: DisconnectPolicy,
    /// See [`LostPolicy`].
    pub lost_policy: LostPolicy,
    /// How long an executor may be out of contact; absent means the app's value.
    pub lost_after: Option<Duration>,
    /// Higher goes first when slots are short.
    pub priority: i32,
    /// Free labels, for filters.
    pub labels: BTreeMap<String, String>,
    /// Runs at once over the cluster; 0 means no limit. Read with `Allow` and `Queue`.
    pub max_concurrency: u32,
    /// Waiting runs; 0 means [`MAX_QUEUED_DEFAULT`].
    pub max_queued: u32,
    /// A run that no executor took within this time ends FAILED; absent means it waits.
    pub queue_timeout: Option<Duration>,
    /// Resource names of jobs started when a run succeeded.
    pub on_success: Vec<String>,
    /// Resource names of jobs started when a run failed, timed out or was lost.
    pub on_failure: Vec<String>,
    /// Who answers for it.
    pub owner: String,
    /// How long ended runs are kept; absent means the app's or server's value.
    pub run_retention: Option<Duration>,
}

impl JobSpec {
    /// Gives back room that reading left for more: for each list for four entries at least.
    pub fn trim(&mut self) {
        self.schedules.shrink_to_fit();
        self.on_success.shrink_to_fit();
        self.on_failure.shrink_to_fit();
    }

    /// Resource names of the calendars that its schedules name, in order, each once.
    pub fn calendars(&self) -> BTreeSet<&str> {
        let names = self.schedules.iter().flat_map(|schedule| {
            schedule.include_calendars.iter().chain(&schedule.exclude_calendars)
        });
        names.map(String::as_str).collect()
    }

    /// Whether the ends of its runs start other jobs.
    pub fn starts_others(&self) -> bool {
        !self.on_success.is_empty() || !self.on_failure.is_empty()
    }

    /// Whether the ends of runs make fire times.
    pub fn is_delayed(&self) -> bool {
        self.schedules.iter().any(|schedule| matches!(schedule.trigger, Trigger::Delay(_)))
    }

    /// Bound on waiting runs.
    pub fn max_queued(&self) -> u32 {
        if self.max_queued == 0 { MAX_QUEUED_DEFAULT } else { self.max_queued }
    }

    /// Time between a kill and giving the handler up.
    pub fn kill_grace(&self) -> Duration {
        self.kill_grace.unwrap_or(KILL_GRACE_DEFAULT)
    }

    /// Who waits for the end of this job's runs, and whether they are split into shards.
    pub fn follow(&self) -> Follow {
        let mut follow = Follow::NOTHING;
        if self.placement.broadcast || self.placement.shard_total > 0 {
            follow = follow.with(Follow::PARENT);
        }
        if !self.on_success.is_empty() {
            follow = follow.with(Follow::ON_SUCCESS);
        }
        if !self.on_failure.is_empty() {
            follow = follow.with(Follow::ON_FAILURE);
        }
        follow
    }

    /// What a run that a schedule makes has besides; most have nothing.
    pub fn run_extra(&self) -> Option<Box<RunExtra>> {
        let follow = self.follow();
        (!follow.is_nothing()).then(|| Box::new(RunExtra { follow, ..RunExtra::default() }))
    }

    /// The jobs that start when a run has ended in `state`.
    pub fn followers(&self, state: RunState) -> &[String] {
        match state {
            RunState::Succeeded => &self.on_success,
            RunState::Failed | RunState::TimedOut | RunState::Lost => &self.on_failure,
            _ => &[],
        }
    }

    /// Lateness from which a fire time counts as missed.
    pub fn misfire_threshold(&self) -> Duration {
        self.misfire_threshold.unwrap_or(MISFIRE_THRESHOLD_DEFAULT)
    }
}

/// The app and the name of a job in its resource name `apps/{app}/jobs/{job}`.
pub fn split_name(name: &str) -> Option<(&str, &str)> {
    let (app, job) = name.strip_prefix("apps/")?.split_once("/jobs/")?;
    (!app.is_empty() && !app.contains('/') && !job.is_empty() && !job.contains('/'))
        .then_some((app, job))
}

/// Which job it is, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Its app's name.
    pub app: Arc<str>,
    /// Its own name within the app.
    pub job: Arc<str>,
}

impl JobName {
    /// Resource name `apps/{app}/jobs/{job}`.
    pub fn resource_name(&self) -> String {
        format!("apps/{}/jobs/{}", self.app, self.job)
    }
}

/// A job as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Row id.
    pub id: JobId,
    /// Its app's row id.
    pub app: AppId,
    /// Its app's name.
    pub app_name: Arc<str>,
    /// Its own name within the app.
    pub name: Arc<str>,
    /// Its partition.
    pub partition: PartitionId,
    /// Whether it fires.
    pub state: JobState,
    /// The current revision's content.
    pub spec: Arc<JobSpec>,
    /// Grows when the spec changes.
    pub revision: u64,
    /// Grows with every change, also of the state: the etag.
    pub version: u64,
    /// When it was created; interval schedules without a start count from here.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// Who made this revision.
    pub updated_by: String,
    /// While paused with an end.
    pub pause_until: Option<DateTime<Utc>>,
    /// Why it was paused.
    pub pause_reason: String,
    /// Fire times at or before this instant are not the schedule's any more: creation, the last
    /// edit of the schedule or of a calendar that it names, or the last resume. Misfires never reach
    /// behind it.
    pub effective_from: DateTime<Utc>,
    /// For showing only; refreshed in batches by the owner.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// Why the job can't fire; empty means it can.
    pub problem: String,
    /// Set once deleted: the row stays while runs refer to it.
    pub deleted: bool,
    /// The calendars that its schedules name, as they stood when the job was read.
    pub calendars: Calendars,
}

impl Job {
    /// An active job that does not exist yet, without content: its row ids are 0.
    pub fn draft(app: &str, name: &str, now: DateTime<Utc>) -> Self {
        Self {
            id: JobId(0),
            app: AppId(0),
            app_name: app.into(),
            name: name.into(),
            partition: JobId(0).partition(),
            state: JobState::Active,
            spec: Arc::default(),
            revision: 1,
            version: 1,
            created_at: now,
            updated_at: now,
            updated_by: String::new(),
            pause_until: None,
            pause_reason: String::new(),
            effective_from: now,
            next_fire_at: None,
            problem: String::new(),
            deleted: false,
            calendars: Calendars::default(),
        }
    }

    /// Which one it is.
    pub fn job_name(&self) -> JobName {
        JobName { app: self.app_name.clone(), job: self.name.clone() }
    }

    /// Resource name `apps/{app}/jobs/{job}`.
    pub fn resource_name(&self) -> String {
        self.job_name().resource_name()
    }

    /// Whether its schedules make runs.
    pub fn fires(&self) -> bool {
        self.state == JobState::Active && !self.deleted && self.problem.is_empty()
    }

    /// Whether an edit of a calendar restarts its schedules. A delay goes on: it counts from the end of
    /// a run, and no other fire time of it can be missed.
    pub fn restarts_with_calendars(&self) -> bool {
        !self.spec.is_delayed()
    }
}
