//! AlarmService in memory: rules as they were sent, one alarm.

use clawjob_proto::v1 as pb;
use tonic::{Request, Response, Status};

use crate::fake::{Answer, Fake, not_found};

fn alarm(name: &str) -> pb::Alarm {
    pb::Alarm {
        name: name.to_owned(),
        subject: "FAILED: demo/jobs/hello".to_owned(),
        last_delivery_error: "channel 0: HTTP 500".to_owned(),
        ..pb::Alarm::default()
    }
}

#[tonic::async_trait]
impl pb::alarm_service_server::AlarmService for Fake {
    async fn create_alarm_rule(
        &self,
        rq: Request<pb::CreateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        let (mut state, rq) = self.enter("create_alarm_rule", rq)?;
        let name = format!("{}/alarmRules/{}", rq.parent, rq.alarm_rule_id);
        let rule = pb::AlarmRule { name: name.clone(), ..rq.alarm_rule.unwrap_or_default() };
        state.rules.insert(name, rule.clone());
        Ok(Response::new(rule))
    }

    async fn get_alarm_rule(&self, rq: Request<pb::GetAlarmRuleRequest>) -> Answer<pb::AlarmRule> {
        let (state, rq) = self.enter("get_alarm_rule", rq)?;
        let rule = state.rules.get(&rq.name).ok_or_else(|| not_found("ALARM_RULE", &rq.name))?;
        Ok(Response::new(rule.clone()))
    }

    async fn list_alarm_rules(
        &self,
        rq: Request<pb::ListAlarmRulesRequest>,
    ) -> Answer<pb::ListAlarmRulesResponse> {
        let (state, _rq) = self.enter("list_alarm_rules", rq)?;
        let alarm_rules = state.rules.values().cloned().collect();
        let next_page_token = String::new();
        Ok(Response::new(pb::ListAlarmRulesResponse { alarm_rules, next_page_token }))
    }

    async fn update_alarm_rule(
        &self,
        rq: Request<pb::UpdateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        let (mut state, rq) = self.enter("update_alarm_rule", rq)?;
        state.masks.push(rq.update_mask.unwrap_or_default().paths);
        Ok(Response::new(rq.alarm_rule.unwrap_or_default()))
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
