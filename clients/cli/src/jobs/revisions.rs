//! `jobs revisions` and `jobs diff`: what a job was before, and who changed what.

use std::io::Write as _;

use clap::Args;
use clawjob_proto::v1::{Job, ListJobRevisionsRequest};
use serde_json::json;

use super::show;
use crate::{
    apply,
    args::OutputFormat,
    client::{Call, Client, jobs},
    context::Context,
    error::CliError,
    names::Kind,
    output,
    paging::{self, ListArgs, Page},
    show::instant,
    text,
};

/// What `jobs revisions` takes.
#[derive(Args, Debug, Clone)]
pub struct JobRevisionsArgs {
    /// APP/JOB
    name: String,
    #[command(flatten)]
    list: ListArgs,
}

/// What `jobs diff` takes.
#[derive(Args, Debug, Clone)]
pub struct JobDiffArgs {
    /// APP/JOB
    name: String,
    /// The older revision [default: the one before --to]
    #[arg(long, value_name = "REVISION")]
    from: Option<u64>,
    /// The newer revision [default: the current one]
    #[arg(long, value_name = "REVISION")]
    to: Option<u64>,
}

pub(super) async fn list(ctx: &mut Context<'_>, args: JobRevisionsArgs) -> Result<(), CliError> {
    let name = ctx.name(Kind::Job, &args.name)?;
    paging::print_list(ctx, &args.list, "jobs", &show::REVISIONS, async |client, size, token| {
        page(client, name.clone(), size, token).await
    })
    .await
}

async fn page(
    client: &mut Client,
    name: String,
    page_size: i32,
    page_token: String,
) -> Result<Page<Job>, CliError> {
    let rq = ListJobRevisionsRequest { name, page_size, page_token };
    let rpc = async |ch, rq| jobs(ch).list_job_revisions(rq).await;
    let page = client.call(Call::SAFE, rq, rpc).await?;
    Ok((page.jobs, page.next_page_token))
}

/// Shows what changed from one revision to another, field by field.
pub(super) async fn diff(ctx: &mut Context<'_>, args: JobDiffArgs) -> Result<(), CliError> {
    let name = ctx.name(Kind::Job, &args.name)?;
    let (from, to) = both(&mut ctx.client, name, args.from, args.to).await?;
    let changes = apply::changes(&from, &to)?;
    if ctx.format != OutputFormat::Table {
        let fields = changes.iter().map(|c| json!({"field": c.field, "from": c.from, "to": c.to}));
        let value = json!({
            "job": to.name,
            "from": from.revision,
            "to": to.revision,
            "changes": fields.collect::<Vec<_>>(),
        });
        return output::value(ctx.term, ctx.format, &value);
    }
    let head = format!(
        "revision {} → {}, by {} at {}",
        from.revision,
        to.revision,
        if to.update_by.is_empty() { "unknown" } else { &to.update_by },
        instant(to.update_time.as_ref(), &ctx.term.zone)
    );
    writeln!(ctx.term.out, "{}", text::line(&head))?;
    for change in &changes {
        writeln!(ctx.term.out, "  {}", text::line(&change.to_string()))?;
    }
    if changes.is_empty() {
        ctx.term.remark("nothing differs");
    }
    Ok(())
}

/// Both revisions, out of the list, which has the newest first.
async fn both(
    client: &mut Client,
    name: String,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<(Job, Job), CliError> {
    let (mut older, mut newer): (Option<Job>, Option<Job>) = (None, None);
    let mut token = String::new();
    loop {
        let (revisions, next) =
            page(client, name.clone(), paging::PAGE_SIZE_MAX as i32, token).await?;
        for job in revisions {
            let is_newer = to.is_none_or(|wanted| job.revision == wanted);
            let is_older = match (from, &newer) {
                (Some(wanted), _) => job.revision == wanted,
                (None, Some(newer)) => job.revision < newer.revision,
                (None, None) => false,
            };
            if is_older && older.is_none() {
                older = Some(job.clone());
            }
            if is_newer && newer.is_none() {
                newer = Some(job);
            }
        }
        token = match (&older, &newer) {
            (Some(_), Some(_)) => break,
            _ if next.is_empty() => break,
            _ => next,
        };
    }
    let missing = |flag: &str, wanted: Option<u64>| match wanted {
        Some(wanted) => CliError::usage(format!(
            "{flag}: there is no revision {wanted}; `clawjob jobs revisions` lists them"
        )),
        None => CliError::usage("there is no earlier revision to compare with"),
    };
    let newer = newer.ok_or_else(|| missing("--to", to))?;
    let older = older.ok_or_else(|| missing("--from", from))?;
    Ok((older, newer))
}
