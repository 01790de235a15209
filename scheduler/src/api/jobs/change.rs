//! What all changes of jobs share: the runs planned anew, the answer.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use clawjob_proto::v1 as pb;

use crate::{
    api::{convert, validate},
    model::{
        job::{Job, JobSpec, JobState},
        plan,
        schedule::Compiled,
    },
    store::ops::{NewRun, Replan, ReplanInput},
};

/// Tries of a change whose job is changed by others at the same time.
pub(super) const TRIES_MAX: usize = 8;

/// Runs that a change plans at most: what its schedules spread.
const REPLAN_MAX: usize = validate::SCHEDULES_MAX * (validate::SPREAD_FIRES_MAX + 100);

/// Plans the changed job anew by its schedules. Calendars are read within the transaction: what
/// they cover may have changed since the schedules were checked.
pub(super) fn replan(compiled: Vec<Arc<Compiled>>) -> Replan {
    Box::new(move |input| {
        let until = input.partition.planned_until;
        let anew = (!input.job.spec.calendars().is_empty())
            .then(|| plan::compile_all(&input.job).unwrap_or_default());
        let compiled = anew.as_ref().unwrap_or(&compiled);
        plan::replan(&input.job, compiled, input.now, until, REPLAN_MAX)
    })
}

/// Plans a job anew whose calendars changed.
pub(in crate::api) fn replan_each(input: &ReplanInput) -> Vec<NewRun> {
    let compiled = plan::compile_all(&input.job).unwrap_or_default();
    plan::replan(&input.job, &compiled, input.now, input.partition.planned_until, REPLAN_MAX)
}

/// A job as shown at `now`, with the next fire time worked out where the stored one, which the
/// owner refreshes now and then, is missing or past. One that does not fire has none.
pub(in crate::api) fn shown(job: &Job, now: DateTime<Utc>) -> pb::Job {
    let mut shown = job.clone();
    if job.state != JobState::Active || !job.problem.is_empty() {
        shown.next_fire_at = None;
    } else if job.next_fire_at.is_none_or(|at| at <= now) {
        match plan::compile_all(job) {
            Ok(compiled) => {
                shown.next_fire_at = plan::next_fire(job, &compiled, now);
                if shown.next_fire_at.is_none() {
                    shown.problem = {
                        let from = now.max(job.effective_from);
                        plan::shut_out(job.created_at, &compiled, from).unwrap_or_default()
                    };
                }
            }
            Err(faults) => shown.problem = plan::in_words(faults.iter().map(|(_, fault)| fault)),
        }
    }
    // Most jobs have no spread, and need not be compiled for it.
    let spread = job.spec.schedules.iter().any(|schedule| !schedule.spread.is_zero());
    let compiled = spread.then(|| plan::compile_all(job).ok()).flatten().unwrap_or_default();
    let due = shown.next_fire_at.map(|at| plan::due_at(&job.name, job.created_at, &compiled, at));
    let next_due_time = due.map(convert::time::instant_to_proto);
    pb::Job { next_due_time, ..convert::job::to_proto(&shown) }
}

/// The state of a job whose schedules begin anew: expired when none of them fires any more.
pub(super) fn state_by_schedules(job: &Job, spec: &JobSpec, now: DateTime<Utc>) -> JobState {
    let job = Job { spec: Arc::new(spec.clone()), ..job.clone() };
    let over = |compiled: &Arc<Compiled>| compiled.never_fires(now, job.created_at);
    match plan::compile_all(&job) {
        Ok(compiled) if !compiled.is_empty() && compiled.iter().all(over) => JobState::Expired,
        _ => JobState::Active,
    }
}
