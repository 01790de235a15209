//! JobService in memory. Like the real one it fills in defaults, checks etags and masks, and
//! reports all violations at once.

use clawjob_proto::{
    json,
    v1::{self as pb, schedule::Trigger},
};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use crate::fake::{Answer, Fake, State, not_found};

/// Fields that a full replacement leaves alone.
fn keep_output(to: &mut pb::Job, from: &pb::Job) {
    to.name.clone_from(&from.name);
    to.state = from.state;
    to.etag.clone_from(&from.etag);
    to.revision = from.revision;
    to.create_time = from.create_time;
    to.update_time = from.update_time;
    to.next_fire_time = from.next_fire_time;
}

/// What the server makes of an unset field.
fn fill_in(job: &mut pb::Job) {
    let retry = job.retry.get_or_insert_default();
    if retry.max_attempts == 0 {
        retry.max_attempts = 1;
    }
    if retry.multiplier == 0.0 {
        retry.multiplier = 2.0;
    }
    retry.initial_backoff.get_or_insert(prost_types::Duration { seconds: 1, nanos: 0 });
    if job.overlap == 0 {
        job.overlap = pb::OverlapPolicy::Skip.into();
    }
    if job.max_queued == 0 {
        job.max_queued = 100;
    }
    job.placement.get_or_insert_default();
    for schedule in &mut job.schedules {
        if matches!(schedule.trigger, Some(Trigger::Cron(_))) && schedule.cron_dialect == 0 {
            schedule.cron_dialect = pb::CronDialect::Unix.into();
        }
    }
}

fn check(job: &pb::Job) -> Result<(), Status> {
    let mut violations = Vec::new();
    if job.handler.is_empty() {
        violations.push(FieldViolation::new("job.handler", "is empty: name a handler"));
    }
    for (index, schedule) in job.schedules.iter().enumerate() {
        if let Some(Trigger::Cron(cron)) = &schedule.trigger
            && cron.split(' ').count() < 5
        {
            let field = format!("job.schedules[{index}].cron");
            violations.push(FieldViolation::new(field, format!("{cron:?} has too few fields")));
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    let mut details = ErrorDetails::with_bad_request(violations);
    details.set_error_info("CRON_INVALID", "clawjob.dev", []).set_request_info("r-3", "");
    Err(Status::with_error_details(Code::InvalidArgument, "the job is not valid", details))
}

fn store(state: &mut State, mut job: pb::Job) -> pb::Job {
    state.writes += 1;
    job.revision += 1;
    job.etag = format!("e{}", state.writes);
    job.create_time.get_or_insert(prost_types::Timestamp { seconds: 1_772_326_800, nanos: 0 });
    state.apps.extend(job.name.split('/').nth(1).map(str::to_owned));
    state.jobs.insert(job.name.clone(), job.clone());
    state.revisions.push(job.clone());
    job
}

fn existing(state: &State, name: &str) -> Result<pb::Job, Status> {
    state.jobs.get(name).cloned().ok_or_else(|| not_found("JOB", name))
}

fn set_state(state: &mut State, name: &str, to: pb::job::State) -> Answer<pb::Job> {
    let mut job = existing(state, name)?;
    job.state = to.into();
    Ok(Response::new(store(state, job)))
}

/// Top-level fields of a mask, or all of them.
fn merge(current: &pb::Job, wanted: pb::Job, paths: &[String]) -> Result<pb::Job, Status> {
    let mut merged = if paths == ["*"] {
        wanted
    } else {
        let wrong = |e: json::JsonError| Status::internal(e.to_string());
        let mut to = json::to_value(current).map_err(wrong)?;
        let from = json::to_value(&wanted).map_err(wrong)?;
        let of = json::pool().get_message_by_name("clawjob.v1.Job").unwrap();
        for path in paths {
            let field = of.get_field_by_name(path);
            let field = field.ok_or_else(|| Status::invalid_argument(format!("mask {path}")))?;
            let value = from.get(field.json_name()).cloned().unwrap_or_default();
            to[field.json_name()] = value;
        }
        json::from_value(to, false).map_err(wrong)?
    };
    keep_output(&mut merged, current);
    fill_in(&mut merged);
    Ok(merged)
}

#[tonic::async_trait]
impl pb::job_service_server::JobService for Fake {
    async fn create_job(&self, rq: Request<pb::CreateJobRequest>) -> Answer<pb::Job> {
        let (mut state, rq) = self.enter("create_job", rq)?;
        assert!(!rq.request_id.is_empty());
        let mut job = rq.job.unwrap_or_default();
        job.name = format!("{}/jobs/{}", rq.parent, rq.job_id);
        check(&job)?;
        if state.jobs.contains_key(&job.name) {
            let mut details = ErrorDetails::new();
            details.set_error_info("JOB_EXISTS", "clawjob.dev", []);
            let message = format!("{} exists", job.name);
            return Err(Status::with_error_details(Code::AlreadyExists, message, details));
        }
        if job.state == 0 {
            job.state = pb::job::State::Active.into();
        }
        fill_in(&mut job);
        Ok(Response::new(if rq.validate_only { job } else { store(&mut state, job) }))
    }

    async fn get_job(&self, rq: Request<pb::GetJobRequest>) -> Answer<pb::Job> {
        let (state, rq) = self.enter("get_job", rq)?;
        Ok(Response::new(existing(&state, &rq.name)?))
    }

    async fn list_jobs(&self, rq: Request<pb::ListJobsRequest>) -> Answer<pb::ListJobsResponse> {
        let (mut state, rq) = self.enter("list_jobs", rq)?;
        state.filters.push(rq.filter);
        let size = (rq.page_size as usize).min(if state.page_max == 0 {
            usize::MAX
        } else {
            state.page_max
        });
        let start: usize = rq.page_token.parse().unwrap_or_default();
        let app = rq.parent.trim_start_matches("apps/").to_owned();
        // An app comes into being with its first job.
        if app != "-" && !state.apps.contains(&app) {
            return Err(not_found("APP", &rq.parent));
        }
        let all = state.jobs.values();
        let all = all.filter(|j| app == "-" || j.name.starts_with(&format!("apps/{app}/")));
        let all: Vec<pb::Job> = all.cloned().collect();
        let end = (start + size).min(all.len());
        let next_page_token = if end < all.len() { end.to_string() } else { String::new() };
        Ok(Response::new(pb::ListJobsResponse { jobs: all[start..end].to_vec(), next_page_token }))
    }

    async fn update_job(&self, rq: Request<pb::UpdateJobRequest>) -> Answer<pb::Job> {
        let (mut state, rq) = self.enter("update_job", rq)?;
        let wanted = rq.job.unwrap_or_default();
        let current = existing(&state, &wanted.name)?;
        if !rq.validate_only && state.conflicts > 0 {
            state.conflicts -= 1;
            let mut changed = current.clone();
            changed.display_name.push('!');
            store(&mut state, changed);
        }
        let current = existing(&state, &wanted.name)?;
        if !wanted.etag.is_empty() && wanted.etag != current.etag {
            let mut details = ErrorDetails::new();
            details.set_error_info("ETAG_MISMATCH", "clawjob.dev", []);
            return Err(Status::with_error_details(Code::Aborted, "the job changed", details));
        }
        let paths = rq.update_mask.unwrap_or_default().paths;
        let job = merge(&current, wanted, &paths)?;
        check(&job)?;
        Ok(Response::new(if rq.validate_only { job } else { store(&mut state, job) }))
    }

    async fn delete_job(&self, rq: Request<pb::DeleteJobRequest>) -> Answer<()> {
        let (mut state, rq) = self.enter("delete_job", rq)?;
        existing(&state, &rq.name)?;
        state.jobs.remove(&rq.name);
        Ok(Response::new(()))
    }

    async fn pause_job(&self, rq: Request<pb::PauseJobRequest>) -> Answer<pb::Job> {
        let (mut state, rq) = self.enter("pause_job", rq)?;
        set_state(&mut state, &rq.name, pb::job::State::Paused)
    }

    async fn resume_job(&self, rq: Request<pb::ResumeJobRequest>) -> Answer<pb::Job> {
        let (mut state, rq) = self.enter("resume_job", rq)?;
        set_state(&mut state, &rq.name, pb::job::State::Active)
    }

    async fn trigger_job(&self, rq: Request<pb::TriggerJobRequest>) -> Answer<pb::Run> {
        let (mut state, rq) = self.enter("trigger_job", rq)?;
        assert!(!rq.request_id.is_empty());
        let job = existing(&state, &rq.name)?;
        let app = job.name.split('/').nth(1).unwrap();
        let run = pb::Run {
            name: format!("apps/{app}/runs/R{}", state.runs.len() + 1),
            job: job.name.clone(),
            state: pb::RunState::Queued.into(),
            params: rq.params.or(job.params.clone()),
            ..pb::Run::default()
        };
        state.runs.insert(run.name.clone(), run.clone());
        Ok(Response::new(run))
    }

    async fn preview_schedule(
        &self,
        rq: Request<pb::PreviewScheduleRequest>,
    ) -> Answer<pb::PreviewScheduleResponse> {
        let (_state, rq) = self.enter("preview_schedule", rq)?;
        let step = match rq.schedule.unwrap_or_default().trigger {
            Some(Trigger::Interval(step)) => step.seconds,
            _ => 3600,
        };
        let times = (1..=i64::from(rq.count))
            .map(|n| prost_types::Timestamp { seconds: 1_772_326_800 + n * step, nanos: 0 });
        Ok(Response::new(pb::PreviewScheduleResponse {
            fire_times: times.collect(),
            warnings: vec!["a skipped hour".into()],
            cron_dialect: pb::CronDialect::Unix.into(),
            description: "every hour".into(),
            due_times: Vec::new(),
        }))
    }

    async fn list_job_revisions(
        &self,
        rq: Request<pb::ListJobRevisionsRequest>,
    ) -> Answer<pb::ListJobRevisionsResponse> {
        let (state, rq) = self.enter("list_job_revisions", rq)?;
        let own = state.revisions.iter().rev().filter(|job| job.name == rq.name);
        let jobs = own.cloned().collect();
        Ok(Response::new(pb::ListJobRevisionsResponse { jobs, next_page_token: String::new() }))
    }

    async fn rollback_job(&self, _: Request<pb::RollbackJobRequest>) -> Answer<pb::Job> {
        Err(Status::unimplemented("rollback_job"))
    }

    async fn backfill_job(
        &self,
        rq: Request<pb::BackfillJobRequest>,
    ) -> Answer<pb::BackfillJobResponse> {
        let (mut state, rq) = self.enter("backfill_job", rq)?;
        state.backfills.push(rq);
        Ok(Response::new(pb::BackfillJobResponse { run_count: 3, already_run_count: 1 }))
    }

    async fn forecast_runs(
        &self,
        rq: Request<pb::ForecastRunsRequest>,
    ) -> Answer<pb::ForecastRunsResponse> {
        let (state, _) = self.enter("forecast_runs", rq)?;
        let fires = state.fires.clone();
        Ok(Response::new(pb::ForecastRunsResponse { fires, next_page_token: String::new() }))
    }
}
