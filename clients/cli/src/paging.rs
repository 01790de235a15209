//! Lists: all pages up to a limit, printed as they come.

use prost::{Message, Name};

use crate::{
    client::Client,
    context::Context,
    error::CliError,
    output::{Columns, ListPrinter},
};

/// Largest page that the contract allows.
pub(crate) const PAGE_SIZE_MAX: u32 = 1000;

/// How much of a list is wanted.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct ListArgs {
    /// At most this many; 0 means all
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    pub(crate) limit: u32,
    /// Go on from an earlier list: its nextPageToken
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub(crate) page_token: String,
}

impl ListArgs {
    /// All of the list.
    pub(crate) const ALL: ListArgs = ListArgs { limit: 0, page_token: String::new() };
}

/// One page: its items and the token of the next page.
pub(crate) type Page<T> = (Vec<T>, String);

/// Fetches pages and prints them. `fetch` gets the page size and the page token.
///
/// # Errors
/// What `fetch` or the output says.
pub(crate) async fn print_list<T: Message + Name>(
    ctx: &mut Context<'_>,
    args: &ListArgs,
    key: &'static str,
    columns: &Columns<T>,
    fetch: impl AsyncFn(&mut Client, i32, String) -> Result<Page<T>, CliError>,
) -> Result<(), CliError> {
    let mut printer = ListPrinter::new(ctx.format, key, columns);
    let client = &mut ctx.client;
    let term = &mut *ctx.term;
    let next = each_page(client, args, fetch, |items| printer.page(term, items)).await?;
    printer.end(ctx.term, &next)
}

/// Fetches pages up to the limit and hands each to `take`; returns the token of the page after.
///
/// # Errors
/// What `fetch` or `take` says, and a server that answers the same page again and again.
pub(crate) async fn each_page<T>(
    client: &mut Client,
    args: &ListArgs,
    fetch: impl AsyncFn(&mut Client, i32, String) -> Result<Page<T>, CliError>,
    mut take: impl FnMut(&[T]) -> Result<(), CliError>,
) -> Result<String, CliError> {
    let mut token = args.page_token.clone();
    let mut left = if args.limit == 0 { u32::MAX } else { args.limit };
    loop {
        let size = left.min(PAGE_SIZE_MAX);
        let (mut items, next) = fetch(client, size as i32, token.clone()).await?;
        items.truncate(size as usize);
        take(&items)?;
        if args.limit != 0 {
            left = left.saturating_sub(items.len() as u32);
        }
        if next.is_empty() || left == 0 {
            return Ok(next);
        }
        if next == token {
            return Err(CliError::Answer("the next page is the same page again".into()));
        }
        token = next;
    }
}
