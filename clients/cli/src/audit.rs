//! `clawjob audit`.

use clap::{Args, Subcommand};
use clawjob_proto::{
    code_word,
    v1::{AuditEvent, ListAuditEventsRequest},
};
use comfy_table::Color;
use prost_types::Duration;

use crate::{
    client::{Call, cluster},
    context::Context,
    error::CliError,
    filter::Terms,
    names,
    output::Columns,
    paging::{self, ListArgs},
    show::{self, Cell},
    time, values,
};

/// Commands about the audit log.
#[derive(Subcommand, Debug, Clone)]
pub enum AuditCommand {
    /// Who changed what, and who signed in, newest first
    List(AuditListArgs),
}

/// What `audit list` takes.
#[derive(Args, Debug, Clone)]
pub struct AuditListArgs {
    /// Only by this principal: users/USER or tokens/TOKEN
    #[arg(long, value_name = "PRINCIPAL")]
    principal: Option<String>,
    /// Only this method, such as JobService/UpdateJob
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Only about this, by its full name
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Only of the last so long
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    since: Option<Duration>,
    /// Only what did not end well
    #[arg(long)]
    failed: bool,
    /// Only those that match, such as 'method : Token'
    #[arg(long)]
    filter: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

const EVENTS: Columns<AuditEvent> = Columns {
    headers: &["TIME", "WHO", "METHOD", "RESOURCE", "FIELDS", "RESULT", "FROM"],
    row: |event, zone| {
        vec![
            show::instant(event.time.as_ref(), zone).into(),
            Cell::from(&event.principal),
            Cell::from(&event.method),
            names::short(&event.resource).into(),
            event.changed_fields.join(", ").into(),
            result(event.code),
            Cell::from(&event.peer_address),
        ]
    },
};

fn result(code: i32) -> Cell {
    let word = code_word(tonic::Code::from(code));
    let colour = (code != tonic::Code::Ok as i32).then_some(Color::Red);
    Cell { text: word.into(), colour }
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: AuditCommand) -> Result<(), CliError> {
    let AuditCommand::List(args) = command;
    let mut terms = Terms::new(args.filter.as_deref());
    terms.equal("principal", args.principal.as_deref());
    terms.equal("method", args.method.as_deref());
    terms.equal("resource", args.resource.as_deref());
    terms.equal("app", ctx.app.as_deref());
    if args.failed {
        terms.unequal("code", "0");
    }
    if let Some(since) = &args.since {
        let length = jiff::SignedDuration::new(since.seconds, since.nanos);
        let from = time::now().checked_sub(length);
        terms.after("time", from.map_err(|e| CliError::usage(format!("--since: {e}")))?);
    }
    let filter = terms.text();
    paging::print_list(ctx, &args.list, "events", &EVENTS, async |client, size, token| {
        let rq =
            ListAuditEventsRequest { page_size: size, page_token: token, filter: filter.clone() };
        let rpc = async |ch, rq| cluster(ch).list_audit_events(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.events, page.next_page_token))
    })
    .await
}
