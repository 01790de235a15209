//! The handler `http`: calls a URL of the allow-list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url, redirect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{HttpSection, Target};
use crate::ctx::Ctx;
use crate::failure::{Failure, code};

/// Bytes of the answer's body that are kept; the rest is not read.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Redirects followed within a target.
const REDIRECTS_MAX: usize = 5;
/// Longest time for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait taken from an answer's Retry-After.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Params of the handler.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    /// A name in the agent's list of targets.
    target: String,
    /// What comes after the target's URL.
    #[serde(default)]
    path: String,
    /// One of the target's methods; the first of them when absent.
    method: Option<String>,
    /// Parameters of the query.
    #[serde(default)]
    query: BTreeMap<String, String>,
    /// Sent as JSON.
    body: Option<serde_json::Value>,
}

/// What a call that succeeded leaves.
#[derive(Debug, Serialize)]
pub(super) struct Output {
    status: u16,
    /// JSON when the answer is, else text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<serde_json::Value>,
    /// The body was longer than what is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_truncated: bool,
}

/// The targets, each with a client that follows redirects within it only.
pub(super) struct Client {
    targets: BTreeMap<String, Allowed>,
}

struct Allowed {
    base: Url,
    methods: Vec<Method>,
    timeout: Duration,
    client: reqwest::Client,
}

impl Client {
    /// # Errors
    /// The client's, such as no certificates to trust.
    pub(super) fn new(section: HttpSection) -> Result<Self, reqwest::Error> {
        // Fails when the program has chosen a provider already; that one is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut targets = BTreeMap::new();
        for (name, target) in section.targets {
            if let Some(allowed) = Allowed::new(&target)? {
                targets.insert(name, allowed);
            }
        }
        Ok(Self { targets })
    }
}

impl Allowed {
    /// `None` for a target that the check of the configuration would not have let through.
    fn new(target: &Target) -> Result<Option<Self>, reqwest::Error> {
        let (Ok(base), Ok(headers)) = (target.base(), target.header_map()) else {
            return Ok(None);
        };
        let methods =
            target.methods.iter().filter_map(|method| Method::from_bytes(method.as_bytes()).ok());
        let within = base.clone();
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(target.timeout())
            .redirect(redirect::Policy::custom(move |attempt| {
                let inside = is_within(&within, attempt.url());
                if inside && attempt.previous().len() <= REDIRECTS_MAX {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            }))
            .build()?;
        Ok(Some(Self { methods: methods.collect(), timeout: target.timeout(), client, base }))
    }

    fn url(&self, params: &Params) -> Result<Url, Failure> {
        let outside = || {
            let text = format!("{:?} leads out of {}", params.path, self.base);
            Failure::new("URL_NOT_ALLOWED", text).non_retryable()
        };
        let joined = format!("{}{}", self.base, params.path);
        let mut url = Url::parse(&joined).map_err(|_| outside())?;
        if !is_within(&self.base, &url) || url.fragment().is_some() {
            return Err(outside());
        }
        if !params.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&params.query);
        }
        Ok(url)
    }

    fn method(&self, params: &Params) -> Result<Method, Failure> {
        let asked = params.method.as_ref().map(|method| method.to_ascii_uppercase());
        let found = self.methods.iter().find(|m| asked.as_ref().is_none_or(|a| a == m.as_str()));
        found.cloned().ok_or_else(|| {
            let text = format!("{} is not among the target's methods", asked.unwrap_or_default());
            Failure::new("METHOD_NOT_ALLOWED", text).non_retryable()
        })
    }
}

/// True when the URL is the base itself, or lies under a base that ends in a slash. Dots in the
/// path, plain and encoded, were resolved when the URL was parsed.
fn is_within(base: &Url, url: &Url) -> bool {
    let same_origin = base.origin() == url.origin();
    let anonymous = url.username().is_empty() && url.password().is_none();
    let path = if base.path().ends_with('/') {
        url.path().starts_with(base.path())
    } else {
        url.path() == base.path()
    };
    same_origin && anonymous && path
}

/// Makes the call, or gives up when the run is stopped.
pub(super) async fn run(client: Arc<Client>, params: Params, ctx: Ctx) -> Result<Output, Failure> {
    let target = client.targets.get(&params.target).ok_or_else(|| {
        let text = format!("the agent's list has no target {:?}", params.target);
        Failure::new("TARGET_NOT_ALLOWED", text).non_retryable()
    })?;
    let (method, url) = (target.method(&params)?, target.url(&params)?);
    // Neither the query nor the headers: they may hold secrets.
    tracing::info!(called = params.target, %method, path = url.path(), "calling");
    let mut request = target.client.request(method, url).headers(description(&ctx));
    if let Some(body) = &params.body {
        request = request.json(body);
    }
    let call = async {
        let response = request.send().await.map_err(|error| call_failure(target, &error))?;
        answer(target, response).await
    };
    tokio::select! {
        answered = call => answered,
        _ = ctx.cancelled() => Err(ctx.stopped()),
    }
}

/// What the called side learns about the run.
fn description(ctx: &Ctx) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("clawjob-run-id", ctx.run_id()),
        ("clawjob-attempt", &ctx.attempt().to_string()),
        ("clawjob-fire-time", &ctx.fire_time().to_rfc3339()),
        ("traceparent", ctx.traceparent().unwrap_or_default()),
        ("tracestate", ctx.tracestate()),
    ] {
        if let (false, Ok(value)) = (value.is_empty(), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    headers
}

async fn answer(target: &Allowed, mut response: Response) -> Result<Output, Failure> {
    let status = response.status();
    let wait = retry_after(response.headers());
    let json = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.contains("json"));
    let mut body = Vec::new();
    let mut truncated = false;
    while let Some(chunk) = response.chunk().await.map_err(|error| call_failure(target, &error))? {
        let room = BODY_BYTES_MAX - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            truncated = true;
            break;
        }
    }
    tracing::info!(status = status.as_u16(), bytes = body.len(), "answered");
    let text = String::from_utf8_lossy(&body).into_owned();
    if !status.is_success() {
        let failure = Failure::new(format!("HTTP_{}", status.as_u16()), status.to_string());
        let failure = failure.with_stack(text);
        return Err(wait.map_or(failure.clone(), |wait| failure.retry_after(wait)));
    }
    let parsed = if json && !truncated { serde_json::from_slice(&body).ok() } else { None };
    let body = parsed.or((!text.is_empty()).then_some(serde_json::Value::String(text)));
    Ok(Output { status: status.as_u16(), body, body_truncated: truncated })
}

/// Seconds of a Retry-After; its other form, a date, is left to the job's backoff.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn call_failure(target: &Allowed, error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        let text = format!("no answer within {:?}", target.timeout);
        return Failure::new(code::TIMEOUT, text).with_code("HTTP_TIMEOUT");
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Failure::new("HTTP_FAILED", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(base: &str, path: &str) -> Result<Url, Failure> {
        let target: Target = serde_json::from_value(serde_json::json!({"url": base})).unwrap();
        let section = HttpSection { targets: [("t".to_owned(), target)].into() };
        let client = Client::new(section).unwrap();
        let params = serde_json::from_value(serde_json::json!({"target": "t", "path": path}));
        client.targets["t"].url(&params.unwrap())
    }

    #[tokio::test]
    async fn a_path_cannot_leave_its_target() {
        let base = "http://h/jobs/";
        assert_eq!(url(base, "a/b?x=1").unwrap().as_str(), "http://h/jobs/a/b?x=1");
        for path in ["../admin", "a/../../admin", "%2e%2e/admin", "..\\admin", "a#b"] {
            assert_eq!(url(base, path).unwrap_err().code(), "URL_NOT_ALLOWED", "{path}");
        }
    }

    #[tokio::test]
    async fn a_target_without_a_slash_is_itself_alone() {
        assert!(url("http://h/jobs", "").is_ok());
        assert!(url("http://h/jobs", "?x=1").is_ok());
        for path in ["/x", "x", "@evil/"] {
            assert!(url("http://h/jobs", path).is_err(), "{path}");
        }
        assert!(url("http://h", "@evil/").is_ok_and(|url| url.host_str() == Some("h")));
    }
}
