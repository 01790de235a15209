//! What a schedule would do, for people.

use chrono::{DateTime, Utc};

use super::fault::ScheduleError;
use super::local::Finder;
use super::plan::{Compiled, Plan};
use super::spec::Parsed;
use super::walk::MADE_UP_MAX;
use super::zone::Change;
use super::{Dialect, Schedule, Trigger, describe, parse};
use crate::model::calendar::Calendars;

/// Most fire times of one preview.
pub const PREVIEW_COUNT_MAX: usize = 500;
/// Most clock changes that one preview remarks on.
const CHANGES_REMARKED_MAX: usize = 20;

/// The next fire times of a schedule, with remarks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The next fire times, spread left out.
    pub fire_times: Vec<DateTime<Utc>>,
    /// Remarks: a run moved or left out by a clock change, a date that never comes, a dialect
    /// that was guessed.
    pub warnings: Vec<String>,
    /// The dialect a cron text was read in.
    pub dialect: Option<Dialect>,
    /// The schedule in words.
    pub description: String,
}

/// The next `count` fire times strictly after `after`, at most [`PREVIEW_COUNT_MAX`].
///
/// A schedule that never fires gives no times and a warning, no error.
///
/// # Errors
/// As [`Schedule::compile`].
pub fn preview(
    schedule: &Schedule,
    after: DateTime<Utc>,
    anchor: DateTime<Utc>,
    count: usize,
) -> Result<Preview, Vec<ScheduleError>> {
    preview_with(schedule, &Calendars::default(), after, anchor, count)
}

/// The same with the calendars that the schedule names.
///
/// # Errors
/// As [`Schedule::compile_with`].
pub fn preview_with(
    schedule: &Schedule,
    calendars: &Calendars,
    after: DateTime<Utc>,
    anchor: DateTime<Utc>,
    count: usize,
) -> Result<Preview, Vec<ScheduleError>> {
    let compiled = schedule.compile_with(calendars)?;
    let mut fire_times = Vec::new();
    let mut last = after;
    while fire_times.len() < count.min(PREVIEW_COUNT_MAX)
        && let Some(fire) = compiled.next_fire(last, anchor)
    {
        fire_times.push(fire);
        last = fire;
    }
    let mut warnings = Vec::new();
    warnings.extend(dialect_remark(&schedule.trigger, &compiled));
    if let Err(never) = compiled.check_fires(after, anchor) {
        warnings.push(never.message);
    }
    if fire_times.is_empty() {
        warnings.extend(compiled.closed_for_good(after, anchor));
    }
    warnings.extend(clock_remarks(&compiled, after, last, &fire_times));
    Ok(Preview {
        fire_times,
        warnings,
        dialect: compiled.dialect(),
        description: describe::describe(&compiled),
    })
}

/// How the other dialect would have counted the weekdays, when the dialect was a guess.
fn dialect_remark(trigger: &Trigger, compiled: &Compiled) -> Option<String> {
    let (Trigger::Cron { text, .. }, Plan::Cron(finder)) = (trigger, &compiled.plan) else {
        return None;
    };
    if !finder.spec.ambiguous {
        return None;
    }
    let taken = describe::weekdays_in_words(&finder.spec);
    let other = match parse::parse(text, Some(Dialect::Spring)) {
        Ok(Parsed::Spec(spec)) => describe::weekdays_in_words(&spec),
        _ => return None,
    };
    Some(format!(
        "read as quartz, which counts weekdays from Sunday as 1: {taken}. Spring would read \
         {other}. Set cron_dialect to choose."
    ))
}

/// A remark on each clock change up to the last fire time shown that touches the schedule.
fn clock_remarks(
    compiled: &Compiled,
    after: DateTime<Utc>,
    last: DateTime<Utc>,
    fires: &[DateTime<Utc>],
) -> Vec<String> {
    let Plan::Cron(finder) = &compiled.plan else { return Vec::new() };
    compiled
        .zone
        .changes_after(after.timestamp())
        .take_while(|change| change.at <= last.timestamp())
        .take(CHANGES_REMARKED_MAX)
        .filter_map(|change| clock_remark(compiled, finder, change, fires))
        .collect()
}

fn clock_remark(
    compiled: &Compiled,
    finder: &Finder,
    change: Change,
    fires: &[DateTime<Utc>],
) -> Option<String> {
    let (old, new) = (change.old_local(), change.new_local());
    let (from, to) = (old.min(new), old.max(new));
    let touched = finder.next(from - 1).filter(|local| *local < to)?;
    let (from, to, touched) = (wall(from)?, wall(to)?, wall(touched)?);
    let zone = compiled.time_zone();
    let follows_clock = finder.spec.follows_clock;
    if change.jump() < 0 {
        return Some(if follows_clock {
            format!(
                "{from} to {to} comes twice in {zone}: the clock is put back; runs start in both"
            )
        } else {
            format!("{touched} comes twice in {zone}: the clock is put back; only the first runs")
        });
    }
    if follows_clock {
        return Some(format!(
            "{from} to {to} does not exist in {zone}: the clock jumps forward; runs in it are left \
             out"
        ));
    }
    if change.jump() > MADE_UP_MAX {
        return Some(format!(
            "{touched} does not exist in {zone}: the clock jumps forward by more than 3 h; the run \
             is left out"
        ));
    }
    let fire = DateTime::from_timestamp(change.at, 0).filter(|at| fires.contains(at))?;
    compiled.moved_remark(fire)
}

fn wall(local: i64) -> Option<String> {
    Some(DateTime::from_timestamp(local, 0)?.format("%Y-%m-%d %H:%M:%S").to_string())
}
