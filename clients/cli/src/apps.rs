//! `clawjob apps`.

use clap::{Args, Subcommand};
use clawjob_proto::v1::{
    App, CreateAppRequest, DeleteAppRequest, ListAppsRequest, UpdateAppRequest,
};
use jiff::tz::TimeZone;
use prost_types::{Duration, FieldMask};

use crate::{
    client::{self, Call, cluster},
    context::Context,
    error::CliError,
    names,
    output::{self, Columns, Fields},
    paging::{self, ListArgs},
    show::{self, Cell},
    values,
};

/// Commands about apps. An app also comes into being with its first job or executor.
#[derive(Subcommand, Debug, Clone)]
pub enum AppsCommand {
    /// List apps
    List(AppsListArgs),
    /// Create an app
    Create(AppArgs),
    /// Change an app: only what is named
    Update(AppArgs),
    /// Delete an app
    Delete {
        /// The app
        name: String,
        /// Even when it has jobs: they are deleted first, a thousand per call, and their runs stopped
        #[arg(long)]
        force: bool,
    },
}

/// What `apps list` takes.
#[derive(Args, Debug, Clone)]
pub struct AppsListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// An app's name and settings.
#[derive(Args, Debug, Clone)]
pub struct AppArgs {
    /// The app
    name: String,
    /// Its name for people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// At most this many runs at once over all its jobs; 0 means no limit
    #[arg(long, value_name = "COUNT")]
    concurrency: Option<u32>,
    /// The same for one handler, HANDLER=COUNT; repeatable, replaces all such limits
    #[arg(long, value_name = "HANDLER=COUNT", value_parser = limit)]
    handler_concurrency: Vec<(String, u32)>,
    /// How long an executor may be out of contact before its runs are lost
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    lost_after: Option<Duration>,
    /// How long ended runs are kept
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    retention: Option<Duration>,
}

const APPS: Columns<App> = Columns {
    headers: &["APP", "NAME", "CONCURRENCY", "LOST AFTER", "RETENTION", "CREATED"],
    row: |app, zone| {
        vec![
            names::short(&app.name).into(),
            Cell::from(&app.display_name),
            show::count(app.max_concurrency).into(),
            show::duration(app.lost_after.as_ref()).into(),
            show::duration(app.run_retention.as_ref()).into(),
            show::instant(app.create_time.as_ref(), zone).into(),
        ]
    },
};

fn limit(text: &str) -> Result<(String, u32), String> {
    let (handler, count) = values::pair(text)?;
    let count = count.parse().map_err(|_| format!("{count:?} is not a count from 0 up"))?;
    Ok((handler, count))
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: AppsCommand) -> Result<(), CliError> {
    match command {
        AppsCommand::List(args) => list(ctx, args).await,
        AppsCommand::Create(args) => {
            let app_id = names::app_id(&args.name)?.to_owned();
            let (app, _) = app(args)?;
            let rq = CreateAppRequest { app_id, app: Some(app), request_id: client::request_id() };
            let rpc = async |ch, rq| cluster(ch).create_app(rq).await;
            let app = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &app, fields)
        }
        AppsCommand::Update(args) => {
            let (app, paths) = app(args)?;
            if paths.is_empty() {
                return Err(CliError::usage("nothing to change: give at least one option"));
            }
            let rq = UpdateAppRequest { app: Some(app), update_mask: Some(FieldMask { paths }) };
            let rpc = async |ch, rq| cluster(ch).update_app(rq).await;
            let app = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &app, fields)
        }
        AppsCommand::Delete { name, force } => {
            let id = names::app_id(&name)?.to_owned();
            let rq = DeleteAppRequest { name: format!("apps/{id}"), force };
            let rpc = async |ch, rq| cluster(ch).delete_app(rq).await;
            // An app of many jobs is deleted in steps.
            while let Err(fault) = ctx.client.call(Call::ONCE, rq.clone(), rpc).await {
                if fault.reason().as_deref() != Some("APP_DELETION_UNFINISHED") {
                    return Err(fault);
                }
            }
            ctx.done(&format!("deleted {id}"))
        }
    }
}

async fn list(ctx: &mut Context<'_>, args: AppsListArgs) -> Result<(), CliError> {
    paging::print_list(ctx, &args.list, "apps", &APPS, async |client, size, token| {
        let rq = ListAppsRequest { page_size: size, page_token: token };
        let rpc = async |ch, rq| cluster(ch).list_apps(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.apps, page.next_page_token))
    })
    .await
}

/// The app that the flags describe, and the paths of the fields that they name.
fn app(args: AppArgs) -> Result<(App, Vec<String>), CliError> {
    let mut paths = Vec::new();
    let mut named = |given: bool, path: &str| {
        if given {
            paths.push(path.into());
        }
    };
    named(args.display_name.is_some(), "display_name");
    named(args.concurrency.is_some(), "max_concurrency");
    named(!args.handler_concurrency.is_empty(), "handler_max_concurrency");
    named(args.lost_after.is_some(), "lost_after");
    named(args.retention.is_some(), "run_retention");
    let app = App {
        name: format!("apps/{}", names::app_id(&args.name)?),
        display_name: args.display_name.unwrap_or_default(),
        max_concurrency: args.concurrency.unwrap_or_default(),
        handler_max_concurrency: args.handler_concurrency.into_iter().collect(),
        lost_after: args.lost_after,
        run_retention: args.retention,
        ..App::default()
    };
    Ok((app, paths))
}

fn fields(app: &App, zone: &TimeZone) -> Fields {
    let mut limits: Vec<String> =
        app.handler_max_concurrency.iter().map(|(k, v)| format!("{k}={v}")).collect();
    limits.sort();
    vec![
        ("app", names::short(&app.name).into()),
        ("name", Cell::from(&app.display_name)),
        ("concurrency", show::count(app.max_concurrency).into()),
        ("handler concurrency", limits.join(", ").into()),
        ("lost after", show::duration(app.lost_after.as_ref()).into()),
        ("retention", show::duration(app.run_retention.as_ref()).into()),
        ("created", show::instant(app.create_time.as_ref(), zone).into()),
    ]
}
