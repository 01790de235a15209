//! The shards of a run that was split.

use std::io::Write as _;

use clawjob_proto::v1::{ListRunsRequest, Run, RunView};

use super::show;
use crate::{
    args::OutputFormat,
    client::{Call, runs},
    context::Context,
    error::CliError,
    filter, names,
    output::ListPrinter,
};

/// Shards asked for at once; the server gives no more.
const PAGE_SIZE: i32 = 1_000;

/// Prints the shards of the run below it, if it has any and the output is for people.
pub(super) async fn print(ctx: &mut Context<'_>, run: &Run) -> Result<(), CliError> {
    let is_parent = run.shard_total > 0 && run.parent_run.is_empty();
    if !is_parent || ctx.format != OutputFormat::Table {
        return Ok(());
    }
    let mut terms = filter::Terms::new(None);
    terms.equal("parent", Some(&run.name));
    let filter = terms.text();
    let parent = names::split(&run.name).map_or("apps/-".into(), |(app, _)| format!("apps/{app}"));
    writeln!(ctx.term.out)?;
    let mut printer = ListPrinter::new(OutputFormat::Table, "shards", &show::SHARDS);
    let mut token = String::new();
    loop {
        let rq = ListRunsRequest {
            parent: parent.clone(),
            page_size: PAGE_SIZE,
            page_token: token,
            filter: filter.clone(),
            order_by: "create_time".into(),
            view: RunView::Basic.into(),
        };
        let rpc = async |ch, rq| runs(ch).list_runs(rq).await;
        let page = ctx.client.call(Call::SAFE, rq, rpc).await?;
        printer.page(ctx.term, &page.runs)?;
        token = page.next_page_token;
        if token.is_empty() {
            return printer.end(ctx.term, "");
        }
    }
}
