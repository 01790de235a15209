//! Etags: opaque to callers, equal exactly while nothing changed.

use crate::model::{calendar::Calendar, job::Job, run::OpenRun};

/// Of a job. The row id is in it: a job made anew under an old name matches no earlier etag.
pub fn of_job(job: &Job) -> String {
    format!("{:x}-{:x}", job.id.0, job.version)
}

/// Of a calendar.
pub fn of_calendar(calendar: &Calendar) -> String {
    format!("{:x}-{:x}", calendar.id, calendar.version)
}

/// Of a run: what can change of it is its state, attempt, fence and due time.
pub fn of_run(run: &OpenRun) -> String {
    format!(
        "{:x}-{:x}-{:x}-{:x}",
        run.state as u8,
        run.attempt,
        run.fence,
        run.due_at.timestamp_micros()
    )
}
