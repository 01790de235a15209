//! Rules and alarms as callers see them: without anything secret.

use clawjob_proto::v1::{self as pb, alarm_rule::Condition, channel};

use crate::{
    api::convert::{names, time},
    model::alarm::{Alarm, AlarmCondition, AlarmRule, AlarmRuleSpec, Channel},
};

/// Of a rule. The row id is in it: a rule made anew under an old name matches no earlier etag.
pub(super) fn etag(rule: &AlarmRule) -> String {
    format!("{:x}-{:x}", rule.id.0, rule.version)
}

pub(super) fn rule_to_proto(rule: &AlarmRule) -> pb::AlarmRule {
    let name = rule.resource_name();
    pb::AlarmRule { name, etag: etag(rule), ..spec_to_proto(&rule.spec) }
}

/// The content alone.
pub(super) fn spec_to_proto(spec: &AlarmRuleSpec) -> pb::AlarmRule {
    pb::AlarmRule {
        display_name: spec.display_name.clone(),
        condition: condition_to_proto(spec.condition).into(),
        filter: spec.filter.clone(),
        threshold: spec.threshold,
        channels: spec.channels.iter().map(channel_to_proto).collect(),
        disabled: spec.disabled,
        ..pb::AlarmRule::default()
    }
}

pub(super) fn condition_to_proto(condition: AlarmCondition) -> Condition {
    match condition {
        AlarmCondition::RunFailed => Condition::RunFailed,
        AlarmCondition::RunLost => Condition::RunLost,
        AlarmCondition::RunSucceeded => Condition::RunSucceeded,
    }
}

/// Headers are shown by name; their values may be credentials as much as the secret.
fn channel_to_proto(channel: &Channel) -> pb::Channel {
    let kind = match channel {
        Channel::Webhook(webhook) => channel::Kind::Webhook(channel::Webhook {
            url: webhook.url.clone(),
            secret: String::new(),
            headers: webhook.headers.keys().map(|name| (name.clone(), String::new())).collect(),
        }),
        Channel::Mail(mail) => channel::Kind::Email(channel::Email { to: mail.to.clone() }),
    };
    pb::Channel { kind: Some(kind) }
}

pub(super) fn alarm_to_proto(alarm: &Alarm) -> pb::Alarm {
    let mut message = alarm.facts.message();
    if !alarm.comment.is_empty() {
        message.push_str(&format!("\nAcknowledged: {}", alarm.comment));
    }
    pb::Alarm {
        name: names::alarm(&alarm.app_name, alarm.id),
        rule: alarm.rule_name.clone(),
        subject: alarm.facts.subject(),
        message,
        fire_time: Some(time::instant_to_proto(alarm.fire_at)),
        resolve_time: None,
        acknowledge_time: alarm.acknowledged_at.map(time::instant_to_proto),
        acknowledged_by: alarm.acknowledged_by.clone(),
        deliveries: alarm.deliveries,
        last_delivery_error: alarm.last_error.clone(),
    }
}
