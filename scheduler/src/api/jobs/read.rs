//! Reading jobs, and previewing schedules.

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1 as pb;
use serde::{Deserialize, Serialize};

use super::{JobsService, change::shown};
use crate::{
    api::{
        calendars,
        caller::Caller,
        convert::{self, names, schedule, time},
        filter, paging, scope,
        status::{ApiError, ApiResult, Violations},
    },
    model::{
        forecast::Crowd,
        ids::JobId,
        job::Job,
        schedule::{Compiled, PREVIEW_COUNT_MAX, Preview, Schedule, Trigger, preview_with},
    },
    store::ops::{Condition, JobKey, JobOrder, JobQuery, RunQuery, Scheduled},
};

/// Fire times of a preview when the caller names no count.
const PREVIEW_COUNT_DEFAULT: usize = 10;
/// Jobs read in one step of a page: each may carry params of 256 KiB.
const STEP_ROWS: u32 = 50;
/// A schedule that fires more often is not told of quieter minutes: it has no minute of its own.
const SELDOM: TimeDelta = TimeDelta::minutes(10);

/// Where a page of jobs ended, as its token carries it.
#[derive(Serialize, Deserialize)]
struct Key {
    id: i64,
    app: String,
    name: String,
    next: Option<DateTime<Utc>>,
}

impl JobsService {
    pub(super) async fn get(&self, request: pb::GetJobRequest) -> ApiResult<pb::Job> {
        let job = self.find_named("name", &request.name).await?;
        let now = self.api.clock.now();
        let last = RunQuery {
            apps: None,
            jobs: Some(vec![job.id]),
            conditions: vec![Condition::ShardOf(None)],
            scheduled: Scheduled::Without,
            ascending: false,
            after: None,
            limit: 1,
            full: false,
            now,
        };
        let last = self.api.store.list_runs(&last).await?;
        let mut shown = shown(&job, now);
        if let Some(last) = last.first() {
            shown.last_run = names::run(&job.app_name, last.run.id);
        }
        Ok(shown)
    }

    pub(super) async fn list(
        &self,
        caller: &Caller,
        request: pb::ListJobsRequest,
    ) -> ApiResult<pb::ListJobsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let limit = paging::size(request.page_size, &mut bad);
        let filter = filter::parse(&request.filter, &filter::JOB_FIELDS, &mut bad);
        let order = order(&request.order_by, &mut bad);
        let tokens = paging::Query::new(&[
            "ListJobs",
            &request.parent,
            &request.filter,
            &request.order_by,
            &caller.principal(),
        ]);
        let key: Option<Key> = tokens.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let Some(parent) = parent else { return Ok(pb::ListJobsResponse::default()) };
        let mut query = JobQuery {
            apps: scope::apps(&self.api, caller, &parent).await?,
            conditions: filter.conditions.into_iter().map(|c| as_shown(c, now)).collect(),
            order,
            after: key.map(|key| JobKey {
                id: JobId(key.id),
                app_name: key.app,
                name: key.name,
                next_fire_at: key.next,
            }),
            limit,
        };
        let mut page = paging::Page::new(limit);
        let more = 'page: loop {
            let step = page.left().min(STEP_ROWS);
            // One more than shown tells whether there is a next page.
            query.limit = step + 1;
            let rows = self.api.store.list_jobs(&query).await?;
            for job in rows.iter().take(step as usize) {
                if !page.push(shown(job, now)) {
                    break 'page true;
                }
                query.after = Some(place_of(job));
            }
            let more = rows.len() > step as usize;
            if !more || page.left() == 0 {
                break more;
            }
        };
        let next_page_token = match query.after.as_ref().filter(|_| more) {
            Some(place) => tokens.token(&self.api.page_key, &key_of(place), now)?,
            None => String::new(),
        };
        Ok(pb::ListJobsResponse { jobs: page.into_items(), next_page_token })
    }

    pub(super) async fn revisions(
        &self,
        request: pb::ListJobRevisionsRequest,
    ) -> ApiResult<pb::ListJobRevisionsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let limit = paging::size(request.page_size, &mut bad);
        let page = paging::Query::new(&["ListJobRevisions", &request.name]);
        let before: Option<u64> = page.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let job = self.find_named("name", &request.name).await?;
        let before = before.unwrap_or(0);
        let found = self.api.store.list_revisions(job.id, before, limit + 1).await?;
        let revision = |revision: &Job| match revision.revision == job.revision {
            true => shown(&Job { calendars: job.calendars.clone(), ..revision.clone() }, now),
            // No other revision fires.
            false => convert::job::to_proto(&Job { next_fire_at: None, ..revision.clone() }),
        };
        let (jobs, last) = paging::cut(&found, limit, revision);
        let next_page_token = match last {
            Some(last) => page.token(&self.api.page_key, &last.revision, now)?,
            None => String::new(),
        };
        Ok(pb::ListJobRevisionsResponse { jobs, next_page_token })
    }

    pub(super) async fn preview(
        &self,
        caller: &Caller,
        request: &pb::PreviewScheduleRequest,
    ) -> ApiResult<pb::PreviewScheduleResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let parent = match request.parent.as_str() {
            "" => None,
            parent => names::parse_parent("parent", parent, &mut bad),
        };
        let count = match usize::try_from(request.count) {
            Ok(0) => PREVIEW_COUNT_DEFAULT,
            Ok(count) if count <= PREVIEW_COUNT_MAX => count,
            _ => {
                bad.invalid("count", format!("must lie from 1 to {PREVIEW_COUNT_MAX}, or be 0"));
                0
            }
        };
        let after = request.after.as_ref().and_then(|at| time::instant("after", at, &mut bad));
        let job = match request.job.as_str() {
            "" => None,
            job => names::parse_job("job", job, &mut bad),
        };
        let Some(given) = &request.schedule else {
            bad.invalid("schedule", "is missing; give a schedule with cron, interval or at");
            return Err(bad.finish().err().unwrap_or_else(|| ApiError::internal("no schedule")));
        };
        let schedule = schedule::from_proto("schedule", given, &mut bad);
        let calendars = calendars::of_schedule(&self.api, caller, &schedule).await?;
        let after = after.unwrap_or(now);
        let preview = match preview_with(&schedule, &calendars, after, now, count) {
            Ok(preview) => Some(preview),
            Err(faults) => {
                for fault in faults {
                    let field = format!("schedule.{}", fault.field);
                    bad.add(field, fault.reason.as_str(), fault.message);
                }
                None
            }
        };
        bad.finish()?;
        let Some(mut preview) = preview else {
            return Ok(pb::PreviewScheduleResponse::default());
        };
        let parent = parent.unwrap_or(names::Parent::All);
        if let Some(at) = crowdable(&schedule, &preview)
            && let Some(crowd) = self.crowd(caller, &parent, at, now).await
        {
            preview.warnings.push(in_words(&crowd, at, &schedule));
        }
        let compiled = schedule.compile_with(&calendars).ok().filter(Compiled::is_spread);
        let offset = job.zip(compiled).map(|(name, compiled)| compiled.spread_offset(&name.job));
        let due = offset
            .into_iter()
            .flat_map(|offset| preview.fire_times.iter().map(move |at| *at + offset));
        Ok(pb::PreviewScheduleResponse {
            due_times: due.map(time::instant_to_proto).collect(),
            fire_times: preview.fire_times.into_iter().map(time::instant_to_proto).collect(),
            warnings: preview.warnings,
            cron_dialect: schedule::dialect_to_proto(preview.dialect) as i32,
            description: preview.description,
        })
    }
}

/// The fire time to look at for a crowd: the first of a cron schedule that fires at set minutes, at
/// most once in ten minutes.
fn crowdable(schedule: &Schedule, preview: &Preview) -> Option<DateTime<Utc>> {
    let seldom = |pair: &[DateTime<Utc>]| pair[1] - pair[0] >= SELDOM;
    let cron = matches!(schedule.trigger, Trigger::Cron { .. });
    (cron && preview.fire_times.windows(2).all(seldom)).then_some(*preview.fire_times.first()?)
}

fn in_words(crowd: &Crowd, at: DateTime<Utc>, schedule: &Schedule) -> String {
    let zone = schedule.time_zone.as_str();
    let clock =
        |at| schedule::wall_clock(at, zone).unwrap_or_else(|| at.format("%H:%M").to_string());
    format!(
        "{} jobs fire at {}, the minute of the next fire time; {} has only {}",
        crowd.jobs,
        clock(at),
        clock(crowd.quiet),
        crowd.quiet_jobs
    )
}

/// A stored next fire time may have passed, up to a minute ago, and is then shown as one to come: so
/// one that has passed is after `now`, whatever it is.
fn as_shown(condition: Condition, now: DateTime<Utc>) -> Condition {
    match condition {
        Condition::Time { field: field @ "next_fire_time", from, until } => {
            // "After now" is a bound a microsecond later.
            let past = now + TimeDelta::microseconds(1);
            let bound = |at: DateTime<Utc>| if at <= past { DateTime::UNIX_EPOCH } else { at };
            Condition::Time { field, from: from.map(bound), until: until.map(bound) }
        }
        other => other,
    }
}

fn place_of(job: &Job) -> JobKey {
    JobKey {
        id: job.id,
        app_name: job.app_name.to_string(),
        name: job.name.to_string(),
        next_fire_at: job.next_fire_at,
    }
}

fn key_of(place: &JobKey) -> Key {
    let JobKey { id, app_name, name, next_fire_at } = place.clone();
    Key { id: id.0, app: app_name, name, next: next_fire_at }
}

fn order(text: &str, bad: &mut Violations) -> JobOrder {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [] | ["name"] | ["name", "asc"] => JobOrder::Name,
        ["create_time", "desc"] => JobOrder::Created,
        ["next_fire_time"] | ["next_fire_time", "asc"] => JobOrder::NextFire,
        _ => {
            bad.invalid("order_by", "use name, create_time desc, or next_fire_time");
            JobOrder::Name
        }
    }
}
