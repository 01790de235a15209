//! `clawjob export`: prints jobs, calendars and alarm rules in the shape that `apply` takes.

use std::io::Write as _;

use clap::Args;
use clawjob_proto::v1::{AlarmRule, Calendar, Job, ListJobsRequest};
use serde_json::{Map, Value};

use super::{calendars, friendly, rules, walk};
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
    let mut sheet = Sheet { json: ctx.format == OutputFormat::Json, begun: false, jobs: 0 };
    let whole = args.names.is_empty() && args.filter.is_empty();
    let parent = ctx.parent();
    if whole {
        let mut found = Vec::new();
        walk::each(&mut ctx.client, &parent, |calendar: &Calendar| {
            found.push(named(&calendar.name, calendars::value(calendar)?));
            Ok(())
        })
        .await?;
        sheet.list(&mut ctx.term.out, "calendars", &found)?;
    }
    if args.names.is_empty() {
        jobs(ctx, &parent, &args.filter, &mut sheet).await?;
    } else {
        let names: Result<Vec<_>, _> =
            args.names.iter().map(|name| ctx.name(Kind::Job, name)).collect();
        for name in names? {
            let job = jobs::get(&mut ctx.client, name).await?;
            sheet.job(&mut ctx.term.out, &job)?;
        }
    }
    sheet.end_jobs(&mut ctx.term.out)?;
    if whole {
        let mut found = Vec::new();
        walk::each(&mut ctx.client, &parent, |rule: &AlarmRule| {
            found.push(named(&rule.name, rules::value(rule)?));
            Ok(())
        })
        .await?;
        sheet.list(&mut ctx.term.out, "alarmRules", &found)?;
    }
    if sheet.json {
        writeln!(ctx.term.out, "\n}}")?;
    }
    Ok(())
}

/// Prints all jobs of the parent that match, page by page.
async fn jobs(
    ctx: &mut Context<'_>,
    parent: &str,
    filter: &str,
    sheet: &mut Sheet,
) -> Result<(), CliError> {
    let (client, out) = (&mut ctx.client, &mut ctx.term.out);
    let fetch = async |client: &mut crate::client::Client, size, token| {
        let rq = ListJobsRequest {
            parent: parent.to_owned(),
            page_size: size,
            page_token: token,
            filter: filter.to_owned(),
            order_by: String::new(),
        };
        jobs::page(client, rq).await
    };
    let print = |jobs: &[Job]| jobs.iter().try_for_each(|job| sheet.job(out, job));
    paging::each_page(client, &ListArgs::ALL, fetch, print).await.map(drop)
}

/// The name first, as people look for it.
fn named(name: &str, mut rest: Map<String, Value>) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("name".into(), name.into());
    map.append(&mut rest);
    map
}

/// The file as it is printed: lists one after the other, the jobs one by one.
struct Sheet {
    json: bool,
    /// A list was printed.
    begun: bool,
    jobs: usize,
}

impl Sheet {
    /// How a list begins in JSON.
    fn open(&mut self) -> &'static str {
        if std::mem::replace(&mut self.begun, true) { ",\n" } else { "{\n" }
    }

    /// A list of its own, unless it is empty.
    fn list(
        &mut self,
        out: &mut Box<dyn std::io::Write>,
        key: &str,
        found: &[Map<String, Value>],
    ) -> Result<(), CliError> {
        if found.is_empty() {
            return Ok(());
        }
        if self.json {
            let items =
                serde_json::to_string_pretty(found).map_err(|e| CliError::Answer(e.to_string()))?;
            let items = text::json(&items).replace('\n', "\n  ");
            write!(out, "{}  \"{key}\": {items}", self.open())?;
        } else {
            write!(out, "{key}:\n{}", output::yaml(&found)?)?;
        }
        Ok(())
    }

    fn job(&mut self, out: &mut Box<dyn std::io::Write>, job: &Job) -> Result<(), CliError> {
        let job = friendly::ordered(job)?;
        let first = self.jobs == 0;
        self.jobs += 1;
        if self.json {
            let open = if first { self.open() } else { "" };
            let list = if first { "  \"jobs\": [\n    " } else { ",\n    " };
            let item =
                serde_json::to_string_pretty(&job).map_err(|e| CliError::Answer(e.to_string()))?;
            write!(out, "{open}{list}{}", text::json(&item).replace('\n', "\n    "))?;
        } else {
            if first {
                writeln!(out, "jobs:")?;
            }
            write!(out, "{}", output::yaml(&[job])?)?;
        }
        Ok(())
    }

    /// Ends the list of jobs, which is there also when it is empty.
    fn end_jobs(&mut self, out: &mut Box<dyn std::io::Write>) -> Result<(), CliError> {
        match (self.json, self.jobs) {
            (true, 0) => write!(out, "{}  \"jobs\": []", self.open())?,
            (true, _) => write!(out, "\n  ]")?,
            (false, 0) => writeln!(out, "jobs: []")?,
            (false, _) => {}
        }
        Ok(())
    }
}
