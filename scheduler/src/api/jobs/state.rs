//! Pausing and resuming jobs.

use clawjob_proto::v1 as pb;

use super::{
    JobsService,
    change::{replan, shown, state_by_schedules},
};
use crate::{
    api::{
        caller::Caller,
        convert::time,
        status::{ApiError, ApiResult, Kind, Violations},
        validate,
    },
    model::{
        job::{Job, JobState},
        plan::resumed_fires,
        run::NewRun,
    },
    store::ops::{JobChange, Replan, ReplanInput},
};

/// Longest reason of a pause or a cancel, in characters.
pub(in crate::api) const REASON_MAX: usize = 256;

impl JobsService {
    pub(super) async fn pause(
        &self,
        caller: &Caller,
        request: pb::PauseJobRequest,
    ) -> ApiResult<pb::Job> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        validate::text("reason", &request.reason, REASON_MAX, &mut bad);
        let until =
            request.until_time.as_ref().and_then(|at| time::instant("until_time", at, &mut bad));
        if until.is_some_and(|until| until <= now) {
            bad.invalid("until_time", "has passed; give a later instant, or none");
        }
        bad.finish()?;
        let job = self.find_named("name", &request.name).await?;
        let as_asked = job.pause_until == until && job.pause_reason == request.reason;
        if job.state == JobState::Paused && as_asked {
            return Ok(shown(&job, now));
        }
        let change = JobChange {
            state: Some((JobState::Paused, until, request.reason)),
            drop_due: true,
            ..JobChange::by(caller.in_words())
        };
        self.set_state(&job, change, replan(Vec::new()), "job paused").await
    }

    pub(super) async fn resume(
        &self,
        caller: &Caller,
        request: pb::ResumeJobRequest,
    ) -> ApiResult<pb::Job> {
        let now = self.api.clock.now();
        let job = self.find_named("name", &request.name).await?;
        if job.state != JobState::Paused {
            return Ok(shown(&job, now));
        }
        let state = state_by_schedules(&job, &job.spec, now);
        let change = JobChange {
            state: Some((state, None, String::new())),
            restart_schedule: true,
            ..JobChange::by(caller.in_words())
        };
        self.set_state(&job, change, Box::new(resumed), "job resumed").await
    }

    async fn set_state(
        &self,
        job: &Job,
        change: JobChange,
        replan: Replan,
        what: &'static str,
    ) -> ApiResult<pb::Job> {
        let now = self.api.clock.now();
        let changed = self.api.store.change_job(job.id, &change, replan, now).await;
        let changed = changed.map_err(|e| ApiError::of_store(Kind::Job, job.resource_name(), e))?;
        tracing::info!(job = changed.resource_name(), "{what}");
        Ok(shown(&changed, now))
    }
}

/// Plans a resumed job. One that can't be compiled has its problem shown and plans nothing.
fn resumed(input: &ReplanInput) -> Vec<NewRun> {
    resumed_fires(&input.job, input.partition.planned_until)
}
