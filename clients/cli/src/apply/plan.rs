//! What must be done so that the server has what the files want.

use std::collections::BTreeSet;

use clawjob_proto::v1::{AlarmRule, Calendar, Job, UpdateJobRequest, job};
use prost_types::FieldMask;
use tonic::Code;

use super::{
    calendars,
    diff::{self, Change},
    file::Wanted,
    order, rules, walk,
};
use crate::{client::Client, error::CliError, jobs, names, render};

/// What becomes of one job.
#[derive(Debug)]
pub(super) enum Action {
    /// It is not there yet.
    Create(Box<Job>),
    /// Fields differ, the state may.
    Update {
        /// What the file wants.
        job: Box<Job>,
        /// What changes, the server's defaults included.
        changes: Vec<Change>,
        /// Under this etag only: what was compared is what is replaced.
        etag: String,
        /// The state to bring it to, when that differs.
        state: Option<job::State>,
    },
    /// It is as wanted.
    Keep,
    /// It is in none of the files.
    Delete {
        /// Under this etag only.
        etag: String,
    },
    /// A calendar that is not there yet.
    CreateCalendar(Box<Calendar>),
    /// A calendar whose fields differ.
    UpdateCalendar {
        /// What the file wants, with the etag of what was compared.
        calendar: Box<Calendar>,
        /// What changes.
        changes: Vec<Change>,
    },
    /// A calendar that is in none of the files.
    DeleteCalendar {
        /// Under this etag only.
        etag: String,
    },
    /// An alarm rule that is not there yet.
    CreateRule(Box<AlarmRule>),
    /// An alarm rule whose fields or secrets differ.
    UpdateRule {
        /// What the file wants, with the etag of what was compared.
        rule: Box<AlarmRule>,
        /// What changes.
        changes: Vec<Change>,
    },
    /// An alarm rule that is in none of the files.
    DeleteRule {
        /// Under this etag only.
        etag: String,
    },
}

/// One job, calendar or alarm rule and what becomes of it.
#[derive(Debug)]
pub(super) struct Step {
    /// Full name.
    pub(super) name: String,
    /// What is to be done.
    pub(super) action: Action,
}

/// Compares every wanted job with the server's, which checks each change without making it; so
/// nothing is written unless all of it is valid.
///
/// # Errors
/// All jobs that the server refuses, at once; anything else at once.
pub(super) async fn make(
    client: &mut Client,
    wanted: &Wanted,
    prune: bool,
) -> Result<Vec<Step>, CliError> {
    let mut steps = calendars::compare(client, wanted).await?;
    let is_new = |step: &&Step| matches!(step.action, Action::CreateCalendar(_));
    let mut to_be_made: BTreeSet<String> =
        steps.iter().filter(is_new).map(|step| step.name.clone()).collect();
    let mut refusals = Vec::new();
    for job in order::order(&wanted.jobs).map_err(CliError::Usage)? {
        let action = compare(client, job, &to_be_made).await;
        if let Some(action) = or_refused(action, &job.name, &mut refusals)? {
            if matches!(action, Action::Create(_)) {
                to_be_made.insert(job.name.clone());
            }
            steps.push(Step { name: job.name.clone(), action });
        }
    }
    for rule in &wanted.rules {
        let action = rules::compare(client, rule).await;
        let action = or_refused(action, &rule.name, &mut refusals)?;
        steps.extend(action.map(|action| Step { name: rule.name.clone(), action }));
    }
    if !refusals.is_empty() {
        return Err(CliError::Usage(refusals));
    }
    if prune {
        steps.extend(all_surplus(client, wanted).await?);
    }
    Ok(steps)
}

/// The action; `None` when the server refuses what is wanted, which is noted.
fn or_refused(
    action: Result<Action, CliError>,
    name: &str,
    refusals: &mut Vec<String>,
) -> Result<Option<Action>, CliError> {
    match action {
        Ok(action) => Ok(Some(action)),
        Err(CliError::Status(status)) if is_about_the_job(status.code()) => {
            let why = render::brief(&CliError::Status(status));
            refusals.push(format!("{}: {why}", names::short(name)));
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// What the files lack in the apps that they name; calendars after the jobs that used them.
async fn all_surplus(client: &mut Client, wanted: &Wanted) -> Result<Vec<Step>, CliError> {
    let mut steps = walk::surplus(client, &wanted.rule_apps, &wanted.rules).await?;
    steps.extend(walk::surplus(client, &wanted.apps, &wanted.jobs).await?);
    steps.extend(walk::surplus(client, &wanted.apps, &wanted.calendars).await?);
    Ok(steps)
}

/// Whether an error speaks about one job or rule, and not about the connection or the caller.
fn is_about_the_job(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange)
}

/// The job without the jobs and calendars that are still to be made: the server can check all the
/// rest.
fn checkable(job: &Job, to_be_made: &BTreeSet<String>) -> Job {
    calendars::without_new(&order::without(job, to_be_made), to_be_made)
}

async fn compare(
    client: &mut Client,
    wanted: &Job,
    to_be_made: &BTreeSet<String>,
) -> Result<Action, CliError> {
    let current = match jobs::get(client, wanted.name.clone()).await {
        Ok(current) => current,
        Err(CliError::Status(status)) if status.code() == Code::NotFound => {
            jobs::create_job(client, checkable(wanted, to_be_made), true).await?;
            return Ok(Action::Create(Box::new(wanted.clone())));
        }
        Err(e) => return Err(e),
    };
    let mut job = wanted.clone();
    job.etag.clone_from(&current.etag);
    // An update leaves the state alone; RPCs of its own change it.
    job.state = current.state;
    // The server's answer has its defaults filled in as the current job has them: only that makes
    // the comparison fair.
    let asked = replacement(checkable(&job, to_be_made), true);
    let mut checked = jobs::write(client, asked).await?;
    checked.on_success.clone_from(&job.on_success);
    checked.on_failure.clone_from(&job.on_failure);
    calendars::with_all(&mut checked, &job);
    let changes = diff::changes(&current, &checked)?;
    let state = state_change(&current, wanted);
    if changes.is_empty() && state.is_none() {
        return Ok(Action::Keep);
    }
    Ok(Action::Update { job: Box::new(job), changes, etag: current.etag, state })
}

/// A full replacement of a job: what the file leaves out goes back to its default.
pub(super) fn replacement(job: Job, validate_only: bool) -> UpdateJobRequest {
    UpdateJobRequest {
        job: Some(job),
        update_mask: Some(FieldMask { paths: vec!["*".into()] }),
        allow_missing: false,
        validate_only,
    }
}

/// The state that the file asks for, when the job is not in it.
fn state_change(current: &Job, wanted: &Job) -> Option<job::State> {
    let paused = current.state == i32::from(job::State::Paused);
    match job::State::try_from(wanted.state) {
        Ok(job::State::Paused) if !paused => Some(job::State::Paused),
        Ok(job::State::Active) if paused => Some(job::State::Active),
        _ => None,
    }
}
