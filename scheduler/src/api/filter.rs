//! Filters: a subset of AIP-160, turned into conditions that the store can hold.
//!
//! `state = RUNNING AND labels.team = "billing" AND NOT handler : "mail"`. Operators: `=`, `!=`,
//! `<`, `<=`, `>`, `>=` and `:` (has), joined by `AND`, `OR` and `NOT` (or `-`), with parentheses;
//! terms side by side mean `AND`, and `OR` binds tighter than `AND`, as in AIP-160. Values are bare
//! words or texts in double quotes. `OR` works among values of one field.

mod fields;
mod matching;
mod parse;

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

pub use fields::{
    ALARM_FIELDS, AUDIT_FIELDS, EXECUTOR_FIELDS, Fields, JOB_FIELDS, Kind, RULE_FIELDS, RUN_FIELDS,
};
pub use matching::matches;
use parse::{Comparison, Expr, Op};

use crate::{
    api::{convert::names, status::Violations},
    store::ops::Condition,
};

/// Longest filter, in bytes.
pub const FILTER_MAX: usize = 4096;
/// Comparisons of one filter.
pub const TERMS_MAX: usize = 64;
/// Parentheses and NOTs within one another.
pub const DEPTH_MAX: usize = 16;

/// Reason of a filter that can't be used.
pub const REASON: &str = "FILTER_INVALID";

/// A filter as conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// What the store checks.
    pub conditions: Vec<Condition>,
    /// Jobs by full name of which the run must be, from the field `job`; `None` means any.
    pub jobs: Option<BTreeSet<names::JobName>>,
}

impl Filter {
    /// Leaves shards out, unless the filter asks for those of one parent or of one executor.
    pub fn leave_out_shards(&mut self) {
        let asks = |condition: &Condition| {
            matches!(
                condition,
                Condition::ShardOf(_) | Condition::OneOf { field: "executor", negated: false, .. }
            )
        };
        if !self.conditions.iter().any(asks) {
            self.conditions.push(Condition::ShardOf(None));
        }
    }

    /// The states that an unnegated condition names, with all such conditions taken together;
    /// `None` when the filter does not name any.
    pub fn states(&self) -> Option<BTreeSet<&str>> {
        let mut named: Option<BTreeSet<&str>> = None;
        for condition in &self.conditions {
            if let Condition::OneOf { field: "state", values, negated: false } = condition {
                let set: BTreeSet<&str> = values.iter().map(String::as_str).collect();
                named = Some(match named {
                    None => set,
                    Some(before) => before.intersection(&set).copied().collect(),
                });
            }
        }
        named
    }
}

/// Reads a filter over the given fields. What is wrong is added under the field `filter`.
pub fn parse(text: &str, fields: &Fields, bad: &mut Violations) -> Filter {
    parse_in("filter", text, fields, bad)
}

/// Like [`parse`], of a filter in another field.
pub fn parse_in(path: &str, text: &str, fields: &Fields, bad: &mut Violations) -> Filter {
    match read(text, fields) {
        Ok(filter) => filter,
        Err(why) => {
            bad.add(path, REASON, why);
            Filter::default()
        }
    }
}

fn read(text: &str, fields: &Fields) -> Result<Filter, String> {
    let mut filter = Filter::default();
    let Some(expr) = parse::parse(text)? else { return Ok(filter) };
    let mut conditions = Vec::new();
    flatten(&expr, false, fields, &mut conditions)?;
    for condition in conditions {
        match condition {
            Condition::OneOf { field: "job", values, negated: false } => {
                let named = job_names(&values)?;
                filter.jobs = Some(match filter.jobs.take() {
                    None => named,
                    Some(before) => before.intersection(&named).cloned().collect(),
                });
            }
            Condition::OneOf { field: "job", .. } => {
                return Err("job can't be negated; name the jobs that are wanted".to_owned());
            }
            other => filter.conditions.push(other),
        }
    }
    Ok(filter)
}

fn job_names(values: &[String]) -> Result<BTreeSet<names::JobName>, String> {
    let mut bad = Violations::new();
    let named =
        values.iter().filter_map(|value| names::parse_job("job", value, &mut bad)).collect();
    bad.finish().map_err(|error| error.message().to_owned())?;
    Ok(named)
}

/// Pushes NOT down to the comparisons and collects what must hold.
fn flatten(
    expr: &Expr,
    negated: bool,
    fields: &Fields,
    into: &mut Vec<Condition>,
) -> Result<(), String> {
    match (expr, negated) {
        (Expr::Not(inner), _) => flatten(inner, !negated, fields, into),
        (Expr::And(all), false) | (Expr::Or(all), true) => {
            all.iter().try_for_each(|inner| flatten(inner, negated, fields, into))
        }
        (Expr::Or(any), false) | (Expr::And(any), true) => {
            into.push(one_of_any(any, negated, fields)?);
            Ok(())
        }
        (Expr::Compare(comparison), _) => {
            into.push(condition(comparison, negated, fields)?);
            Ok(())
        }
    }
}

/// Alternatives: the store holds them only as values of one field.
fn one_of_any(any: &[Expr], negated: bool, fields: &Fields) -> Result<Condition, String> {
    let mut merged: Option<(&'static str, Vec<String>)> = None;
    for inner in any {
        let mut alternatives = Vec::new();
        flatten(inner, negated, fields, &mut alternatives)?;
        for (index, alternative) in alternatives.into_iter().enumerate() {
            match (alternative, &mut merged) {
                (Condition::OneOf { field, values, negated: false }, None) if index == 0 => {
                    merged = Some((field, values));
                }
                (Condition::OneOf { field, values, negated: false }, Some((known, all)))
                    if index == 0 && field == *known =>
                {
                    all.extend(values);
                }
                _ => {
                    return Err("OR works only among values of one field compared by =, as in \
                                (state = FAILED OR state = LOST); ask twice instead"
                        .to_owned());
                }
            }
        }
    }
    let (field, values) = merged.ok_or("has an empty OR")?;
    Ok(Condition::OneOf { field, values, negated: false })
}

fn condition(comparison: &Comparison, negated: bool, fields: &Fields) -> Result<Condition, String> {
    let Comparison { path, op, value } = comparison;
    if let Some(key) = path.strip_prefix("labels.").filter(|_| fields.has_labels()) {
        return label(key, *op, value, negated);
    }
    if path == "labels" && *op == Op::Has && fields.has_labels() {
        return Ok(Condition::Label { key: value.clone(), value: None, negated });
    }
    let (field, kind) = fields
        .find(path)
        .ok_or_else(|| format!("{path:?} is no field to filter by; use {}", fields.names()))?;
    match kind {
        Kind::Time => time(field, *op, value, negated),
        Kind::Word(words) => {
            let value = word(path, value, words)?;
            equality(field, *op, value, negated, true)
        }
        Kind::Executor => {
            let id = value.rsplit('/').next().unwrap_or_default().to_owned();
            equality(field, *op, id, negated, true)
        }
        Kind::Run => parent(*op, value, negated),
        Kind::Name => equality(field, *op, value.clone(), negated, true),
        Kind::Text if *op == Op::Has => {
            Ok(Condition::Contains { field, text: value.clone(), negated })
        }
        Kind::Text => equality(field, *op, value.clone(), negated, false),
    }
}

fn equality(
    field: &'static str,
    op: Op,
    value: String,
    negated: bool,
    has_is_equal: bool,
) -> Result<Condition, String> {
    let negated = match op {
        Op::Equal => negated,
        Op::NotEqual => !negated,
        Op::Has if has_is_equal => negated,
        _ => return Err(format!("{field} can be compared by = and != only")),
    };
    Ok(Condition::OneOf { field, values: vec![value], negated })
}

fn label(key: &str, op: Op, value: &str, negated: bool) -> Result<Condition, String> {
    let negated = match op {
        Op::Equal | Op::Has => negated,
        Op::NotEqual => !negated,
        _ => return Err(format!("labels.{key} can be compared by =, != and : only")),
    };
    let any = op == Op::Has && value == "*";
    let value = (!any).then(|| value.to_owned());
    Ok(Condition::Label { key: key.to_owned(), value, negated })
}

/// The run that a shard is of.
fn parent(op: Op, value: &str, negated: bool) -> Result<Condition, String> {
    if negated || !matches!(op, Op::Equal | Op::Has) {
        return Err("parent can be compared by = only, and not negated".to_owned());
    }
    let id = value.rsplit('/').next().unwrap_or_default().parse();
    let id = id.map_err(|_| format!("{value:?} is no run; write it as apps/APP/runs/RUN"))?;
    Ok(Condition::ShardOf(Some(id)))
}

fn word(path: &str, value: &str, words: &[&str]) -> Result<String, String> {
    // The contract's full name works too: RUN_STATE_RUNNING.
    let known = words.iter().find(|word| {
        value == **word
            || value.strip_suffix(**word).is_some_and(|prefix| {
                ["RUN_STATE_", "STATE_", "TRIGGER_", "CONDITION_"].contains(&prefix)
            })
    });
    known
        .map(|word| (*word).to_owned())
        .ok_or_else(|| format!("{value:?} is no value of {path}; use {}", words.join(", ")))
}

fn time(field: &'static str, op: Op, value: &str, negated: bool) -> Result<Condition, String> {
    let at = DateTime::parse_from_rfc3339(value)
        .map_err(|_| format!("{value:?} is no instant; write it as \"2026-01-31T09:00:00Z\""))?
        .with_timezone(&Utc);
    // Instants are stored in whole microseconds, so the next one is the first after it.
    let after = at.checked_add_signed(TimeDelta::microseconds(1)).ok_or("lies too far ahead")?;
    let op = match (op, negated) {
        (op, false) => op,
        (Op::Less, true) => Op::GreaterEqual,
        (Op::LessEqual, true) => Op::Greater,
        (Op::Greater, true) => Op::LessEqual,
        (Op::GreaterEqual, true) => Op::Less,
        (Op::NotEqual, true) => Op::Equal,
        _ => return Err(format!("{field} can't be unequal to an instant; use < or >")),
    };
    let (from, until) = match op {
        Op::Less => (None, Some(at)),
        Op::LessEqual => (None, Some(after)),
        Op::Greater => (Some(after), None),
        Op::GreaterEqual => (Some(at), None),
        Op::Equal => (Some(at), Some(after)),
        Op::NotEqual | Op::Has => {
            return Err(format!("{field} can be compared by =, <, <=, > and >= only"));
        }
    };
    Ok(Condition::Time { field, from, until })
}

#[cfg(test)]
mod tests;
