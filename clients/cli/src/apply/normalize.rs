//! A job as people write it, turned into the contract's JSON; the descriptor says what each field
//! takes, so a new field of the contract needs no line here.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clawjob_proto::json::pool;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::hint;
use crate::{
    calendars, names,
    values::{self, enum_prefix},
};

/// Fields that the server writes: a job printed by the client may be fed back as it is.
pub(super) const OUTPUT_ONLY: [&str; 11] = [
    "etag",
    "revision",
    "createTime",
    "updateTime",
    "updateBy",
    "nextFireTime",
    "lastRun",
    "problem",
    "pauseUntilTime",
    "pauseReason",
    "nextDueTime",
];

/// Shorthand for a schedule of one trigger: its key in the file and in the contract.
const TRIGGERS: [(&str, &str); 4] =
    [("cron", "cron"), ("every", "interval"), ("delay", "delay"), ("at", "at")];

/// Shorthand for what surrounds the trigger, alike for each of the job's schedules.
const AROUND: [(&str, &str); 5] = [
    ("timeZone", "timeZone"),
    ("dialect", "cronDialect"),
    ("includeCalendars", "includeCalendars"),
    ("excludeCalendars", "excludeCalendars"),
    ("excludedDates", "excludedDates"),
];

/// The contract's JSON of a job. `app` is the one that short job names belong to.
pub(super) fn job(
    mut map: Map<String, Value>,
    app: Option<&str>,
    place: &str,
    faults: &mut Vec<String>,
) -> Value {
    for key in OUTPUT_ONLY {
        map.remove(key);
    }
    schedules(&mut map, place, faults);
    calendar_names(&mut map, app, place, faults);
    if let Some(params) = map.remove("params")
        && !params.is_null()
    {
        map.insert("params".into(), payload(params));
    }
    for key in ["onSuccess", "onFailure"] {
        let Some(Value::Array(items)) = map.get_mut(key) else { continue };
        for (index, item) in items.iter_mut().enumerate() {
            let Value::String(text) = item else { continue };
            match names::full(names::Kind::Job, text, app) {
                Ok(name) => *text = name,
                Err(e) => faults.push(format!("{place}.{key}[{index}]: {e}")),
            }
        }
    }
    match pool().get_message_by_name("clawjob.v1.Job") {
        Some(descriptor) => message(Value::Object(map), &descriptor, place, faults),
        None => Value::Object(map),
    }
}

/// The contract's JSON of a calendar. Weekdays may be written by name.
pub(super) fn calendar(
    mut map: Map<String, Value>,
    place: &str,
    faults: &mut Vec<String>,
) -> Value {
    map.remove("etag");
    if let Some(Value::Array(days)) = map.get_mut("weekdays") {
        for (index, day) in days.iter_mut().enumerate() {
            let Value::String(text) = day else { continue };
            match calendars::weekday(text) {
                Ok(number) => *day = json!(number),
                Err(fault) => faults.push(format!("{place}.weekdays[{index}]: {fault}")),
            }
        }
    }
    match pool().get_message_by_name("clawjob.v1.Calendar") {
        Some(descriptor) => message(Value::Object(map), &descriptor, place, faults),
        None => Value::Object(map),
    }
}

/// The contract's JSON of an alarm rule.
pub(super) fn rule(mut map: Map<String, Value>, place: &str, faults: &mut Vec<String>) -> Value {
    map.remove("etag");
    match pool().get_message_by_name("clawjob.v1.AlarmRule") {
        Some(descriptor) => message(Value::Object(map), &descriptor, place, faults),
        None => Value::Object(map),
    }
}

/// Makes full names of the calendars that schedules name: short ones are of the job's app.
fn calendar_names(
    map: &mut Map<String, Value>,
    app: Option<&str>,
    place: &str,
    faults: &mut Vec<String>,
) {
    let Some(Value::Array(schedules)) = map.get_mut("schedules") else { return };
    for (index, schedule) in schedules.iter_mut().enumerate() {
        for key in
            ["includeCalendars", "excludeCalendars", "include_calendars", "exclude_calendars"]
        {
            let Some(Value::Array(names)) = schedule.get_mut(key) else { continue };
            for (at, name) in names.iter_mut().enumerate() {
                let Value::String(text) = name else { continue };
                match names::full(names::Kind::Calendar, text, app) {
                    Ok(full) => *text = full,
                    Err(e) => {
                        faults.push(format!("{place}.schedules[{index}].{key}[{at}]: {e}"));
                    }
                }
            }
        }
    }
}

/// Turns the shorthand keys into `schedules`.
fn schedules(map: &mut Map<String, Value>, place: &str, faults: &mut Vec<String>) {
    let mut made = Vec::new();
    for (short, long) in TRIGGERS {
        match map.remove(short) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => made.extend(items.into_iter().map(|v| json!({long: v}))),
            Some(value) => made.push(json!({ long: value })),
        }
    }
    let around =
        AROUND.iter().filter_map(|(short, long)| Some((*short, *long, map.remove(*short)?)));
    let around: Vec<_> = around.collect();
    if made.is_empty() {
        faults.extend(around.iter().map(|(short, ..)| {
            format!(
                "{place}.{short}: stands beside cron, every, delay or at; within schedules, \
                     write it into each"
            )
        }));
        return;
    }
    if map.contains_key("schedules") {
        faults.push(format!("{place}: write either schedules or cron, every, delay, at"));
    }
    for schedule in &mut made {
        for (_, long, value) in &around {
            // A dialect is for cron alone.
            if *long != "cronDialect" || schedule.get("cron").is_some() {
                schedule[*long] = value.clone();
            }
        }
    }
    map.insert("schedules".into(), Value::Array(made));
}

/// Plain params as JSON bytes; a mapping of exactly `contentType` and `data` is the contract's.
fn payload(value: Value) -> Value {
    if is_payload(&value) {
        return value;
    }
    json!({ "contentType": "application/json", "data": STANDARD.encode(value.to_string()) })
}

/// Whether a value has the shape of the contract's Payload.
pub(super) fn is_payload(value: &Value) -> bool {
    value.as_object().is_some_and(|map| {
        map.len() == 2
            && map.get("contentType").is_some_and(Value::is_string)
            && map.get("data").is_some_and(Value::is_string)
    })
}

fn message(
    value: Value,
    descriptor: &MessageDescriptor,
    place: &str,
    faults: &mut Vec<String>,
) -> Value {
    let Value::Object(map) = value else {
        faults.push(format!("{place}: must be keys and values, not {}", kind_of(&value)));
        return Value::Null;
    };
    let mut out = Map::new();
    for (key, value) in map {
        let place = format!("{place}.{key}");
        let field = descriptor.get_field_by_json_name(&key);
        match field.or_else(|| descriptor.get_field_by_name(&key)) {
            Some(field) if value.is_null() => drop(field),
            Some(field) => {
                let name = field.json_name().to_owned();
                if out.contains_key(&name) {
                    faults.push(format!("{place}: stands here twice"));
                }
                out.insert(name, self::field(value, &field, &place, faults));
            }
            None => faults.push(format!("{place}: unknown{}", hint::of(&key, descriptor))),
        }
    }
    Value::Object(out)
}

fn field(value: Value, field: &FieldDescriptor, place: &str, faults: &mut Vec<String>) -> Value {
    if field.is_map() {
        let Value::Object(map) = value else {
            faults.push(format!("{place}: must be keys and values, not {}", kind_of(&value)));
            return Value::Null;
        };
        let kind = match field.kind() {
            Kind::Message(entry) => entry.map_entry_value_field().kind(),
            other => other,
        };
        let items = map.into_iter().map(|(key, value)| {
            let value = scalar(value, &kind, &format!("{place}.{key}"), faults);
            (key, value)
        });
        return Value::Object(items.collect());
    }
    if field.is_list() {
        let Value::Array(items) = value else {
            faults.push(format!("{place}: must be a list, not {}", kind_of(&value)));
            return Value::Null;
        };
        let items = items.into_iter().enumerate();
        let items = items.map(|(i, v)| scalar(v, &field.kind(), &format!("{place}[{i}]"), faults));
        return Value::Array(items.collect());
    }
    scalar(value, &field.kind(), place, faults)
}

fn scalar(value: Value, kind: &Kind, place: &str, faults: &mut Vec<String>) -> Value {
    let wanted = match (kind, &value) {
        (Kind::Message(of), Value::String(text))
            if of.full_name() == "google.protobuf.Duration" =>
        {
            match values::duration(text) {
                Ok(length) => return Value::String(seconds(&length)),
                Err(fault) => {
                    faults.push(format!("{place}: {fault}"));
                    return Value::Null;
                }
            }
        }
        (Kind::Message(of), Value::String(text))
            if of.full_name() == "google.protobuf.Timestamp" =>
        {
            match text.parse::<jiff::Timestamp>() {
                Ok(_) => return value,
                Err(_) => "an instant such as 2026-03-01T09:00:00Z",
            }
        }
        (Kind::Message(of), _) if of.full_name() == "google.protobuf.Duration" => {
            "a duration such as 30s or 1m30s"
        }
        (Kind::Message(of), _) if of.full_name() == "google.protobuf.Timestamp" => {
            "an instant such as 2026-03-01T09:00:00Z"
        }
        (Kind::Message(of), _) => return message(value, of, place, faults),
        (Kind::Enum(of), Value::String(text)) => return word(text, of, place, faults),
        (Kind::Enum(_), _) => "a word",
        (Kind::String, Value::String(_)) | (Kind::Bytes, Value::String(_)) => return value,
        (Kind::String, Value::Number(_) | Value::Bool(_)) => "text: write it in quotes",
        (Kind::String | Kind::Bytes, _) => "text",
        (Kind::Bool, Value::Bool(_)) => return value,
        (Kind::Bool, _) => "true or false",
        (Kind::Double | Kind::Float, Value::Number(_)) => return value,
        (_, Value::Number(number)) => match whole(number, kind) {
            Ok(()) => return value,
            Err(wanted) => wanted,
        },
        // 64-bit numbers are text in the contract's JSON.
        (Kind::Int64 | Kind::Uint64, Value::String(_)) => return value,
        _ => "a number",
    };
    faults.push(format!("{place}: {} is not {wanted}", shown(&value)));
    Value::Null
}

/// Whether a number fits a field of whole numbers.
fn whole(number: &serde_json::Number, kind: &Kind) -> Result<(), &'static str> {
    match kind {
        Kind::Uint32 if number.as_u64().is_none_or(|n| u32::try_from(n).is_err()) => {
            Err("a whole number from 0 to 4294967295")
        }
        Kind::Int32 if number.as_i64().is_none_or(|n| i32::try_from(n).is_err()) => {
            Err("a whole number of 32 bits")
        }
        Kind::Uint64 if number.as_u64().is_none() => Err("a whole number from 0 up"),
        Kind::Int64 if number.as_i64().is_none() => Err("a whole number"),
        _ => Ok(()),
    }
}

/// An enum's value by its full name, or by its last words: `skip`, `fire-once`.
fn word(text: &str, of: &EnumDescriptor, place: &str, faults: &mut Vec<String>) -> Value {
    let prefix = enum_prefix(of);
    let upper = text.to_uppercase().replace('-', "_");
    let full = format!("{prefix}{upper}");
    let found = of.get_value_by_name(&upper).or_else(|| of.get_value_by_name(&full));
    match found {
        Some(value) => Value::String(value.name().into()),
        None => {
            let known: Vec<String> = of
                .values()
                .filter(|value| value.number() != 0)
                .map(|value| value.name().trim_start_matches(&prefix).to_lowercase())
                .collect();
            faults.push(format!("{place}: {text:?} is unknown; there are {}", known.join(", ")));
            Value::Null
        }
    }
}

/// A duration as the contract's JSON has it.
fn seconds(length: &prost_types::Duration) -> String {
    match length.nanos {
        0 => format!("{}s", length.seconds),
        nanos => format!("{}.{nanos:09}s", length.seconds),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "keys and values",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind_of(value).into(),
        plain => plain.to_string(),
    }
}
