//! `clawjob cron next`: what an expression means, without a job.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use clawjob_proto::{
    json,
    v1::{CronDialect, PreviewScheduleRequest, PreviewScheduleResponse, Schedule, schedule},
};
use jiff::tz::TimeZone;
use prost_types::Timestamp;

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
        job: String::new(),
        after: after.map_err(|fault| CliError::usage(format!("--after: {fault}")))?,
    };
    let rpc = async |ch, rq| jobs(ch).preview_schedule(rq).await;
    let preview = ctx.client.call(Call::SAFE, rq, rpc).await?;
    let zones = vec![vec![args.time_zone]; preview.fire_times.len()];
    print(ctx, &preview, &zones)
}

/// Prints fire times, each in the zones of the schedules that name it and in the local one.
///
/// # Errors
/// An output that cannot be written.
pub(crate) fn print(
    ctx: &mut Context<'_>,
    preview: &PreviewScheduleResponse,
    zones: &[Vec<String>],
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
    let several = zones.iter().flatten().collect::<BTreeSet<_>>().len() > 1;
    for (index, at) in preview.fire_times.iter().enumerate() {
        let own = zones.get(index).map(Vec::as_slice).unwrap_or_default();
        let due = preview.due_times.get(index).filter(|due| *due != at);
        let due = due.map(|due| format!("  due {}", show::instant(Some(due), &ctx.term.zone)));
        let line = fire(at, own, several, &ctx.term.zone);
        writeln!(ctx.term.out, "{line}{}", due.unwrap_or_default())?;
    }
    if preview.fire_times.is_empty() {
        ctx.term.remark("it never fires again");
    }
    for warning in &preview.warnings {
        ctx.term.remark(&format!("note: {}", text::line(warning)));
    }
    Ok(())
}

/// One fire time: `Mon 2026-03-02 09:00:00+08:00 Asia/Shanghai  (2026-03-02 01:00:00+00:00)`. The
/// zone is named when there are several.
fn fire(at: &Timestamp, zones: &[String], several: bool, local: &TimeZone) -> String {
    let here = show::instant(Some(at), local);
    // A zone that this machine does not know is still the server's to read.
    let there = zones.iter().filter_map(|name| {
        let zone = TimeZone::get(name).ok()?;
        let day = time::from_proto(at)?.to_zoned_datetime(zone.clone()).strftime("%a").to_string();
        let named = if several { format!(" {}", text::line(name)) } else { String::new() };
        Some((
            show::instant(Some(at), &zone),
            format!("{day} {}{named}", show::instant(Some(at), &zone)),
        ))
    });
    let there: Vec<(String, String)> = there.collect();
    if there.is_empty() {
        return here;
    }
    let shown = there.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join(" = ");
    if there.iter().any(|(clock, _)| *clock == here) { shown } else { format!("{shown}  ({here})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fire_time_shows_the_zones_of_the_schedules_that_name_it() {
        let at = Timestamp { seconds: 1_772_326_800, nanos: 0 };
        let shanghai = ["Asia/Shanghai".to_owned()];
        assert_eq!(
            fire(&at, &shanghai, false, &TimeZone::UTC),
            "Sun 2026-03-01 09:00:00+08:00  (2026-03-01 01:00:00+00:00)"
        );
        let both = ["Asia/Shanghai".to_owned(), "UTC".to_owned()];
        assert_eq!(
            fire(&at, &both, true, &TimeZone::UTC),
            "Sun 2026-03-01 09:00:00+08:00 Asia/Shanghai = Sun 2026-03-01 01:00:00+00:00 UTC"
        );
        let unknown = ["Mars/Olympus".to_owned()];
        assert_eq!(fire(&at, &unknown, true, &TimeZone::UTC), "2026-03-01 01:00:00+00:00");
    }
}
