//! The coming fires of all jobs that a caller may see.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1 as pb;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::JobsService;
use crate::{
    api::{
        caller::Caller,
        convert::{names, time},
        paging, scope,
        status::{ApiError, ApiResult, FIELD_INVALID, Violations},
    },
    model::{
        forecast::{self, Coming, Crowd},
        ids::AppId,
    },
    store::ops::{Condition, JobKey, JobQuery},
};

/// The window when the caller names no end.
const WINDOW_DEFAULT: TimeDelta = TimeDelta::hours(24);
/// Longest window.
const WINDOW_MAX: TimeDelta = TimeDelta::days(366);
/// Jobs that one forecast looks at.
const JOBS_MAX: usize = 10_000;
/// Jobs read in one step.
const JOBS_STEP: u32 = 1_000;
/// How long jobs that were read serve further pages: a forecast is a view, not a promise.
const KEPT_FOR: TimeDelta = TimeDelta::seconds(5);

/// The jobs of the last forecast, for its next pages. One caller at a time reads them anew, so that
/// many forecasts cost no more than one.
#[derive(Default)]
pub(super) struct Forecaster {
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    apps: Option<Vec<AppId>>,
    until: DateTime<Utc>,
    jobs: Arc<Vec<Coming>>,
}

/// Where a page ended, as its token carries it.
#[derive(Serialize, Deserialize)]
struct Key {
    at: DateTime<Utc>,
    job: String,
    end: DateTime<Utc>,
}

impl JobsService {
    pub(super) async fn forecast(
        &self,
        caller: &Caller,
        request: pb::ForecastRunsRequest,
    ) -> ApiResult<pb::ForecastRunsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let limit = paging::size(request.page_size, &mut bad) as usize;
        let (start, end) = window(&request, now, &mut bad);
        let asked = |at: &Option<prost_types::Timestamp>| format!("{at:?}");
        let page = paging::Query::new(&[
            "ForecastRuns",
            &request.parent,
            &asked(&request.start_time),
            &asked(&request.end_time),
            &caller.principal(),
        ]);
        let key: Option<Key> = page.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let Some(parent) = parent else { return Ok(pb::ForecastRunsResponse::default()) };
        let end = key.as_ref().map_or(end, |key| key.end);
        let apps = scope::apps(&self.api, caller, &parent).await?;
        let jobs = self.coming(apps, now).await?;
        let name = |coming: &Coming| coming.job.resource_name();
        // Jobs come in the order of their names: those up to the last one shown had their turn.
        let last = key.map(|key| (key.at, jobs.partition_point(|coming| name(coming) <= key.job)));
        let last = last.map(|(at, behind)| (at, behind.checked_sub(1)));
        let fires = {
            let jobs = jobs.clone();
            let find = move || match last {
                Some((at, Some(place))) => {
                    forecast::fires(&jobs, start, end, Some((at, place)), limit + 1)
                }
                Some((at, None)) => forecast::fires(&jobs, at, end, None, limit + 1),
                None => forecast::fires(&jobs, start, end, None, limit + 1),
            };
            let found = tokio::task::spawn_blocking(find).await;
            found.map_err(|error| ApiError::internal(error.to_string()))?
        };
        let next_page_token = match fires.get(limit.saturating_sub(1)) {
            Some(fire) if fires.len() > limit => {
                let key = Key { at: fire.at, job: name(&jobs[fire.index]), end };
                page.token(&self.api.page_key, &key, now)?
            }
            _ => String::new(),
        };
        let fires = fires.into_iter().take(limit).map(|fire| {
            let job = &jobs[fire.index].job;
            pb::forecast_runs_response::Fire {
                job: job.resource_name(),
                fire_time: Some(time::instant_to_proto(fire.at)),
                due_time: Some(time::instant_to_proto(fire.due)),
                time_zone: fire.time_zone,
                handler: job.spec.handler.clone(),
            }
        });
        Ok(pb::ForecastRunsResponse { fires: fires.collect(), next_page_token })
    }

    /// Whether the minute of a fire time is crowded by the jobs of a parent. No answer where there
    /// are too many jobs to look at: it is a hint.
    pub(super) async fn crowd(
        &self,
        caller: &Caller,
        parent: &names::Parent,
        at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Option<Crowd> {
        let apps = scope::apps(&self.api, caller, parent).await.ok()?;
        let jobs = self.coming(apps, now).await.ok()?;
        tokio::task::spawn_blocking(move || forecast::crowd(&jobs, at)).await.ok()?
    }

    /// The jobs that will fire, in the order of their names.
    async fn coming(
        &self,
        apps: Option<Vec<AppId>>,
        now: DateTime<Utc>,
    ) -> ApiResult<Arc<Vec<Coming>>> {
        let mut kept = self.forecaster.kept.lock().await;
        if let Some(kept) = &*kept
            && kept.apps == apps
            && (now..=now + KEPT_FOR).contains(&kept.until)
        {
            return Ok(kept.jobs.clone());
        }
        *kept = None;
        let state = Condition::OneOf {
            field: "state",
            values: vec!["ACTIVE".to_owned(), "PAUSED".to_owned()],
            negated: false,
        };
        let mut query = JobQuery {
            apps: apps.clone(),
            conditions: vec![state],
            limit: JOBS_STEP,
            ..JobQuery::default()
        };
        let mut found: Vec<Coming> = Vec::new();
        loop {
            let jobs = self.api.store.list_jobs(&query).await?;
            let more = jobs.len() == JOBS_STEP as usize;
            query.after = jobs.last().map(|last| JobKey {
                id: last.id,
                app_name: last.app_name.to_string(),
                name: last.name.to_string(),
                next_fire_at: None,
            });
            found.extend(jobs.into_iter().filter_map(Coming::of));
            if found.len() > JOBS_MAX {
                let text = format!("has more than {JOBS_MAX} jobs that fire; name one app");
                return Err(ApiError::invalid("parent", FIELD_INVALID, text));
            }
            if !more {
                break;
            }
        }
        found.sort_by_key(|coming| coming.job.resource_name());
        let jobs = Arc::new(found);
        *kept = Some(Kept { apps, until: now + KEPT_FOR, jobs: jobs.clone() });
        Ok(jobs)
    }
}

fn window(
    request: &pb::ForecastRunsRequest,
    now: DateTime<Utc>,
    bad: &mut Violations,
) -> (DateTime<Utc>, DateTime<Utc>) {
    let mut instant = |field: &str, value: &Option<prost_types::Timestamp>| match value {
        Some(value) => time::instant(field, value, bad).map(Some),
        None => Some(None),
    };
    let start = instant("start_time", &request.start_time);
    let end = instant("end_time", &request.end_time);
    // What can't be read has its fault already, and says nothing about the other.
    let (Some(start), Some(end)) = (start, end) else { return (now, now) };
    let start = start.unwrap_or(now).max(now);
    let Some(end) = end.or_else(|| start.checked_add_signed(WINDOW_DEFAULT)) else {
        bad.invalid("start_time", "leaves no room for a window; give an earlier one");
        return (start, start);
    };
    if end <= start {
        bad.invalid("end_time", format!("is not after {start}; what is to come is shown"));
    } else if end - start > WINDOW_MAX {
        let text = format!("lies more than {} days after the start", WINDOW_MAX.num_days());
        bad.invalid("end_time", text);
    }
    (start, end)
}
