//! `clawjob apply`: shows the plan, asks where it must, and carries it out.

use std::io::Write as _;

use clap::Args;
use clawjob_proto::v1::{PauseJobRequest, job};
use serde_json::{Value, json};

use super::{
    calendars,
    diff::Change,
    file,
    plan::{self, Action, Step},
    rules,
};
use crate::{
    args::OutputFormat, calendars as commands, client::Client, context::Context, error::CliError,
    jobs, names, output, render, text,
};

/// What `apply` takes.
#[derive(Args, Debug, Clone)]
pub struct ApplyArgs {
    /// File with jobs (- for stdin); repeatable
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Only show what would change, field by field
    #[arg(long)]
    dry_run: bool,
    /// Delete the jobs and calendars that the files lack, in the apps that the files name, and
    /// alarm rules where a file has alarmRules
    #[arg(long)]
    prune: bool,
    /// Delete without asking
    #[arg(long, short = 'y', requires = "prune")]
    yes: bool,
}

/// # Errors
/// All faults of the files at once, then all that the server finds, before anything is written;
/// after that, how many of the changes failed.
pub(crate) async fn run(ctx: &mut Context<'_>, args: ApplyArgs) -> Result<(), CliError> {
    let wanted = file::read(ctx, &args.files)?;
    let steps = plan::make(&mut ctx.client, &wanted, args.prune).await?;
    if !args.dry_run && !args.yes {
        confirm(ctx, &steps)?;
    }
    let (mut results, mut failed, mut exit) = (Vec::new(), 0_usize, 0);
    let mut written = Vec::new();
    for step in &steps {
        let done = if args.dry_run { Ok(()) } else { carry_out(&mut ctx.client, step).await };
        if let Err(e) = &done {
            failed += 1;
            if exit == 0 {
                exit = e.exit_code();
            }
            let error = render::error(e);
            ctx.term.remark(&format!("{}: {error}", text::line(&names::short(&step.name))));
        }
        if let (Ok(()), Action::Create(job) | Action::Update { job, .. }) = (&done, &step.action) {
            written.push(&**job);
        }
        if ctx.format == OutputFormat::Table {
            print(ctx, step, args.dry_run, done.is_ok())?;
        } else {
            results.push(as_json(step, &done));
        }
    }
    jobs::warn_of_handlers(ctx, written).await;
    if ctx.format == OutputFormat::Table {
        let counts = counts(&steps);
        let tense = if args.dry_run { " (nothing was changed)" } else { "" };
        ctx.term.remark(&format!("{counts}{tense}"));
    } else {
        let all = json!({ "dryRun": args.dry_run, "results": results });
        output::value(ctx.term, ctx.format, &all)?;
    }
    match failed {
        0 => Ok(()),
        _ => Err(CliError::Partly { failed, total: steps.len(), exit }),
    }
}

/// Asks before anything is deleted.
fn confirm(ctx: &mut Context<'_>, steps: &[Step]) -> Result<(), CliError> {
    let doomed = steps.iter().filter(|step| word(&step.action) == "delete");
    let doomed: Vec<String> = doomed.map(|step| names::short(&step.name)).collect();
    if doomed.is_empty() {
        return Ok(());
    }
    let list = text::line(&doomed.join(", ")).into_owned();
    if !ctx.term.interactive {
        return Err(CliError::usage(format!("--prune would delete {list}: give --yes to do so")));
    }
    match ctx.term.confirms(&format!("delete {list}?"))? {
        true => Ok(()),
        false => Err(CliError::usage("not confirmed; nothing was changed")),
    }
}

async fn carry_out(client: &mut Client, step: &Step) -> Result<(), CliError> {
    match &step.action {
        Action::Keep => Ok(()),
        Action::Create(job) => jobs::create_job(client, (**job).clone(), false).await.map(drop),
        Action::Delete { etag } => {
            jobs::delete(client, step.name.clone(), etag.clone(), false).await
        }
        Action::CreateCalendar(calendar) => {
            commands::create(client, (**calendar).clone()).await.map(drop)
        }
        Action::UpdateCalendar { calendar, .. } => calendars::write(client, calendar).await,
        Action::DeleteCalendar { etag } => {
            commands::delete(client, step.name.clone(), etag.clone()).await
        }
        Action::CreateRule(rule) => rules::create(client, rule, false).await,
        Action::UpdateRule { rule, .. } => rules::write(client, rule, false).await.map(drop),
        Action::DeleteRule { etag } => rules::delete(client, step.name.clone(), etag.clone()).await,
        Action::Update { job, changes, etag, state } => {
            if !changes.is_empty() {
                let mut job = (**job).clone();
                job.etag.clone_from(etag);
                jobs::write(client, plan::replacement(job, false)).await?;
            }
            match state {
                Some(job::State::Paused) => {
                    let rq = PauseJobRequest { name: step.name.clone(), ..Default::default() };
                    jobs::pause(client, rq).await.map(drop)
                }
                Some(_) => jobs::resume(client, step.name.clone()).await.map(drop),
                None => Ok(()),
            }
        }
    }
}

fn word(action: &Action) -> &'static str {
    match action {
        Action::Create(_) | Action::CreateCalendar(_) | Action::CreateRule(_) => "create",
        Action::Update { .. } | Action::UpdateCalendar { .. } | Action::UpdateRule { .. } => {
            "update"
        }
        Action::Keep => "unchanged",
        Action::Delete { .. } | Action::DeleteCalendar { .. } | Action::DeleteRule { .. } => {
            "delete"
        }
    }
}

fn state_word(state: job::State) -> &'static str {
    if state == job::State::Paused { "ACTIVE → PAUSED" } else { "PAUSED → ACTIVE" }
}

fn print(ctx: &mut Context<'_>, step: &Step, dry: bool, done: bool) -> Result<(), CliError> {
    // A calendar or a rule may be called like a job.
    let kind = match &step.name {
        name if name.contains("/calendars/") => "calendar ",
        name if name.contains("/alarmRules/") => "alarm rule ",
        _ => "",
    };
    let name = format!("{kind}{}", names::short(&step.name));
    let line = match (done, dry, &step.action) {
        (false, ..) => format!("failed     {name}"),
        (_, true, action) => format!("{:<10} {name}", word(action)),
        (_, false, Action::Keep) => format!("unchanged  {name}"),
        (_, false, action) => format!("{:<10} {name}", format!("{}d", word(action))),
    };
    writeln!(ctx.term.out, "{}", text::line(&line))?;
    let (changes, state) = changed(&step.action);
    for change in changes {
        writeln!(ctx.term.out, "  {}", text::line(&change.to_string()))?;
    }
    if let Some(state) = state {
        writeln!(ctx.term.out, "  state: {}", state_word(state))?;
    }
    Ok(())
}

fn as_json(step: &Step, done: &Result<(), CliError>) -> Value {
    let mut result = json!({ "name": step.name, "action": word(&step.action), "ok": done.is_ok() });
    if let Err(e) = done {
        result["error"] = json!(render::brief(e));
    }
    if word(&step.action) == "update" {
        let (changes, state) = changed(&step.action);
        let fields = changes.iter().map(|c| json!({"field": c.field, "from": c.from, "to": c.to}));
        result["changes"] = Value::Array(fields.collect());
        if let Some(state) = state {
            result["state"] = json!(state.as_str_name());
        }
    }
    result
}

/// The fields and the state that an action changes.
fn changed(action: &Action) -> (&[Change], Option<job::State>) {
    match action {
        Action::Update { changes, state, .. } => (changes, *state),
        Action::UpdateCalendar { changes, .. } | Action::UpdateRule { changes, .. } => {
            (changes, None)
        }
        _ => (&[], None),
    }
}

fn counts(steps: &[Step]) -> String {
    let of = |word: &str| steps.iter().filter(|step| self::word(&step.action) == word).count();
    format!(
        "{} to create, {} to update, {} to delete, {} unchanged",
        of("create"),
        of("update"),
        of("delete"),
        of("unchanged")
    )
}
