//! A job as a file has it: the contract's JSON, without what the server writes, and with params as
//! plain values. What `export` prints, and what `apply` compares.

use clawjob_proto::{
    json,
    v1::{Job, job},
};
use serde_json::{Map, Value};

use super::normalize::{OUTPUT_ONLY, is_payload};
use crate::error::CliError;

/// The first keys of an exported job; the others follow by name.
const ORDER: [&str; 8] =
    ["name", "displayName", "description", "owner", "state", "schedules", "handler", "params"];

/// A job in the shape of a file, without its name.
///
/// # Errors
/// A value that JSON cannot carry.
pub(super) fn value(job: &Job) -> Result<Map<String, Value>, CliError> {
    let Value::Object(mut map) = json::to_value(job)? else { return Ok(Map::new()) };
    map.remove("name");
    for key in OUTPUT_ONLY {
        map.remove(key);
    }
    // Only PAUSED can be asked for: ACTIVE is what a job is anyway, EXPIRED what becomes of it.
    if job.state != i32::from(job::State::Paused) {
        map.remove("state");
    }
    // An empty message says as much as none.
    map.retain(|_, value| value.as_object().is_none_or(|inner| !inner.is_empty()));
    if let Some(params) = &job.params
        && params.content_type == "application/json"
        && let Ok(plain) = serde_json::from_slice::<Value>(&params.data)
        // These two would be read back as something else.
        && !is_payload(&plain)
        && !plain.is_null()
    {
        map.insert("params".into(), plain);
    }
    Ok(map)
}

/// A job of an export: name first, then what people look for, then the rest.
///
/// # Errors
/// A value that JSON cannot carry.
pub(super) fn ordered(job: &Job) -> Result<serde_norway::Mapping, CliError> {
    let mut map = value(job)?;
    map.insert("name".into(), Value::String(job.name.clone()));
    let mut out = serde_norway::Mapping::new();
    let first = ORDER.iter().filter_map(|key| map.remove_entry(*key)).collect::<Vec<_>>();
    for (key, value) in first.into_iter().chain(map) {
        let value = serde_norway::to_value(&value).map_err(|e| CliError::Answer(e.to_string()))?;
        out.insert(key.into(), value);
    }
    Ok(out)
}
