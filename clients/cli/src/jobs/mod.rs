//! `clawjob jobs`.

mod backfill;
mod change;
mod flags;
mod next;
mod offer;
mod revisions;
mod schedule;
mod show;

use clap::{Args, Subcommand};
use clawjob_proto::v1::{
    DeleteJobRequest, GetJobRequest, Job, ListJobsRequest, PauseJobRequest, ResumeJobRequest,
    RollbackJobRequest,
};
use prost_types::Duration;

use crate::{
    client::{Call, Client, jobs},
    context::Context,
    error::CliError,
    filter,
    names::{self, Kind},
    output,
    paging::{self, ListArgs, Page},
    text, time,
    values::{self, JOB_STATES},
};

pub(crate) use backfill::JobBackfillArgs;
pub(crate) use change::{JobCreateArgs, JobTriggerArgs, JobUpdateArgs};
pub(crate) use change::{create_job, write};
pub(crate) use flags::JobFlags;
pub(crate) use next::JobNextArgs;
pub(crate) use offer::warn_of_handlers;
pub(crate) use revisions::{JobDiffArgs, JobRevisionsArgs};

/// Commands about jobs. A name is APP/JOB, or JOB with --app.
#[derive(Subcommand, Debug, Clone)]
pub enum JobsCommand {
    /// Create a job from flags, or the jobs of a file
    Create(Box<JobCreateArgs>),
    /// Show one job
    Get {
        /// APP/JOB
        name: String,
    },
    /// List jobs
    List(JobsListArgs),
    /// Change a job: only what is named
    Update(Box<JobUpdateArgs>),
    /// Delete a job
    Delete {
        /// APP/JOB
        name: String,
        /// Kill its runs in flight instead of letting them finish
        #[arg(long)]
        force: bool,
        /// Delete without asking, as where there is no terminal to ask on
        #[arg(long, short = 'y')]
        yes: bool,
        /// Only if it is still at this etag
        #[arg(long, default_value = "", hide_default_value = true)]
        etag: String,
    },
    /// Stop the schedule; `trigger` still works
    Pause(JobPauseArgs),
    /// Let the schedule fire again; what passed meanwhile stays unserved
    Resume {
        /// APP/JOB
        name: String,
    },
    /// Run it once, now or at a given time
    Trigger(JobTriggerArgs),
    /// Show when it fires next
    Next(JobNextArgs),
    /// Run it for the fire times of a past range that have no run
    Backfill(JobBackfillArgs),
    /// List its versions: who changed it, and when
    Revisions(JobRevisionsArgs),
    /// Show what changed from one version to another
    Diff(JobDiffArgs),
    /// Make an earlier version current again
    Rollback {
        /// APP/JOB
        name: String,
        /// The revision's number
        #[arg(value_name = "REVISION", required_unless_present = "revision")]
        number: Option<u64>,
        /// The same as a flag
        #[arg(long, value_name = "REVISION", conflicts_with = "number")]
        revision: Option<u64>,
        /// Only if it is still at this etag
        #[arg(long, default_value = "", hide_default_value = true)]
        etag: String,
    },
}

/// What `jobs list` takes.
#[derive(Args, Debug, Clone)]
pub struct JobsListArgs {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = values::one_of(&JOB_STATES))]
    state: Option<i32>,
    /// Only jobs of this handler
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// Only jobs with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::pair)]
    labels: Vec<(String, String)>,
    /// Only those that match, such as 'handler = "hello" AND labels.team = "a"'
    #[arg(long)]
    filter: Option<String>,
    /// Such as 'next_fire_time desc'
    #[arg(long, default_value = "", hide_default_value = true)]
    order_by: String,
    #[command(flatten)]
    list: ListArgs,
}

/// What `jobs pause` takes.
#[derive(Args, Debug, Clone)]
pub struct JobPauseArgs {
    /// APP/JOB
    name: String,
    /// Why, for the others
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// It resumes by itself at this instant
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// It resumes by itself after this time
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    #[arg(value_parser = values::duration)]
    length: Option<Duration>,
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: JobsCommand) -> Result<(), CliError> {
    match command {
        JobsCommand::Create(args) => change::create(ctx, *args).await,
        JobsCommand::Get { name } => {
            let name = ctx.name(Kind::Job, &name)?;
            let job = get(&mut ctx.client, name).await?;
            print(ctx, &job)
        }
        JobsCommand::List(args) => list(ctx, args).await,
        JobsCommand::Update(args) => change::update(ctx, *args).await,
        JobsCommand::Delete { name, force, yes, etag } => {
            let name = ctx.name(Kind::Job, &name)?;
            let question = format!("delete job {}?", text::line(&names::short(&name)));
            if ctx.term.interactive && !yes && !ctx.term.confirms(&question)? {
                return Err(CliError::usage("not confirmed; nothing was changed"));
            }
            delete(&mut ctx.client, name.clone(), etag, force).await?;
            ctx.done(&format!("deleted {}", names::short(&name)))
        }
        JobsCommand::Pause(args) => pause_until(ctx, args).await,
        JobsCommand::Resume { name } => {
            let name = ctx.name(Kind::Job, &name)?;
            let job = resume(&mut ctx.client, name).await?;
            print(ctx, &job)
        }
        JobsCommand::Trigger(args) => change::trigger(ctx, args).await,
        JobsCommand::Next(args) => next::run(ctx, args).await,
        JobsCommand::Backfill(args) => backfill::run(ctx, args).await,
        JobsCommand::Revisions(args) => revisions::list(ctx, args).await,
        JobsCommand::Diff(args) => revisions::diff(ctx, args).await,
        JobsCommand::Rollback { name, number, revision, etag } => {
            let revision = revision.or(number).unwrap_or_default();
            let rq = RollbackJobRequest { name: ctx.name(Kind::Job, &name)?, revision, etag };
            let rpc = async |ch, rq| jobs(ch).rollback_job(rq).await;
            let job = ctx.client.call(Call::ONCE, rq, rpc).await?;
            print(ctx, &job)
        }
    }
}

fn print(ctx: &mut Context<'_>, job: &Job) -> Result<(), CliError> {
    output::message(ctx.term, ctx.format, job, show::fields)
}

async fn list(ctx: &mut Context<'_>, args: JobsListArgs) -> Result<(), CliError> {
    let mut terms = filter::Terms::new(args.filter.as_deref());
    terms.any_enum("state", "clawjob.v1.Job.State", args.state.as_slice());
    terms.equal("handler", args.handler.as_deref());
    for (key, value) in &args.labels {
        terms.label(key, value);
    }
    let (parent, filter, order_by) = (ctx.parent(), terms.text(), args.order_by);
    paging::print_list(ctx, &args.list, "jobs", &show::JOBS, async |client, size, token| {
        let rq = ListJobsRequest {
            parent: parent.clone(),
            page_size: size,
            page_token: token,
            filter: filter.clone(),
            order_by: order_by.clone(),
        };
        page(client, rq).await
    })
    .await
}

async fn pause_until(ctx: &mut Context<'_>, args: JobPauseArgs) -> Result<(), CliError> {
    let until_time = match (&args.until, &args.length) {
        (Some(text), _) => {
            let at = values::instant(text, &ctx.term.zone);
            Some(at.map_err(|fault| CliError::usage(format!("--until: {fault}")))?)
        }
        (None, Some(length)) => {
            let end = time::after(time::now(), length);
            let end = end.map_err(|fault| CliError::usage(format!("--for: {fault}")))?;
            Some(time::to_proto(end))
        }
        (None, None) => None,
    };
    let name = ctx.name(Kind::Job, &args.name)?;
    let rq = PauseJobRequest { name, reason: args.reason, until_time };
    let job = pause(&mut ctx.client, rq).await?;
    print(ctx, &job)
}

/// One job by its full name.
///
/// # Errors
/// What the server says.
pub(crate) async fn get(client: &mut Client, name: String) -> Result<Job, CliError> {
    let rpc = async |ch, rq| jobs(ch).get_job(rq).await;
    client.call(Call::SAFE, GetJobRequest { name }, rpc).await
}

/// One page of jobs.
///
/// # Errors
/// What the server says.
pub(crate) async fn page(client: &mut Client, rq: ListJobsRequest) -> Result<Page<Job>, CliError> {
    let rpc = async |ch, rq| jobs(ch).list_jobs(rq).await;
    let page = client.call(Call::SAFE, rq, rpc).await?;
    Ok((page.jobs, page.next_page_token))
}

/// Stops a job's schedule.
///
/// # Errors
/// What the server says.
pub(crate) async fn pause(client: &mut Client, rq: PauseJobRequest) -> Result<Job, CliError> {
    let rpc = async |ch, rq| jobs(ch).pause_job(rq).await;
    client.call(Call::SAFE, rq, rpc).await
}

/// Lets a job's schedule fire again.
///
/// # Errors
/// What the server says.
pub(crate) async fn resume(client: &mut Client, name: String) -> Result<Job, CliError> {
    let rpc = async |ch, rq| jobs(ch).resume_job(rq).await;
    client.call(Call::SAFE, ResumeJobRequest { name }, rpc).await
}

/// Deletes a job; a repeat would say NOT_FOUND, so it is sent once.
///
/// # Errors
/// What the server says.
pub(crate) async fn delete(
    client: &mut Client,
    name: String,
    etag: String,
    force: bool,
) -> Result<(), CliError> {
    let rpc = async |ch, rq| jobs(ch).delete_job(rq).await;
    client.call(Call::ONCE, DeleteJobRequest { name, etag, force }, rpc).await
}
