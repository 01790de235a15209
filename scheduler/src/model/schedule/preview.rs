//! What a schedule would do, for people.

use chrono::{DateTime, Utc};

use super::fault::ScheduleError;
use super::{Dialect, Schedule, describe};

/// Most fire times of one preview.
pub const PREVIEW_COUNT_MAX: usize = 500;

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
/// # Errors
/// As [`Schedule::compile`].
pub fn preview(
    schedule: &Schedule,
    after: DateTime<Utc>,
    anchor: DateTime<Utc>,
    count: usize,
) -> Result<Preview, Vec<ScheduleError>> {
    let compiled = schedule.compile()?;
    let mut fire_times = Vec::new();
    let mut last = after;
    while fire_times.len() < count.min(PREVIEW_COUNT_MAX)
        && let Some(fire) = compiled.next_fire(last, anchor)
    {
        fire_times.push(fire);
        last = fire;
    }
    let warnings = fire_times.iter().filter_map(|fire| compiled.moved_remark(*fire)).collect();
    Ok(Preview {
        fire_times,
        warnings,
        dialect: compiled.dialect(),
        description: describe::describe(&compiled),
    })
}
