//! Conditions on a run in memory, for watches.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::{
    model::run::{RunRecord, RunState},
    store::ops::Condition,
};

/// Whether the run, as shown at `now`, meets all conditions. `job_labels` are its job's: those
/// given to the run by hand outdo them.
pub fn matches(
    record: &RunRecord,
    job_labels: &BTreeMap<String, String>,
    conditions: &[Condition],
    now: DateTime<Utc>,
) -> bool {
    conditions.iter().all(|condition| holds(record, job_labels, condition, now))
}

fn holds(
    record: &RunRecord,
    job_labels: &BTreeMap<String, String>,
    condition: &Condition,
    now: DateTime<Utc>,
) -> bool {
    match condition {
        Condition::OneOf { field, values, negated } => {
            let value = text(record, field, now);
            values.iter().any(|wanted| wanted == value) != *negated
        }
        Condition::Time { field, from, until } => {
            let at = match *field {
                "fire_time" => record.run.fire_at,
                _ => record.run.created_at,
            };
            from.is_none_or(|from| at >= from) && until.is_none_or(|until| at < until)
        }
        Condition::Label { key, value, negated } => {
            let own = record.run.extra.as_ref().and_then(|extra| extra.labels.get(key));
            let found = own.or_else(|| job_labels.get(key));
            let holds = match (found, value) {
                (found, None) => found.is_some(),
                (found, Some(value)) => found == Some(value),
            };
            holds != *negated
        }
        Condition::ShardOf(None) => !record.run.id.is_shard(),
        Condition::ShardOf(parent) => record.run.parent() == *parent,
        Condition::Contains { field, text: part, negated } => {
            let value = text(record, field, now).to_lowercase();
            value.contains(&part.to_lowercase()) != *negated
        }
    }
}

fn text<'a>(record: &'a RunRecord, field: &str, now: DateTime<Utc>) -> &'a str {
    match field {
        "state" if record.run.state == RunState::Queued && record.run.is_scheduled(now) => {
            "SCHEDULED"
        }
        "state" => record.run.state.as_str(),
        "trigger" => record.run.trigger.as_str(),
        "executor" => record.run.executor.as_deref().unwrap_or_default(),
        _ => "",
    }
}
