//! The handlers an executor offers: typed functions behind one untyped form.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use clawjob_proto::v1;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::Fault;
use crate::failure::{Failure, code};

/// The media type of params, outputs and checkpoints.
pub(crate) const JSON: &str = "application/json";
/// Largest schema sent in Hello, in bytes; a larger one is left out.
const SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Longest handler name, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Settings of one handler beside its function.
#[derive(Debug, Clone, Default)]
pub struct HandlerOptions {
    max_concurrency: u32,
    description: String,
}

impl HandlerOptions {
    /// Bounded by the executor's slots only, without a description.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many runs of the handler at once in this process; 0 means the slots alone
    /// bound it.
    #[must_use]
    pub fn max_concurrency(mut self, max: u32) -> Self {
        self.max_concurrency = max;
        self
    }

    /// A sentence for the console.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    pub(crate) fn max(&self) -> u32 {
        self.max_concurrency
    }

    pub(crate) fn text(&self) -> &str {
        &self.description
    }
}

/// What a handler leaves behind.
pub(crate) type Returned = Result<Option<v1::Payload>, Failure>;
/// A handler with its params already decoded, ready to be called once.
pub(crate) type Call = Box<dyn FnOnce(Ctx) -> BoxFuture<'static, Returned> + Send>;
type Prepare = Arc<dyn Fn(Option<&v1::Payload>) -> Result<Call, Failure> + Send + Sync>;

/// One handler on offer.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) options: HandlerOptions,
    pub(crate) schema: String,
    prepare: Prepare,
}

impl Entry {
    /// Wraps a typed function.
    pub(crate) fn new<P, O, E, F, Fut>(name: &str, options: HandlerOptions, function: F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
        F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let function = Arc::new(function);
        let prepare: Prepare = Arc::new(move |payload| {
            let params: P = decode_params(payload)?;
            let function = function.clone();
            let call: Call = Box::new(move |ctx| {
                Box::pin(async move {
                    let output = function(params, ctx).await.map_err(Into::into)?;
                    encode_output(&output)
                })
            });
            Ok(call)
        });
        Self { name: name.to_owned(), options, schema: schema_of::<P>(name), prepare }
    }

    /// Decodes the params. A panic in the user's own decoding counts as params that do not fit.
    pub(crate) fn prepare(&self, params: Option<&v1::Payload>) -> Result<Call, Failure> {
        catch_unwind(AssertUnwindSafe(|| (self.prepare)(params))).unwrap_or_else(|_| {
            Err(Failure::new(code::INVALID_PARAMS, "decoding the params panicked"))
        })
    }
}

/// All handlers of an executor, by name.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    entries: BTreeMap<String, Entry>,
    faults: Vec<Fault>,
}

impl Registry {
    /// Adds a handler; a bad or a second name is kept as a fault for `run()` to report.
    pub(crate) fn add(&mut self, entry: Entry) {
        let mut fault = |message: String| {
            self.faults.push(Fault { field: format!("handler({:?})", entry.name), message });
        };
        if !is_handler_name(&entry.name) {
            fault(format!(
                "the name must have 1 to {NAME_BYTES_MAX} letters, digits, '.', '_', '-' or '/'"
            ));
        } else if self.entries.contains_key(&entry.name) {
            fault("the name is taken by another handler; rename one".to_owned());
        } else {
            self.entries.insert(entry.name.clone(), entry);
        }
    }

    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = self.faults.clone();
        if self.entries.is_empty() && faults.is_empty() {
            faults.push(Fault {
                field: "handler".to_owned(),
                message: "no handler is registered; add one with .handler(name, function)"
                    .to_owned(),
            });
        }
        faults
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Finds the handler and decodes the params for it.
    pub(crate) fn prepare(
        &self,
        name: &str,
        params: Option<&v1::Payload>,
    ) -> Result<Call, Failure> {
        match self.entries.get(name) {
            Some(entry) => entry.prepare(params),
            None => Err(Failure::new(
                code::UNKNOWN_HANDLER,
                format!("this executor offers no handler {name:?}"),
            )),
        }
    }
}

fn is_handler_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
}

/// Absent params are `null` for types that take it, else an object without fields.
fn decode_params<P: DeserializeOwned>(payload: Option<&v1::Payload>) -> Result<P, Failure> {
    let invalid = |e: serde_json::Error| {
        Failure::new(code::INVALID_PARAMS, format!("the params do not fit: {e}"))
    };
    match payload {
        Some(payload) if !payload.data.is_empty() => {
            let kind = payload.content_type.split(';').next().unwrap_or_default().trim();
            if !kind.is_empty() && !kind.eq_ignore_ascii_case(JSON) {
                return Err(Failure::new(
                    code::INVALID_PARAMS,
                    format!("the params are {kind:?}; this executor reads {JSON:?}"),
                ));
            }
            let mut json = serde_json::Deserializer::from_slice(&payload.data);
            let params = serde_path_to_error::deserialize(&mut json).map_err(misfit)?;
            json.end().map_err(invalid)?;
            Ok(params)
        }
        _ => serde_json::from_str("null").or_else(|_| serde_json::from_str("{}")).map_err(invalid),
    }
}

/// Names the param that does not fit, the type's own words about it behind.
fn misfit(error: serde_path_to_error::Error<serde_json::Error>) -> Failure {
    let path = error.path().to_string();
    // A fault of the whole has no path.
    let place = if path == "." { String::new() } else { format!("{path}: ") };
    let text = format!("the params do not fit: {place}{}", error.inner());
    Failure::new(code::INVALID_PARAMS, text)
}

/// JSON of the output; `()` and `None` leave none.
fn encode_output<O: Serialize>(output: &O) -> Returned {
    let data = serde_json::to_vec(output)
        .map_err(|e| Failure::error(format!("the output is not JSON: {e}")).non_retryable())?;
    if data == b"null" {
        return Ok(None);
    }
    Ok(Some(v1::Payload { content_type: JSON.to_owned(), data: Bytes::from(data) }))
}

fn schema_of<P: JsonSchema>(handler: &str) -> String {
    let schema = serde_json::to_string(&schemars::schema_for!(P)).unwrap_or_default();
    if schema.len() > SCHEMA_BYTES_MAX {
        tracing::warn!(handler, bytes = schema.len(), "params schema is too large to be announced");
        return String::new();
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Params {
        #[serde(default)]
        count: u32,
    }

    fn entry() -> Entry {
        Entry::new("count", HandlerOptions::new(), |params: Params, _ctx: Ctx| async move {
            Ok::<_, Failure>(params.count)
        })
    }

    fn payload(content_type: &str, data: &str) -> v1::Payload {
        v1::Payload {
            content_type: content_type.to_owned(),
            data: Bytes::copy_from_slice(data.as_bytes()),
        }
    }

    #[test]
    fn params_are_checked_before_the_call() {
        let entry = entry();
        assert!(entry.prepare(None).is_ok());
        assert!(entry.prepare(Some(&payload(JSON, r#"{"count":3}"#))).is_ok());
        for bad in [payload(JSON, r#"{"count":"x"}"#), payload("text/plain", "3")] {
            let failure = entry.prepare(Some(&bad)).err().expect("refused");
            assert_eq!(failure.code(), "INVALID_PARAMS");
        }
        let failure = entry.prepare(Some(&payload(JSON, r#"{"count":"x"}"#))).err().expect("bad");
        let text = failure.message();
        assert!(text.starts_with("the params do not fit: count: invalid type"), "{text}");
    }

    #[test]
    fn the_schema_names_the_fields() {
        assert!(entry().schema.contains("\"count\""));
    }

    #[test]
    fn bad_and_double_names_are_faults() {
        let mut registry = Registry::default();
        assert_eq!(registry.faults().len(), 1);
        registry.add(entry());
        registry.add(entry());
        registry.add(Entry { name: "no spaces".to_owned(), ..entry() });
        assert_eq!(registry.faults().len(), 2);
        let failure = registry.prepare("other", None).err().expect("unknown");
        assert_eq!(failure.code(), "UNKNOWN_HANDLER");
    }
}
