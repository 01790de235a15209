//! What a request is about, read from the message itself: no method is known by name, so that none
//! is forgotten. Values are left out; only names of resources are kept.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage as _, Value};

/// Longest name of a resource that is kept, characters.
const RESOURCE_MAX: usize = 256;
/// Fields that are named of one request.
const FIELDS_MAX: usize = 64;
/// Fields that say which thing is meant or how the call is to be taken, not what is to change.
const FRAME: [&str; 9] = [
    "name",
    "parent",
    "etag",
    "request_id",
    "update_mask",
    "validate_only",
    "current_password",
    "allow_missing",
    "page_token",
];

/// Whether nothing is to be changed, only tried.
pub(super) fn is_trial(message: &DynamicMessage) -> bool {
    let trial = message.get_field_by_name("validate_only");
    trial.is_some_and(|value| value.as_bool() == Some(true))
}

/// The full name of what the request is about; of something to be made, its name to be.
pub(super) fn resource(method: &str, message: &DynamicMessage) -> String {
    let own = text(message, "name");
    let inner = || {
        let fields = message.fields().filter_map(|(_, value)| value.as_message());
        fields.map(|inner| text(inner, "name")).find(|name| !name.is_empty())
    };
    let name = match method.split_once("/Create") {
        Some((_, noun)) => to_be(noun, message),
        None if !own.is_empty() => own,
        None => inner().unwrap_or_else(|| text(message, "parent")),
    };
    name.chars().filter(|c| !c.is_control()).take(RESOURCE_MAX).collect()
}

/// `{parent}/{collection}/{id}` of a thing to be made: `alarm_rule_id` names one of `alarmRules`.
fn to_be(noun: &str, message: &DynamicMessage) -> String {
    let parent = text(message, "parent");
    let id = message.descriptor().fields().find(|field| {
        let name = field.name().strip_suffix("_id").unwrap_or_default();
        name.replace('_', "").eq_ignore_ascii_case(noun)
    });
    let id = id.map(|field| text(message, field.name())).filter(|id| !id.is_empty());
    let Some(id) = id else { return parent };
    let mut collection = noun.to_owned();
    collection[..1].make_ascii_lowercase();
    let slash = if parent.is_empty() { "" } else { "/" };
    format!("{parent}{slash}{collection}s/{id}")
}

/// The app segment of a resource's name; empty when it is in no app.
pub(super) fn app(resource: &str) -> String {
    let rest = resource.strip_prefix("apps/").unwrap_or_default();
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Paths of the fields that the request sets: those of its mask, else those that are there.
pub(super) fn fields(message: &DynamicMessage) -> Vec<String> {
    let mask = paths_of_mask(message);
    let mut found = Vec::new();
    for (field, value) in message.fields() {
        if FRAME.contains(&field.name()) || field.name().ends_with("_id") {
            continue;
        }
        let Some(inner) = value.as_message().filter(|_| is_of_contract(&field)) else {
            found.push(field.name().to_owned());
            continue;
        };
        let of_mask = mask.iter().filter(|path| *path != "*");
        let named = of_mask.filter_map(|path| known_path(inner, path));
        let set = inner.fields().map(|(inner, _)| inner.name().to_owned());
        let whole = mask.is_empty() || mask.iter().any(|path| path == "*");
        let paths: Vec<String> = if whole { set.collect() } else { named.collect() };
        let kept = paths.into_iter().filter(|path| !FRAME.contains(&path.as_str()));
        found.extend(kept.map(|path| format!("{}.{path}", field.name())));
    }
    found.truncate(FIELDS_MAX);
    found
}

fn paths_of_mask(message: &DynamicMessage) -> Vec<String> {
    let Some(mask) = message.get_field_by_name("update_mask") else { return Vec::new() };
    let Some(paths) = mask.as_message().and_then(|mask| mask.get_field_by_name("paths")) else {
        return Vec::new();
    };
    let paths = paths.as_list().map(<[Value]>::to_vec).unwrap_or_default();
    paths.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect()
}

/// The path as far as it names fields of the contract: a key of a map is a value.
fn known_path(message: &DynamicMessage, path: &str) -> Option<String> {
    let mut known: Vec<String> = Vec::new();
    let mut descriptor = Some(message.descriptor());
    for part in path.split('.') {
        let Some(at) = descriptor.take() else { break };
        let field = at.get_field_by_name(part).or_else(|| at.get_field_by_json_name(part));
        let Some(field) = field else { break };
        known.push(field.name().to_owned());
        descriptor = match field.kind() {
            Kind::Message(inner) if !field.is_map() => Some(inner),
            _ => None,
        };
    }
    (!known.is_empty()).then(|| known.join("."))
}

/// A message with fields of the contract's own, not a value like an instant.
fn is_of_contract(field: &FieldDescriptor) -> bool {
    !field.is_map()
        && !field.is_list()
        && matches!(field.kind(), Kind::Message(inner) if inner.package_name() == "clawjob.v1")
}

fn text(message: &DynamicMessage, field: &str) -> String {
    let value = message.get_field_by_name(field);
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawjob_proto::json::pool;
    use serde_json::json;

    fn message(name: &str, json: serde_json::Value) -> DynamicMessage {
        let shape = pool().get_message_by_name(&format!("clawjob.v1.{name}")).expect("known");
        DynamicMessage::deserialize(shape, json).expect("fits")
    }

    #[test]
    fn a_request_names_what_it_is_about() {
        for (method, name, json, resource) in [
            (
                "JobService/PauseJob",
                "PauseJobRequest",
                json!({"name": "apps/a/jobs/j"}),
                "apps/a/jobs/j",
            ),
            (
                "JobService/UpdateJob",
                "UpdateJobRequest",
                json!({"job": {"name": "apps/a/jobs/j", "owner": "x"}}),
                "apps/a/jobs/j",
            ),
            (
                "JobService/CreateJob",
                "CreateJobRequest",
                json!({"parent": "apps/a", "jobId": "j", "job": {"handler": "h"}}),
                "apps/a/jobs/j",
            ),
            (
                "AlarmService/CreateAlarmRule",
                "CreateAlarmRuleRequest",
                json!({"parent": "apps/a", "alarmRuleId": "r"}),
                "apps/a/alarmRules/r",
            ),
            ("ClusterService/CreateApp", "CreateAppRequest", json!({"appId": "a"}), "apps/a"),
            ("IdentityService/CreateUser", "CreateUserRequest", json!({"userId": "u"}), "users/u"),
            ("IdentityService/CreateToken", "CreateTokenRequest", json!({}), ""),
        ] {
            assert_eq!(super::resource(method, &message(name, json)), resource, "{method}");
        }
        assert_eq!(app("apps/a/jobs/j"), "a");
        assert_eq!(app("users/u"), "");
    }

    #[test]
    fn fields_are_named_without_their_values_and_keys() {
        let request = json!({
            "user": {"name": "users/u", "displayName": "secret-1", "disabled": true},
            "password": "secret-2", "currentPassword": "secret-3",
        });
        let found = fields(&message("UpdateUserRequest", request));
        assert_eq!(found, ["user.display_name", "user.disabled", "password"]);
        let request = json!({
            "job": {"name": "apps/a/jobs/j", "labels": {"secret-4": "x"}, "owner": "x"},
            "updateMask": "labels.secret-4,retry.maxAttempts,nonsense",
        });
        let found = fields(&message("UpdateJobRequest", request));
        assert_eq!(found, ["job.labels", "job.retry.max_attempts"]);
    }

    #[test]
    fn a_trial_is_told_from_a_change() {
        let trial = json!({"job": {"name": "apps/a/jobs/j"}, "validateOnly": true});
        assert!(is_trial(&message("UpdateJobRequest", trial)));
        assert!(!is_trial(&message("UpdateJobRequest", json!({}))));
        assert!(!is_trial(&message("PauseJobRequest", json!({}))));
    }
}
