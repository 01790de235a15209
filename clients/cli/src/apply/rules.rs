//! Alarm rules of a file: compared with the server's, which keeps what is secret to itself and says
//! by the etag whether that would change.

use clawjob_proto::{
    json,
    v1::{
        AlarmRule, CreateAlarmRuleRequest, DeleteAlarmRuleRequest, GetAlarmRuleRequest,
        UpdateAlarmRuleRequest,
    },
};
use prost_types::FieldMask;
use serde_json::{Map, Value};
use tonic::Code;

use super::{
    diff::{self, Change},
    plan::Action,
};
use crate::{
    client::{self, Call, Client, alarms},
    error::CliError,
    names,
};

/// What becomes of a wanted rule, which the server checks without making it.
///
/// # Errors
/// What the server says.
pub(super) async fn compare(client: &mut Client, wanted: &AlarmRule) -> Result<Action, CliError> {
    let rq = GetAlarmRuleRequest { name: wanted.name.clone() };
    let rpc = async |ch, rq| alarms(ch).get_alarm_rule(rq).await;
    let current = match client.call(Call::SAFE, rq, rpc).await {
        Ok(current) => current,
        Err(CliError::Status(status)) if status.code() == Code::NotFound => {
            create(client, wanted, true).await?;
            return Ok(Action::CreateRule(Box::new(wanted.clone())));
        }
        Err(e) => return Err(e),
    };
    let rule = AlarmRule { etag: current.etag.clone(), ..wanted.clone() };
    let checked = write(client, &rule, true).await?;
    let mut changes = diff::of(value(&current)?, value(&checked)?);
    if changes.is_empty() && checked.etag == current.etag {
        return Ok(Action::Keep);
    }
    if changes.is_empty() {
        let to = Some("another secret or header, as in the file".into());
        changes.push(Change { field: "channels".into(), from: None, to });
    }
    Ok(Action::UpdateRule { rule: Box::new(rule), changes })
}

/// A rule in the shape of a file, without its name.
///
/// # Errors
/// A value that JSON cannot carry.
pub(super) fn value(rule: &AlarmRule) -> Result<Map<String, Value>, CliError> {
    let Value::Object(mut map) = json::to_value(rule)? else { return Ok(Map::new()) };
    map.remove("name");
    map.remove("etag");
    Ok(map)
}

/// Makes the rule, or has the server check it only.
///
/// # Errors
/// What the server says.
pub(super) async fn create(
    client: &mut Client,
    rule: &AlarmRule,
    validate_only: bool,
) -> Result<(), CliError> {
    let (app, id) = names::split(&rule.name)
        .ok_or_else(|| CliError::usage(format!("alarm rule {:?}: not a name", rule.name)))?;
    let rq = CreateAlarmRuleRequest {
        parent: format!("apps/{app}"),
        alarm_rule_id: id.into(),
        alarm_rule: Some(rule.clone()),
        request_id: client::request_id(),
        validate_only,
    };
    let rpc = async |ch, rq| alarms(ch).create_alarm_rule(rq).await;
    client.call(Call::SAFE, rq, rpc).await.map(drop)
}

/// Replaces the rule under its etag, or has the server check that only; secrets that are left out
/// stay. Returns the rule as it is then.
///
/// # Errors
/// What the server says.
pub(super) async fn write(
    client: &mut Client,
    rule: &AlarmRule,
    validate_only: bool,
) -> Result<AlarmRule, CliError> {
    let update_mask = Some(FieldMask { paths: vec!["*".into()] });
    let rq = UpdateAlarmRuleRequest { alarm_rule: Some(rule.clone()), update_mask, validate_only };
    let call = if validate_only { Call::SAFE } else { Call::ONCE };
    client.call(call, rq, async |ch, rq| alarms(ch).update_alarm_rule(rq).await).await
}

/// Deletes a rule.
///
/// # Errors
/// What the server says.
pub(super) async fn delete(
    client: &mut Client,
    name: String,
    etag: String,
) -> Result<(), CliError> {
    let rq = DeleteAlarmRuleRequest { name, etag };
    client.call(Call::ONCE, rq, async |ch, rq| alarms(ch).delete_alarm_rule(rq).await).await
}
