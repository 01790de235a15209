//! Update masks: which fields of a resource an update sets.
//!
//! * absent: every field that is set in the request; sub-messages that have fields of their own
//!   (placement, retry) are merged, so that naming one of their fields keeps the others;
//! * `*`: the request replaces the resource;
//! * paths: exactly these, set or cleared to what the request has. A path may go into a
//!   sub-message (`retry.max_attempts`) or name a key of a map (`labels.team`).
//!
//! Output-only fields are ignored wherever they appear.

use clawjob_proto::json;
use prost::{Message, Name};
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

use crate::api::status::{ApiError, ApiResult, Violations};

/// Paths of one mask.
pub const PATHS_MAX: usize = 128;

/// The resource that `patch` under `mask` makes of `current`.
///
/// # Errors
/// INVALID_ARGUMENT with MASK_UNKNOWN_FIELD for each path that names no field.
pub fn merge<M: Message + Name + Default>(
    current: &M,
    patch: &M,
    mask: Option<&prost_types::FieldMask>,
    output_only: &[&str],
) -> ApiResult<M> {
    let descriptor = json::pool()
        .get_message_by_name(&M::full_name())
        .ok_or_else(|| ApiError::internal(format!("{} is not in the contract", M::full_name())))?;
    let read = |message: &M| -> ApiResult<DynamicMessage> {
        let mut dynamic = DynamicMessage::new(descriptor.clone());
        dynamic.transcode_from(message).map_err(|e| ApiError::internal(e.to_string()))?;
        Ok(dynamic)
    };
    let (mut merged, mut patch) = (read(current)?, read(patch)?);
    let paths: &[String] = mask.map(|mask| mask.paths.as_slice()).unwrap_or_default();
    for name in output_only {
        match (merged.get_field_by_name(name), merged.has_field_by_name(name)) {
            (Some(value), true) => patch.set_field_by_name(name, value.into_owned()),
            _ => patch.clear_field_by_name(name),
        }
    }
    if paths.iter().any(|path| path == "*") {
        merged = patch;
    } else if paths.is_empty() {
        merge_set(&mut merged, &patch);
    } else {
        let mut bad = Violations::new();
        if paths.len() > PATHS_MAX {
            bad.invalid("update_mask", format!("has over {PATHS_MAX} paths; use *"));
        }
        for path in paths.iter().take(PATHS_MAX) {
            let segments: Vec<&str> = path.split('.').collect();
            if !apply(&mut merged, &patch, &segments) {
                bad.add(
                    "update_mask",
                    "MASK_UNKNOWN_FIELD",
                    format!("{path:?} is no field of {}; see the contract", descriptor.name()),
                );
            }
        }
        bad.finish()?;
    }
    merged.transcode_to().map_err(|e| ApiError::internal(e.to_string()))
}

/// Takes over every field that is set in the patch.
fn merge_set(merged: &mut DynamicMessage, patch: &DynamicMessage) {
    for (field, value) in patch.fields() {
        match value {
            Value::Message(inner) if is_structured(&field) && merged.has_field(&field) => {
                if let Value::Message(own) = merged.get_field_mut(&field) {
                    merge_set(own, inner);
                }
            }
            _ => merged.set_field(&field, value.clone()),
        }
    }
}

/// Sets or clears the field at the path; false when there is no such field.
fn apply(merged: &mut DynamicMessage, patch: &DynamicMessage, path: &[&str]) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    let Some(field) = field_named(&merged.descriptor(), name) else { return false };
    if rest.is_empty() {
        if patch.has_field(&field) {
            merged.set_field(&field, patch.get_field(&field).into_owned());
        } else {
            merged.clear_field(&field);
        }
        return true;
    }
    if field.is_map() {
        return apply_key(merged, patch, &field, &rest.join("."));
    }
    if !is_structured(&field) {
        return false;
    }
    let empty = || match field.kind() {
        Kind::Message(descriptor) => Some(DynamicMessage::new(descriptor)),
        _ => None,
    };
    let from = patch.get_field(&field);
    let Some(from) = from.as_message().cloned().or_else(empty) else { return false };
    match merged.get_field_mut(&field) {
        Value::Message(own) => apply(own, &from, rest),
        _ => false,
    }
}

/// Sets or removes one key of a map with text keys.
fn apply_key(
    merged: &mut DynamicMessage,
    patch: &DynamicMessage,
    field: &FieldDescriptor,
    key: &str,
) -> bool {
    let key = MapKey::String(key.trim_matches('`').to_owned());
    let given = patch.get_field(field);
    let value = given.as_map().and_then(|map| map.get(&key)).cloned();
    let Some(own) = merged.get_field_mut(field).as_map_mut() else { return false };
    match value {
        Some(value) => own.insert(key, value),
        None => own.remove(&key),
    };
    true
}

/// By its contract name, or its JSON name as `google.protobuf.FieldMask` has it in JSON.
fn field_named(descriptor: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    descriptor.get_field_by_name(name).or_else(|| descriptor.get_field_by_json_name(name))
}

/// A message of the contract with fields of its own to be set one by one. Payloads and the
/// well-known types are values: they are replaced as a whole.
fn is_structured(field: &FieldDescriptor) -> bool {
    match field.kind() {
        Kind::Message(inner) => {
            !field.is_list()
                && !field.is_map()
                && inner.package_name() == "clawjob.v1"
                && inner.name() != "Payload"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use clawjob_proto::v1 as pb;

    use super::*;
    use crate::api::{
        convert::job::OUTPUT_ONLY,
        sample::{dynamic, full},
    };

    fn mask(paths: &[&str]) -> prost_types::FieldMask {
        prost_types::FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() }
    }

    fn with(paths: &[&str], current: &pb::Job, patch: &pb::Job) -> ApiResult<pb::Job> {
        merge(current, patch, Some(&mask(paths)), OUTPUT_ONLY)
    }

    /// Every field that can be set, by path, those within sub-messages too.
    fn settable(descriptor: &MessageDescriptor, prefix: &str) -> Vec<String> {
        let mut paths = Vec::new();
        for field in descriptor.fields() {
            let path = format!("{prefix}{}", field.name());
            if OUTPUT_ONLY.contains(&path.as_str()) {
                continue;
            }
            if let (true, Kind::Message(inner)) = (is_structured(&field), field.kind()) {
                paths.extend(settable(&inner, &format!("{path}.")));
            }
            paths.push(path);
        }
        paths
    }

    fn at_path(message: &DynamicMessage, path: &str) -> Option<Value> {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let value = message
            .has_field_by_name(name)
            .then(|| message.get_field_by_name(name).map(std::borrow::Cow::into_owned))??;
        if rest.is_empty() { Some(value) } else { at_path(value.as_message()?, rest) }
    }

    #[test]
    fn x54_each_field_of_a_job_can_be_set_and_cleared_alone_and_all_others_keep_their_values() {
        let (everything, nothing) = (full::<pb::Job>(0), pb::Job::default());
        let descriptor = dynamic(&everything).descriptor();
        let paths = settable(&descriptor, "");
        assert!(paths.len() > 35, "{paths:?}");
        for path in &paths {
            let set = with(&[path], &nothing, &everything).expect("a known path");
            assert_eq!(
                at_path(&dynamic(&set), path),
                at_path(&dynamic(&everything), path),
                "{path} was not set"
            );
            let cleared = dynamic(&with(&[path], &everything, &nothing).expect("a known path"));
            assert_eq!(at_path(&cleared, path), None, "{path} was not cleared");
            for other in &paths {
                let below = |a: &str, b: &str| a.starts_with(&format!("{b}."));
                if other != path && !below(other, path) && !below(path, other) {
                    let kept = at_path(&cleared, other);
                    assert_eq!(
                        kept,
                        at_path(&dynamic(&everything), other),
                        "{path} cleared {other}"
                    );
                }
            }
        }
    }

    #[test]
    fn r65_without_a_mask_only_what_is_set_changes() {
        let everything = full::<pb::Job>(0);
        let patch = pb::Job {
            description: "new".to_owned(),
            retry: Some(pb::RetryPolicy { max_attempts: 3, ..Default::default() }),
            ..Default::default()
        };
        let merged = merge(&everything, &patch, None, OUTPUT_ONLY).expect("merges");
        let mut wanted = everything.clone();
        wanted.description = "new".to_owned();
        wanted.retry.as_mut().expect("has one").max_attempts = 3;
        assert_eq!(merged, wanted);
        let unchanged = merge(&everything, &pb::Job::default(), None, OUTPUT_ONLY).expect("merges");
        assert_eq!(unchanged, everything);
    }

    #[test]
    fn a_star_replaces_all_but_what_is_output_only() {
        let everything = full::<pb::Job>(0);
        let patch = pb::Job {
            handler: "h".to_owned(),
            etag: "forged".to_owned(),
            revision: 99,
            ..Default::default()
        };
        let merged = with(&["*"], &everything, &patch).expect("merges");
        assert_eq!((merged.handler.as_str(), merged.labels.len()), ("h", 0));
        assert_eq!((&merged.etag, merged.revision), (&everything.etag, everything.revision));
    }

    #[test]
    fn output_only_fields_in_a_mask_are_ignored() {
        let everything = full::<pb::Job>(0);
        for path in OUTPUT_ONLY {
            let merged = with(&[path], &everything, &pb::Job::default()).expect("no fault");
            assert_eq!(merged, everything, "{path}");
        }
    }

    #[test]
    fn unknown_paths_are_named_all_at_once() {
        let everything = full::<pb::Job>(0);
        let paths = ["colour", "retry.colour", "handler.x", "schedules.cron", "params.data", ""];
        let error = with(&paths, &everything, &everything).expect_err("unknown paths");
        assert_eq!(error.reason(), "MASK_UNKNOWN_FIELD");
        assert_eq!(error.message().matches("is no field of Job").count(), paths.len());
    }

    #[test]
    fn a_path_may_name_one_key_of_a_map() {
        let labels = [("team", "a"), ("app.io/tier", "web")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let current = pb::Job { labels, ..pb::Job::default() };
        let mut patch = pb::Job::default();
        patch.labels.insert("team".to_owned(), "b".to_owned());
        let merged =
            with(&["labels.team", "labels.app.io/tier"], &current, &patch).expect("merges");
        assert_eq!(merged.labels, patch.labels);
    }
}
