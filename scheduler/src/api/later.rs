//! Services of the contract that this release does not have yet: every method says so.

use clawjob_proto::v1::{self as pb, alarm_service_server as alarm};
use tonic::{Request, Response, Status};

use super::status::ApiError;

/// Answers for services that are still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later;

type Answer<T> = Result<Response<T>, Status>;

/// UNIMPLEMENTED, naming what is missing.
pub(super) fn not_yet<T>(what: &str) -> Answer<T> {
    Err(ApiError::unimplemented(format!("{what} comes with a later release")).into())
}

const ALARMS: &str = "alarm rules and alarms";

#[tonic::async_trait]
impl alarm::AlarmService for Later {
    async fn create_alarm_rule(
        &self,
        _: Request<pb::CreateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        not_yet(ALARMS)
    }

    async fn get_alarm_rule(&self, _: Request<pb::GetAlarmRuleRequest>) -> Answer<pb::AlarmRule> {
        not_yet(ALARMS)
    }

    async fn list_alarm_rules(
        &self,
        _: Request<pb::ListAlarmRulesRequest>,
    ) -> Answer<pb::ListAlarmRulesResponse> {
        not_yet(ALARMS)
    }

    async fn update_alarm_rule(
        &self,
        _: Request<pb::UpdateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        not_yet(ALARMS)
    }

    async fn delete_alarm_rule(&self, _: Request<pb::DeleteAlarmRuleRequest>) -> Answer<()> {
        not_yet(ALARMS)
    }

    async fn test_alarm_rule(
        &self,
        _: Request<pb::TestAlarmRuleRequest>,
    ) -> Answer<pb::TestAlarmRuleResponse> {
        not_yet(ALARMS)
    }

    async fn list_alarms(
        &self,
        _: Request<pb::ListAlarmsRequest>,
    ) -> Answer<pb::ListAlarmsResponse> {
        not_yet(ALARMS)
    }

    async fn acknowledge_alarm(
        &self,
        _: Request<pb::AcknowledgeAlarmRequest>,
    ) -> Answer<pb::Alarm> {
        not_yet(ALARMS)
    }
}
