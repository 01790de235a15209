//! Creating, updating, rolling back and deleting jobs.

use clawjob_proto::v1 as pb;

use super::{
    JobsService,
    change::{TRIES_MAX, replan, shown, state_by_schedules},
};
use crate::{
    api::{
        calendars,
        caller::Caller,
        cancel,
        convert::{
            etag,
            job::{OUTPUT_ONLY, new_state, spec_from_proto, to_proto},
            names::{self, JobName},
        },
        mask, request_id,
        status::{ApiError, ApiResult, FIELD_INVALID, Kind, Violations},
        validate,
    },
    model::job::{Job, JobSpec, JobState},
    store::{
        StoreError,
        ops::{JobChange, NewJob, RequestKey},
    },
};

impl JobsService {
    pub(super) async fn create(
        &self,
        caller: &Caller,
        request: pb::CreateJobRequest,
    ) -> ApiResult<pb::Job> {
        let mut bad = Violations::new();
        let app = names::parse_app("parent", &request.parent, &mut bad).unwrap_or_default();
        names::check_new_id("job_id", "job", &request.job_id, &mut bad);
        let key = request_id::key(
            &caller.principal(),
            "CreateJob",
            &request.request_id,
            &request,
            &mut bad,
        )?;
        let name = JobName { app, job: request.job_id };
        let key = key.filter(|_| !request.validate_only);
        let answer = request_id::answered(&self.api, key.as_ref(), &request.request_id).await?;
        if let Some(id) = answer {
            let full_name = names::job(&name.app, &name.job);
            let found = self.api.store.get_job(&name.app, &name.job).await;
            let is_made = |job: &Job| job.id.0.to_string() == id;
            let job = request_id::still_there(Kind::Job, full_name, found, is_made)?;
            return Ok(shown(&job, self.api.clock.now()));
        }
        let Some(job) = &request.job else {
            bad.invalid("job", "is missing; give at least its handler");
            return Err(bad.finish().err().unwrap_or_else(no_job));
        };
        let created = self.make(caller, &name, job, key, request.validate_only, bad).await;
        created.map_err(|error| match error.reason() {
            "CONFLICT" => request_id::reused(&request.request_id),
            _ => error,
        })
    }

    /// Makes the job, or only checks it; `bad` holds what was wrong before.
    async fn make(
        &self,
        caller: &Caller,
        name: &JobName,
        job: &pb::Job,
        request: Option<RequestKey>,
        validate_only: bool,
        mut bad: Violations,
    ) -> ApiResult<pb::Job> {
        let now = self.api.clock.now();
        let state = new_state(job, &mut bad);
        let mut spec = spec_from_proto(job, self.api.settings.params_bytes_max, &mut bad);
        let mut frame = Job { state, ..Job::draft(&name.app, &name.job, now) };
        frame.calendars = calendars::of_job(&self.api, caller, &frame, &spec).await?;
        let compiled = validate::job(&frame, &mut spec, now, &mut bad);
        self.check_chains(caller, name, &frame.spec, &spec, &mut bad).await?;
        bad.finish()?;
        let full_name = names::job(&name.app, &name.job);
        if validate_only {
            return match self.api.store.get_job(&name.app, &name.job).await {
                Ok(_) => Err(ApiError::already_exists(Kind::Job, full_name)),
                Err(StoreError::NotFound(_)) => {
                    frame.spec = spec.into();
                    frame.updated_by = caller.in_words();
                    Ok(shown(&frame, now))
                }
                Err(error) => Err(error.into()),
            };
        }
        let app = self.api.store.ensure_app(&name.app, now).await?;
        let new = NewJob {
            app: app.id,
            name: name.job.clone(),
            state,
            spec,
            updated_by: caller.in_words(),
            request,
        };
        let created = self.api.store.create_job(&new, replan(compiled), now).await;
        if let Err(StoreError::Conflict(_)) = created {
            // Perhaps a cycle that somebody else's save has closed meanwhile.
            let mut bad = Violations::new();
            self.check_chains(caller, name, &frame.spec, &new.spec, &mut bad).await?;
            bad.finish()?;
        }
        let job = created.map_err(|e| ApiError::of_store(Kind::Job, full_name, e))?;
        tracing::info!(job = job.resource_name(), "job created");
        Ok(shown(&job, now))
    }

    pub(super) async fn update(
        &self,
        caller: &Caller,
        request: pb::UpdateJobRequest,
    ) -> ApiResult<pb::Job> {
        let mut bad = Violations::new();
        let Some(patch) = &request.job else {
            return Err(no_job());
        };
        let name = names::parse_job("job.name", &patch.name, &mut bad);
        bad.finish()?;
        let Some(name) = name else { return Err(no_job()) };
        for _ in 0..TRIES_MAX {
            let current = match self.find(&name).await {
                Ok(current) => current,
                Err(error) if error.reason() == "JOB_NOT_FOUND" && request.allow_missing => {
                    let only = request.validate_only;
                    return self.make(caller, &name, patch, None, only, Violations::new()).await;
                }
                Err(error) => return Err(error),
            };
            check_etag(&current, &patch.etag)?;
            let whole = request.update_mask.as_ref().is_some_and(|m| m.paths == ["*"]);
            refuse_unreadable(&current, whole)?;
            let now = self.api.clock.now();
            let mask = request.update_mask.as_ref();
            let merged = mask::merge(&to_proto(&current), patch, mask, OUTPUT_ONLY)?;
            let mut bad = Violations::new();
            let max = self.api.settings.params_bytes_max;
            let spec = spec_from_proto(&merged, max, &mut bad);
            let changed = self.store_spec(caller, current, spec, bad, request.validate_only, now);
            match changed.await? {
                Some(job) => return Ok(shown(&job, now)),
                None if patch.etag.is_empty() => {}
                None => return Err(ApiError::etag_mismatch(&patch.name)),
            }
        }
        Err(busy(&patch.name))
    }

    pub(super) async fn rollback(
        &self,
        caller: &Caller,
        request: pb::RollbackJobRequest,
    ) -> ApiResult<pb::Job> {
        for _ in 0..TRIES_MAX {
            let current = self.find_named("name", &request.name).await?;
            check_etag(&current, &request.etag)?;
            let spec = cancel::revision_spec(&self.api, current.id, request.revision).await?;
            let Some(spec) = spec else {
                return Err(ApiError::invalid(
                    "revision",
                    FIELD_INVALID,
                    format!("{} is no revision of {}; list them", request.revision, request.name),
                ));
            };
            let now = self.api.clock.now();
            let spec = spec.as_ref().clone();
            let changed =
                self.store_spec(caller, current, spec, Violations::new(), false, now).await?;
            match changed {
                Some(job) => return Ok(shown(&job, now)),
                None if request.etag.is_empty() => {}
                None => return Err(ApiError::etag_mismatch(&request.name)),
            }
        }
        Err(busy(&request.name))
    }

    /// Checks the job's new content and stores it as a revision, unless it is what the job has.
    /// `None` when the job was changed by somebody else meanwhile.
    async fn store_spec(
        &self,
        caller: &Caller,
        mut current: Job,
        mut spec: JobSpec,
        mut bad: Violations,
        validate_only: bool,
        now: chrono::DateTime<chrono::Utc>,
    ) -> ApiResult<Option<Job>> {
        current.calendars = calendars::of_job(&self.api, caller, &current, &spec).await?;
        let compiled = validate::job(&current, &mut spec, now, &mut bad);
        let name = JobName { app: current.app_name.to_string(), job: current.name.to_string() };
        self.check_chains(caller, &name, &current.spec, &spec, &mut bad).await?;
        bad.finish()?;
        if *current.spec == spec && current.problem.is_empty() {
            return Ok(Some(current));
        }
        let restart_schedule = current.spec.schedules != spec.schedules;
        let state = match current.state {
            JobState::Expired if restart_schedule => {
                Some((state_by_schedules(&current, &spec, now), None, String::new()))
            }
            _ => None,
        };
        if validate_only {
            let effective_from = if restart_schedule { now } else { current.effective_from };
            let state = state.map_or(current.state, |(state, ..)| state);
            let spec = spec.into();
            return Ok(Some(Job { spec, state, effective_from, next_fire_at: None, ..current }));
        }
        let change = JobChange {
            version: Some(current.version),
            spec: Some(spec),
            state,
            restart_schedule,
            ..JobChange::by(caller.in_words())
        };
        match self.api.store.change_job(current.id, &change, replan(compiled), now).await {
            Ok(job) => {
                let (name, revision) = (job.resource_name(), job.revision);
                tracing::info!(job = name, revision, "job changed");
                Ok(Some(job))
            }
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(ApiError::of_store(Kind::Job, current.resource_name(), error)),
        }
    }
}

/// Fails unless the etag is empty or the job's own.
pub(super) fn check_etag(job: &Job, given: &str) -> ApiResult<()> {
    if given.is_empty() || given == etag::of_job(job) {
        return Ok(());
    }
    Err(ApiError::etag_mismatch(&job.resource_name()))
}

/// A job whose stored content can't be read can only be replaced as a whole.
fn refuse_unreadable(job: &Job, whole: bool) -> ApiResult<()> {
    if whole || !job.spec.handler.is_empty() {
        return Ok(());
    }
    Err(ApiError::precondition(
        "JOB_UNREADABLE",
        "JOB",
        job.resource_name(),
        format!(
            "its stored content can't be read ({}); replace it with update_mask *",
            job.problem
        ),
    ))
}

fn no_job() -> ApiError {
    ApiError::invalid("job", FIELD_INVALID, "is missing; give its name and what is to change")
}

fn busy(name: &str) -> ApiError {
    ApiError::aborted("CONFLICT", format!("{name} is being changed all the time; repeat the call"))
}
