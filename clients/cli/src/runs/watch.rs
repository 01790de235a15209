//! `runs watch`: changes as they happen, over lost connections too.

use std::{io::Write as _, ops::ControlFlow};

use clap::Args;
use clawjob_proto::{
    json,
    v1::{RunView, WatchRunsRequest, WatchRunsResponse, watch_runs_response::Type},
};

use super::{RunFilter, show};
use crate::{
    args::OutputFormat, client::runs, context::Context, error::CliError, follow::Reconnect, names,
    output, show::is_final, text,
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

/// Where a watch stands: the token to go on from, and how many events are still wanted.
struct Place {
    token: String,
    left: Option<u32>,
}

pub(super) async fn run(ctx: &mut Context<'_>, args: RunWatchArgs) -> Result<(), CliError> {
    let (parent, filter) = (ctx.parent(), args.which.text(ctx)?);
    let left = (args.count > 0).then_some(args.count);
    let mut place = Place { token: args.resume_token.clone(), left };
    let request = |place: &Place| WatchRunsRequest {
        parent: parent.clone(),
        filter: filter.clone(),
        resume_token: place.token.clone(),
        view: RunView::Basic.into(),
    };
    let rpc = async |ch, rq| runs(ch).watch_runs(rq).await;
    let take = |ctx: &mut Context<'_>, place: &mut Place, event: WatchRunsResponse| {
        if !event.resume_token.is_empty() {
            place.token.clone_from(&event.resume_token);
        }
        if print(ctx, &event, args.all)?
            && let Some(left) = &mut place.left
        {
            *left -= 1;
        }
        let over = place.left == Some(0);
        Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    Reconnect::default().follow(ctx, &mut place, request, rpc, take).await
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
