//! `jobs create`, `jobs update` and `jobs trigger`.

use clap::Args;
use clawjob_proto::v1::{
    CreateJobRequest, Job, Payload, PreviewScheduleRequest, Run, TriggerJobRequest,
    UpdateJobRequest, job,
};
use prost_types::FieldMask;
use tonic::Code;

use super::{JobFlags, get, print, show, warn_of_handlers};
use crate::{
    apply,
    args::OutputFormat,
    client::{self, Call, Client, jobs},
    context::Context,
    error::CliError,
    names::{self, Kind},
    output::ListPrinter,
    runs, text, values,
};

/// How often an update is made anew because the job changed between reading and writing it.
const UPDATE_TRIES_MAX: u32 = 3;

/// The groups of flags that a file stands in for.
const FLAG_GROUPS: [&str; 5] =
    ["ScheduleFlags", "WhatFlags", "PlaceFlags", "FailFlags", "LoadFlags"];

/// What `jobs create` takes.
#[derive(Args, Debug, Clone)]
pub struct JobCreateArgs {
    /// APP/JOB
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// Create the jobs of this file (- for stdin), in the shape that `apply` takes
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = FLAG_GROUPS)]
    file: Option<String>,
    /// Create it paused
    #[arg(long, conflicts_with = "file")]
    paused: bool,
    /// Only check it: nothing is stored
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    flags: JobFlags,
}

/// What `jobs update` takes.
#[derive(Args, Debug, Clone)]
pub struct JobUpdateArgs {
    /// APP/JOB
    name: String,
    /// Only check it: nothing is stored
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    flags: JobFlags,
}

/// What `jobs trigger` takes.
#[derive(Args, Debug, Clone)]
pub struct JobTriggerArgs {
    /// APP/JOB
    name: String,
    /// Params in place of the job's own: JSON, @FILE with JSON, or - for stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// Run it at this instant [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// A label of the run; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::pair)]
    labels: Vec<(String, String)>,
    /// Send it to this executor only
    #[arg(long, value_name = "EXECUTOR")]
    executor: Option<String>,
    /// The same id again within a day is the same run [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    wait: runs::WaitFlags,
}

pub(super) async fn create(ctx: &mut Context<'_>, args: JobCreateArgs) -> Result<(), CliError> {
    if let Some(file) = &args.file {
        return create_from_file(ctx, file, args.validate_only).await;
    }
    let name = ctx.name(Kind::Job, args.name.as_deref().unwrap_or_default())?;
    let mut job = Job { name, ..Job::default() };
    if args.paused {
        job.state = job::State::Paused.into();
    }
    args.flags.apply(&mut job, ctx.term, ctx.app.as_deref())?;
    if job.handler.is_empty() {
        return Err(CliError::usage(
            "--handler: missing; `clawjob handlers list` shows those on offer",
        ));
    }
    let job = create_job(&mut ctx.client, job, args.validate_only).await?;
    warn_of_handlers(ctx, [&job]).await;
    print(ctx, &job)?;
    remarks(ctx, &job).await;
    Ok(())
}

/// What the server remarks on the schedules of a new job: a minute that is crowded, an hour that a
/// clock change leaves out. The job is made all the same, whatever becomes of the question.
async fn remarks(ctx: &mut Context<'_>, job: &Job) {
    if ctx.format != OutputFormat::Table {
        return;
    }
    let parent = names::split(&job.name).map(|(app, _)| format!("apps/{app}"));
    for schedule in &job.schedules {
        let rq = PreviewScheduleRequest {
            parent: parent.clone().unwrap_or_default(),
            schedule: Some(schedule.clone()),
            count: 2,
            after: None,
            job: job.name.clone(),
        };
        let rpc = async |ch, rq| jobs(ch).preview_schedule(rq).await;
        let Ok(preview) = ctx.client.call(Call::ONCE, rq, rpc).await else { return };
        for warning in &preview.warnings {
            ctx.term.remark(&format!("note: {}", text::line(warning)));
        }
    }
}

async fn create_from_file(
    ctx: &mut Context<'_>,
    file: &str,
    validate_only: bool,
) -> Result<(), CliError> {
    let wanted = apply::read(ctx, &[file.to_owned()])?.jobs;
    if let [job] = wanted.as_slice() {
        let job = create_job(&mut ctx.client, job.clone(), validate_only).await?;
        warn_of_handlers(ctx, [&job]).await;
        return print(ctx, &job);
    }
    let mut printer = ListPrinter::new(ctx.format, "jobs", &show::JOBS);
    let mut created = Vec::with_capacity(wanted.len());
    for job in wanted {
        let job = create_job(&mut ctx.client, job, validate_only).await?;
        printer.page(ctx.term, std::slice::from_ref(&job))?;
        created.push(job);
    }
    warn_of_handlers(ctx, &created).await;
    printer.end(ctx.term, "")
}

/// Creates a job under its full name.
///
/// # Errors
/// What the server says.
pub(crate) async fn create_job(
    client: &mut Client,
    job: Job,
    validate_only: bool,
) -> Result<Job, CliError> {
    let (app, id) = names::split(&job.name)
        .ok_or_else(|| CliError::usage(format!("job {:?}: not a name", job.name)))?;
    let rq = CreateJobRequest {
        parent: format!("apps/{app}"),
        job_id: id.into(),
        request_id: client::request_id(),
        validate_only,
        job: Some(job),
    };
    let rpc = async |ch, rq| jobs(ch).create_job(rq).await;
    client.call(Call::SAFE, rq, rpc).await
}

/// Reads the job, changes it by the flags and writes it back under its etag, so that a change by
/// somebody else in between is never overwritten.
pub(super) async fn update(ctx: &mut Context<'_>, args: JobUpdateArgs) -> Result<(), CliError> {
    let name = ctx.name(Kind::Job, &args.name)?;
    // Stdin can be read once only, whatever is repeated below.
    let mut flags = args.flags;
    if let Some(params) = &mut flags.what.params {
        let payload = values::params(params, ctx.term)?;
        *params = String::from_utf8_lossy(&payload.data).into_owned();
    }
    for tried in 1.. {
        let mut job = get(&mut ctx.client, name.clone()).await?;
        let paths = flags.apply(&mut job, ctx.term, ctx.app.as_deref())?;
        if paths.is_empty() {
            return Err(CliError::usage("nothing to change: give at least one option"));
        }
        let new_handler = paths.iter().any(|path| path == "handler");
        let rq = UpdateJobRequest {
            job: Some(job),
            update_mask: Some(FieldMask { paths }),
            allow_missing: false,
            validate_only: args.validate_only,
        };
        match write(&mut ctx.client, rq).await {
            Ok(job) => {
                if new_handler {
                    warn_of_handlers(ctx, [&job]).await;
                }
                return print(ctx, &job);
            }
            Err(CliError::Status(status))
                if status.code() == Code::Aborted && tried < UPDATE_TRIES_MAX => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Sends an update. Under an etag a repeat that arrives twice is refused, never doubled.
///
/// # Errors
/// What the server says.
pub(crate) async fn write(client: &mut Client, rq: UpdateJobRequest) -> Result<Job, CliError> {
    let call = if rq.validate_only { Call::SAFE } else { Call::ONCE };
    let rpc = async |ch, rq| jobs(ch).update_job(rq).await;
    client.call(call, rq, rpc).await
}

pub(super) async fn trigger(ctx: &mut Context<'_>, args: JobTriggerArgs) -> Result<(), CliError> {
    let mut faults = Vec::new();
    let name = ctx.name(Kind::Job, &args.name)?;
    let mut params: Option<Payload> = None;
    match args.params.as_deref().map(|text| values::params(text, ctx.term)) {
        Some(Ok(payload)) => params = Some(payload),
        Some(Err(e)) => faults.push(e.to_string()),
        None => {}
    }
    let run_time = match args.at.as_deref().map(|text| values::instant(text, &ctx.term.zone)) {
        Some(Ok(at)) => Some(at),
        Some(Err(fault)) => {
            faults.push(format!("--at: {fault}"));
            None
        }
        None => None,
    };
    let app = names::split(&name).map(|(app, _)| app);
    let executor = args.executor.map(|text| names::full(Kind::Executor, &text, app));
    let executor = executor.transpose().unwrap_or_else(|e| {
        faults.push(format!("--executor: {e}"));
        None
    });
    if !faults.is_empty() {
        return Err(CliError::Usage(faults));
    }
    let rq = TriggerJobRequest {
        name,
        params,
        request_id: args.request_id.unwrap_or_else(client::request_id),
        run_time,
        labels: args.labels.into_iter().collect(),
        executor: executor.unwrap_or_default(),
    };
    let rpc = async |ch, rq| jobs(ch).trigger_job(rq).await;
    let run: Run = ctx.client.call(Call::SAFE, rq, rpc).await?;
    runs::print_or_wait(ctx, run, &args.wait).await
}
