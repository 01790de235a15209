//! Whether a job can be saved: every field's bounds, all faults at once.

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, Utc};

use crate::{
    api::{
        convert::names,
        status::{FIELD_INVALID, Violations},
    },
    model::{
        calendar::Calendars,
        job::{Job, JobSpec, Placement},
        retry::RetryPolicy,
        schedule::{Compiled, Schedule, Trigger},
        shards::SHARDS_MAX,
    },
};

/// Reason of a feature that this server does not have.
pub const NOT_SUPPORTED: &str = "NOT_SUPPORTED";

/// Longest display name, in characters.
pub const DISPLAY_NAME_MAX: usize = 128;
/// Longest description, in characters.
pub const DESCRIPTION_MAX: usize = 4096;
/// Longest owner, in characters.
pub const OWNER_MAX: usize = 256;
/// Longest handler name, in bytes.
pub const HANDLER_MAX: usize = 128;
/// Schedules of one job.
pub const SCHEDULES_MAX: usize = 16;
/// Labels of one job, run or placement.
pub const LABELS_MAX: usize = 64;
/// Longest label key, in bytes.
pub const LABEL_KEY_MAX: usize = 63;
/// Longest label value, in characters.
pub const LABEL_VALUE_MAX: usize = 256;
/// Longest key of a route, in characters.
pub const ROUTE_KEY_MAX: usize = 256;
/// Attempts of one run.
pub const ATTEMPTS_MAX: u32 = 1000;
/// Losses of an executor that one run survives.
pub const LOST_MAX: u32 = 1000;
/// Greatest growth of the backoff per attempt.
pub const MULTIPLIER_MAX: f64 = 100.0;
/// Failure codes that are never retried.
pub const CODES_MAX: usize = 64;
/// Longest failure code, in bytes.
pub const CODE_MAX: usize = 63;
/// Priorities lie between this and its negative.
pub const PRIORITY_MAX: i32 = 1000;
/// Bound of `max_concurrency`, `max_queued` and `misfire_max`.
pub const COUNT_MAX: u32 = 10_000;
/// Fire times of one schedule that may be spread at the same moment.
pub const SPREAD_FIRES_MAX: usize = 100;

/// Checks the content that `job`, which has the calendars it names, is to have, and stores the dialect that was found with each cron
/// text. A schedule that the job has already may have done its work; a new one must still have a
/// fire time after `now`. Gives the schedules made ready; whatever is wrong is added under its path
/// below `job.`.
pub fn job(
    job: &Job,
    spec: &mut JobSpec,
    now: DateTime<Utc>,
    bad: &mut Violations,
) -> Vec<Arc<Compiled>> {
    text("job.display_name", &spec.display_name, DISPLAY_NAME_MAX, bad);
    long_text("job.description", &spec.description, DESCRIPTION_MAX, bad);
    text("job.owner", &spec.owner, OWNER_MAX, bad);
    handler("job.handler", &spec.handler, bad);
    labels("job.labels", &spec.labels, bad);
    placement("job.placement", &spec.placement, bad);
    retry("job.retry", &spec.retry, bad);
    for (field, value) in [
        ("job.max_concurrency", spec.max_concurrency),
        ("job.max_queued", spec.max_queued),
        ("job.misfire_max", spec.misfire_max),
    ] {
        if value > COUNT_MAX {
            bad.invalid(field, format!("is {value}; use at most {COUNT_MAX}"));
        }
    }
    if !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&spec.priority) {
        bad.invalid("job.priority", format!("must lie from -{PRIORITY_MAX} to {PRIORITY_MAX}"));
    }
    shards("job.placement", &spec.placement, bad);
    all_schedules(job, spec, now, bad)
}

/// One line of free text: bounded, without control characters.
pub fn text(field: &str, text: &str, max: usize, bad: &mut Violations) {
    if text.chars().any(char::is_control) {
        bad.invalid(field, "has control characters; leave them out");
    }
    long_text(field, text, max, bad);
}

fn long_text(field: &str, text: &str, max: usize, bad: &mut Violations) {
    let length = text.chars().count();
    if length > max {
        bad.invalid(field, format!("has {length} characters; use at most {max}"));
    }
    if text.contains('\0') {
        bad.invalid(field, "has a NUL character; leave it out");
    }
}

/// The name of a handler.
pub fn handler(field: &str, name: &str, bad: &mut Violations) {
    let plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.is_empty() {
        bad.invalid(field, "must name a handler that an executor of the app offers");
    } else if name.len() > HANDLER_MAX || !plain {
        let rule = format!("must be 1 to {HANDLER_MAX} printable ASCII characters without spaces");
        bad.invalid(field, rule);
    }
}

/// Labels of a job, a run or a placement.
pub fn labels(field: &str, labels: &BTreeMap<String, String>, bad: &mut Violations) {
    if labels.len() > LABELS_MAX {
        bad.invalid(field, format!("has {} labels; use at most {LABELS_MAX}", labels.len()));
        return;
    }
    for (key, value) in labels {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if key.is_empty() || key.len() > LABEL_KEY_MAX || !key.bytes().all(plain) {
            let key: String = key.chars().take(LABEL_KEY_MAX).collect();
            bad.invalid(
                format!("{field}[{key:?}]"),
                format!("key must be 1 to {LABEL_KEY_MAX} characters of a-z, A-Z, 0-9 and ._-/"),
            );
        } else {
            text(&format!("{field}[{key:?}]"), value, LABEL_VALUE_MAX, bad);
        }
    }
}

fn placement(field: &str, placement: &Placement, bad: &mut Violations) {
    labels(&format!("{field}.required_labels"), &placement.required_labels, bad);
    text(&format!("{field}.route_key"), &placement.route_key, ROUTE_KEY_MAX, bad);
    if !(0.0..=1.0).contains(&placement.busy_threshold) {
        let rule = "must be a share from 0 to 1, as 0.8; 0 means that only a full executor is busy";
        bad.invalid(format!("{field}.busy_threshold"), rule);
    }
}

fn retry(field: &str, retry: &RetryPolicy, bad: &mut Violations) {
    if !(1..=ATTEMPTS_MAX).contains(&retry.max_attempts) {
        bad.invalid(format!("{field}.max_attempts"), format!("must lie from 1 to {ATTEMPTS_MAX}"));
    }
    if retry.max_lost > LOST_MAX {
        bad.invalid(format!("{field}.max_lost"), format!("must be at most {LOST_MAX}"));
    }
    if !(1.0..=MULTIPLIER_MAX).contains(&retry.multiplier) {
        bad.invalid(format!("{field}.multiplier"), format!("must lie from 1 to {MULTIPLIER_MAX}"));
    }
    if !(0.0..=1.0).contains(&retry.jitter) {
        bad.invalid(format!("{field}.jitter"), "must lie from 0 to 1");
    }
    if retry.max_backoff < retry.initial_backoff {
        bad.invalid(
            format!("{field}.max_backoff"),
            "is shorter than initial_backoff; raise it (the default is 5 minutes)",
        );
    }
    if retry.non_retryable_codes.len() > CODES_MAX {
        bad.invalid(format!("{field}.non_retryable_codes"), format!("has over {CODES_MAX} codes"));
    }
    for (index, code) in retry.non_retryable_codes.iter().take(CODES_MAX).enumerate() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-:".contains(&byte);
        if code.is_empty() || code.len() > CODE_MAX || !code.bytes().all(plain) {
            bad.invalid(
                format!("{field}.non_retryable_codes[{index}]"),
                format!("must be a failure code of 1 to {CODE_MAX} characters, as HANDLER_ERROR"),
            );
        }
    }
}

fn shards(field: &str, placement: &Placement, bad: &mut Violations) {
    let total = placement.shard_total;
    if total > SHARDS_MAX {
        bad.invalid(
            format!("{field}.shard_total"),
            format!("is {total}; split a run into at most {SHARDS_MAX} shards"),
        );
    }
    if placement.broadcast && total > 0 {
        bad.invalid(
            format!("{field}.shard_total"),
            "must be 0 with broadcast, which makes one shard for each executor; use one of both",
        );
    }
}

fn all_schedules(
    job: &Job,
    spec: &mut JobSpec,
    now: DateTime<Utc>,
    bad: &mut Violations,
) -> Vec<Arc<Compiled>> {
    if spec.schedules.len() > SCHEDULES_MAX {
        let count = spec.schedules.len();
        bad.invalid("job.schedules", format!("has {count} entries; use at most {SCHEDULES_MAX}"));
        return Vec::new();
    }
    let mut ready = Vec::with_capacity(spec.schedules.len());
    for (index, schedule) in spec.schedules.iter_mut().enumerate() {
        let path = format!("job.schedules[{index}]");
        let Some(compiled) = compile(&path, schedule, &job.calendars, bad) else { continue };
        if let Trigger::Cron { dialect, .. } = &mut schedule.trigger {
            *dialect = compiled.dialect();
        }
        if !job.spec.schedules.contains(schedule)
            && let Err(fault) = compiled.check_fires(now, job.created_at)
        {
            bad.add(format!("{path}.{}", fault.field), fault.reason.as_str(), fault.message);
        }
        let compiled = Arc::new(compiled);
        if fires_too_often_for_its_spread(job, schedule, &compiled, now) {
            bad.invalid(
                format!("{path}.spread"),
                format!(
                    "holds more than {SPREAD_FIRES_MAX} of the schedule's fire times; shorten it"
                ),
            );
        }
        ready.push(compiled);
    }
    ready
}

/// Compiles one schedule with the calendars it names; whatever is wrong is added below `path`.
fn compile(
    path: &str,
    schedule: &Schedule,
    calendars: &Calendars,
    bad: &mut Violations,
) -> Option<Compiled> {
    match schedule.compile_with(calendars) {
        Ok(compiled) => Some(compiled),
        Err(faults) => {
            for fault in faults {
                bad.add(format!("{path}.{}", fault.field), fault.reason.as_str(), fault.message);
            }
            None
        }
    }
}

/// A change of the job plans anew what is being spread, in one transaction: that is bounded.
fn fires_too_often_for_its_spread(
    job: &Job,
    schedule: &Schedule,
    compiled: &Arc<Compiled>,
    now: DateTime<Utc>,
) -> bool {
    let Some(until) = chrono::TimeDelta::from_std(schedule.spread)
        .ok()
        .and_then(|spread| now.checked_add_signed(spread))
    else {
        return true;
    };
    let mut seen = now;
    for _ in 0..=SPREAD_FIRES_MAX {
        match compiled.next_fire(seen, job.created_at) {
            Some(fire) if fire < until => seen = fire,
            _ => return false,
        }
    }
    true
}

/// Checks an executor that a caller names for one run: it must be of the job's app.
pub fn target_executor(field: &str, name: &str, app: &str, bad: &mut Violations) -> Option<String> {
    let (of, executor) = names::parse_executor(field, name, bad)?;
    if of != app {
        bad.add(field, FIELD_INVALID, format!("is of apps/{of}; name an executor of apps/{app}"));
        return None;
    }
    Some(executor)
}

#[cfg(test)]
mod tests;
