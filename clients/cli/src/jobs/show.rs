//! How tables show jobs.

use std::collections::BTreeSet;

use clawjob_proto::v1::{
    CronDialect, DisconnectPolicy, Job, LostPolicy, MisfirePolicy, OverlapPolicy, RouteStrategy,
    Schedule, job, schedule::Trigger,
};
use comfy_table::Color;
use jiff::tz::TimeZone;

use crate::{
    names,
    output::{Columns, Fields},
    show::{self, Cell, word_of},
};

/// The columns of job lists.
pub(super) const JOBS: Columns<Job> = Columns {
    headers: &["JOB", "STATE", "SCHEDULE", "HANDLER", "NEXT FIRE", "PROBLEM"],
    row: |job, zone| {
        vec![
            names::short(&job.name).into(),
            state(job),
            schedules(job, zone).into(),
            Cell::from(&job.handler),
            show::instant(job.next_fire_time.as_ref(), zone).into(),
            Cell::from(&job.problem),
        ]
    },
};

/// The columns of lists of revisions.
pub(super) const REVISIONS: Columns<Job> = Columns {
    headers: &["REVISION", "CHANGED", "BY", "SCHEDULE", "HANDLER"],
    row: |job, zone| {
        vec![
            job.revision.to_string().into(),
            show::instant(job.update_time.as_ref(), zone).into(),
            Cell::from(&job.update_by),
            schedules(job, zone).into(),
            Cell::from(&job.handler),
        ]
    },
};

fn state(job: &Job) -> Cell {
    let colour = match job::State::try_from(job.state) {
        Ok(job::State::Paused) => Some(Color::Yellow),
        Ok(job::State::Active) if job.problem.is_empty() => Some(Color::Green),
        Ok(job::State::Active) => Some(Color::Red),
        _ => None,
    };
    Cell { colour, ..Cell::from(word_of!(job::State, "STATE_", job.state)) }
}

fn schedules(job: &Job, zone: &TimeZone) -> String {
    if job.schedules.is_empty() {
        return "by hand".into();
    }
    job.schedules.iter().map(|s| schedule(s, zone)).collect::<Vec<_>>().join("; ")
}

/// A schedule in one line: `0 9 * * * (Asia/Shanghai)`, `every 5m`, `@hourly within 10m`.
fn schedule(schedule: &Schedule, zone: &TimeZone) -> String {
    let line = trigger(schedule, zone);
    match show::duration(schedule.spread.as_ref()) {
        window if window.is_empty() => line,
        window => format!("{line} within {window}"),
    }
}

fn trigger(schedule: &Schedule, zone: &TimeZone) -> String {
    let what = match &schedule.trigger {
        Some(Trigger::Cron(cron)) => cron.clone(),
        Some(Trigger::Interval(every)) => format!("every {}", show::duration(Some(every))),
        Some(Trigger::Delay(delay)) => format!("{} after the end", show::duration(Some(delay))),
        Some(Trigger::At(at)) => format!("at {}", show::instant(Some(at), zone)),
        None => "by hand".into(),
    };
    // An instant and a duration mean the same in every zone.
    let zoned = matches!(schedule.trigger, Some(Trigger::Cron(_)));
    match schedule.time_zone.as_str() {
        "" | "UTC" => what,
        name if zoned => format!("{what} ({name})"),
        _ => what,
    }
}

/// The window of the spread, and when this job's next run is due within it.
fn spread(job: &Job, zone: &TimeZone) -> String {
    let windows = job.schedules.iter().filter_map(|schedule| schedule.spread.as_ref());
    let Some(window) = windows.max_by_key(|window| (window.seconds, window.nanos)) else {
        return String::new();
    };
    let within = format!("within {}", show::duration(Some(window)));
    match show::instant(job.next_due_time.as_ref(), zone) {
        due if due.is_empty() => within,
        due => format!("{within}; next due {due}"),
    }
}

/// A job shown alone.
pub(super) fn fields(job: &Job, zone: &TimeZone) -> Fields {
    let at = |time: &Option<prost_types::Timestamp>| Cell::from(show::instant(time.as_ref(), zone));
    let span = |length: &Option<prost_types::Duration>| Cell::from(show::duration(length.as_ref()));
    let place = job.placement.clone().unwrap_or_default();
    let shards =
        if place.broadcast { "one per executor".into() } else { show::count(place.shard_total) };
    vec![
        ("job", names::short(&job.name).into()),
        ("name", Cell::from(&job.display_name)),
        ("description", Cell::lines(&job.description)),
        ("state", state(job)),
        ("paused until", at(&job.pause_until_time)),
        ("paused for", Cell::from(&job.pause_reason)),
        ("problem", Cell::from(&job.problem)),
        ("schedule", schedules(job, zone).into()),
        ("dialect", dialects(job).into()),
        ("on days of", calendars(job, |s| &s.include_calendars).into()),
        ("not on days of", calendars(job, |s| &s.exclude_calendars).into()),
        ("next fire", at(&job.next_fire_time)),
        ("spread", spread(job, zone).into()),
        ("handler", Cell::from(&job.handler)),
        ("params", show::payload(job.params.as_ref()).into()),
        ("route", word_of!(RouteStrategy, "ROUTE_STRATEGY_", place.route).into()),
        ("route key", Cell::from(&place.route_key)),
        ("busy threshold", threshold(place.busy_threshold).into()),
        ("required labels", show::labels(&place.required_labels).into()),
        ("shards", shards.into()),
        ("timeout", span(&job.timeout)),
        ("kill grace", span(&job.kill_grace)),
        ("retry", retry(job).into()),
        ("overlap", word_of!(OverlapPolicy, "OVERLAP_POLICY_", job.overlap).into()),
        ("concurrency", show::count(job.max_concurrency).into()),
        ("max queued", show::count(job.max_queued).into()),
        ("queue timeout", span(&job.queue_timeout)),
        ("misfire", word_of!(MisfirePolicy, "MISFIRE_POLICY_", job.misfire).into()),
        ("misfire threshold", span(&job.misfire_threshold)),
        ("misfire max", show::count(job.misfire_max).into()),
        ("misfire window", span(&job.misfire_window)),
        (
            "disconnect",
            word_of!(DisconnectPolicy, "DISCONNECT_POLICY_", job.disconnect_policy).into(),
        ),
        ("lost", word_of!(LostPolicy, "LOST_POLICY_", job.lost_policy).into()),
        ("lost after", span(&job.lost_after)),
        ("on success", show::short_names(&job.on_success).into()),
        ("on failure", show::short_names(&job.on_failure).into()),
        ("labels", show::labels(&job.labels).into()),
        ("owner", Cell::from(&job.owner)),
        ("retention", span(&job.run_retention)),
        ("last run", names::short(&job.last_run).into()),
        ("revision", show::count(job.revision).into()),
        ("created", at(&job.create_time)),
        ("changed", at(&job.update_time)),
        ("changed by", Cell::from(&job.update_by)),
    ]
}

/// The calendars of all schedules, each once.
fn calendars(job: &Job, of: fn(&Schedule) -> &Vec<String>) -> String {
    let names: BTreeSet<String> =
        job.schedules.iter().flat_map(of).map(|name| names::short(name)).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn threshold(share: f32) -> String {
    if share == 0.0 { String::new() } else { share.to_string() }
}

fn dialects(job: &Job) -> String {
    let mut words: Vec<String> = job
        .schedules
        .iter()
        .map(|s| word_of!(CronDialect, "CRON_DIALECT_", s.cron_dialect).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    words.dedup();
    words.join(", ")
}

fn retry(job: &Job) -> String {
    let Some(retry) = &job.retry else { return String::new() };
    let mut text = match retry.max_attempts {
        0 | 1 => return "none".into(),
        2 => "once".into(),
        n => format!("{} times", n - 1),
    };
    if let Some(wait) = &retry.initial_backoff {
        text += &format!(", after {} × {}", show::duration(Some(wait)), retry.multiplier);
    }
    if let Some(most) = &retry.max_backoff {
        text += &format!(", at most {}", show::duration(Some(most)));
    }
    if !retry.non_retryable_codes.is_empty() {
        text += &format!(", not for {}", retry.non_retryable_codes.join(", "));
    }
    text
}
