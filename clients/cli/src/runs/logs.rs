//! `runs logs`: what a run wrote, and what it is writing.

use std::{io::Write as _, ops::ControlFlow, time::Duration};

use clap::Args;
use clawjob_proto::{
    json,
    v1::{
        ListRunLogsRequest, LogLevel, RunView, StoredLogRecord, TailRunLogsRequest,
        TailRunLogsResponse,
    },
};

use super::get;
use crate::{
    args::OutputFormat,
    client::{Call, runs},
    context::Context,
    error::CliError,
    follow::Reconnect,
    names::Kind,
    output::{self, Columns, ListPrinter},
    paging::{self, ListArgs},
    show::{self, is_final, word_of},
    text, time,
    values::{self, LOG_LEVELS},
};

/// How often a run that waits for its next attempt is looked at.
const NEXT_ATTEMPT_POLL: Duration = Duration::from_secs(1);

/// What `runs logs` takes.
#[derive(Args, Debug, Clone)]
pub struct RunLogsArgs {
    /// APP/RUN
    name: String,
    /// Go on until the run has ended, over retries too
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only this attempt [default: the last]
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u32>,
    /// Only records of this level or worse
    #[arg(long, value_name = "LEVEL", value_parser = values::one_of(&LOG_LEVELS))]
    level: Option<i32>,
    /// Only records with this text
    #[arg(long, value_name = "TEXT", conflicts_with = "follow")]
    contains: Option<String>,
    /// At most this many; 0 means all
    #[arg(long, default_value_t = 0, value_name = "COUNT", conflicts_with = "follow")]
    limit: u32,
}

pub(super) async fn run(ctx: &mut Context<'_>, args: RunLogsArgs) -> Result<(), CliError> {
    let name = ctx.name(Kind::Run, &args.name)?;
    if args.follow { follow(ctx, name, &args).await } else { stored(ctx, name, args).await }
}

async fn stored(ctx: &mut Context<'_>, name: String, args: RunLogsArgs) -> Result<(), CliError> {
    let (run, attempt) = (name.clone(), args.attempt);
    let list = ListArgs { limit: args.limit, page_token: String::new() };
    let rest = ListRunLogsRequest {
        name,
        attempt: args.attempt.unwrap_or_default(),
        min_level: args.level.unwrap_or_default(),
        contains: args.contains.unwrap_or_default(),
        ..ListRunLogsRequest::default()
    };
    let format = ctx.format;
    let columns: Columns<StoredLogRecord> = Columns { headers: &[], row: |_, _| Vec::new() };
    let mut printer = ListPrinter::new(format, "records", &columns);
    let (client, term) = (&mut ctx.client, &mut *ctx.term);
    let fetch = async |client: &mut crate::client::Client, size, token| {
        let rq = ListRunLogsRequest { page_size: size, page_token: token, ..rest.clone() };
        let rpc = async |ch, rq| runs(ch).list_run_logs(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.records, page.next_page_token))
    };
    let next = paging::each_page(client, &list, fetch, |records| {
        if format != OutputFormat::Table {
            return printer.page(term, records);
        }
        for record in records {
            writeln!(term.out, "{}", line(record, &term.zone))?;
        }
        Ok(())
    })
    .await?;
    if format != OutputFormat::Table {
        return printer.end(ctx.term, &next);
    }
    tell_dropped(ctx, run, attempt).await
}

/// Says that records are missing, so that what is shown is not taken for all there was.
async fn tell_dropped(
    ctx: &mut Context<'_>,
    name: String,
    attempt: Option<u32>,
) -> Result<(), CliError> {
    let run = get(&mut ctx.client, name, RunView::Full).await?;
    let number = attempt.unwrap_or(run.attempt);
    // One that began on several executors is listed once for each.
    let shown = run.attempts.iter().filter(|attempt| attempt.number == number);
    let dropped: u64 = shown.map(|shown| shown.log_records_dropped).sum();
    if dropped > 0 {
        let dropped = show::counted(dropped, "record");
        ctx.term.remark(&format!("attempt {number} dropped {dropped}"));
    }
    Ok(())
}

/// Where a tail stands: the attempt it follows and the last record it has shown.
#[derive(Debug, Default)]
struct Place {
    attempt: u32,
    seq: u64,
    dropped: u64,
}

async fn follow(ctx: &mut Context<'_>, name: String, args: &RunLogsArgs) -> Result<(), CliError> {
    let mut place = Place { attempt: args.attempt.unwrap_or_default(), ..Place::default() };
    let mut reconnect = Reconnect::default();
    loop {
        let level = args.level.unwrap_or_default();
        tail(ctx, &name, level, &mut place, &mut reconnect).await?;
        if args.attempt.is_some() {
            return Ok(());
        }
        // The attempt has ended; the run may go on with another.
        loop {
            let run = match get(&mut ctx.client, name.clone(), RunView::Basic).await {
                Ok(run) => run,
                Err(e) => {
                    reconnect.after(ctx, e).await?;
                    continue;
                }
            };
            if run.attempt > place.attempt && place.attempt > 0 {
                place = Place { attempt: place.attempt + 1, ..Place::default() };
                break;
            }
            if is_final(run.state) {
                return Ok(());
            }
            time::pause(NEXT_ATTEMPT_POLL).await;
            if place.attempt == 0 {
                // Nothing shown yet, so there is nothing to show twice.
                break;
            }
        }
    }
}

/// Prints one attempt's records until the server says that no more will come.
async fn tail(
    ctx: &mut Context<'_>,
    name: &str,
    min_level: i32,
    place: &mut Place,
    reconnect: &mut Reconnect,
) -> Result<(), CliError> {
    let request = |place: &Place| TailRunLogsRequest {
        name: name.to_owned(),
        attempt: place.attempt,
        after_seq: place.seq,
        min_level,
    };
    let rpc = async |ch, rq| runs(ch).tail_run_logs(rq).await;
    reconnect.follow(ctx, place, request, rpc, take).await
}

fn take(
    ctx: &mut Context<'_>,
    place: &mut Place,
    batch: TailRunLogsResponse,
) -> Result<ControlFlow<()>, CliError> {
    for record in &batch.records {
        print(ctx, record)?;
        // "The last attempt" is another one after a retry: stay with this one.
        place.attempt = place.attempt.max(record.attempt);
        place.seq = place.seq.max(record.seq);
    }
    place.seq = place.seq.max(batch.through_seq);
    if batch.dropped > place.dropped {
        let lost = show::counted(batch.dropped - place.dropped, "record");
        ctx.term.remark(&format!("dropped here: {lost}"));
        place.dropped = batch.dropped;
    }
    Ok(if batch.complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

fn print(ctx: &mut Context<'_>, record: &StoredLogRecord) -> Result<(), CliError> {
    if ctx.format != OutputFormat::Table {
        return output::event(ctx.term, ctx.format, &json::to_value(record)?);
    }
    writeln!(ctx.term.out, "{}", line(record, &ctx.term.zone))?;
    ctx.term.out.flush()?;
    Ok(())
}

/// `2026-03-01 09:00:00+08:00 INFO  message key=value`; further lines of a message are set in.
fn line(stored: &StoredLogRecord, zone: &jiff::tz::TimeZone) -> String {
    let record = stored.record.clone().unwrap_or_default();
    let level = match word_of!(LogLevel, "LOG_LEVEL_", record.level) {
        word if LogLevel::try_from(record.level).is_ok() => word,
        // A level of a newer peer is shown as INFO, as the contract asks.
        _ => "INFO".into(),
    };
    let at = show::instant(record.time.as_ref(), zone);
    let mut fields: Vec<String> =
        record.fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    fields.sort();
    let fields = match fields.as_slice() {
        [] => String::new(),
        fields => format!("  {}", text::line(&fields.join(" "))),
    };
    format!("{at} {level:<5} {}{fields}", text::block(&record.message, "    "))
}

#[cfg(test)]
mod tests {
    use clawjob_proto::v1::LogRecord;

    use super::*;

    #[test]
    fn a_record_is_one_line_with_its_fields_and_without_controls() {
        let stored = StoredLogRecord {
            record: Some(LogRecord {
                time: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
                level: LogLevel::Warn.into(),
                message: "two\nlines\x1b[2J".into(),
                fields: [("b".into(), "2".into()), ("a".into(), "1\n".into())].into(),
            }),
            ..StoredLogRecord::default()
        };
        assert_eq!(
            line(&stored, &jiff::tz::TimeZone::UTC),
            "1970-01-01 00:00:00+00:00 WARN  two\n    lines\\u{1b}[2J  a=1\\n b=2"
        );
    }
}
