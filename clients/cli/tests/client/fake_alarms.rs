//! AlarmService in memory: rules as they were sent, one alarm.

use clawjob_proto::v1::{self as pb, channel::Kind};
use tonic::{Request, Response, Status};

use crate::fake::{Answer, Fake, not_found};

fn alarm(name: &str) -> pb::Alarm {
    pb::Alarm {
        name: name.to_owned(),
        subject: "FAILED: demo/jobs/hello".to_owned(),
        message: "State: FAILED\nReason: none".to_owned(),
        last_delivery_error: "channel 0: HTTP 500".to_owned(),
        ..pb::Alarm::default()
    }
}

/// Without what is secret.
fn shown(mut rule: pb::AlarmRule) -> pb::AlarmRule {
    for channel in &mut rule.channels {
        if let Some(Kind::Webhook(hook)) = &mut channel.kind {
            hook.secret.clear();
        }
    }
    rule
}

#[tonic::async_trait]
impl pb::alarm_service_server::AlarmService for Fake {
    async fn create_alarm_rule(
        &self,
        rq: Request<pb::CreateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        let (mut state, rq) = self.enter("create_alarm_rule", rq)?;
        let name = format!("{}/alarmRules/{}", rq.parent, rq.alarm_rule_id);
        let given = rq.alarm_rule.unwrap_or_default();
        if given.channels.is_empty() {
            return Err(Status::invalid_argument("alarm_rule.channels: is empty"));
        }
        let rule = pb::AlarmRule { name: name.clone(), etag: "1".to_owned(), ..given };
        if !rq.validate_only {
            state.rules.insert(name, rule.clone());
        }
        Ok(Response::new(shown(rule)))
    }

    async fn get_alarm_rule(&self, rq: Request<pb::GetAlarmRuleRequest>) -> Answer<pb::AlarmRule> {
        let (state, rq) = self.enter("get_alarm_rule", rq)?;
        let rule = state.rules.get(&rq.name).ok_or_else(|| not_found("ALARM_RULE", &rq.name))?;
        Ok(Response::new(shown(rule.clone())))
    }

    async fn list_alarm_rules(
        &self,
        rq: Request<pb::ListAlarmRulesRequest>,
    ) -> Answer<pb::ListAlarmRulesResponse> {
        let (state, rq) = self.enter("list_alarm_rules", rq)?;
        let prefix = rq.parent.replace("apps/-", "apps/");
        let mine = state.rules.values().filter(|rule| rule.name.starts_with(&prefix));
        let alarm_rules = mine.cloned().map(shown).collect();
        let next_page_token = String::new();
        Ok(Response::new(pb::ListAlarmRulesResponse { alarm_rules, next_page_token }))
    }

    /// Replaces all of a rule by `*`; other masks are noted only.
    async fn update_alarm_rule(
        &self,
        rq: Request<pb::UpdateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        let (mut state, rq) = self.enter("update_alarm_rule", rq)?;
        let (given, paths) =
            (rq.alarm_rule.unwrap_or_default(), rq.update_mask.unwrap_or_default().paths);
        if paths != ["*"] {
            state.masks.push(paths);
            return Ok(Response::new(given));
        }
        let name = given.name.clone();
        let before = state.rules.get(&name).ok_or_else(|| not_found("ALARM_RULE", &name))?;
        let mut after = pb::AlarmRule { etag: before.etag.clone(), ..given };
        for (new, old) in after.channels.iter_mut().zip(&before.channels) {
            if let (Some(Kind::Webhook(new)), Some(Kind::Webhook(old))) = (&mut new.kind, &old.kind)
                && new.secret.is_empty()
            {
                new.secret.clone_from(&old.secret);
            }
        }
        if after != *before {
            after.etag.push('1');
        }
        if !rq.validate_only {
            state.rules.insert(name, after.clone());
        }
        Ok(Response::new(shown(after)))
    }

    async fn delete_alarm_rule(&self, rq: Request<pb::DeleteAlarmRuleRequest>) -> Answer<()> {
        let (mut state, rq) = self.enter("delete_alarm_rule", rq)?;
        state.rules.remove(&rq.name);
        Ok(Response::new(()))
    }

    async fn test_alarm_rule(
        &self,
        rq: Request<pb::TestAlarmRuleRequest>,
    ) -> Answer<pb::TestAlarmRuleResponse> {
        let _state = self.enter("test_alarm_rule", rq)?;
        let answers = [(true, "delivered"), (false, "HTTP 403 Forbidden")];
        let deliveries = (0..).zip(answers).map(|(channel_index, (ok, detail))| {
            let detail = detail.to_owned();
            pb::test_alarm_rule_response::Delivery { channel_index, ok, detail }
        });
        Ok(Response::new(pb::TestAlarmRuleResponse { deliveries: deliveries.collect() }))
    }

    async fn list_alarms(
        &self,
        rq: Request<pb::ListAlarmsRequest>,
    ) -> Answer<pb::ListAlarmsResponse> {
        let (mut state, rq) = self.enter("list_alarms", rq)?;
        state.filters.push(rq.filter);
        let alarms = vec![alarm("apps/demo/alarms/A1")];
        Ok(Response::new(pb::ListAlarmsResponse { alarms, next_page_token: String::new() }))
    }

    async fn acknowledge_alarm(
        &self,
        rq: Request<pb::AcknowledgeAlarmRequest>,
    ) -> Result<Response<pb::Alarm>, Status> {
        let (_state, rq) = self.enter("acknowledge_alarm", rq)?;
        let acknowledged_by = format!("me, saying {}", rq.comment);
        Ok(Response::new(pb::Alarm { acknowledged_by, ..alarm(&rq.name) }))
    }
}
