//! A warning for jobs whose handler nobody offers just now: it may be mistyped.

use std::collections::BTreeMap;

use clawjob_proto::v1::{Job, ListHandlersRequest};

use crate::{
    client::{Call, Client, fleet},
    context::Context,
    names, text,
};

/// Handlers of an app that are looked at; among more a missing one is not told.
const HANDLERS_MAX: i32 = 1000;
/// Names that a warning lists.
const NAMED_MAX: usize = 10;

/// Warns on stderr of each job whose handler no connected executor of its app offers. What can't
/// be found out is no warning: the jobs are stored all the same.
pub(crate) async fn warn_of_handlers<'a>(
    ctx: &mut Context<'_>,
    jobs: impl IntoIterator<Item = &'a Job>,
) {
    let mut apps: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
    for job in jobs {
        let Some((app, _)) = names::split(&job.name) else { continue };
        if !apps.contains_key(app) {
            let offered = offered(&mut ctx.client, app).await;
            apps.insert(app.to_owned(), offered);
        }
        if let Some(Some(offered)) = apps.get(app)
            && !offered.contains(&job.handler)
        {
            ctx.term.remark(&text::line(&warning(job, app, offered)));
        }
    }
}

async fn offered(client: &mut Client, app: &str) -> Option<Vec<String>> {
    let rq = ListHandlersRequest {
        parent: format!("apps/{app}"),
        page_size: HANDLERS_MAX,
        page_token: String::new(),
    };
    let rpc = async |ch, rq| fleet(ch).list_handlers(rq).await;
    let page = client.call(Call::SAFE, rq, rpc).await.ok()?;
    let names = page.handlers.into_iter().filter_map(|entry| entry.handler.map(|h| h.name));
    page.next_page_token.is_empty().then(|| names.collect())
}

fn warning(job: &Job, app: &str, offered: &[String]) -> String {
    let on_offer = match offered {
        [] => format!("no executor of {app} is connected"),
        offered => {
            let named: Vec<&str> = offered.iter().take(NAMED_MAX).map(String::as_str).collect();
            let rest = match offered.len() - named.len() {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            format!("on offer in {app}: {}{rest}", named.join(", "))
        }
    };
    format!(
        "warning: {}: nobody offers the handler {:?} just now ({on_offer}); its runs wait until \
         somebody does",
        names::short(&job.name),
        job.handler
    )
}
