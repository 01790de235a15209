//! `clawjob forecast`: the coming fires of all jobs, and the minutes in which many come together.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
};

use clap::Args;
use clawjob_proto::v1::{ForecastRunsRequest, forecast_runs_response::Fire};
use jiff::tz::TimeZone;

use crate::{
    args::OutputFormat,
    client::{Call, jobs},
    context::Context,
    error::CliError,
    names,
    output::{Columns, ListPrinter},
    paging::{self, ListArgs},
    show::{self, Cell},
    text, time, values,
};

/// Jobs that fire in one minute from which it is told of.
const CLASH_MIN: usize = 10;
/// Minutes told of at most.
const CLASHES_MAX: usize = 10;

/// What `forecast` takes.
#[derive(Args, Debug, Clone)]
pub struct ForecastArgs {
    /// How many hours ahead
    #[arg(long, value_name = "COUNT", default_value_t = 24)]
    hours: u32,
    /// From this instant on [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

const FIRES: Columns<Fire> = Columns {
    headers: &["FIRE", "DUE", "IN ITS ZONE", "JOB", "HANDLER"],
    row: |fire, zone| {
        let spread = fire.due_time.as_ref().filter(|due| Some(*due) != fire.fire_time.as_ref());
        vec![
            show::instant(fire.fire_time.as_ref(), zone).into(),
            show::instant(spread, zone).into(),
            zoned(fire).into(),
            names::short(&fire.job).into(),
            Cell::from(&fire.handler),
        ]
    },
};

/// The wall clock of the schedule that names it, with the zone's name.
fn zoned(fire: &Fire) -> String {
    let at = fire.fire_time.as_ref().and_then(time::from_proto);
    match (at, TimeZone::get(&fire.time_zone)) {
        (Some(at), Ok(zone)) => {
            let there = at.to_zoned_datetime(zone);
            format!("{} {}", there.strftime("%a %H:%M:%S"), fire.time_zone)
        }
        _ => fire.time_zone.clone(),
    }
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, args: ForecastArgs) -> Result<(), CliError> {
    let start = match &args.from {
        Some(text) => {
            let at = values::instant(text, &ctx.term.zone);
            at.map_err(|fault| CliError::usage(format!("--from: {fault}")))?
        }
        None => time::to_proto(time::now()),
    };
    let seconds = start.seconds.saturating_add(i64::from(args.hours) * 3600);
    let end = prost_types::Timestamp { seconds, ..start };
    let parent = ctx.parent();
    let fetch = async |client: &mut crate::client::Client, size, token| {
        let rq = ForecastRunsRequest {
            parent: parent.clone(),
            start_time: Some(start),
            end_time: Some(end),
            page_size: size,
            page_token: token,
        };
        let page = client.call(Call::SAFE, rq, async |ch, rq| jobs(ch).forecast_runs(rq).await);
        let page = page.await?;
        Ok((page.fires, page.next_page_token))
    };
    let mut printer = ListPrinter::new(ctx.format, "fires", &FIRES);
    let mut minutes: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    let (client, term) = (&mut ctx.client, &mut *ctx.term);
    let next = paging::each_page(client, &args.list, fetch, |fires: &[Fire]| {
        for fire in fires {
            let minute = fire.fire_time.map_or(0, |at| at.seconds.div_euclid(60));
            minutes.entry(minute).or_default().insert(fire.job.clone());
        }
        printer.page(term, fires)
    })
    .await?;
    printer.end(ctx.term, &next)?;
    if ctx.format == OutputFormat::Table {
        clashes(ctx, &minutes)?;
    }
    Ok(())
}

/// The minutes with the most jobs among what was shown.
fn clashes(
    ctx: &mut Context<'_>,
    minutes: &BTreeMap<i64, BTreeSet<String>>,
) -> Result<(), CliError> {
    let mut crowded: Vec<_> = minutes.iter().filter(|(_, jobs)| jobs.len() >= CLASH_MIN).collect();
    if crowded.is_empty() {
        return Ok(());
    }
    crowded.sort_by_key(|(minute, jobs)| (usize::MAX - jobs.len(), **minute));
    crowded.truncate(CLASHES_MAX);
    writeln!(ctx.term.out, "\nminutes with many jobs:")?;
    for (minute, jobs) in crowded {
        let at = prost_types::Timestamp { seconds: minute * 60, nanos: 0 };
        let at = show::instant(Some(&at), &ctx.term.zone);
        writeln!(ctx.term.out, "  {}  {} jobs", text::line(&at), jobs.len())?;
    }
    Ok(())
}
