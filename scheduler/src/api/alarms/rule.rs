//! Reads a rule, with all its faults at once.

use std::collections::BTreeMap;

use clawjob_proto::v1::{self as pb, alarm_rule::Condition as Asked, channel};
use http::{HeaderName, HeaderValue};

use crate::{
    alarm::{mail::is_address, webhook::HEADER_OWN},
    api::{
        filter::{self, RULE_FIELDS},
        status::Violations,
        validate::{self, DISPLAY_NAME_MAX},
    },
    model::alarm::{
        AlarmCondition, AlarmRuleSpec, Channel, JobField, JobTest, Mail, Secret, Webhook,
        webhook_url,
    },
    store::ops::Condition,
};

/// Times in a row that a rule may wait for.
const THRESHOLD_MAX: u32 = 100;
/// Channels of one rule.
const CHANNELS_MAX: usize = 8;
/// Longest secret of a webhook, bytes.
const SECRET_MAX: usize = 256;
/// Headers of one webhook.
const HEADERS_MAX: usize = 16;
/// Longest value of a header, bytes.
const HEADER_VALUE_MAX: usize = 4_096;
/// Receivers of one mail.
const RECEIVERS_MAX: usize = 20;

/// Headers that belong to the connection and the message.
const RESERVED: [&str; 8] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
];

/// A rule that was read.
pub(super) struct Draft {
    pub(super) spec: AlarmRuleSpec,
    /// Fields that ask for what a later release brings, with what to use instead.
    pub(super) later: Vec<(String, String)>,
}

/// Reads a rule. `kept` are the channels it has: what is secret of a webhook with the same URL is
/// kept where the message leaves it empty.
pub(super) fn read(
    given: &pb::AlarmRule,
    kept: &[Channel],
    has_mail: bool,
    bad: &mut Violations,
) -> Draft {
    let mut later = Vec::new();
    validate::text("alarm_rule.display_name", &given.display_name, DISPLAY_NAME_MAX, bad);
    let condition = condition(given.condition, bad, &mut later);
    let tests = tests(&given.filter, bad);
    if given.threshold > THRESHOLD_MAX {
        let text = format!("is {}; use at most {THRESHOLD_MAX}", given.threshold);
        bad.invalid("alarm_rule.threshold", text);
    }
    for (field, wanted, instead) in [
        ("duration", given.duration.is_some(), "leave it out"),
        ("repeat_interval", given.repeat_interval.is_some(), "leave it out; use threshold"),
    ] {
        if wanted {
            later.push((format!("alarm_rule.{field}"), not_yet(instead)));
        }
    }
    if given.channels.is_empty() {
        bad.invalid("alarm_rule.channels", "is empty; name a webhook or a mail");
    }
    if given.channels.len() > CHANNELS_MAX {
        bad.invalid("alarm_rule.channels", format!("has over {CHANNELS_MAX} entries"));
    }
    let mut channels = Vec::new();
    for (place, channel) in given.channels.iter().take(CHANNELS_MAX).enumerate() {
        let path = format!("alarm_rule.channels[{place}]");
        channels.extend(match &channel.kind {
            Some(channel::Kind::Webhook(hook)) => {
                Some(Channel::Webhook(webhook(&path, hook, place, kept, bad)))
            }
            Some(channel::Kind::Email(mail)) => Some(email(&path, mail, has_mail, bad)),
            Some(channel::Kind::ChatRobot(_)) => {
                later.push((format!("{path}.chat_robot"), not_yet("use webhook or email")));
                None
            }
            None => {
                bad.invalid(&path, "says nothing; name a webhook or an email");
                None
            }
        });
    }
    let spec = AlarmRuleSpec {
        display_name: given.display_name.clone(),
        condition,
        filter: given.filter.clone(),
        tests,
        threshold: given.threshold,
        channels,
        disabled: given.disabled,
    };
    Draft { spec, later }
}

fn not_yet(instead: &str) -> String {
    format!("is not supported by this server yet; {instead}")
}

fn condition(
    number: i32,
    bad: &mut Violations,
    later: &mut Vec<(String, String)>,
) -> AlarmCondition {
    const USE: &str = "use CONDITION_RUN_FAILED, _RUN_LOST or _RUN_SUCCEEDED";
    let field = "alarm_rule.condition";
    match Asked::try_from(number) {
        Ok(Asked::RunFailed) => return AlarmCondition::RunFailed,
        Ok(Asked::RunLost) => return AlarmCondition::RunLost,
        Ok(Asked::RunSucceeded) => return AlarmCondition::RunSucceeded,
        Ok(Asked::Unspecified) => bad.invalid(field, format!("is missing; {USE}")),
        Ok(other) => {
            later.push((field.to_owned(), format!("{}: {}", other.as_str_name(), not_yet(USE))));
        }
        Err(_) => bad.invalid(field, format!("{number} is no value of this enum; {USE}")),
    }
    AlarmCondition::default()
}

/// The filter as tests of a job.
fn tests(text: &str, bad: &mut Violations) -> Vec<JobTest> {
    let conditions = filter::parse_in("alarm_rule.filter", text, &RULE_FIELDS, bad).conditions;
    let tests: Vec<JobTest> = conditions.into_iter().filter_map(test).collect();
    for name in tests.iter().flat_map(JobTest::names).filter(|name| name.contains('/')) {
        // No job of the app has such an id: the rule would never be met, and nobody would know.
        let id = name.rsplit('/').next().unwrap_or_default();
        let fault = format!("name is a job's id within the app, not {name:?}; write name = {id:?}");
        bad.invalid("alarm_rule.filter", fault);
    }
    tests
}

/// `None` for what the fields of a rule do not lead to.
fn test(condition: Condition) -> Option<JobTest> {
    Some(match condition {
        Condition::OneOf { field, values, negated } => {
            JobTest::OneOf { field: job_field(field)?, values, negated }
        }
        Condition::Contains { field, text, negated } => {
            JobTest::Contains { field: job_field(field)?, text, negated }
        }
        Condition::Label { key, value, negated } => JobTest::Label { key, value, negated },
        Condition::Time { .. } | Condition::ShardOf(_) => return None,
    })
}

fn job_field(name: &str) -> Option<JobField> {
    Some(match name {
        "name" => JobField::Name,
        "handler" => JobField::Handler,
        "owner" => JobField::Owner,
        "display_name" => JobField::DisplayName,
        _ => return None,
    })
}

fn webhook(
    path: &str,
    given: &channel::Webhook,
    place: usize,
    kept: &[Channel],
    bad: &mut Violations,
) -> Webhook {
    let path = format!("{path}.webhook");
    if let Err(fault) = webhook_url(&given.url) {
        bad.invalid(format!("{path}.url"), fault.to_string());
    }
    if given.secret.len() > SECRET_MAX {
        bad.invalid(format!("{path}.secret"), format!("has over {SECRET_MAX} bytes"));
    }
    // What is secret goes on only to where it went before: else whoever may change the URL could
    // have it sent to a place of their own.
    let same = kept.iter().filter_map(as_webhook).find(|before| before.url == given.url);
    let mut secret = Secret::new(given.secret.as_str());
    if secret.is_empty() {
        let replaced = kept.get(place).and_then(as_webhook).filter(|_| same.is_none());
        if replaced.is_some_and(|before| !before.secret.is_empty()) {
            let text = "is empty, and the URL is another than before: give the secret again";
            bad.invalid(format!("{path}.secret"), text);
        }
        secret = same.map(|before| before.secret.clone()).unwrap_or_default();
    }
    let headers = headers(&path, given, same, bad);
    Webhook { url: given.url.clone(), secret, headers }
}

fn as_webhook(channel: &Channel) -> Option<&Webhook> {
    match channel {
        Channel::Webhook(webhook) => Some(webhook),
        Channel::Mail(_) => None,
    }
}

fn headers(
    path: &str,
    given: &channel::Webhook,
    same: Option<&Webhook>,
    bad: &mut Violations,
) -> BTreeMap<String, Secret> {
    if given.headers.len() > HEADERS_MAX {
        bad.invalid(format!("{path}.headers"), format!("has over {HEADERS_MAX} entries"));
    }
    let mut headers = BTreeMap::new();
    let sorted: BTreeMap<_, _> = given.headers.iter().take(HEADERS_MAX).collect();
    for (name, value) in sorted {
        let shown: String = name.chars().take(80).collect();
        let field = format!("{path}.headers[{shown:?}]");
        let Ok(known) = HeaderName::try_from(name) else {
            bad.invalid(field, "is no name of a header");
            continue;
        };
        let known = known.as_str().to_owned();
        if RESERVED.contains(&known.as_str()) || known.starts_with(HEADER_OWN) {
            bad.invalid(field, "is set by the server itself; leave it out");
            continue;
        }
        let before = same.and_then(|before| before.headers.get(&known));
        let value = match (value.as_str(), before) {
            ("", Some(before)) => before.clone(),
            ("", None) => {
                bad.invalid(field, "is empty; give its value, which is never shown again");
                continue;
            }
            (value, _) => Secret::new(value),
        };
        if value.expose().len() > HEADER_VALUE_MAX || HeaderValue::try_from(value.expose()).is_err()
        {
            let text = format!("must be at most {HEADER_VALUE_MAX} bytes in one line");
            bad.invalid(field, text);
            continue;
        }
        headers.insert(known, value);
    }
    headers
}

fn email(path: &str, given: &channel::Email, has_mail: bool, bad: &mut Violations) -> Channel {
    let field = format!("{path}.email.to");
    if !has_mail {
        let text = "this server has no mail server to send by; its operator sets alarm.smtp.host";
        bad.add(format!("{path}.email"), "MAIL_NOT_CONFIGURED", text);
    }
    if !(1..=RECEIVERS_MAX).contains(&given.to.len()) {
        bad.invalid(&field, format!("must name 1 to {RECEIVERS_MAX} mail addresses"));
    }
    for (place, address) in given.to.iter().take(RECEIVERS_MAX).enumerate() {
        if !is_address(address) {
            let shown: String = address.chars().take(80).collect();
            bad.invalid(format!("{field}[{place}]"), format!("{shown:?} is no mail address"));
        }
    }
    Channel::Mail(Mail { to: given.to.clone() })
}

#[cfg(test)]
mod tests;
