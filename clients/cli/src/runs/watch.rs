//! `runs watch`: changes as they happen, over lost connections too.

use std::io::Write as _;

use clap::Args;
use clawjob_proto::{
    json,
    v1::{RunView, WatchRunsRequest, WatchRunsResponse, watch_runs_response::Type},
};

use super::{RunFilter, show};
use crate::{
    args::OutputFormat,
    client::{Call, runs},
    context::Context,
    error::CliError,
    follow::Reconnect,
    names, output,
    show::is_final,
    text,
};

/// What `runs watch` takes.
#[derive(Args, Debug, Clone)]
pub struct RunWatchArgs {
    #[command(flatten)]
    which: RunFilter,
    /// Begin with the runs that have ended already, too
    #[arg(long)]
    all: bool,
    /// Go on from the resumeToken of an earlier event instead of the current state
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    resume_token: String,
    /// End after so many events; 0 means never
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "COUNT")]
    count: u32,
}

pub(super) async fn run(ctx: &mut Context<'_>, args: RunWatchArgs) -> Result<(), CliError> {
    let (parent, filter) = (ctx.parent(), args.which.text(ctx)?);
    let mut token = args.resume_token.clone();
    let mut left = args.count;
    let mut reconnect = Reconnect::default();
    loop {
        let rq = WatchRunsRequest {
            parent: parent.clone(),
            filter: filter.clone(),
            resume_token: token.clone(),
            view: RunView::Basic.into(),
        };
        let rpc = async |ch, rq| runs(ch).watch_runs(rq).await;
        let mut stream = match ctx.client.call(Call::STREAM, rq, rpc).await {
            Ok(stream) => stream,
            Err(e) => {
                reconnect.after(ctx, e).await?;
                continue;
            }
        };
        reconnect.opened();
        loop {
            match stream.message().await {
                Ok(Some(event)) => {
                    reconnect.worked();
                    if !event.resume_token.is_empty() {
                        token.clone_from(&event.resume_token);
                    }
                    if print(ctx, &event, args.all)? && args.count > 0 {
                        left -= 1;
                        if left == 0 {
                            return Ok(());
                        }
                    }
                }
                // The server ends each stream after a while; the token goes on from here.
                Ok(None) => {
                    reconnect.at_end().await;
                    break;
                }
                Err(status) => {
                    reconnect.after(ctx, status.into()).await?;
                    break;
                }
            }
        }
    }
}

/// Prints an event; false when it is not for showing.
fn print(ctx: &mut Context<'_>, event: &WatchRunsResponse, all: bool) -> Result<bool, CliError> {
    // A type that this build does not know is skipped, as the contract asks.
    let Ok(kind) = Type::try_from(event.r#type) else { return Ok(false) };
    let run = event.run.clone().unwrap_or_default();
    match kind {
        Type::Unspecified | Type::Bookmark => return Ok(false),
        Type::Current if !all && is_final(run.state) => return Ok(false),
        _ if ctx.format != OutputFormat::Table => {
            output::event(ctx.term, ctx.format, &json::to_value(event)?)?;
        }
        Type::Reset => {
            ctx.term.remark("some changes were missed; the current state follows");
            return Ok(false);
        }
        Type::Current | Type::Changed => {
            let line = show::line(&run, &ctx.term.zone);
            writeln!(ctx.term.out, "{}", text::line(&line))?;
            ctx.term.out.flush()?;
        }
        Type::Deleted => {
            writeln!(ctx.term.out, "deleted  {}", text::line(&names::short(&run.name)))?;
            ctx.term.out.flush()?;
        }
    }
    Ok(true)
}
