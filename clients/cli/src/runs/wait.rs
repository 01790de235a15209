//! Waiting for a run's end.

use std::{io::Write as _, time::Duration};

use clap::Args;
use clawjob_proto::v1::{Run, WaitRunRequest};

use super::{judge, print, show};
use crate::{
    args::OutputFormat,
    client::{self, Call, runs},
    context::Context,
    error::CliError,
    follow::Reconnect,
    names,
    show::is_final,
    text, time, values,
};

/// How long one WaitRun may take; the contract allows 60 s.
const WAIT_SLICE: Duration = Duration::from_secs(30);

/// `--wait` of the commands that start a run.
#[derive(Args, Debug, Clone)]
pub(crate) struct WaitFlags {
    /// Wait until the run has ended; exit code 0 only if it SUCCEEDED
    #[arg(long)]
    wait: bool,
    /// Stop waiting after this time, with exit code 7
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "wait")]
    timeout: Option<prost_types::Duration>,
}

/// Prints a run that was just started, or waits for its end and prints that.
///
/// # Errors
/// See [`until_ended`].
pub(crate) async fn print_or_wait(
    ctx: &mut Context<'_>,
    run: Run,
    flags: &WaitFlags,
) -> Result<(), CliError> {
    if !flags.wait {
        return print(ctx, &run);
    }
    if ctx.format == OutputFormat::Table {
        ctx.term.remark(&text::line(&format!("waiting for {}", names::short(&run.name))));
    }
    until_ended(ctx, run.name, flags.timeout).await
}

/// Whether a server had taken the call.
fn was_open(error: &CliError) -> bool {
    match error {
        CliError::Status(status) => client::is_transient(status),
        CliError::Unreachable { broke, .. } => *broke,
        _ => false,
    }
}

/// Waits for a run's end and prints it, in the table format as one line.
///
/// # Errors
/// A run that did not succeed, a wait that took too long, and what the server says.
pub(super) async fn until_ended(
    ctx: &mut Context<'_>,
    name: String,
    timeout: Option<prost_types::Duration>,
) -> Result<(), CliError> {
    let (begin, mut reconnect) = (time::now(), Reconnect::default());
    let limit = timeout.map(|t| Duration::new(t.seconds.max(0) as u64, t.nanos.max(0) as u32));
    loop {
        let waited = Duration::try_from(time::now().duration_since(begin)).unwrap_or_default();
        let slice = match limit {
            Some(limit) => limit.saturating_sub(waited).min(WAIT_SLICE),
            None => WAIT_SLICE,
        };
        let wanted = prost_types::Duration {
            seconds: slice.as_secs() as i64,
            nanos: slice.subsec_nanos() as i32,
        };
        let rq = WaitRunRequest { name: name.clone(), timeout: Some(wanted) };
        let rpc = async |ch, rq| runs(ch).wait_run(rq).await;
        let run = match ctx.client.call(Call::waiting(slice), rq, rpc).await {
            Ok(run) => run,
            Err(e) => {
                // The first wait can last long: a connection that breaks under it was open.
                if was_open(&e) {
                    reconnect.opened();
                }
                reconnect.after(ctx, e).await?;
                continue;
            }
        };
        reconnect.opened();
        reconnect.worked();
        if is_final(run.state) {
            if ctx.format == OutputFormat::Table {
                let line = show::line(&run, &ctx.term.zone);
                writeln!(ctx.term.out, "{}", text::line(&line))?;
            } else {
                print(ctx, &run)?;
            }
            return judge(&run);
        }
        if let Some(limit) = limit
            && waited + slice >= limit
        {
            return Err(CliError::WaitTimeout { run: names::short(&name), waited: limit });
        }
    }
}
