//! Fields of conditions as columns: what both stores' filters have in common before their SQL
//! parts.

use super::{Result, StoreError, ops::Condition};
use crate::model::run::RunState;

/// What a field of a condition stands for in a table.
pub(super) struct Fields {
    /// SQL of a named field.
    pub(super) column: fn(&str) -> Option<&'static str>,
    /// SQL of a label, with a mark in place of its key that the store knows.
    pub(super) label: &'static str,
}

impl Fields {
    /// SQL of a named field.
    ///
    /// # Errors
    /// `Internal` for a field that the table does not have: the caller checks names beforehand.
    pub(super) fn column(&self, field: &str) -> Result<&'static str> {
        (self.column)(field)
            .ok_or_else(|| StoreError::Internal(format!("there is no field {field} to filter by")))
    }
}

/// Columns of `open_run r` and of `ended_run r` that have the same name in both.
pub(super) fn run_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "trigger" => "r.trigger",
        "executor" => "r.executor",
        "fire_time" => "r.fire_at",
        "create_time" => "r.created_at",
        _ => return None,
    })
}

/// Columns of `job j` that are not within its spec.
pub(super) fn job_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "state" => "j.state",
        "name" => "j.name",
        "next_fire_time" => "j.next_fire_at",
        _ => return None,
    })
}

/// Columns of `audit_event` that are texts or instants.
pub(super) fn audit_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "time" => "at",
        "app" => "app",
        "principal" => "principal",
        "method" => "method",
        "resource" => "resource",
        "request_id" => "request_id",
        "peer_address" => "peer_address",
        _ => return None,
    })
}

/// The final states that the conditions let through, if they name states at all: what can't be is
/// not looked for.
pub(super) fn named_ends(conditions: &[Condition]) -> Option<Vec<RunState>> {
    named_states(conditions, RunState::is_final)
}

/// The same of the open states; SCHEDULED is a QUEUED one.
pub(super) fn named_open(conditions: &[Condition]) -> Option<Vec<RunState>> {
    named_states(conditions, |state| !state.is_final())
}

fn named_states(conditions: &[Condition], wanted: fn(RunState) -> bool) -> Option<Vec<RunState>> {
    let mut named: Option<Vec<RunState>> = None;
    for condition in conditions {
        let Condition::OneOf { field: "state", values, negated } = condition else { continue };
        let passes = |word: &str| values.iter().any(|value| value == word) != *negated;
        let fits = |state: &RunState| {
            passes(state.as_str()) || (*state == RunState::Queued && passes("SCHEDULED"))
        };
        let before = named
            .unwrap_or_else(|| RunState::ALL.into_iter().filter(|state| wanted(*state)).collect());
        named = Some(before.into_iter().filter(fits).collect());
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(named: Option<Vec<RunState>>) -> Option<Vec<&'static str>> {
        named.map(|states| states.into_iter().map(RunState::as_str).collect())
    }

    #[test]
    fn states_that_a_filter_names_are_told_apart() {
        let of = |values: &[&str], negated| Condition::OneOf {
            field: "state",
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            negated,
        };
        assert_eq!(named_ends(&[]), None);
        let running = [of(&["RUNNING", "SCHEDULED"], false)];
        assert_eq!(states(named_ends(&running)), Some(vec![]));
        assert_eq!(states(named_open(&running)), Some(vec!["QUEUED", "RUNNING"]));
        let trouble = [of(&["FAILED", "LOST", "RUNNING"], false), of(&["LOST"], true)];
        assert_eq!(states(named_ends(&trouble)), Some(vec!["FAILED"]));
        assert_eq!(states(named_open(&trouble)), Some(vec!["RUNNING"]));
        let not_queued = [of(&["QUEUED"], true), of(&["SCHEDULED"], false)];
        assert_eq!(states(named_open(&not_queued)), Some(vec!["QUEUED"]), "SCHEDULED is one");
    }
}
