//! Alarms as an HTTP POST of JSON, signed.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use chrono::{DateTime, SecondsFormat, Utc};
use hmac::{Hmac, Mac};
use reqwest::{
    Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{Notice, SendFault};
use crate::model::alarm::{Secret, Webhook, forbidden_address, webhook_url};

/// The alarm's id: the same for every repeat.
pub const HEADER_ID: &str = "clawjob-alarm-id";
/// Seconds since 1970 at which this try was signed.
pub const HEADER_TIMESTAMP: &str = "clawjob-timestamp";
/// `v1=` and HMAC-SHA256, in hex, of the timestamp, a dot and the body.
pub const HEADER_SIGNATURE: &str = "clawjob-signature";
/// Which try this is.
pub const HEADER_ATTEMPT: &str = "clawjob-attempt";
/// Beginning of the names of headers that only this program sets.
pub const HEADER_OWN: &str = "clawjob-";

/// Longest time for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections kept open to one target, and for how long: an alarm comes seldom.
const IDLE_CONNECTIONS_MAX: usize = 1;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Posts.
pub(super) struct Poster {
    client: reqwest::Client,
}

impl Poster {
    pub(super) fn new(timeout: Duration) -> Result<Self, String> {
        // Fails when the program has chosen a provider already; that one is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("clawjob/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .timeout(timeout)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // A redirect would lead past the check of the address.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(Guarded))
            .build();
        Ok(Self { client: client.map_err(|fault| format!("webhooks can't be sent: {fault}"))? })
    }

    pub(super) async fn post(
        &self,
        webhook: &Webhook,
        notice: &Notice,
        link: &str,
        now: DateTime<Utc>,
    ) -> Result<(), SendFault> {
        let url = webhook_url(&webhook.url)
            .map_err(|fault| SendFault::refused(format!("the URL {fault}")))?;
        let body = body(notice, link).to_string();
        let headers = headers(webhook, notice, &body, now).map_err(SendFault::refused)?;
        let request = self.client.post(url).headers(headers).body(body);
        let answer = request.send().await.map_err(|fault| unreachable(&fault))?;
        judge(&answer)
    }
}

/// Only the status is looked at: what a receiver says is not read, so nothing of an internal
/// service can be read through it.
fn judge(answer: &Response) -> Result<(), SendFault> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
    let mut fault = SendFault::refused(format!("HTTP {status}{hint}"));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        fault.retry_after = seconds.and_then(|s| s.parse().ok()).map(Duration::from_secs);
    }
    Err(fault)
}

/// A fault of the connection in words. The URL is left out: its query may hold a key.
fn unreachable(fault: &reqwest::Error) -> SendFault {
    if fault.is_timeout() {
        return SendFault::unreachable("no answer in time");
    }
    let mut text = String::from("can't be reached");
    let mut cause = std::error::Error::source(fault);
    while let Some(source) = cause {
        let part = source.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = source.source();
    }
    SendFault::unreachable(text)
}

/// The documented shape.
fn body(notice: &Notice, link: &str) -> Value {
    let facts = &notice.facts;
    let instant = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({
        "id": notice.alarm.map(|alarm| alarm.to_string()).unwrap_or_default(),
        "test": notice.alarm.is_none(),
        "rule": notice.rule,
        "condition": notice.condition.as_str(),
        "subject": notice.subject(),
        "message": facts.message(),
        "alarm_time": instant(notice.fire_at),
        "app": facts.app,
        "job": facts.job,
        "job_display_name": facts.job_display_name,
        "owner": facts.owner,
        "run": facts.run,
        "state": facts.state,
        "trigger": facts.trigger,
        "attempts": facts.attempts,
        "fire_time": instant(facts.fire_time),
        "end_time": instant(facts.end_time),
        "executor": facts.executor,
        "failure": { "code": facts.failure_code, "message": facts.failure_message },
        "link": link,
    })
}

fn headers(
    webhook: &Webhook,
    notice: &Notice,
    body: &str,
    now: DateTime<Utc>,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &webhook.headers {
        let (Ok(name), Ok(mut value)) =
            (HeaderName::try_from(name), HeaderValue::try_from(value.expose()))
        else {
            return Err(format!("the header {name} can't be sent"));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let timestamp = now.timestamp().to_string();
    let id = notice.alarm.map(|alarm| alarm.to_string()).unwrap_or_default();
    let mut own = vec![
        (HEADER_ID, id),
        (HEADER_ATTEMPT, notice.attempt.to_string()),
        (HEADER_TIMESTAMP, timestamp.clone()),
    ];
    if !webhook.secret.is_empty() {
        own.push((HEADER_SIGNATURE, signature(&webhook.secret, &timestamp, body)?));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in own {
        let value = HeaderValue::try_from(value).map_err(|fault| fault.to_string())?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

fn signature(secret: &Secret, timestamp: &str, body: &str) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .map_err(|_| "the secret can't be signed with".to_owned())?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    Ok(format!("v1={}", hex::encode(mac.finalize().into_bytes())))
}

/// Resolves names, and leaves out addresses that must not be sent to: what the name leads to is
/// decided here and now, whatever it led to when the rule was saved.
struct Guarded;

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| !forbidden_address(address.ip())).collect();
            if allowed.is_empty() {
                return Err("the name leads to no address that may be sent to".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alarm::AlarmCondition;

    #[test]
    fn the_signature_is_that_of_timestamp_dot_body() {
        // Computed with Python: hmac.new(b"key", b"1800000000.{}", "sha256").hexdigest()
        let signed = signature(&Secret::new("key"), "1800000000", "{}").expect("signs");
        let expected = "v1=7321475872b03ff21bdc2dfd86ea2d99ec29c479fbe4a77aa6acf4509505493f";
        assert_eq!(signed, expected);
    }

    #[test]
    fn own_headers_come_along_and_can_not_outdo_the_program_s() {
        let at = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
        let webhook = Webhook {
            url: "https://h/".to_owned(),
            secret: Secret::default(),
            headers: [
                ("authorization".to_owned(), Secret::new("Bearer x")),
                ("content-type".to_owned(), Secret::new("text/plain")),
            ]
            .into(),
        };
        let notice = Notice::sample("a", "apps/a/alarmRules/r", AlarmCondition::RunLost, at);
        let headers = headers(&webhook, &notice, "{}", at).expect("headers");
        assert_eq!(headers["authorization"], "Bearer x");
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers[HEADER_TIMESTAMP], "1800000000");
        assert!(!headers.contains_key(HEADER_SIGNATURE), "nothing to sign with");
        assert!(!format!("{headers:?}").contains("Bearer"), "a value is not shown");
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_forbidden_address_is_not_sent_to() {
        let resolve = |name: &str| Guarded.resolve(name.parse().expect("a name"));
        let found = resolve("127.0.0.1").await.expect("an address").count();
        assert_eq!(found, 1);
        assert!(resolve("169.254.169.254").await.is_err());
    }
}
