//! The difference of two jobs, field by field.

use std::collections::BTreeMap;

use clawjob_proto::v1::Job;
use serde_json::{Map, Value};

use super::friendly;
use crate::error::CliError;

/// One field that differs; `None` means that it is not set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// Such as `retry.maxAttempts` or `schedules[0].cron`.
    pub(crate) field: String,
    /// What it is.
    pub(crate) from: Option<Value>,
    /// What it is to be.
    pub(crate) to: Option<Value>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |value: &Option<Value>| match value {
            Some(value) => value.to_string(),
            None => "(not set)".into(),
        };
        write!(f, "{}: {} → {}", self.field, shown(&self.from), shown(&self.to))
    }
}

/// What changes from one job to the other, by field; nothing that the server alone writes.
///
/// # Errors
/// A value that JSON cannot carry.
pub(crate) fn changes(from: &Job, to: &Job) -> Result<Vec<Change>, CliError> {
    Ok(of(fields(from)?, fields(to)?))
}

/// What changes from one to the other, by field.
pub(super) fn of(from: Map<String, Value>, to: Map<String, Value>) -> Vec<Change> {
    let (mut from, to) = (leaves(from), leaves(to));
    let mut changes = Vec::new();
    for (field, to) in to {
        let from = from.remove(&field);
        if from.as_ref() != Some(&to) {
            changes.push(Change { field, from, to: Some(to) });
        }
    }
    changes.extend(from.into_iter().map(|(field, from)| Change {
        field,
        from: Some(from),
        to: None,
    }));
    changes.sort_by(|a, b| a.field.cmp(&b.field));
    changes
}

fn fields(job: &Job) -> Result<Map<String, Value>, CliError> {
    let mut map = friendly::value(job)?;
    // The state has RPCs of its own.
    map.remove("state");
    Ok(map)
}

fn leaves(map: Map<String, Value>) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    collect(String::new(), Value::Object(map), &mut out);
    out
}

fn collect(path: String, value: Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                collect(path, value, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.into_iter().enumerate() {
                collect(format!("{path}[{index}]"), value, out);
            }
        }
        // An empty message says as much as none, but for params, whose value is the user's own.
        Value::Object(_) if path.is_empty() || !path.starts_with("params") => {}
        leaf => {
            out.insert(path, leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use clawjob_proto::v1::{RetryPolicy, Schedule, schedule::Trigger};

    use super::*;
    use crate::values;

    fn job() -> Job {
        Job {
            name: "apps/demo/jobs/hello".into(),
            schedules: vec![Schedule {
                trigger: Some(Trigger::Cron("0 9 * * *".into())),
                ..Schedule::default()
            }],
            params: Some(values::payload(&serde_json::json!({"name": "Jacky", "n": 1}))),
            retry: Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }),
            ..Job::default()
        }
    }

    #[test]
    fn each_changed_field_is_one_line() {
        let mut to = job();
        to.schedules[0].trigger = Some(Trigger::Cron("0 10 * * *".into()));
        to.params = Some(values::payload(&serde_json::json!({"name": "Tom"})));
        to.retry = Some(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() });
        to.handler = "hello".into();
        let shown: Vec<String> =
            changes(&job(), &to).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                r#"handler: (not set) → "hello""#,
                "params.n: 1 → (not set)",
                r#"params.name: "Jacky" → "Tom""#,
                "retry.maxAttempts: 1 → 3",
                r#"schedules[0].cron: "0 9 * * *" → "0 10 * * *""#,
            ]
        );
    }

    #[test]
    fn what_the_server_writes_is_no_difference() {
        let mut to = job();
        to.etag = "x".into();
        to.revision = 9;
        to.last_run = "apps/demo/runs/1".into();
        to.state = 2;
        to.params.as_mut().unwrap().data = r#"{ "n": 1, "name": "Jacky" }"#.into();
        assert_eq!(changes(&job(), &to).unwrap(), []);
    }
}
