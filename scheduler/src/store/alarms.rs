//! The store's operations on alarm rules, alarms and their outbox.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{
    Result,
    ops::{
        AlarmQuery, AlarmRuleQuery, DeliveryClaim, DeliveryEnd, DeliveryId, NewAlarmRule,
        OwedCounts, OwedDelivery, RequestKey,
    },
};
use crate::model::{
    alarm::{Alarm, AlarmId, AlarmRule, AlarmRuleId, AlarmRuleSpec, EndedRun, Streak},
    ids::{AppId, RunId},
    run::RunState,
};

/// Alarms that one step of pruning removes.
pub const ALARM_PRUNE_MAX: u32 = 1_000;
/// Deliveries that are due and looked at by one claim; more wait for the next one.
pub const CLAIM_CANDIDATES_MAX: u32 = 1_000;

/// Alarm rules, alarms and what is owed of them. Alarms themselves are written by the transaction
/// that takes the end of their run in hand.
#[async_trait]
pub trait AlarmStore: Send + Sync {
    /// Creates a rule.
    async fn create_alarm_rule(
        &self,
        rule: &NewAlarmRule,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<AlarmRule>;

    /// One rule by name.
    async fn get_alarm_rule(&self, app: AppId, name: &str) -> Result<AlarmRule>;

    /// A page of rules.
    async fn list_alarm_rules(&self, query: &AlarmRuleQuery) -> Result<Vec<AlarmRule>>;

    /// Replaces the spec if the version is still `version`, else `Conflict`.
    async fn update_alarm_rule(
        &self,
        id: AlarmRuleId,
        spec: &AlarmRuleSpec,
        version: u64,
        by: &str,
        now: DateTime<Utc>,
    ) -> Result<AlarmRule>;

    /// Removes a rule with what its channels are owed; its alarms stay. `Conflict` when the version
    /// is not `version`; None skips the check.
    async fn delete_alarm_rule(&self, id: AlarmRuleId, version: Option<u64>) -> Result<()>;

    /// From now on every end in one of these states is told of, for the alarm of the configuration;
    /// rules wish for theirs by themselves. Replaces what was wished before.
    async fn wish_default_ends(&self, states: &[RunState]) -> Result<()>;

    /// All enabled rules of the apps.
    async fn watching_rules(&self, apps: &[AppId]) -> Result<Vec<AlarmRule>>;

    /// What rules look at of ended runs. Runs that are gone or go on, and those whose job is gone,
    /// are left out.
    async fn ended_runs(&self, runs: &[RunId]) -> Result<Vec<EndedRun>>;

    /// States of the job's ended runs that ended up to `until` and after the rule's last alarm
    /// about the job before it, newest end first. Canceled and skipped runs are left out.
    async fn last_states(&self, streak: &Streak) -> Result<Vec<RunState>>;

    /// Claims deliveries that are due, the longest due first: nobody else gets them before the
    /// lease ends.
    async fn claim_deliveries(
        &self,
        claim: &DeliveryClaim,
        now: DateTime<Utc>,
    ) -> Result<Vec<OwedDelivery>>;

    /// Says what became of the `attempt`-th try of a delivery. One that another has claimed since
    /// is left alone, unless it is delivered.
    async fn end_delivery(&self, id: DeliveryId, attempt: u32, end: &DeliveryEnd) -> Result<()>;

    /// What is owed in all.
    async fn count_owed(&self) -> Result<OwedCounts>;

    /// A page of alarms.
    async fn list_alarms(&self, query: &AlarmQuery) -> Result<Vec<Alarm>>;

    /// Marks an alarm as seen; the first time counts.
    async fn acknowledge_alarm(
        &self,
        app: AppId,
        id: AlarmId,
        by: &str,
        comment: &str,
        now: DateTime<Utc>,
    ) -> Result<Alarm>;

    /// Removes at most [`ALARM_PRUNE_MAX`] alarms that were raised before the instant. Returns how
    /// many.
    async fn prune_alarms(&self, before: DateTime<Utc>) -> Result<u64>;
}
