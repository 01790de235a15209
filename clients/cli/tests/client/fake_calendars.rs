//! CalendarService in memory.

use clawjob_proto::v1::{self as pb, calendar_service_server::CalendarService};
use tonic::{Request, Response, Status};

use crate::fake::{Answer, Fake, State, not_found};

fn store(state: &mut State, mut calendar: pb::Calendar) -> pb::Calendar {
    state.writes += 1;
    calendar.etag = format!("c{}", state.writes);
    calendar.dates.sort();
    state.calendars.insert(calendar.name.clone(), calendar.clone());
    calendar
}

#[tonic::async_trait]
impl CalendarService for Fake {
    async fn create_calendar(
        &self,
        rq: Request<pb::CreateCalendarRequest>,
    ) -> Answer<pb::Calendar> {
        let (mut state, rq) = self.enter("create_calendar", rq)?;
        let name = format!("{}/calendars/{}", rq.parent, rq.calendar_id);
        let calendar = pb::Calendar { name, ..rq.calendar.unwrap_or_default() };
        Ok(Response::new(store(&mut state, calendar)))
    }

    async fn get_calendar(&self, rq: Request<pb::GetCalendarRequest>) -> Answer<pb::Calendar> {
        let (state, rq) = self.enter("get_calendar", rq)?;
        let found = state.calendars.get(&rq.name).cloned();
        found.map(Response::new).ok_or_else(|| not_found("CALENDAR", &rq.name))
    }

    async fn list_calendars(
        &self,
        rq: Request<pb::ListCalendarsRequest>,
    ) -> Answer<pb::ListCalendarsResponse> {
        let (state, rq) = self.enter("list_calendars", rq)?;
        let within =
            |name: &str| rq.parent == "apps/-" || name.starts_with(&format!("{}/", rq.parent));
        let calendars = state.calendars.values().filter(|calendar| within(&calendar.name)).cloned();
        let calendars = calendars.collect();
        Ok(Response::new(pb::ListCalendarsResponse { calendars, next_page_token: String::new() }))
    }

    async fn update_calendar(
        &self,
        rq: Request<pb::UpdateCalendarRequest>,
    ) -> Answer<pb::Calendar> {
        let (mut state, rq) = self.enter("update_calendar", rq)?;
        let wanted = rq.calendar.unwrap_or_default();
        let current = state.calendars.get(&wanted.name).cloned();
        let current = current.ok_or_else(|| not_found("CALENDAR", &wanted.name))?;
        if wanted.etag != current.etag {
            return Err(Status::aborted("changed meanwhile"));
        }
        Ok(Response::new(store(&mut state, wanted)))
    }

    async fn delete_calendar(&self, rq: Request<pb::DeleteCalendarRequest>) -> Answer<()> {
        let (mut state, rq) = self.enter("delete_calendar", rq)?;
        match state.calendars.remove(&rq.name) {
            Some(_) => Ok(Response::new(())),
            None => Err(not_found("CALENDAR", &rq.name)),
        }
    }
}
