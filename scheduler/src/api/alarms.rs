//! AlarmService: rules, and the alarms they raised.

mod rule;
mod show;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{self as pb, alarm_service_server::AlarmService};
use futures::future::join_all;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::{
    Api,
    caller::Caller,
    convert::names::{self, Parent},
    filter::{self, ALARM_FIELDS},
    mask, paging, request_id, scope,
    status::{ApiError, ApiResult, FIELD_INVALID, Kind, Violations},
    validate,
};
use crate::{
    alarm::{Notice, SEND_TIMEOUT},
    model::alarm::{AlarmId, AlarmRule, AlarmRuleSpec},
    store::{
        StoreError,
        ops::{AlarmQuery, AlarmRuleQuery, Condition, NewAlarmRule},
    },
};
use rule::{Draft, read};
use show::{alarm_to_proto, etag, rule_to_proto};

/// Tries of an update that names no etag and meets another one.
const UPDATE_TRIES_MAX: u32 = 5;
/// What an update never sets.
const OUTPUT_ONLY: [&str; 2] = ["name", "etag"];
/// Longest comment of an acknowledgement, characters.
pub const COMMENT_MAX: usize = 1_000;
/// Rules that are tried at the same time.
pub const TESTS_MAX: usize = 4;

/// Serves alarms.
pub struct AlarmsApi {
    api: Arc<Api>,
    tests: Semaphore,
}

impl AlarmsApi {
    /// On the given store and channels.
    pub fn new(api: Arc<Api>) -> Self {
        Self { api, tests: Semaphore::new(TESTS_MAX) }
    }

    async fn create(
        &self,
        caller: &Caller,
        request: pb::CreateAlarmRuleRequest,
    ) -> ApiResult<pb::AlarmRule> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let app = names::parse_app("parent", &request.parent, &mut bad).unwrap_or_default();
        names::check_new_id("alarm_rule_id", "alarm rule", &request.alarm_rule_id, &mut bad);
        let (by, id) = (caller.principal(), &request.request_id);
        let key = request_id::key(&by, "CreateAlarmRule", id, &request, &mut bad)?;
        let key = key.filter(|_| !request.validate_only);
        if let Some(made) = request_id::answered(&self.api, key.as_ref(), id).await? {
            let found = match self.api.store.get_app(&app).await {
                Ok(app) => self.api.store.get_alarm_rule(app.id, &request.alarm_rule_id).await,
                Err(error) => Err(error),
            };
            let full_name = names::alarm_rule(&app, &request.alarm_rule_id);
            let is_made = |rule: &AlarmRule| rule.id.0.to_string() == made;
            let rule = request_id::still_there(Kind::AlarmRule, full_name, found, is_made)?;
            return Ok(rule_to_proto(&rule));
        }
        let Some(given) = &request.alarm_rule else {
            bad.invalid("alarm_rule", "is missing; give a condition and a channel");
            return Err(bad.finish().err().unwrap_or_else(no_rule));
        };
        let spec = self.read(given, None, bad)?;
        let name = request.alarm_rule_id;
        let full_name = names::alarm_rule(&app, &name);
        if request.validate_only {
            return self.would_be(app, name, spec).await;
        }
        let app = self.api.store.ensure_app(&app, now).await?;
        let new = NewAlarmRule { app: app.id, name, spec, updated_by: by };
        let made = self.api.store.create_alarm_rule(&new, key.as_ref(), now).await;
        let made = made.map_err(|error| match error {
            StoreError::Conflict(_) => request_id::reused(id),
            error => ApiError::of_store(Kind::AlarmRule, &full_name, error),
        })?;
        tracing::info!(rule = full_name, by = new.updated_by, "alarm rule created");
        Ok(rule_to_proto(&made))
    }

    /// The rule as it would be made.
    async fn would_be(
        &self,
        app: String,
        name: String,
        spec: AlarmRuleSpec,
    ) -> ApiResult<pb::AlarmRule> {
        let full_name = names::alarm_rule(&app, &name);
        match self.find(&full_name).await {
            Ok(_) => Err(ApiError::already_exists(Kind::AlarmRule, full_name)),
            Err(error) if error.reason() == "ALARM_RULE_NOT_FOUND" => {
                let shown = show::spec_to_proto(&spec);
                Ok(pb::AlarmRule { name: full_name, ..shown })
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a rule; `before` is the one it changes. What this server can't do is UNIMPLEMENTED
    /// when nothing else is wrong.
    fn read(
        &self,
        given: &pb::AlarmRule,
        before: Option<&AlarmRuleSpec>,
        mut bad: Violations,
    ) -> ApiResult<AlarmRuleSpec> {
        let kept = before.map(|spec| spec.channels.as_slice()).unwrap_or_default();
        let has_mail = self.api.settings.channels.smtp.is_some();
        let Draft { spec, later } = read(given, kept, has_mail, &mut bad);
        if !bad.is_empty() {
            for (field, text) in later {
                bad.add(field, validate::NOT_SUPPORTED, text);
            }
            bad.finish()?;
        } else if !later.is_empty() {
            let all: Vec<String> =
                later.into_iter().map(|(field, text)| format!("{field}: {text}")).collect();
            return Err(ApiError::unimplemented(all.join("; ")));
        }
        Ok(spec)
    }

    async fn find(&self, name: &str) -> ApiResult<AlarmRule> {
        let mut bad = Violations::new();
        let parsed = names::parse_alarm_rule("name", name, &mut bad);
        bad.finish()?;
        let (app, rule) = parsed.unwrap_or_default();
        let app = scope::app_of(&self.api, &app, Kind::AlarmRule, name).await?;
        let found = self.api.store.get_alarm_rule(app.id, &rule).await;
        found.map_err(|error| ApiError::of_store(Kind::AlarmRule, name, error))
    }

    async fn list_rules(
        &self,
        caller: &Caller,
        request: pb::ListAlarmRulesRequest,
    ) -> ApiResult<pb::ListAlarmRulesResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad);
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let page = paging::Query::new(&["ListAlarmRules", &request.parent, &caller.principal()]);
        let after = page.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let apps = scope::apps(&self.api, caller, &parent.unwrap_or(Parent::All)).await?;
        let query = AlarmRuleQuery { apps, after, limit: size + 1 };
        let rules = self.api.store.list_alarm_rules(&query).await?;
        let (alarm_rules, last) = paging::cut(&rules, size, rule_to_proto);
        let next_page_token = match last {
            Some(last) => page.token(&self.api.page_key, &(&last.app_name, &last.name), now)?,
            None => String::new(),
        };
        Ok(pb::ListAlarmRulesResponse { alarm_rules, next_page_token })
    }

    async fn update(
        &self,
        caller: &Caller,
        request: pb::UpdateAlarmRuleRequest,
    ) -> ApiResult<pb::AlarmRule> {
        let patch = request.alarm_rule.as_ref().ok_or_else(no_rule)?;
        let (mask, by) = (request.update_mask.as_ref(), caller.principal());
        for _ in 0..UPDATE_TRIES_MAX {
            let current = self.find(&patch.name).await?;
            check_etag(&current, &patch.etag)?;
            let merged = mask::merge(&rule_to_proto(&current), patch, mask, &OUTPUT_ONLY)?;
            let spec = self.read(&merged, Some(&current.spec), Violations::new())?;
            if spec == current.spec {
                return Ok(rule_to_proto(&current));
            }
            let (id, version) = (current.id, current.version);
            if request.validate_only {
                return Ok(rule_to_proto(&AlarmRule { spec, version: version + 1, ..current }));
            }
            let now = self.api.clock.now();
            match self.api.store.update_alarm_rule(id, &spec, version, &by, now).await {
                Ok(rule) => {
                    tracing::info!(rule = rule.resource_name(), by, "alarm rule changed");
                    return Ok(rule_to_proto(&rule));
                }
                // Whoever names no etag wants its fields set whatever the others are.
                Err(StoreError::Conflict(_)) if patch.etag.is_empty() => {}
                Err(StoreError::Conflict(_)) => break,
                Err(error) => return Err(ApiError::of_store(Kind::AlarmRule, &patch.name, error)),
            }
        }
        Err(ApiError::etag_mismatch(&patch.name))
    }

    async fn delete(&self, caller: &Caller, request: pb::DeleteAlarmRuleRequest) -> ApiResult<()> {
        let rule = self.find(&request.name).await?;
        check_etag(&rule, &request.etag)?;
        let version = (!request.etag.is_empty()).then_some(rule.version);
        self.api.store.delete_alarm_rule(rule.id, version).await.map_err(|error| match error {
            StoreError::Conflict(_) => ApiError::etag_mismatch(&request.name),
            error => ApiError::of_store(Kind::AlarmRule, &request.name, error),
        })?;
        tracing::info!(rule = request.name, by = caller.principal(), "alarm rule deleted");
        Ok(())
    }

    async fn test(
        &self,
        caller: &Caller,
        request: pb::TestAlarmRuleRequest,
    ) -> ApiResult<pb::TestAlarmRuleResponse> {
        let rule = self.find(&request.name).await?;
        let Ok(_place) = self.tests.try_acquire() else {
            let text = format!("{TESTS_MAX} rules are being tried already");
            return Err(ApiError::exhausted("TESTS_BUSY", "alarm tests", text, SEND_TIMEOUT));
        };
        let now = self.api.clock.now();
        let name = rule.resource_name();
        let notice = Notice::sample(&rule.app_name, &name, rule.spec.condition, now);
        let sends = rule.spec.channels.iter().map(|to| self.api.channels.send(to, &notice, now));
        let answers = join_all(sends).await;
        tracing::info!(rule = name, by = caller.principal(), "alarm rule tried");
        let deliveries = (0..).zip(answers).map(|(channel_index, answer)| {
            let detail = answer.as_ref().err().map_or("delivered", |fault| fault.text.as_str());
            pb::test_alarm_rule_response::Delivery {
                channel_index,
                ok: answer.is_ok(),
                detail: detail.to_owned(),
            }
        });
        Ok(pb::TestAlarmRuleResponse { deliveries: deliveries.collect() })
    }

    async fn list(
        &self,
        caller: &Caller,
        request: pb::ListAlarmsRequest,
    ) -> ApiResult<pb::ListAlarmsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad);
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let filter = filter::parse(&request.filter, &ALARM_FIELDS, &mut bad);
        let page = paging::Query::new(&[
            "ListAlarms",
            &request.parent,
            &request.filter,
            &caller.principal(),
        ]);
        let key: Option<String> = page.key(&self.api.page_key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let apps = scope::apps(&self.api, caller, &parent.unwrap_or(Parent::All)).await?;
        let mut conditions = filter.conditions;
        if let Some(jobs) = filter.jobs {
            let values = jobs.iter().map(|job| names::job(&job.app, &job.job)).collect();
            conditions.push(Condition::OneOf { field: "job", values, negated: false });
        }
        let before = key.and_then(|id| id.parse().ok());
        let query = AlarmQuery { apps, conditions, before, limit: size + 1 };
        let rows = self.api.store.list_alarms(&query).await?;
        let (alarms, last) = paging::cut(&rows, size, alarm_to_proto);
        let next_page_token = match last {
            Some(last) => page.token(&self.api.page_key, &last.id.to_string(), now)?,
            None => String::new(),
        };
        Ok(pb::ListAlarmsResponse { alarms, next_page_token })
    }

    async fn acknowledge(
        &self,
        caller: &Caller,
        request: pb::AcknowledgeAlarmRequest,
    ) -> ApiResult<pb::Alarm> {
        let now: DateTime<Utc> = self.api.clock.now();
        let mut bad = Violations::new();
        let parsed = names::parse_alarm("name", &request.name, &mut bad);
        validate::text("comment", &request.comment, COMMENT_MAX, &mut bad);
        bad.finish()?;
        let Some((app, id)): Option<(String, AlarmId)> = parsed else { return Err(no_rule()) };
        let app = scope::app_of(&self.api, &app, Kind::Alarm, &request.name).await?;
        let by = caller.in_words();
        let store = &self.api.store;
        let seen = store.acknowledge_alarm(app.id, id, &by, &request.comment, now).await;
        let seen = seen.map_err(|e| ApiError::of_store(Kind::Alarm, &request.name, e))?;
        tracing::info!(alarm = request.name, by, "alarm acknowledged");
        Ok(alarm_to_proto(&seen))
    }
}

/// Fails unless the etag is empty or the rule's own.
fn check_etag(rule: &AlarmRule, given: &str) -> ApiResult<()> {
    if given.is_empty() || given == etag(rule) {
        return Ok(());
    }
    Err(ApiError::etag_mismatch(&rule.resource_name()))
}

fn no_rule() -> ApiError {
    ApiError::invalid("alarm_rule", FIELD_INVALID, "is missing; give its name and what it is to be")
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AlarmService for AlarmsApi {
    async fn create_alarm_rule(
        &self,
        request: Request<pb::CreateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.create(&caller, request.into_inner()).await?))
    }

    async fn get_alarm_rule(
        &self,
        request: Request<pb::GetAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        Ok(Response::new(rule_to_proto(&self.find(&request.into_inner().name).await?)))
    }

    async fn list_alarm_rules(
        &self,
        request: Request<pb::ListAlarmRulesRequest>,
    ) -> Answer<pb::ListAlarmRulesResponse> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.list_rules(&caller, request.into_inner()).await?))
    }

    async fn update_alarm_rule(
        &self,
        request: Request<pb::UpdateAlarmRuleRequest>,
    ) -> Answer<pb::AlarmRule> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.update(&caller, request.into_inner()).await?))
    }

    async fn delete_alarm_rule(&self, request: Request<pb::DeleteAlarmRuleRequest>) -> Answer<()> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.delete(&caller, request.into_inner()).await?))
    }

    async fn test_alarm_rule(
        &self,
        request: Request<pb::TestAlarmRuleRequest>,
    ) -> Answer<pb::TestAlarmRuleResponse> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.test(&caller, request.into_inner()).await?))
    }

    async fn list_alarms(
        &self,
        request: Request<pb::ListAlarmsRequest>,
    ) -> Answer<pb::ListAlarmsResponse> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.list(&caller, request.into_inner()).await?))
    }

    async fn acknowledge_alarm(
        &self,
        request: Request<pb::AcknowledgeAlarmRequest>,
    ) -> Answer<pb::Alarm> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.acknowledge(&caller, request.into_inner()).await?))
    }
}
