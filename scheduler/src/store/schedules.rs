//! What schedules need beside jobs: calendars, and what became of past fire times.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{
    Result,
    ops::{NewRun, ReplanInput, RequestKey},
};
use crate::model::{
    calendar::{Calendar, CalendarSpec, Calendars},
    ids::{AppId, JobId},
    misfire::Decided,
};

/// Fire times of one backfill, which are made in one transaction.
pub const BACKFILL_RUNS_MAX: usize = 1_000;

/// A calendar to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCalendar {
    /// Its app.
    pub app: AppId,
    /// Its name.
    pub name: String,
    /// Its content.
    pub spec: CalendarSpec,
    /// For an idempotent repeat: the calendar of the first call is returned.
    pub request: Option<RequestKey>,
}

/// Which calendars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CalendarQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// After this (app name, calendar name).
    pub after: Option<(String, String)>,
    /// At most so many.
    pub limit: u32,
}

/// Makes the runs of each job that uses a changed calendar, up to its partition's
/// `planned_until`; pure, called within the transaction.
pub type ReplanEach = Box<dyn FnMut(&ReplanInput) -> Vec<NewRun> + Send>;

/// Which past fire times of a job get a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Backfill {
    /// The job.
    pub job: JobId,
    /// One run per fire time, at most [`BACKFILL_RUNS_MAX`], oldest first.
    pub runs: Vec<NewRun>,
    /// For an idempotent repeat: the counts of the first call are returned.
    pub request: Option<RequestKey>,
    /// Only count.
    pub dry_run: bool,
}

/// What a backfill did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backfilled {
    /// Runs made.
    pub made: u32,
    /// Fire times that had a run.
    pub had_run: u32,
}

impl Backfilled {
    /// As an answer to a repeated request is kept.
    pub(super) fn to_text(self) -> String {
        format!("{} {}", self.made, self.had_run)
    }

    /// Reads [`Self::to_text`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (made, had_run) = text.split_once(' ')?;
        Some(Self { made: made.parse().ok()?, had_run: had_run.parse().ok()? })
    }
}

/// Calendars, and what became of past fire times.
#[async_trait]
pub trait ScheduleStore: Send + Sync + 'static {
    /// Creates a calendar.
    async fn create_calendar(&self, new: &NewCalendar, now: DateTime<Utc>) -> Result<Calendar>;

    /// One calendar by its app's and its own name.
    async fn get_calendar(&self, app: &str, name: &str) -> Result<Calendar>;

    /// A page of calendars, by (app, name).
    async fn list_calendars(&self, query: &CalendarQuery) -> Result<Vec<Calendar>>;

    /// What the calendars of these resource names cover; those that do not exist are left out.
    async fn load_calendars(&self, names: &BTreeSet<String>) -> Result<Calendars>;

    /// Replaces the content if the version is still `version`, and plans every job that uses the
    /// calendar anew: raises the `jobs_version` of their partitions, removes their unsent planned
    /// runs due after `now`, clears their problems and inserts what `replan` returns, all in one
    /// transaction. `Conflict` when the version is another.
    async fn update_calendar(
        &self,
        id: i64,
        spec: &CalendarSpec,
        version: u64,
        replan: ReplanEach,
        now: DateTime<Utc>,
    ) -> Result<Calendar>;

    /// Deletes a calendar. `Conflict` while a job's schedules name it, with their number.
    async fn delete_calendar(&self, id: i64) -> Result<()>;

    /// What was decided of each job's fire times from the first to the last instant, both
    /// included, by rows that its schedules made.
    async fn load_decided(
        &self,
        spans: &[(JobId, DateTime<Utc>, DateTime<Utc>)],
    ) -> Result<Vec<(JobId, Decided)>>;

    /// Makes the runs of those fire times that have none: no run of the schedule, other than a
    /// decision to skip, and none of an earlier backfill. Leaves them in the inbox.
    async fn backfill(&self, backfill: &Backfill, now: DateTime<Utc>) -> Result<Backfilled>;
}
