//! `clawjob runs`.

mod logs;
mod shards;
mod show;
mod wait;
mod watch;

use clap::{Args, Subcommand};
use clawjob_proto::v1::{
    CancelRunRequest, GetRunRequest, ListRunsRequest, RerunRunRequest, Run, RunView,
};
use prost_types::Duration;

use crate::{
    client::{self, Call, Client, runs},
    context::Context,
    error::CliError,
    filter,
    names::{self, Kind},
    output,
    paging::{self, ListArgs},
    time,
    values::{self, RUN_STATES},
};

pub(crate) use logs::RunLogsArgs;
pub(crate) use wait::{WaitFlags, print_or_wait};
pub(crate) use watch::RunWatchArgs;

/// Commands about runs. A name is APP/RUN, or RUN with --app.
#[derive(Subcommand, Debug, Clone)]
pub enum RunsCommand {
    /// List runs, newest first
    List(RunsListArgs),
    /// Show one run with its attempts, or its shards
    Get {
        /// APP/RUN
        name: String,
    },
    /// Stop a run; one that has ended stays as it is
    Cancel {
        /// APP/RUN
        name: String,
        /// Why, for the others
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        /// Time between asking the handler to stop and giving it up [default: the job's]
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        grace: Option<Duration>,
    },
    /// Run an ended one again
    Rerun(RunRerunArgs),
    /// Show what a run wrote
    Logs(RunLogsArgs),
    /// Wait until a run has ended; exit code 0 only if it SUCCEEDED
    Wait {
        /// APP/RUN
        name: String,
        /// Stop waiting after this time, with exit code 7
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        timeout: Option<Duration>,
    },
    /// Show changes as they happen, one line each
    Watch(RunWatchArgs),
}

/// Which runs are meant.
#[derive(Args, Debug, Clone)]
pub(crate) struct RunFilter {
    /// Only runs of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only runs in this state; repeatable
    #[arg(long, value_name = "STATE", value_parser = values::one_of(&RUN_STATES))]
    state: Vec<i32>,
    /// Only the shards of this run; other lists leave shards out
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Only runs with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::pair)]
    labels: Vec<(String, String)>,
    /// Only those that match, such as 'create_time > "2026-03-01T00:00:00Z"'
    #[arg(long)]
    filter: Option<String>,
}

impl RunFilter {
    fn text(&self, ctx: &Context<'_>) -> Result<String, CliError> {
        let mut terms = filter::Terms::new(self.filter.as_deref());
        let job = self.job.as_deref().map(|text| ctx.name(Kind::Job, text)).transpose()?;
        terms.equal("job", job.as_deref());
        terms.any_enum("state", "clawjob.v1.RunState", &self.state);
        let parent = self.parent.as_deref().map(|text| ctx.name(Kind::Run, text)).transpose()?;
        terms.equal("parent", parent.as_deref());
        for (key, value) in &self.labels {
            terms.label(key, value);
        }
        Ok(terms.text())
    }
}

/// What `runs list` takes.
#[derive(Args, Debug, Clone)]
pub struct RunsListArgs {
    #[command(flatten)]
    which: RunFilter,
    /// Only runs made in the last so long
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    since: Option<Duration>,
    /// Such as 'fire_time desc'
    #[arg(long, default_value = "", hide_default_value = true)]
    order_by: String,
    /// With params, output and attempts (in JSON and YAML)
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    list: ListArgs,
}

/// What `runs rerun` takes.
#[derive(Args, Debug, Clone)]
pub struct RunRerunArgs {
    /// APP/RUN
    name: String,
    /// Params in place of the run's own: JSON, @FILE with JSON, or - for stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// The same id again within a day is the same run [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    wait: WaitFlags,
}

/// # Errors
/// What the server or the output says, and a waited run that did not succeed.
pub(crate) async fn run(ctx: &mut Context<'_>, command: RunsCommand) -> Result<(), CliError> {
    match command {
        RunsCommand::List(args) => list(ctx, args).await,
        RunsCommand::Get { name } => {
            let name = ctx.name(Kind::Run, &name)?;
            let run = get(&mut ctx.client, name, RunView::Full).await?;
            print(ctx, &run)?;
            shards::print(ctx, &run).await
        }
        RunsCommand::Cancel { name, reason, grace } => {
            let rq = CancelRunRequest { name: ctx.name(Kind::Run, &name)?, reason, grace };
            let rpc = async |ch, rq| runs(ch).cancel_run(rq).await;
            let run = ctx.client.call(Call::SAFE, rq, rpc).await?;
            print(ctx, &run)
        }
        RunsCommand::Rerun(args) => rerun(ctx, args).await,
        RunsCommand::Logs(args) => logs::run(ctx, args).await,
        RunsCommand::Wait { name, timeout } => {
            let name = ctx.name(Kind::Run, &name)?;
            wait::until_ended(ctx, name, timeout).await
        }
        RunsCommand::Watch(args) => watch::run(ctx, args).await,
    }
}

fn print(ctx: &mut Context<'_>, run: &Run) -> Result<(), CliError> {
    output::message(ctx.term, ctx.format, run, show::fields)?;
    if ctx.format == crate::args::OutputFormat::Table {
        show::details(ctx.term, run)?;
    }
    Ok(())
}

async fn list(ctx: &mut Context<'_>, args: RunsListArgs) -> Result<(), CliError> {
    let mut filter = args.which.text(ctx)?;
    if let Some(since) = &args.since {
        let length = jiff::SignedDuration::new(since.seconds, since.nanos);
        let from = time::now().checked_sub(length);
        let from = from.map_err(|e| CliError::usage(format!("--since: {e}")))?;
        let mut terms = filter::Terms::new(Some(&filter));
        terms.after("create_time", from);
        filter = terms.text();
    }
    let view = if args.full { RunView::Full } else { RunView::Basic };
    let (parent, order_by) = (ctx.parent(), args.order_by);
    paging::print_list(ctx, &args.list, "runs", &show::RUNS, async |client, size, token| {
        let rq = ListRunsRequest {
            parent: parent.clone(),
            page_size: size,
            page_token: token,
            filter: filter.clone(),
            order_by: order_by.clone(),
            view: view.into(),
        };
        let rpc = async |ch, rq| runs(ch).list_runs(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.runs, page.next_page_token))
    })
    .await
}

async fn rerun(ctx: &mut Context<'_>, args: RunRerunArgs) -> Result<(), CliError> {
    let params = args.params.as_deref().map(|text| values::params(text, ctx.term)).transpose()?;
    let name = ctx.name(Kind::Run, &args.name)?;
    let request_id = args.request_id.unwrap_or_else(client::request_id);
    let rq = RerunRunRequest { name, params, request_id };
    let rpc = async |ch, rq| runs(ch).rerun_run(rq).await;
    let run = ctx.client.call(Call::SAFE, rq, rpc).await?;
    print_or_wait(ctx, run, &args.wait).await
}

/// One run by its full name.
async fn get(client: &mut Client, name: String, view: RunView) -> Result<Run, CliError> {
    let rpc = async |ch, rq| runs(ch).get_run(rq).await;
    client.call(Call::SAFE, GetRunRequest { name, view: view.into() }, rpc).await
}

/// The failure that stands for a run's end, unless it succeeded.
fn judge(run: &Run) -> Result<(), CliError> {
    use clawjob_proto::v1::RunState::Succeeded;
    if run.state == i32::from(Succeeded) {
        return Ok(());
    }
    let state = crate::show::run_state(run.state);
    Err(CliError::RunNotSucceeded { run: names::short(&run.name), state })
}
