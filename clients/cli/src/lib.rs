//! The client commands of `clawjob`: jobs, runs, executors, files of jobs, tokens.
//!
//! They know the contract only. [`ClientCommand`] and [`ClientArgs`] are flattened into the
//! binary's own parser; [`run`] carries a command out and returns the process's exit code.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alarms;
mod apply;
mod apps;
mod args;
mod audit;
mod calendars;
mod client;
mod context;
mod cron;
mod error;
mod executors;
mod filter;
mod follow;
mod forecast;
mod grants;
mod hints;
mod jobs;
mod names;
mod output;
mod paging;
mod render;
mod runs;
mod show;
mod status;
mod terminal;
mod text;
mod time;
mod token;
mod tokens;
mod users;
mod values;

use std::process::ExitCode;

pub use crate::{
    args::{ClientArgs, ClientCommand, OutputFormat},
    error::{CliError, EXIT_CODES_HELP},
    hints::hints,
    terminal::Terminal,
};
use context::Context;

/// Carries out a client command on the process's own streams. `cli` is the whole parser, which
/// shell completions are made from. Faults are printed to stderr.
pub async fn run(command: ClientCommand, args: ClientArgs, cli: clap::Command) -> ExitCode {
    ExitCode::from(run_in(command, args, cli, &mut Terminal::of_process()).await)
}

/// The same on streams and surroundings of the caller's choice; returns the exit code.
pub async fn run_in(
    command: ClientCommand,
    args: ClientArgs,
    cli: clap::Command,
    term: &mut Terminal,
) -> u8 {
    let done = carry_out(command, args, cli, term).await;
    let done = done.and_then(|()| term.out.flush().map_err(CliError::from));
    match done {
        Ok(()) => 0,
        Err(e) => {
            let exit = e.exit_code();
            if exit != 0 {
                term.remark(&render::error(&e));
            }
            exit
        }
    }
}

async fn carry_out(
    command: ClientCommand,
    args: ClientArgs,
    mut cli: clap::Command,
    term: &mut Terminal,
) -> Result<(), CliError> {
    if let ClientCommand::Completions { shell } = command {
        let name = cli.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut cli, name, &mut script);
        term.out.write_all(&script)?;
        return Ok(());
    }
    let ctx = &mut Context::new(&args, term)?;
    match command {
        ClientCommand::Jobs(command) => jobs::run(ctx, command).await,
        ClientCommand::Runs(command) => runs::run(ctx, command).await,
        ClientCommand::Executors(command) => executors::run(ctx, command).await,
        ClientCommand::Handlers(command) => executors::run_handlers(ctx, command).await,
        ClientCommand::Apps(command) => apps::run(ctx, command).await,
        ClientCommand::Alarms(command) => alarms::run(ctx, command).await,
        ClientCommand::AlarmRules(command) => alarms::run_rules(ctx, command).await,
        ClientCommand::Apply(args) => apply::run(ctx, args).await,
        ClientCommand::Export(args) => apply::run_export(ctx, args).await,
        ClientCommand::Calendars(command) => calendars::run(ctx, command).await,
        ClientCommand::Cron(command) => cron::run(ctx, command).await,
        ClientCommand::Forecast(args) => forecast::run(ctx, args).await,
        ClientCommand::Tokens(command) => tokens::run(ctx, command).await,
        ClientCommand::Users(command) => users::run(ctx, command).await,
        ClientCommand::Audit(command) => audit::run(ctx, command).await,
        ClientCommand::Whoami => tokens::whoami(ctx).await,
        ClientCommand::Status => status::run(ctx).await,
        ClientCommand::Completions { .. } => Ok(()),
    }
}
