//! Alarm rules, alarms and their deliveries, as the store takes and gives them.

use chrono::{DateTime, Utc};

use super::Condition;
use crate::model::{
    alarm::{AlarmCondition, AlarmFacts, AlarmId, AlarmRuleId, AlarmRuleSpec},
    ids::AppId,
};

/// A rule to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAlarmRule {
    /// Its app.
    pub app: AppId,
    /// Its name.
    pub name: String,
    /// Content.
    pub spec: AlarmRuleSpec,
    /// Who.
    pub updated_by: String,
}

/// Which rules, by (app name, rule name).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlarmRuleQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// After this (app name, rule name).
    pub after: Option<(String, String)>,
    /// At most so many.
    pub limit: u32,
}

/// Which alarms, newest first. Fields for conditions: `rule`, `job`, `condition`, `acknowledged`
/// (`true`, `false`), `fire_time`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlarmQuery {
    /// Only these apps; None means all.
    pub apps: Option<Vec<AppId>>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Older than this one.
    pub before: Option<AlarmId>,
    /// At most so many.
    pub limit: u32,
}

/// One channel of one alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeliveryId {
    /// The alarm.
    pub alarm: AlarmId,
    /// Place among the rule's channels.
    pub channel: u16,
}

/// What a courier can take.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryClaim {
    /// Targets that get nothing now.
    pub without: Vec<String>,
    /// Deliveries of one target at most.
    pub per_target: u32,
    /// Deliveries in all at most.
    pub limit: u32,
    /// This node knows the channel of the configuration. A node that does not leaves such
    /// deliveries to others, until they are so old that they are given up.
    pub with_default: bool,
    /// Owed since before this instant: given up rather than sent.
    pub given_up_before: DateTime<Utc>,
    /// Others take a delivery over from this instant on.
    pub lease_until: DateTime<Utc>,
}

/// A delivery that was claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct OwedDelivery {
    /// Which.
    pub id: DeliveryId,
    /// Which try this is: 1, 2, 3 …
    pub attempt: u32,
    /// Who may hang.
    pub target: String,
    /// Since when it is owed.
    pub owed_at: DateTime<Utc>,
    /// The rule that raised it; None is the default of the configuration.
    pub rule: Option<AlarmRuleId>,
    /// The rule as it is now; None when it is gone, or for the default.
    pub spec: Option<AlarmRuleSpec>,
    /// Full name of the rule as it was; empty for the default.
    pub rule_name: String,
    /// What was watched for.
    pub condition: AlarmCondition,
    /// What the alarm says.
    pub facts: AlarmFacts,
    /// The instant the alarm stands for.
    pub fire_at: DateTime<Utc>,
    /// Why the try before failed, if that is known.
    pub last_fault: String,
}

impl OwedDelivery {
    /// Of an alarm's last error what its channel number `channel` is to blame for; else nothing.
    pub fn fault_of(channel: u16, last_error: &str) -> String {
        last_error.strip_prefix(&fault_prefix(channel)).unwrap_or_default().to_owned()
    }
}

/// What an alarm's last error begins with that is of its channel number `channel`.
pub fn fault_prefix(channel: u16) -> String {
    format!("channel {channel}: ")
}

/// What became of a claimed delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// The channel has it. Counts whoever claimed it meanwhile.
    Delivered,
    /// Tried again at the instant.
    Retry(DateTime<Utc>, String),
    /// Never tried again.
    GivenUp(String),
}

/// Deliveries that are owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwedCounts {
    /// How many.
    pub owed: u64,
    /// Since when the oldest is owed.
    pub oldest: Option<DateTime<Utc>>,
}
