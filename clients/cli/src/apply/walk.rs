//! Goes through all that an app has of a kind: what a file lacks, and what is printed.

use std::collections::BTreeSet;

use clawjob_proto::v1::{AlarmRule, Calendar, Job, ListJobsRequest};
use tonic::Code;

use super::plan::{Action, Step};
use crate::{
    alarms, calendars,
    client::Client,
    error::CliError,
    jobs,
    paging::{self, ListArgs, Page},
};

/// Which page of what a parent has.
pub(super) struct Asked {
    parent: String,
    page_size: i32,
    page_token: String,
}

/// A kind of thing that files name.
pub(super) trait Kept: Sized {
    /// One page.
    ///
    /// # Errors
    /// What the server says.
    async fn page(client: &mut Client, asked: Asked) -> Result<Page<Self>, CliError>;

    /// Full name.
    fn name(&self) -> &str;

    /// To delete it as it is now.
    fn deletion(&self) -> Action;
}

impl Kept for Job {
    async fn page(client: &mut Client, asked: Asked) -> Result<Page<Self>, CliError> {
        let Asked { parent, page_size, page_token } = asked;
        let rq = ListJobsRequest { parent, page_size, page_token, ..ListJobsRequest::default() };
        jobs::page(client, rq).await
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn deletion(&self) -> Action {
        Action::Delete { etag: self.etag.clone() }
    }
}

impl Kept for Calendar {
    async fn page(client: &mut Client, asked: Asked) -> Result<Page<Self>, CliError> {
        let Asked { parent, page_size, page_token } = asked;
        calendars::page(client, parent, page_size, page_token).await
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn deletion(&self) -> Action {
        Action::DeleteCalendar { etag: self.etag.clone() }
    }
}

impl Kept for AlarmRule {
    async fn page(client: &mut Client, asked: Asked) -> Result<Page<Self>, CliError> {
        let Asked { parent, page_size, page_token } = asked;
        alarms::page_of_rules(client, parent, page_size, page_token).await
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn deletion(&self) -> Action {
        Action::DeleteRule { etag: self.etag.clone() }
    }
}

/// Hands on each thing of the parent; none when the server does not have the kind, or not the app,
/// which comes into being with its first job.
///
/// # Errors
/// What the server or `take` says.
pub(super) async fn each<T: Kept>(
    client: &mut Client,
    parent: &str,
    mut take: impl FnMut(&T) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let fetch = async |client: &mut Client, page_size, page_token| {
        T::page(client, Asked { parent: parent.to_owned(), page_size, page_token }).await
    };
    let take = |page: &[T]| page.iter().try_for_each(&mut take);
    match paging::each_page(client, &ListArgs::ALL, fetch, take).await {
        Err(CliError::Status(status))
            if matches!(status.code(), Code::Unimplemented | Code::NotFound) =>
        {
            Ok(())
        }
        read => read.map(drop),
    }
}

/// Deletes what the apps have and `wanted` does not name.
///
/// # Errors
/// What the server says.
pub(super) async fn surplus<T: Kept>(
    client: &mut Client,
    apps: &BTreeSet<String>,
    wanted: &[T],
) -> Result<Vec<Step>, CliError> {
    let wanted: BTreeSet<&str> = wanted.iter().map(T::name).collect();
    let mut steps = Vec::new();
    for app in apps {
        each(client, &format!("apps/{app}"), |found: &T| {
            if !wanted.contains(found.name()) {
                steps.push(Step { name: found.name().to_owned(), action: found.deletion() });
            }
            Ok(())
        })
        .await?;
    }
    Ok(steps)
}
