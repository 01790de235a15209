//! Calendars, and what became of past fire times: the operations.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{PostgresStore, calendars, past};
use crate::{
    model::{
        calendar::{Calendar, CalendarSpec, Calendars},
        ids::JobId,
        misfire::Decided,
    },
    store::{
        Result,
        schedules::{Backfill, Backfilled, CalendarQuery, NewCalendar, ReplanEach, ScheduleStore},
    },
};

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn create_calendar(&self, new: &NewCalendar, now: DateTime<Utc>) -> Result<Calendar> {
        calendars::create(self, new, now).await
    }

    async fn get_calendar(&self, app: &str, name: &str) -> Result<Calendar> {
        calendars::get(self, app, name).await
    }

    async fn list_calendars(&self, query: &CalendarQuery) -> Result<Vec<Calendar>> {
        calendars::list(self, query).await
    }

    async fn load_calendars(&self, names: &BTreeSet<String>) -> Result<Calendars> {
        if names.is_empty() {
            return Ok(Calendars::default());
        }
        calendars::load(&self.client().await?, names).await
    }

    async fn update_calendar(
        &self,
        id: i64,
        spec: &CalendarSpec,
        version: u64,
        mut replan: ReplanEach,
        now: DateTime<Utc>,
    ) -> Result<Calendar> {
        calendars::update(self, id, spec, version, &mut *replan, now).await
    }

    async fn delete_calendar(&self, id: i64) -> Result<()> {
        calendars::delete(self, id).await
    }

    async fn load_decided(
        &self,
        spans: &[(JobId, DateTime<Utc>, DateTime<Utc>)],
    ) -> Result<Vec<(JobId, Decided)>> {
        past::decided(&self.client().await?, spans).await
    }

    async fn backfill(&self, backfill: &Backfill, now: DateTime<Utc>) -> Result<Backfilled> {
        past::backfill(self, backfill, now).await
    }
}
