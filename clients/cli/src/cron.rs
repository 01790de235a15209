//! `clawjob cron next`: what an expression means, without a job.

use clap::{Args, Subcommand};
use clawjob_proto::{
    json,
    v1::{CronDialect, PreviewScheduleRequest, PreviewScheduleResponse, Schedule, schedule},
};
use jiff::tz::TimeZone;

use crate::{
    args::OutputFormat,
    client::{Call, jobs},
    context::Context,
    error::CliError,
    output, show,
    show::{Cell, word_of},
    text, time,
    values::{self, DIALECTS},
};

/// Commands about cron expressions.
#[derive(Subcommand, Debug, Clone)]
pub enum CronCommand {
    /// Show when an expression fires next
    Next(CronNextArgs),
}

/// What `cron next` takes.
#[derive(Args, Debug, Clone)]
pub struct CronNextArgs {
    /// Unix (5 fields), Quartz or Spring (6 or 7), or a macro such as @daily or '@every 90s'
    expression: String,
    /// The schedule's time zone, an IANA name
    #[arg(long = "tz", value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// How many fire times
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 5)]
    count: u16,
    /// How to read it [default: found from its form]
    #[arg(long, value_name = "DIALECT", value_parser = values::one_of(&DIALECTS))]
    dialect: Option<i32>,
    /// The first after this instant [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: CronCommand) -> Result<(), CliError> {
    let CronCommand::Next(args) = command;
    let after = args.after.as_deref().map(|at| values::instant(at, &ctx.term.zone)).transpose();
    let rq = PreviewScheduleRequest {
        parent: ctx.parent(),
        schedule: Some(Schedule {
            trigger: Some(schedule::Trigger::Cron(args.expression)),
            time_zone: args.time_zone.clone(),
            cron_dialect: args.dialect.unwrap_or_default(),
            ..Schedule::default()
        }),
        count: args.count.into(),
        after: after.map_err(|fault| CliError::usage(format!("--after: {fault}")))?,
    };
    let rpc = async |ch, rq| jobs(ch).preview_schedule(rq).await;
    let preview = ctx.client.call(Call::SAFE, rq, rpc).await?;
    print(ctx, &preview, &args.time_zone)
}

/// Prints fire times in the schedule's own zone and in the local one.
///
/// # Errors
/// An output that cannot be written.
pub(crate) fn print(
    ctx: &mut Context<'_>,
    preview: &PreviewScheduleResponse,
    zone: &str,
) -> Result<(), CliError> {
    use std::io::Write as _;
    if ctx.format != OutputFormat::Table {
        return output::value(ctx.term, ctx.format, &json::to_value(preview)?);
    }
    let dialect = word_of!(CronDialect, "CRON_DIALECT_", preview.cron_dialect).to_lowercase();
    output::print_fields(
        ctx.term,
        vec![("dialect", dialect.into()), ("means", Cell::from(&preview.description))],
    )?;
    // A zone that this machine does not know is still the server's to read.
    let schedule_zone = TimeZone::get(zone).ok();
    for at in &preview.fire_times {
        let local = show::instant(Some(at), &ctx.term.zone);
        let line = match &schedule_zone {
            Some(zone) => {
                let there = show::instant(Some(at), zone);
                let day = time::from_proto(at)
                    .map(|at| at.to_zoned_datetime(zone.clone()).strftime("%a").to_string());
                let day = day.unwrap_or_default();
                if there == local {
                    format!("{day} {there}")
                } else {
                    format!("{day} {there}  ({local})")
                }
            }
            None => local,
        };
        writeln!(ctx.term.out, "{line}")?;
    }
    if preview.fire_times.is_empty() {
        ctx.term.remark("it never fires again");
    }
    for warning in &preview.warnings {
        ctx.term.remark(&format!("note: {}", text::line(warning)));
    }
    Ok(())
}
