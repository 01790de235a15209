//! Calendars of a file: compared with the server's, made before the jobs that use them.

use std::collections::BTreeSet;

use clawjob_proto::{
    json,
    v1::{Calendar, Job},
};
use serde_json::{Map, Value};
use tonic::Code;

use super::{
    diff,
    file::Wanted,
    plan::{Action, Step},
};
use crate::{calendars, client::Client, error::CliError};

/// Fields of a calendar that a file sets; a file says all of a calendar.
const FIELDS: [&str; 4] = ["display_name", "dates", "weekdays", "windows"];

/// What becomes of each wanted calendar.
///
/// # Errors
/// What the server says.
pub(super) async fn compare(client: &mut Client, wanted: &Wanted) -> Result<Vec<Step>, CliError> {
    let mut steps = Vec::new();
    for calendar in &wanted.calendars {
        let name = calendar.name.clone();
        let action = match calendars::get(client, name.clone()).await {
            Ok(current) => {
                let changes = diff::of(value(&current)?, value(calendar)?);
                match changes.is_empty() {
                    true => Action::Keep,
                    false => {
                        let etag = current.etag;
                        let calendar = Box::new(Calendar { etag, ..calendar.clone() });
                        Action::UpdateCalendar { calendar, changes }
                    }
                }
            }
            Err(CliError::Status(status)) if status.code() == Code::NotFound => {
                Action::CreateCalendar(Box::new(calendar.clone()))
            }
            Err(e) => return Err(e),
        };
        steps.push(Step { name, action });
    }
    Ok(steps)
}

/// A calendar in the shape of a file, without its name; sorted as the server keeps it.
///
/// # Errors
/// A value that JSON cannot carry.
pub(super) fn value(calendar: &Calendar) -> Result<Map<String, Value>, CliError> {
    let mut calendar = calendar.clone();
    calendar.dates.sort();
    calendar.dates.dedup();
    calendar.weekdays.sort_unstable();
    calendar.weekdays.dedup();
    let Value::Object(mut map) = json::to_value(&calendar)? else { return Ok(Map::new()) };
    map.remove("name");
    map.remove("etag");
    Ok(map)
}

/// Makes the calendar what the file says.
///
/// # Errors
/// What the server says.
pub(super) async fn write(client: &mut Client, calendar: &Calendar) -> Result<(), CliError> {
    let paths = FIELDS.map(str::to_owned).to_vec();
    calendars::write(client, calendar.clone(), paths).await.map(drop)
}

/// The job without the calendars that are still to be made: the server can check all the rest.
pub(super) fn without_new(job: &Job, new: &BTreeSet<String>) -> Job {
    let mut job = job.clone();
    for schedule in &mut job.schedules {
        schedule.include_calendars.retain(|name| !new.contains(name));
        schedule.exclude_calendars.retain(|name| !new.contains(name));
    }
    job
}

/// Gives a checked job the calendars back that it was checked without.
pub(super) fn with_all(checked: &mut Job, wanted: &Job) {
    for (checked, wanted) in checked.schedules.iter_mut().zip(&wanted.schedules) {
        checked.include_calendars.clone_from(&wanted.include_calendars);
        checked.exclude_calendars.clone_from(&wanted.exclude_calendars);
    }
}

#[cfg(test)]
mod tests {
    use clawjob_proto::v1::Schedule;

    use super::*;

    #[test]
    fn the_order_of_days_is_no_difference() {
        let calendar = |dates: &[&str], weekdays: &[i32]| Calendar {
            name: "apps/demo/calendars/c".into(),
            dates: dates.iter().map(|date| (*date).into()).collect(),
            weekdays: weekdays.to_vec(),
            ..Calendar::default()
        };
        let one = calendar(&["2026-12-26", "2026-12-25", "2026-12-25"], &[7, 6]);
        let other =
            Calendar { etag: "e".into(), ..calendar(&["2026-12-25", "2026-12-26"], &[6, 7]) };
        assert_eq!(diff::of(value(&one).unwrap(), value(&other).unwrap()), []);
        let third = calendar(&["2026-12-25"], &[6, 7]);
        assert_eq!(diff::of(value(&one).unwrap(), value(&third).unwrap()).len(), 1);
    }

    #[test]
    fn a_job_is_checked_without_calendars_that_are_still_to_be_made() {
        let schedule = Schedule {
            include_calendars: vec!["new".into(), "old".into()],
            exclude_calendars: vec!["new".into()],
            ..Schedule::default()
        };
        let job = Job { schedules: vec![schedule], ..Job::default() };
        let mut checked = without_new(&job, &["new".to_owned()].into());
        assert_eq!(checked.schedules[0].include_calendars, ["old"]);
        assert!(checked.schedules[0].exclude_calendars.is_empty());
        with_all(&mut checked, &job);
        assert_eq!(checked, job);
    }
}
