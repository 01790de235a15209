//! `jobs backfill`: runs for the fire times of a past range.

use clap::Args;
use clawjob_proto::v1::{BackfillJobRequest, BackfillJobResponse};

use crate::{
    client::{self, Call, jobs},
    context::Context,
    error::CliError,
    names::{self, Kind},
    output, show, values,
};

/// What `jobs backfill` takes.
#[derive(Args, Debug, Clone)]
pub struct JobBackfillArgs {
    /// APP/JOB
    name: String,
    /// From this instant on
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Up to this instant, itself left out; not in the future
    #[arg(long, value_name = "TIME")]
    to: String,
    /// How many of these runs at once
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    max_concurrency: u32,
    /// Only count: nothing runs
    #[arg(long)]
    dry_run: bool,
    /// The same id again within a day is the same backfill [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// # Errors
/// Instants that can't be read, both at once; what the server says.
pub(super) async fn run(ctx: &mut Context<'_>, args: JobBackfillArgs) -> Result<(), CliError> {
    let mut faults = Vec::new();
    let mut instant = |flag: &str, text: &str| {
        let read = values::instant(text, &ctx.term.zone);
        read.map_err(|fault| faults.push(format!("{flag}: {fault}"))).ok()
    };
    let (start_time, end_time) = (instant("--from", &args.from), instant("--to", &args.to));
    if !faults.is_empty() {
        return Err(CliError::Usage(faults));
    }
    let name = ctx.name(Kind::Job, &args.name)?;
    let rq = BackfillJobRequest {
        name: name.clone(),
        start_time,
        end_time,
        max_concurrency: args.max_concurrency,
        validate_only: args.dry_run,
        request_id: args.request_id.unwrap_or_else(client::request_id),
    };
    let rpc = async |ch, rq| jobs(ch).backfill_job(rq).await;
    let done: BackfillJobResponse = ctx.client.call(Call::SAFE, rq, rpc).await?;
    let what = if args.dry_run { "to be made" } else { "made" };
    output::message(ctx.term, ctx.format, &done, |done, _| {
        vec![
            ("job", names::short(&name).into()),
            ("runs", format!("{} {what}", done.run_count).into()),
            (
                "left out",
                format!("{} with a run", show::counted(done.already_run_count, "fire time")).into(),
            ),
        ]
    })
}
