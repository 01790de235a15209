//! CalendarService, and the calendars that schedules name.

use std::{collections::BTreeSet, sync::Arc};

use clawjob_proto::v1::{self as pb, calendar_service_server::CalendarService};
use tonic::{Request, Response, Status};

use super::{
    Api,
    caller::Caller,
    convert::{
        calendar::{OUTPUT_ONLY, spec_from_proto, to_proto},
        names::{self, parse_calendar},
    },
    jobs, mask, paging, request_id, scope,
    status::{ApiError, ApiResult, FIELD_INVALID, Kind, Violations},
};
use crate::{
    model::{
        calendar::{Calendar, Calendars},
        job::{Job, JobSpec},
        principal::Role,
        schedule::Schedule,
    },
    store::{
        StoreError,
        schedules::{CalendarQuery, NewCalendar},
    },
};

/// Tries of a change that names no etag and meets another one.
const UPDATE_TRIES_MAX: usize = 8;

/// Serves calendars.
pub struct CalendarsApi {
    api: Arc<Api>,
}

impl CalendarsApi {
    /// Over the store of `api`.
    pub fn new(api: Arc<Api>) -> Self {
        Self { api }
    }

    async fn find(&self, field: &str, name: &str) -> ApiResult<Calendar> {
        let mut bad = Violations::new();
        let ids = parse_calendar(field, name, &mut bad);
        bad.finish()?;
        let (app, own) = ids.unwrap_or_default();
        let found = self.api.store.get_calendar(&app, &own).await;
        found.map_err(|error| ApiError::of_store(Kind::Calendar, name, error))
    }

    async fn create(
        &self,
        caller: &Caller,
        request: pb::CreateCalendarRequest,
    ) -> ApiResult<pb::Calendar> {
        let mut bad = Violations::new();
        let app = names::parse_app("parent", &request.parent, &mut bad).unwrap_or_default();
        names::check_new_id("calendar_id", "calendar", &request.calendar_id, &mut bad);
        let (principal, id) = (caller.principal(), &request.request_id);
        let key = request_id::key(&principal, "CreateCalendar", id, &request, &mut bad)?;
        if let Some(made) = request_id::answered(&self.api, key.as_ref(), id).await? {
            let full_name = names::calendar(&app, &request.calendar_id);
            let found = self.api.store.get_calendar(&app, &request.calendar_id).await;
            let is_made = |calendar: &Calendar| calendar.id.to_string() == made;
            let calendar = request_id::still_there(Kind::Calendar, full_name, found, is_made)?;
            return Ok(to_proto(&calendar));
        }
        let Some(calendar) = &request.calendar else {
            bad.invalid("calendar", "is missing; give its dates, weekdays or windows");
            return Err(bad.finish().err().unwrap_or_else(no_calendar));
        };
        let spec = spec_from_proto(calendar, &mut bad);
        bad.finish()?;
        let now = self.api.clock.now();
        let app = self.api.store.ensure_app(&app, now).await?;
        let full_name = names::calendar(&app.name, &request.calendar_id);
        let new = NewCalendar { app: app.id, name: request.calendar_id, spec, request: key };
        let made = self.api.store.create_calendar(&new, now).await;
        let made = made.map_err(|error| match error {
            StoreError::Conflict(_) => request_id::reused(id),
            error => ApiError::of_store(Kind::Calendar, full_name, error),
        })?;
        tracing::info!(calendar = made.resource_name(), by = principal, "calendar created");
        Ok(to_proto(&made))
    }

    async fn list(
        &self,
        caller: &Caller,
        request: pb::ListCalendarsRequest,
    ) -> ApiResult<pb::ListCalendarsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let limit = paging::size(request.page_size, &mut bad);
        let page = paging::Query::new(&["ListCalendars", &request.parent, &caller.principal()]);
        let after: Option<(String, String)> =
            page.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let Some(parent) = parent else { return Ok(pb::ListCalendarsResponse::default()) };
        let apps = scope::apps(&self.api, caller, &parent).await?;
        let query = CalendarQuery { apps, after, limit: limit + 1 };
        let found = self.api.store.list_calendars(&query).await?;
        let (calendars, last) = paging::cut(&found, limit, to_proto);
        let next_page_token = match last {
            Some(last) => page.token(&self.api.page_key, &(&last.app_name, &last.name), now)?,
            None => String::new(),
        };
        Ok(pb::ListCalendarsResponse { calendars, next_page_token })
    }

    async fn update(
        &self,
        caller: &Caller,
        request: pb::UpdateCalendarRequest,
    ) -> ApiResult<pb::Calendar> {
        let Some(patch) = &request.calendar else { return Err(no_calendar()) };
        for _ in 0..UPDATE_TRIES_MAX {
            let current = self.find("calendar.name", &patch.name).await?;
            let shown = to_proto(&current);
            if !patch.etag.is_empty() && patch.etag != shown.etag {
                return Err(ApiError::etag_mismatch(&patch.name));
            }
            let merged = mask::merge(&shown, patch, request.update_mask.as_ref(), OUTPUT_ONLY)?;
            let mut bad = Violations::new();
            let spec = spec_from_proto(&merged, &mut bad);
            bad.finish()?;
            if spec == current.spec {
                return Ok(shown);
            }
            let replan = Box::new(jobs::replan_each);
            let (store, now) = (&self.api.store, self.api.clock.now());
            let id = current.id;
            match store.update_calendar(id, &spec, current.version, replan, now).await {
                Ok(changed) => {
                    let (name, by) = (changed.resource_name(), caller.principal());
                    tracing::info!(calendar = name, by, "calendar changed");
                    return Ok(to_proto(&changed));
                }
                Err(StoreError::Conflict(_)) if patch.etag.is_empty() => {}
                Err(StoreError::Conflict(_)) => break,
                Err(error) => return Err(ApiError::of_store(Kind::Calendar, &patch.name, error)),
            }
        }
        Err(ApiError::etag_mismatch(&patch.name))
    }

    async fn delete(&self, caller: &Caller, request: pb::DeleteCalendarRequest) -> ApiResult<()> {
        let current = self.find("name", &request.name).await?;
        if !request.etag.is_empty() && request.etag != to_proto(&current).etag {
            return Err(ApiError::etag_mismatch(&request.name));
        }
        self.api.store.delete_calendar(current.id).await.map_err(|error| match error {
            StoreError::Conflict(text) => {
                let text = format!(
                    "{text}; take it out of their schedules first (jobs of other apps may use it \
                     too)"
                );
                ApiError::precondition("CALENDAR_IN_USE", "CALENDAR_UNUSED", &request.name, text)
            }
            error => ApiError::of_store(Kind::Calendar, &request.name, error),
        })?;
        tracing::info!(calendar = request.name, by = caller.principal(), "calendar deleted");
        Ok(())
    }
}

fn no_calendar() -> ApiError {
    let text = "is missing; give its name and what is to change";
    ApiError::invalid("calendar", FIELD_INVALID, text)
}

/// The calendars that a job's new content names, as far as the caller may use them: those of apps
/// that it may read, and those that the job's schedules name already.
///
/// # Errors
/// The store's.
pub async fn of_job(api: &Api, caller: &Caller, job: &Job, spec: &JobSpec) -> ApiResult<Calendars> {
    let before = job.spec.calendars();
    load(api, spec.calendars(), |name| before.contains(name) || may_read(caller, name)).await
}

/// The calendars that a schedule names, of apps that the caller may read.
///
/// # Errors
/// The store's.
pub async fn of_schedule(api: &Api, caller: &Caller, schedule: &Schedule) -> ApiResult<Calendars> {
    let names = schedule.include_calendars.iter().chain(&schedule.exclude_calendars);
    load(api, names.map(String::as_str).collect(), |name| may_read(caller, name)).await
}

async fn load(
    api: &Api,
    names: BTreeSet<&str>,
    allowed: impl Fn(&str) -> bool,
) -> ApiResult<Calendars> {
    let names = names.into_iter().filter(|name| allowed(name)).take(NAMES_MAX);
    let names = names.map(str::to_owned).collect();
    Ok(api.store.load_calendars(&names).await?)
}

/// Calendars looked up for one job; more than its schedules may name together.
const NAMES_MAX: usize = 512;

fn may_read(caller: &Caller, name: &str) -> bool {
    let ids = parse_calendar("", name, &mut Violations::new());
    ids.is_some_and(|(app, _)| caller.can(Role::Viewer, &app))
}

#[tonic::async_trait]
impl CalendarService for CalendarsApi {
    async fn create_calendar(
        &self,
        request: Request<pb::CreateCalendarRequest>,
    ) -> Result<Response<pb::Calendar>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.create(&caller, request.into_inner()).await?))
    }

    async fn get_calendar(
        &self,
        request: Request<pb::GetCalendarRequest>,
    ) -> Result<Response<pb::Calendar>, Status> {
        let calendar = self.find("name", &request.into_inner().name).await?;
        Ok(Response::new(to_proto(&calendar)))
    }

    async fn list_calendars(
        &self,
        request: Request<pb::ListCalendarsRequest>,
    ) -> Result<Response<pb::ListCalendarsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.list(&caller, request.into_inner()).await?))
    }

    async fn update_calendar(
        &self,
        request: Request<pb::UpdateCalendarRequest>,
    ) -> Result<Response<pb::Calendar>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.update(&caller, request.into_inner()).await?))
    }

    async fn delete_calendar(
        &self,
        request: Request<pb::DeleteCalendarRequest>,
    ) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request)?;
        self.delete(&caller, request.into_inner()).await?;
        Ok(Response::new(()))
    }
}
