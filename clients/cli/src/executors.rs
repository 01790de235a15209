//! `clawjob executors` and `clawjob handlers`.

use clap::{Args, Subcommand};
use clawjob_proto::v1::{
    CordonExecutorRequest, DeleteExecutorRequest, DisconnectExecutorRequest, Executor,
    GetExecutorRequest, ListExecutorsRequest, ListHandlersRequest, UncordonExecutorRequest,
    executor, list_handlers_response::Entry,
};
use comfy_table::Color;
use jiff::tz::TimeZone;

use crate::{
    client::{Call, fleet},
    context::Context,
    error::CliError,
    names::{self, Kind},
    output::{self, Columns, Fields},
    paging::{self, ListArgs},
    show::{self, Cell, word_of},
};

/// Commands about executors. A name is APP/ID, or ID with --app.
#[derive(Subcommand, Debug, Clone)]
pub enum ExecutorsCommand {
    /// List executors
    List(ExecutorsListArgs),
    /// Show one executor
    Get {
        /// APP/ID
        name: String,
    },
    /// Send it no new runs; it stays connected and finishes what it has
    Cordon {
        /// APP/ID
        name: String,
        /// Why, for the others
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Undo `cordon`
    Uncordon {
        /// APP/ID
        name: String,
    },
    /// End its session; it may dial again
    Disconnect {
        /// APP/ID
        name: String,
        /// Kill its runs too
        #[arg(long)]
        kill_runs: bool,
    },
    /// Forget an executor that is offline
    Delete {
        /// APP/ID
        name: String,
    },
}

/// What `executors list` takes.
#[derive(Args, Debug, Clone)]
pub struct ExecutorsListArgs {
    /// Only those that match, such as 'state = STATE_ONLINE'
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,
    #[command(flatten)]
    list: ListArgs,
}

/// Commands about handlers.
#[derive(Subcommand, Debug, Clone)]
pub enum HandlersCommand {
    /// List the handlers that connected executors offer
    List(HandlersListArgs),
}

/// What `handlers list` takes.
#[derive(Args, Debug, Clone)]
pub struct HandlersListArgs {
    #[command(flatten)]
    list: ListArgs,
}

const EXECUTORS: Columns<Executor> = Columns {
    headers: &["EXECUTOR", "STATE", "SLOTS", "HANDLERS", "ADDRESS", "SDK", "LAST HEARTBEAT"],
    row: executor_row,
};

const HANDLERS: Columns<Entry> = Columns {
    headers: &["HANDLER", "FREE SLOTS", "EXECUTORS", "DESCRIPTION"],
    row: |entry, _| {
        let handler = entry.handler.clone().unwrap_or_default();
        vec![
            Cell::from(handler.name),
            entry.free_slots.to_string().into(),
            show::short_names(&entry.executors).into(),
            handler.description.into(),
        ]
    },
};

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: ExecutorsCommand) -> Result<(), CliError> {
    match command {
        ExecutorsCommand::List(args) => list(ctx, args).await,
        ExecutorsCommand::Get { name } => {
            let rq = GetExecutorRequest { name: ctx.name(Kind::Executor, &name)? };
            let rpc = async |ch, rq| fleet(ch).get_executor(rq).await;
            let executor = ctx.client.call(Call::SAFE, rq, rpc).await?;
            print(ctx, &executor)
        }
        ExecutorsCommand::Cordon { name, reason } => {
            let rq = CordonExecutorRequest { name: ctx.name(Kind::Executor, &name)?, reason };
            let rpc = async |ch, rq| fleet(ch).cordon_executor(rq).await;
            let executor = ctx.client.call(Call::SAFE, rq, rpc).await?;
            print(ctx, &executor)
        }
        ExecutorsCommand::Uncordon { name } => {
            let rq = UncordonExecutorRequest { name: ctx.name(Kind::Executor, &name)? };
            let rpc = async |ch, rq| fleet(ch).uncordon_executor(rq).await;
            let executor = ctx.client.call(Call::SAFE, rq, rpc).await?;
            print(ctx, &executor)
        }
        ExecutorsCommand::Disconnect { name, kill_runs } => {
            let name = ctx.name(Kind::Executor, &name)?;
            let rq = DisconnectExecutorRequest { name, kill_runs };
            let rpc = async |ch, rq| fleet(ch).disconnect_executor(rq).await;
            let executor = ctx.client.call(Call::ONCE, rq, rpc).await?;
            print(ctx, &executor)
        }
        ExecutorsCommand::Delete { name } => {
            let name = ctx.name(Kind::Executor, &name)?;
            let rq = DeleteExecutorRequest { name: name.clone() };
            let rpc = async |ch, rq| fleet(ch).delete_executor(rq).await;
            ctx.client.call(Call::ONCE, rq, rpc).await?;
            ctx.done(&format!("deleted {}", names::short(&name)))
        }
    }
}

async fn list(ctx: &mut Context<'_>, args: ExecutorsListArgs) -> Result<(), CliError> {
    let (parent, filter) = (ctx.parent(), args.filter);
    paging::print_list(ctx, &args.list, "executors", &EXECUTORS, async |client, size, token| {
        let rq = ListExecutorsRequest {
            parent: parent.clone(),
            page_size: size,
            page_token: token,
            filter: filter.clone(),
        };
        let rpc = async |ch, rq| fleet(ch).list_executors(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.executors, page.next_page_token))
    })
    .await
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run_handlers(
    ctx: &mut Context<'_>,
    command: HandlersCommand,
) -> Result<(), CliError> {
    let HandlersCommand::List(args) = command;
    let parent = ctx.parent();
    paging::print_list(ctx, &args.list, "handlers", &HANDLERS, async |client, size, token| {
        let parent = parent.clone();
        let rq = ListHandlersRequest { parent, page_size: size, page_token: token };
        let rpc = async |ch, rq| fleet(ch).list_handlers(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.handlers, page.next_page_token))
    })
    .await
}

fn print(ctx: &mut Context<'_>, executor: &Executor) -> Result<(), CliError> {
    output::message(ctx.term, ctx.format, executor, fields)
}

fn state(executor: &Executor) -> Cell {
    let word = word_of!(executor::State, "STATE_", executor.state);
    let colour = match executor::State::try_from(executor.state) {
        Ok(executor::State::Online) if !executor.cordoned => Some(Color::Green),
        Ok(executor::State::Offline) => Some(Color::Red),
        _ => Some(Color::Yellow),
    };
    let text = if executor.cordoned { format!("{word}, cordoned") } else { word };
    Cell { colour, ..Cell::from(text) }
}

fn handler_names(executor: &Executor) -> String {
    executor.handlers.iter().map(|h| h.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn sdk(executor: &Executor) -> String {
    let sdk = executor.sdk.as_ref();
    sdk.map(|sdk| format!("{} {}", sdk.language, sdk.sdk_version)).unwrap_or_default()
}

fn slots(executor: &Executor) -> String {
    format!("{}/{} free", executor.free_slots, executor.slots)
}

fn executor_row(executor: &Executor, zone: &TimeZone) -> Vec<Cell> {
    vec![
        names::short(&executor.name).into(),
        state(executor),
        slots(executor).into(),
        handler_names(executor).into(),
        Cell::from(&executor.peer_address),
        sdk(executor).into(),
        show::instant(executor.last_heartbeat_time.as_ref(), zone).into(),
    ]
}

fn fields(executor: &Executor, zone: &TimeZone) -> Fields {
    let share = |share: Option<f32>| share.map(|s| format!("{:.0} %", s * 100.0));
    let host = executor.sdk.as_ref().map(|sdk| format!("{} (pid {})", sdk.hostname, sdk.pid));
    vec![
        ("executor", names::short(&executor.name).into()),
        ("state", state(executor)),
        ("slots", slots(executor).into()),
        ("handlers", handler_names(executor).into()),
        ("labels", show::labels(&executor.labels).into()),
        ("running", executor.running.join(", ").into()),
        ("address", Cell::from(&executor.peer_address)),
        ("host", host.unwrap_or_default().into()),
        ("sdk", sdk(executor).into()),
        ("node", Cell::from(&executor.node_id)),
        ("session", Cell::from(&executor.session_id)),
        ("connected", show::instant(executor.connect_time.as_ref(), zone).into()),
        ("last heartbeat", show::instant(executor.last_heartbeat_time.as_ref(), zone).into()),
        ("clock offset", show::duration(executor.clock_offset.as_ref()).into()),
        ("lag", show::duration(executor.lag.as_ref()).into()),
        ("cpu", share(executor.cpu).unwrap_or_default().into()),
        ("memory", share(executor.memory).unwrap_or_default().into()),
        ("reconnects, last hour", show::count(executor.reconnects_last_hour).into()),
        ("abandoned handlers", show::count(executor.abandoned_handlers).into()),
    ]
}
