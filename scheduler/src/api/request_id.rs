//! Request ids: the same id with the same body gives the same answer, with another body an error.
//!
//! A repeat is answered from what its first call made, before anything is judged that may have
//! changed since: the clock, schedules, what exists. What was made and is deleted since is not found.

use clawjob_proto::json;
use prost::{Message, Name};
use sha2::{Digest, Sha256};

use crate::{
    api::{
        Api,
        status::{ApiError, ApiResult, Kind, Violations},
    },
    store::{self, StoreError, ops::RequestKey},
};

/// Longest request id, in bytes.
pub const REQUEST_ID_MAX: usize = 128;
/// Reason when an id comes again with another body.
pub const REUSED: &str = "REQUEST_ID_REUSED";

/// The key of a request, `None` when it has no id. The whole message is the body: the id is part of
/// it, and equal for a repeat.
///
/// # Errors
/// INTERNAL for a message that the contract lacks.
pub fn key<M: Message + Name>(
    principal: &str,
    method: &str,
    request_id: &str,
    request: &M,
    bad: &mut Violations,
) -> ApiResult<Option<RequestKey>> {
    if request_id.is_empty() {
        return Ok(None);
    }
    let plain = request_id.bytes().all(|byte| byte.is_ascii_graphic());
    if request_id.len() > REQUEST_ID_MAX || !plain {
        bad.invalid(
            "request_id",
            format!("must be 1 to {REQUEST_ID_MAX} printable ASCII characters, such as a UUID"),
        );
        return Ok(None);
    }
    let body = json::to_value(request).map_err(|e| ApiError::internal(e.to_string()))?;
    let mut hash = Sha256::new();
    feed(&mut hash, &body);
    Ok(Some(RequestKey {
        key: format!("{principal}/{method}/{request_id}"),
        body_hash: hash.finalize().to_vec(),
    }))
}

/// What the first call of this request made, if it came before.
///
/// # Errors
/// [`REUSED`] for an id that came with another body, and faults of the store.
pub async fn answered(
    api: &Api,
    request: Option<&RequestKey>,
    request_id: &str,
) -> ApiResult<Option<String>> {
    let Some(request) = request else { return Ok(None) };
    api.store.find_answer(request).await.map_err(|error| match error {
        StoreError::Conflict(_) => reused(request_id),
        error => error.into(),
    })
}

/// What a repeat shows: what has the name now, if that is what the first call made.
///
/// # Errors
/// NOT_FOUND when that was deleted since, and faults of the store.
pub fn still_there<T>(
    kind: Kind,
    name: impl Into<String>,
    found: store::Result<T>,
    is_made: impl FnOnce(&T) -> bool,
) -> ApiResult<T> {
    match found {
        Ok(found) if is_made(&found) => Ok(found),
        Ok(_) | Err(StoreError::NotFound(_)) => Err(ApiError::deleted_since(kind, name)),
        Err(error) => Err(error.into()),
    }
}

/// The error for an id that was used with another body.
pub fn reused(request_id: &str) -> ApiError {
    ApiError::invalid(
        "request_id",
        REUSED,
        format!("{request_id:?} was used for another request; take a fresh id for each"),
    )
}

/// Hashes a value with its keys in order: the encoded bytes of a message with a map are not the
/// same each time.
fn feed(hash: &mut Sha256, value: &serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            hash.update(b"{");
            for (key, value) in entries {
                feed_text(hash, key);
                feed(hash, value);
            }
            hash.update(b"}");
        }
        serde_json::Value::Array(values) => {
            hash.update(b"[");
            values.iter().for_each(|value| feed(hash, value));
            hash.update(b"]");
        }
        other => feed_text(hash, &other.to_string()),
    }
}

fn feed_text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clawjob_proto::v1 as pb;

    use super::*;

    fn trigger(name: &str, labels: &[(&str, &str)]) -> pb::TriggerJobRequest {
        pb::TriggerJobRequest {
            name: name.to_owned(),
            request_id: "r-1".to_owned(),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Default::default()
        }
    }

    fn key_of(principal: &str, request: &pb::TriggerJobRequest) -> RequestKey {
        let mut bad = Violations::new();
        key(principal, "TriggerJob", &request.request_id, request, &mut bad)
            .expect("in the contract")
            .expect("has an id")
    }

    #[test]
    fn equal_bodies_have_equal_keys_whatever_the_order_of_their_maps() {
        let labels: Vec<(String, String)> =
            (0..20).map(|i| (format!("k{i}"), format!("v{i}"))).collect();
        let pairs: Vec<(&str, &str)> =
            labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let backwards: Vec<(&str, &str)> = pairs.iter().rev().copied().collect();
        let one = key_of("tokens/a", &trigger("apps/a/jobs/b", &pairs));
        assert_eq!(one, key_of("tokens/a", &trigger("apps/a/jobs/b", &backwards)));
        let other = key_of("tokens/a", &trigger("apps/a/jobs/b", &pairs[1..]));
        assert_eq!(one.key, other.key);
        assert_ne!(one.body_hash, other.body_hash);
        assert_ne!(one.key, key_of("tokens/b", &trigger("apps/a/jobs/b", &pairs)).key);
    }

    #[test]
    fn an_id_that_is_too_long_or_not_plain_is_refused() {
        let message = pb::TriggerJobRequest::default();
        for id in ["a b", "ü", "\n", &"x".repeat(129)] {
            let mut bad = Violations::new();
            let key = key("tokens/a", "TriggerJob", id, &message, &mut bad).expect("no fault");
            assert_eq!(key, None);
            assert!(!bad.is_empty(), "{id:?}");
        }
    }
}
