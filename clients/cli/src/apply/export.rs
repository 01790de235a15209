//! `clawjob export`: prints jobs and calendars in the shape that `apply` takes.

use std::io::Write as _;

use clap::Args;
use clawjob_proto::v1::{Job, ListJobsRequest};

use super::{calendars, friendly};
use crate::{
    args::OutputFormat,
    context::Context,
    error::CliError,
    jobs,
    names::Kind,
    output,
    paging::{self, ListArgs},
    text,
};

/// What `export` takes.
#[derive(Args, Debug, Clone)]
pub struct ExportArgs {
    /// Only these jobs: APP/JOB [default: all of --app, or of all apps]
    #[arg(value_name = "JOB")]
    names: Vec<String>,
    /// Only jobs that match
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "names")]
    filter: String,
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, args: ExportArgs) -> Result<(), CliError> {
    let json = ctx.format == OutputFormat::Json;
    let mut printed = 0_usize;
    let mut calendars = 0_usize;
    if args.names.is_empty() {
        let (parent, filter) = (ctx.parent(), args.filter);
        if filter.is_empty() {
            calendars = print_calendars(ctx, &parent, json).await?;
        }
        let all = ListArgs { limit: 0, page_token: String::new() };
        let (client, out) = (&mut ctx.client, &mut ctx.term.out);
        let fetch = async |client: &mut crate::client::Client, size, token| {
            let rq = ListJobsRequest {
                parent: parent.clone(),
                page_size: size,
                page_token: token,
                filter: filter.clone(),
                order_by: String::new(),
            };
            jobs::page(client, rq).await
        };
        paging::each_page(client, &all, fetch, |jobs| {
            jobs.iter().try_for_each(|job| print(out, job, json, &mut printed, calendars > 0))
        })
        .await?;
    } else {
        let names: Result<Vec<_>, _> =
            args.names.iter().map(|name| ctx.name(Kind::Job, name)).collect();
        for name in names? {
            let job = jobs::get(&mut ctx.client, name).await?;
            print(&mut ctx.term.out, &job, json, &mut printed, false)?;
        }
    }
    let out = &mut ctx.term.out;
    match (json, printed) {
        (true, 0) if calendars > 0 => writeln!(out, ",\n  \"jobs\": []\n}}")?,
        (true, 0) => writeln!(out, "{{\n  \"jobs\": []\n}}")?,
        (true, _) => writeln!(out, "\n  ]\n}}")?,
        (false, 0) => writeln!(out, "jobs: []")?,
        (false, _) => {}
    }
    Ok(())
}

/// Prints the calendars of the parent; returns how many there are.
async fn print_calendars(
    ctx: &mut Context<'_>,
    parent: &str,
    json: bool,
) -> Result<usize, CliError> {
    let mut found = Vec::new();
    calendars::each(&mut ctx.client, parent, |calendar| {
        let mut map = serde_json::Map::new();
        map.insert("name".into(), calendar.name.clone().into());
        map.append(&mut calendars::value(calendar)?);
        found.push(map);
        Ok(())
    })
    .await?;
    if found.is_empty() {
        return Ok(0);
    }
    let out = &mut ctx.term.out;
    if json {
        let items =
            serde_json::to_string_pretty(&found).map_err(|e| CliError::Answer(e.to_string()))?;
        write!(out, "{{\n  \"calendars\": {}", text::json(&items).replace('\n', "\n  "))?;
    } else {
        write!(out, "calendars:\n{}", output::yaml(&found)?)?;
    }
    Ok(found.len())
}

fn print(
    out: &mut Box<dyn std::io::Write>,
    job: &Job,
    json: bool,
    printed: &mut usize,
    begun: bool,
) -> Result<(), CliError> {
    let job = friendly::ordered(job)?;
    if json {
        let open = match *printed {
            0 if begun => ",\n  \"jobs\": [\n    ",
            0 => "{\n  \"jobs\": [\n    ",
            _ => ",\n    ",
        };
        let item =
            serde_json::to_string_pretty(&job).map_err(|e| CliError::Answer(e.to_string()))?;
        write!(out, "{open}{}", text::json(&item).replace('\n', "\n    "))?;
    } else {
        if *printed == 0 {
            writeln!(out, "jobs:")?;
        }
        write!(out, "{}", output::yaml(&[job])?)?;
    }
    *printed += 1;
    Ok(())
}
