//! Reading runs, and waiting for the end of one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use clawjob_proto::v1 as pb;
use tokio::sync::broadcast::error::RecvError;

use super::{RunsService, run_name};
use crate::{
    api::{
        Api,
        caller::Caller,
        convert::{
            names::{self, JobName, Parent},
            run::to_proto,
            time,
        },
        filter, paging, request_id, scope,
        status::{ApiError, ApiResult, Kind, Violations},
    },
    model::{
        ids::{JobId, RunId},
        job::JobSpec,
        run::{RunRecord, RunState},
        schedule::Schedule,
    },
    store::{
        StoreError,
        ops::{RunPage, RunQuery, Scheduled},
    },
};

/// Longest wait of WaitRun; a longer one is cut.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Runs read in one step in full: each may carry params and an output of 256 KiB.
pub(in crate::api) const FULL_ROWS: u32 = 16;
/// Clocks change at full quarters of an hour, in seconds.
const QUARTER: i64 = 900;
/// A run that is waited for is looked at so often even if nobody said that it changed.
const WAIT_SWEEP: Duration = Duration::from_secs(1);

impl RunsService {
    pub(super) async fn get(&self, request: pb::GetRunRequest) -> ApiResult<pb::Run> {
        let mut bad = Violations::new();
        let full = names::full_view("view", request.view, true, &mut bad);
        let record = self.find(&run_name(&request.name, bad)?).await?;
        let now = self.api.clock.now();
        let mut runs = show(&self.api, vec![record], full, now).await?;
        Ok(runs.pop().unwrap_or_default())
    }

    pub(super) async fn list(
        &self,
        caller: &Caller,
        request: pb::ListRunsRequest,
    ) -> ApiResult<pb::ListRunsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let limit = paging::size(request.page_size, &mut bad);
        let mut filter = filter::parse(&request.filter, &filter::RUN_FIELDS, &mut bad);
        filter.leave_out_shards();
        let full = names::full_view("view", request.view, false, &mut bad);
        let ascending = ascending(&request.order_by, &mut bad);
        let tokens = paging::Query::new(&[
            "ListRuns",
            &request.parent,
            &request.filter,
            &request.order_by,
            &caller.principal(),
        ]);
        let after: Option<RunId> =
            tokens.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let Some(parent) = parent else { return Ok(pb::ListRunsResponse::default()) };
        let scheduled = scheduled(&filter);
        let mut query = RunQuery {
            apps: scope::apps(&self.api, caller, &parent).await?,
            jobs: jobs(&self.api, filter.jobs.as_ref(), caller, &parent).await?,
            conditions: filter.conditions,
            scheduled,
            ascending,
            after,
            limit,
            full,
            now,
        };
        let mut page = paging::Page::new(limit);
        let last = 'page: loop {
            let step = if full { page.left().min(FULL_ROWS) } else { page.left() };
            // One more than shown tells whether there is a next page.
            query.limit = step + 1;
            let RunPage { runs: mut records, until } = self.api.store.scan_runs(&query).await?;
            let more = records.len() > step as usize;
            records.truncate(step as usize);
            let ids: Vec<RunId> = records.iter().map(|record| record.run.id).collect();
            for (id, run) in ids.into_iter().zip(show(&self.api, records, full, now).await?) {
                if !page.push(run) {
                    break 'page query.after;
                }
                query.after = Some(id);
            }
            if !more {
                // A page that is not full goes on behind what was looked at.
                break until;
            }
            if page.left() == 0 {
                break query.after;
            }
        };
        let next_page_token = match last {
            Some(last) => tokens.token(&self.api.page_key, &last, now)?,
            None => String::new(),
        };
        Ok(pb::ListRunsResponse { runs: page.into_items(), next_page_token })
    }

    pub(super) async fn wait(&self, request: pb::WaitRunRequest) -> ApiResult<pb::Run> {
        let mut bad = Violations::new();
        let wait = match &request.timeout {
            None => Some(WAIT_MAX),
            Some(given) => time::plain(given),
        };
        if wait.is_none() {
            bad.invalid("timeout", "is negative or malformed; give a duration of at most 60 s");
        }
        let name = run_name(&request.name, bad)?;
        let end = self.api.clock.elapsed() + wait.unwrap_or_default().min(WAIT_MAX);
        // Before the first look, so that no change falls between.
        let mut changes = self.feed.subscribe();
        loop {
            let record = self.find(&name).await?;
            let left = end.saturating_sub(self.api.clock.elapsed());
            if record.run.state.is_final() || left.is_zero() {
                let now = self.api.clock.now();
                let mut runs = show(&self.api, vec![record], true, now).await?;
                return Ok(runs.pop().unwrap_or_default());
            }
            let changed = async {
                loop {
                    match changes.recv().await {
                        Ok(batch) if batch.is_about(name.run) => return,
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => return,
                        // The sweep goes on alone.
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            tokio::select! {
                () = changed => {}
                () = self.api.clock.wait(left.min(WAIT_SWEEP)) => {}
            }
        }
    }
}

/// The run that a request made when it came first.
pub(in crate::api) async fn made_before(api: &Api, app: &str, answer: &str) -> ApiResult<pb::Run> {
    let corrupt = |_| ApiError::internal(format!("{answer:?} is no run"));
    let id: RunId = answer.parse().map_err(corrupt)?;
    let found = api.store.get_run(id).await;
    let record = request_id::still_there(Kind::Run, names::run(app, id), found, |_| true)?;
    let mut runs = show(api, vec![record], true, api.clock.now()).await?;
    Ok(runs.pop().unwrap_or_default())
}

/// Runs as shown; in full with the params of the revision that each ran, and with since when the
/// executor of an open one is out of contact.
pub(in crate::api) async fn show(
    api: &Api,
    records: Vec<RunRecord>,
    full: bool,
    now: DateTime<Utc>,
) -> ApiResult<Vec<pb::Run>> {
    let specs = if full { specs_of(api, &records).await? } else { HashMap::new() };
    let mut shown = Vec::with_capacity(records.len());
    for record in records {
        if !full {
            shown.push(to_proto(&record, None, false, now));
            continue;
        }
        let spec = specs.get(&(record.run.job, record.run.revision));
        let params = spec.and_then(|spec| spec.params.as_ref());
        let mut run = to_proto(&record, params, true, now);
        if let Some(attempt) = run.attempts.last_mut()
            && attempt.outcome == 0
            && attempt.end_time.is_none()
        {
            let since = out_of_contact(api, &record).await?;
            attempt.disconnected_since = since.map(time::instant_to_proto);
        }
        if run.state_message.is_empty()
            && let Some(spec) = spec
        {
            run.state_message = moved_remark(&record, spec).unwrap_or_default();
        }
        shown.push(run);
    }
    Ok(shown)
}

/// The content that each run is of, as far as it is still kept.
async fn specs_of(
    api: &Api,
    records: &[RunRecord],
) -> ApiResult<HashMap<(JobId, u64), Arc<JobSpec>>> {
    let revisions = records.iter().map(|record| (record.run.job, record.run.revision));
    let revisions: BTreeSet<(JobId, u64)> = revisions.collect();
    let revisions: Vec<(JobId, u64)> = revisions.into_iter().collect();
    let found = api.store.load_revisions(&revisions).await?;
    Ok(found.into_iter().map(|job| ((job.id, job.revision), job.spec)).collect())
}

/// A word on a run whose fire time a clock change moved: it is not where the schedule names it.
fn moved_remark(record: &RunRecord, spec: &JobSpec) -> Option<String> {
    // No clock changes at another instant.
    let on_the_quarter = record.run.fire_at.timestamp() % QUARTER == 0;
    if !record.run.trigger.is_planned() || !on_the_quarter {
        return None;
    }
    let mut zoned = spec.schedules.iter().filter(|schedule| !schedule.time_zone.is_empty());
    zoned.find_map(|schedule| {
        let bare = Schedule {
            include_calendars: Vec::new(),
            exclude_calendars: Vec::new(),
            ..schedule.clone()
        };
        bare.compile().ok()?.moved_remark(record.run.fire_at)
    })
}

/// Since when the executor of the run's current attempt has no session.
async fn out_of_contact(api: &Api, record: &RunRecord) -> ApiResult<Option<DateTime<Utc>>> {
    let with_executor =
        matches!(record.run.state, RunState::Dispatched | RunState::Running | RunState::Canceling);
    let Some(name) = record.run.executor.as_deref().filter(|_| with_executor) else {
        return Ok(None);
    };
    match api.store.get_executor(record.run.app, name).await {
        Ok(executor) => Ok(executor.disconnected_at),
        Err(StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The ids of the jobs that a filter names, within the parent and what the caller may read;
/// `None` when it names none. Runs of a deleted job are still listed under its name; of a name that
/// nobody had there are none.
pub(in crate::api) async fn jobs(
    api: &Api,
    named: Option<&BTreeSet<JobName>>,
    caller: &Caller,
    parent: &Parent,
) -> ApiResult<Option<Vec<JobId>>> {
    let Some(named) = named else { return Ok(None) };
    let mut ids = Vec::with_capacity(named.len());
    for name in named {
        let within = match parent {
            Parent::App(app) => *app == name.app,
            Parent::All => caller.can(crate::model::principal::Role::Viewer, &name.app),
        };
        if !within {
            continue;
        }
        ids.extend(api.store.jobs_named(&name.app, &name.job).await?);
    }
    Ok(Some(ids))
}

/// Runs that are planned but not due come only when the filter names their state.
pub(in crate::api) fn scheduled(filter: &filter::Filter) -> Scheduled {
    match filter.states() {
        Some(states) if states.contains("SCHEDULED") && states.len() == 1 => Scheduled::Only,
        Some(states) if states.contains("SCHEDULED") => Scheduled::With,
        _ => Scheduled::Without,
    }
}

fn ascending(order_by: &str, bad: &mut Violations) -> bool {
    match order_by.split_whitespace().collect::<Vec<_>>()[..] {
        [] | ["create_time", "desc"] => false,
        ["create_time"] | ["create_time", "asc"] => true,
        _ => {
            bad.invalid("order_by", "use create_time or create_time desc (the default)");
            false
        }
    }
}
