//! When a schedule fires: recorded answers of the real cron daemon, Quartz, Spring and others;
//! random expressions against a plain daemon; and the behaviours users rely on.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[path = "cron_cases/behaviours.rs"]
mod behaviours;
#[path = "cron_cases/calendars.rs"]
mod calendars;
#[path = "cron_cases/expr.rs"]
mod expr;
#[path = "cron_cases/fuzz.rs"]
mod fuzz;
#[path = "support/fuzz.rs"]
mod fuzzing;
#[path = "cron_cases/oracle.rs"]
mod oracle;
#[path = "cron_cases/rules.rs"]
mod rules;
#[path = "cron_cases/support.rs"]
mod support;

use chrono::{DateTime, Utc};
use clawjob_scheduler::model::schedule::{Dialect, Schedule, Trigger};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

/// One expression; `next` or `error`.
#[derive(Deserialize)]
struct Case {
    id: String,
    dialect: String,
    expr: String,
    tz: String,
    from: DateTime<Utc>,
    #[serde(default)]
    next: Vec<DateTime<Utc>>,
    #[serde(default)]
    error: bool,
}

/// How many fire times a case lists, unless its schedule ends before.
const LISTED: usize = 5;

fn fires(schedule: &Schedule, from: DateTime<Utc>, count: usize) -> Option<Vec<DateTime<Utc>>> {
    let compiled = schedule.compile().ok()?;
    let mut found = Vec::new();
    let mut last = from;
    while found.len() < count
        && let Some(fire) = compiled.next_fire(last, from)
    {
        found.push(fire);
        last = fire;
    }
    Some(found)
}

#[test]
fn every_recorded_case_gets_its_answer() {
    let file: File = serde_json::from_str(include_str!("data/cron_cases.json")).unwrap();
    assert!(file.cases.len() > 600, "the case file is cut short");
    let mut wrong = Vec::new();
    for case in &file.cases {
        let dialect = match case.dialect.as_str() {
            "unix" => Some(Dialect::Unix),
            "quartz" => Some(Dialect::Quartz),
            "spring" => Some(Dialect::Spring),
            "macro" => None,
            other => panic!("case {}: dialect {other}", case.id),
        };
        let schedule = Schedule {
            trigger: Trigger::Cron { text: case.expr.clone(), dialect },
            time_zone: case.tz.clone(),
            ..Schedule::default()
        };
        let found = fires(&schedule, case.from, LISTED);
        let wanted = if case.error { None } else { Some(case.next.clone()) };
        if found != wanted {
            wrong.push(format!("{} {:?} {}: {found:?}", case.id, case.expr, case.tz));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
