//! Calendars, and what became of past fire times: the operations, on their threads.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{SqliteStore, calendars, past};
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
impl ScheduleStore for SqliteStore {
    async fn create_calendar(&self, new: &NewCalendar, now: DateTime<Utc>) -> Result<Calendar> {
        let new = new.clone();
        self.writer.write(move |tx| calendars::create(tx, &new, now)).await
    }

    async fn get_calendar(&self, app: &str, name: &str) -> Result<Calendar> {
        let (app, name) = (app.to_owned(), name.to_owned());
        self.readers.read(move |conn| calendars::get(conn, &app, &name)).await
    }

    async fn list_calendars(&self, query: &CalendarQuery) -> Result<Vec<Calendar>> {
        let query = query.clone();
        self.readers.read(move |conn| calendars::list(conn, &query)).await
    }

    async fn load_calendars(&self, names: &BTreeSet<String>) -> Result<Calendars> {
        if names.is_empty() {
            return Ok(Calendars::default());
        }
        let names = names.clone();
        self.readers.read(move |conn| calendars::load(conn, &names)).await
    }

    async fn update_calendar(
        &self,
        id: i64,
        spec: &CalendarSpec,
        version: u64,
        mut replan: ReplanEach,
        now: DateTime<Utc>,
    ) -> Result<Calendar> {
        let spec = spec.clone();
        self.writer
            .write(move |tx| calendars::update(tx, id, &spec, version, &mut *replan, now))
            .await
    }

    async fn delete_calendar(&self, id: i64) -> Result<()> {
        self.writer.write(move |tx| calendars::delete(tx, id)).await
    }

    async fn load_decided(
        &self,
        spans: &[(JobId, DateTime<Utc>, DateTime<Utc>)],
    ) -> Result<Vec<(JobId, Decided)>> {
        let spans = spans.to_vec();
        self.readers.read(move |conn| past::decided(conn, &spans)).await
    }

    async fn backfill(&self, backfill: &Backfill, now: DateTime<Utc>) -> Result<Backfilled> {
        let backfill = backfill.clone();
        self.writer.write(move |tx| past::backfill(tx, &backfill, now)).await
    }
}
