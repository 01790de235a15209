//! How tables show runs.

use std::io::Write as _;

use clawjob_proto::v1::{Attempt, Failure, KillReason, Outcome, Run, run::Trigger};
use jiff::tz::TimeZone;

use crate::{
    error::CliError,
    names,
    output::{Columns, Fields, ListPrinter},
    show::{self, Cell, word_of},
    terminal::Terminal,
    text,
};

/// The columns of lists of runs. What has elapsed is from the first start to the recorded end, with
/// the waits between attempts and for a server that was away; how long a handler took is its
/// attempt's own, as its executor measured it.
pub(super) const RUNS: Columns<Run> = Columns {
    headers: &["RUN", "JOB", "STATE", "FIRE TIME", "ELAPSED", "ATTEMPT", "EXECUTOR", "WHY"],
    row: |run, zone| {
        vec![
            names::short(&run.name).into(),
            names::short(&run.job).into(),
            show::run_state_cell(run.state),
            show::instant(run.fire_time.as_ref().or(run.create_time.as_ref()), zone).into(),
            show::between(run.start_time.as_ref(), run.end_time.as_ref()).into(),
            show::count(run.attempt).into(),
            names::split(&run.executor).map_or("", |(_, id)| id).into(),
            why(run).into(),
        ]
    },
};

/// The columns of the shards of one run.
pub(super) const SHARDS: Columns<Run> = Columns {
    headers: &["SHARD", "STATE", "EXECUTOR", "TOOK", "ATTEMPT", "RUN", "WHY"],
    row: |run, _| {
        vec![
            run.shard_index.to_string().into(),
            show::run_state_cell(run.state),
            names::split(&run.executor).map_or("", |(_, id)| id).into(),
            show::between(run.start_time.as_ref(), run.end_time.as_ref()).into(),
            show::count(run.attempt).into(),
            names::short(&run.name).into(),
            why(run).into(),
        ]
    },
};

const ATTEMPTS: Columns<Attempt> = Columns {
    headers: &["ATTEMPT", "OUTCOME", "EXECUTOR", "STARTED", "TOOK", "LOG", "WHY"],
    row: |attempt, zone| {
        let out = attempt.disconnected_since.as_ref();
        let why = match (&attempt.failure, out) {
            (Some(failure), _) => self::failure(failure),
            (None, Some(since)) => {
                format!("out of contact since {}", show::instant(Some(since), zone))
            }
            (None, None) => String::new(),
        };
        vec![
            attempt.number.to_string().into(),
            word_of!(Outcome, "OUTCOME_", attempt.outcome).into(),
            names::short(&attempt.executor).into(),
            show::instant(started(attempt), zone).into(),
            took(attempt).into(),
            log(attempt).into(),
            why.into(),
        ]
    },
};

/// When an attempt began: by its executor's word, else when the scheduler had its acknowledgement.
fn started(attempt: &Attempt) -> Option<&prost_types::Timestamp> {
    attempt.start_time.as_ref().or(attempt.ack_time.as_ref())
}

/// How long it took, as its executor measured it. One that was given up has no such word: it ended
/// at the latest when that was done.
fn took(attempt: &Attempt) -> String {
    match &attempt.duration {
        Some(duration) => show::duration(Some(duration)),
        None => match show::between(started(attempt), attempt.end_time.as_ref()) {
            most if most.is_empty() => most,
            most => format!("up to {most}"),
        },
    }
}

/// How many records an attempt's log has, and how many more there would be.
fn log(attempt: &Attempt) -> String {
    match (attempt.log_records, attempt.log_records_dropped) {
        (0, 0) => String::new(),
        (kept, 0) => kept.to_string(),
        (kept, dropped) => format!("{kept} ({dropped} dropped)"),
    }
}

/// Why a run is in its state: the server's own line, else its failure, else what is coming.
pub(super) fn why(run: &Run) -> String {
    if !run.state_message.is_empty() {
        return run.state_message.clone();
    }
    match &run.failure {
        Some(failure) => self::failure(failure),
        None => match run.progress {
            Some(share) if !show::is_final(run.state) => {
                format!("{:.0} % {}", share * 100.0, run.progress_message).trim().into()
            }
            _ => String::new(),
        },
    }
}

fn failure(failure: &Failure) -> String {
    match (failure.code.as_str(), failure.message.as_str()) {
        (code, "") => code.into(),
        ("", message) => message.into(),
        (code, message) => format!("{code}: {message}"),
    }
}

/// A run in one line of `runs watch`, or after waiting.
pub(super) fn line(run: &Run, zone: &TimeZone) -> String {
    let at = run.end_time.as_ref().or(run.start_time.as_ref()).or(run.fire_time.as_ref());
    let at = at.or(run.create_time.as_ref());
    let mut parts = vec![
        show::instant(at, zone),
        format!("{:<10}", show::run_state(run.state)),
        names::short(&run.job),
        names::split(&run.name).map_or(run.name.as_str(), |(_, id)| id).into(),
    ];
    if run.attempt > 1 {
        parts.push(format!("attempt {}", run.attempt));
    }
    if show::is_final(run.state) {
        parts.push(show::between(run.start_time.as_ref(), run.end_time.as_ref()));
    }
    parts.push(why(run));
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

/// By so much two nodes' clocks may differ, in seconds.
const CLOCKS_S: i64 = 1;

/// Whether the run waited again after its first start, for a retry or because an executor stopped:
/// its due time is then that of the last wait.
fn waited_again(run: &Run) -> bool {
    let seconds = |time: &Option<prost_types::Timestamp>| time.as_ref().map(|time| time.seconds);
    let since = seconds(&run.due_time).zip(seconds(&run.start_time)).map(|(due, at)| due - at);
    run.attempt > 1 || run.attempts.len() > 1 || since.is_some_and(|since| since > CLOCKS_S)
}

/// A run shown alone.
pub(super) fn fields(run: &Run, zone: &TimeZone) -> Fields {
    let at = |time: &Option<prost_types::Timestamp>| Cell::from(show::instant(time.as_ref(), zone));
    let shard = match run.shard_total {
        0 => String::new(),
        total if run.parent_run.is_empty() => format!("{total} in all"),
        total => format!("{} of {total}", run.shard_index),
    };
    let missed = match run.missed_count {
        0 => String::new(),
        n => format!("{n}, up to {}", show::instant(run.missed_until_time.as_ref(), zone)),
    };
    vec![
        ("run", names::short(&run.name).into()),
        ("job", names::short(&run.job).into()),
        ("job revision", show::count(run.job_revision).into()),
        ("state", show::run_state_cell(run.state)),
        ("why", why(run).into()),
        ("trigger", word_of!(Trigger, "TRIGGER_", run.trigger).to_lowercase().into()),
        ("triggered by", Cell::from(&run.triggered_by)),
        ("rerun of", names::short(&run.rerun_of).into()),
        ("caused by", names::short(&run.caused_by).into()),
        ("fire time", at(&run.fire_time)),
        (if waited_again(run) { "due again" } else { "due" }, at(&run.due_time)),
        ("created", at(&run.create_time)),
        ("started", at(&run.start_time)),
        ("ended", at(&run.end_time)),
        ("elapsed", show::between(run.start_time.as_ref(), run.end_time.as_ref()).into()),
        ("next attempt", at(&run.next_attempt_time)),
        ("executor", names::short(&run.executor).into()),
        ("shard", shard.into()),
        ("parent run", names::short(&run.parent_run).into()),
        ("missed", missed.into()),
        ("kill reason", word_of!(KillReason, "KILL_REASON_", run.kill_reason).into()),
        ("labels", show::labels(&run.labels).into()),
        ("params", show::payload(run.params.as_ref()).into()),
        ("output", show::payload(run.output.as_ref()).into()),
        ("trace", Cell::from(&run.traceparent)),
    ]
}

/// What takes several lines: the stack of a failure, and the table of the attempts.
pub(super) fn details(term: &mut Terminal, run: &Run) -> Result<(), CliError> {
    let stack = run.failure.as_ref().map(|failure| failure.stack.as_str()).unwrap_or_default();
    if !stack.is_empty() {
        writeln!(term.out, "\n  {}", text::block(stack, "  "))?;
    }
    if run.attempts.is_empty() {
        return Ok(());
    }
    writeln!(term.out)?;
    let format = crate::args::OutputFormat::Table;
    let mut printer = ListPrinter::new(format, "attempts", &ATTEMPTS);
    printer.page(term, &run.attempts)?;
    printer.end(term, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    #[test]
    fn an_attempt_that_was_given_up_shows_what_the_scheduler_knows() {
        let lost = Attempt { ack_time: at(100), end_time: at(165), ..Attempt::default() };
        assert_eq!((started(&lost), took(&lost).as_str()), (at(100).as_ref(), "up to 1m05s"));
        let never_acked = Attempt { end_time: at(165), ..Attempt::default() };
        assert_eq!((started(&never_acked), took(&never_acked).as_str()), (None, ""));
        let duration = Some(prost_types::Duration { seconds: 3, nanos: 0 });
        let own = Attempt { start_time: at(101), duration, ..lost };
        assert_eq!((started(&own), took(&own).as_str()), (at(101).as_ref(), "3s"));
    }

    #[test]
    fn a_due_time_after_the_first_start_is_told_as_that() {
        let run = Run { attempt: 1, due_time: at(100), start_time: at(100), ..Run::default() };
        assert!(!waited_again(&run));
        assert!(!waited_again(&Run { start_time: None, ..run.clone() }));
        assert!(waited_again(&Run { due_time: at(300), ..run.clone() }), "its executor stopped");
        assert!(waited_again(&Run { attempt: 2, ..run.clone() }));
        assert!(waited_again(&Run { attempts: vec![Attempt::default(); 2], ..run }));
    }
}
