//! Alarms: which ends of runs somebody wants to hear of, and where the news goes.

mod channel;
mod job_test;

use std::{fmt, str::FromStr, sync::Arc};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use super::{
    ids::{AppId, JobId, RunId},
    job::JobSpec,
    run::{Failure, RunState, TriggerKind},
};

pub use channel::{Channel, Mail, Secret, Webhook, WebhookFault, forbidden_address, webhook_url};
pub use job_test::{JobField, JobTest};

/// Characters of a failure's message that an alarm repeats; the run has all of it.
pub const FAILURE_SHOWN_MAX: usize = 2_000;
/// Ended runs of a job that are looked at for a threshold, beyond the threshold itself: so many
/// may have overlapped.
pub const STREAK_MARGIN: u32 = 64;

/// What a rule watches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AlarmCondition {
    /// A run ended FAILED or TIMED_OUT, after its last attempt.
    #[default]
    RunFailed,
    /// A run ended LOST.
    RunLost,
    /// A run ended SUCCEEDED.
    RunSucceeded,
}

impl AlarmCondition {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::RunFailed, Self::RunLost, Self::RunSucceeded];

    /// The text in SQL, equal to the contract's name without its prefix.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunFailed => "RUN_FAILED",
            Self::RunLost => "RUN_LOST",
            Self::RunSucceeded => "RUN_SUCCEEDED",
        }
    }

    /// Reads [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.as_str() == text)
    }

    /// The states that meet it.
    pub fn states(self) -> &'static [RunState] {
        match self {
            Self::RunFailed => &[RunState::Failed, RunState::TimedOut],
            Self::RunLost => &[RunState::Lost],
            Self::RunSucceeded => &[RunState::Succeeded],
        }
    }

    /// The condition that an end in this state meets. Canceled and skipped runs meet none.
    pub fn of(state: RunState) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.states().contains(&state))
    }
}

/// Row id of a rule. A rule made anew under an old name has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlarmRuleId(pub i64);

/// What a user sets of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AlarmRuleSpec {
    /// Shown instead of the id.
    pub display_name: String,
    /// What it watches for.
    pub condition: AlarmCondition,
    /// The filter as it was written.
    pub filter: String,
    /// The same as tests of a job; all must hold.
    pub tests: Vec<JobTest>,
    /// Consecutive times before it fires; 0 means 1.
    pub threshold: u32,
    /// Where its alarms go.
    pub channels: Vec<Channel>,
    /// Raises nothing.
    pub disabled: bool,
}

impl AlarmRuleSpec {
    /// Whether the rule is about the job.
    pub fn covers(&self, job_name: &str, job: &JobSpec) -> bool {
        self.tests.iter().all(|test| test.holds(job_name, job))
    }
}

/// A rule as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmRule {
    /// Row id.
    pub id: AlarmRuleId,
    /// Its app: it watches no other.
    pub app: AppId,
    /// The app's name.
    pub app_name: String,
    /// Its name within the app.
    pub name: String,
    /// What a user set.
    pub spec: AlarmRuleSpec,
    /// Grows with every change: the etag.
    pub version: u64,
}

impl AlarmRule {
    /// `apps/{app}/alarmRules/{rule}`
    pub fn resource_name(&self) -> String {
        format!("apps/{}/alarmRules/{}", self.app_name, self.name)
    }
}

/// The alarm of the configuration, for jobs that no rule of their app covers.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultAlarm {
    /// Speaks of FAILED, TIMED_OUT and LOST.
    pub on_failure: bool,
    /// Speaks of SUCCEEDED.
    pub on_success: bool,
    /// Where it goes.
    pub channel: Channel,
}

impl DefaultAlarm {
    /// States of the ends that it may speak of.
    pub fn states(&self) -> Vec<RunState> {
        let spoken = AlarmCondition::ALL.into_iter().filter(|condition| self.speaks_of(*condition));
        spoken.flat_map(AlarmCondition::states).copied().collect()
    }

    fn speaks_of(&self, condition: AlarmCondition) -> bool {
        match condition {
            AlarmCondition::RunFailed | AlarmCondition::RunLost => self.on_failure,
            AlarmCondition::RunSucceeded => self.on_success,
        }
    }
}

/// An alarm's ULID: sorts by the instant it was raised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlarmId(pub Ulid);

impl AlarmId {
    /// The id of the alarm that a rule (none: the default) raises for a run. A function of all
    /// three, so whoever raises it again meets the row that is there.
    pub fn of(run: RunId, rule: Option<AlarmRuleId>, at: DateTime<Utc>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"clawjob alarm");
        hash.update(run.to_bytes());
        hash.update(rule.map_or(0, |rule| rule.0).to_be_bytes());
        let digest = hash.finalize();
        let mut tail = [0_u8; 16];
        tail[6..].copy_from_slice(&digest[..10]);
        let ms = u64::try_from(at.timestamp_millis()).unwrap_or(0);
        Self(Ulid::from_parts(ms, u128::from_be_bytes(tail)))
    }

    /// The smallest id of the given instant: bounds a search by time.
    pub fn first_at(at: DateTime<Utc>) -> Self {
        let ms = u64::try_from(at.timestamp_millis()).unwrap_or(0);
        Self(Ulid::from_parts(ms, 0))
    }

    /// The 16 bytes as stored.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.0.to_be_bytes()
    }

    /// From the 16 stored bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Ulid(u128::from_be_bytes(bytes)))
    }

    /// As a UUID of the same bytes, the column type on Postgres.
    pub fn to_uuid(self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.to_bytes())
    }
}

impl fmt::Display for AlarmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AlarmId {
    type Err = ulid::DecodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ulid::from_string(text).map(Self)
    }
}

/// What an alarm says of the run that raised it, as it was then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AlarmFacts {
    /// App id.
    pub app: String,
    /// Full name of the job.
    pub job: String,
    /// The job's name for people.
    pub job_display_name: String,
    /// Who answers for the job.
    pub owner: String,
    /// Full name of the run.
    pub run: String,
    /// How it ended.
    pub state: String,
    /// What made it.
    pub trigger: String,
    /// Attempts made.
    pub attempts: u32,
    /// The instant the schedule named.
    pub fire_time: DateTime<Utc>,
    /// When it ended.
    pub end_time: DateTime<Utc>,
    /// Who ran the last attempt; empty when nobody did.
    pub executor: String,
    /// Code of the failure; empty when there is none.
    pub failure_code: String,
    /// The failure in words, cut to [`FAILURE_SHOWN_MAX`].
    pub failure_message: String,
    /// How often in a row the rule asks for.
    pub threshold: u32,
}

impl AlarmFacts {
    /// In one line.
    pub fn subject(&self) -> String {
        let times = match self.threshold {
            0 | 1 => String::new(),
            times => format!(" ({times} in a row)"),
        };
        format!("{}: {}{times}", self.state, self.job.trim_start_matches("apps/"))
    }

    /// In a few lines.
    pub fn message(&self) -> String {
        let attempts = if self.attempts == 1 { "attempt" } else { "attempts" };
        let mut text = format!(
            "{} ended {} at {} after {} {attempts}.",
            self.run,
            self.state,
            self.end_time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            self.attempts,
        );
        if !self.failure_code.is_empty() {
            text.push_str(&format!("\n{}: {}", self.failure_code, self.failure_message));
        }
        text
    }
}

/// A run that has ended, with what rules look at.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// The run.
    pub run: RunId,
    /// Its app.
    pub app: AppId,
    /// The app's name.
    pub app_name: Arc<str>,
    /// Its job.
    pub job: JobId,
    /// The job's name.
    pub job_name: Arc<str>,
    /// The job as it is now.
    pub spec: Arc<JobSpec>,
    /// How it ended.
    pub state: RunState,
    /// What made it.
    pub trigger: TriggerKind,
    /// Its last attempt.
    pub attempt: u32,
    /// The instant the schedule named.
    pub fire_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: DateTime<Utc>,
    /// Who ran the last attempt.
    pub executor: Option<Arc<str>>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Why, in one line.
    pub message: String,
    /// It is a shard: its parent speaks for it.
    pub is_shard: bool,
}

impl EndedRun {
    fn facts(&self, threshold: u32) -> AlarmFacts {
        let (code, message) = match &self.failure {
            Some(failure) => (failure.code.as_str(), failure.message.as_str()),
            None => ("", self.message.as_str()),
        };
        AlarmFacts {
            app: self.app_name.to_string(),
            job: format!("apps/{}/jobs/{}", self.app_name, self.job_name),
            job_display_name: self.spec.display_name.clone(),
            owner: self.spec.owner.clone(),
            run: format!("apps/{}/runs/{}", self.app_name, self.run),
            state: self.state.as_str().to_owned(),
            trigger: self.trigger.as_str().to_owned(),
            attempts: self.attempt,
            fire_time: self.fire_at,
            end_time: self.ended_at,
            executor: self.executor.as_deref().unwrap_or_default().to_owned(),
            failure_code: code.to_owned(),
            failure_message: message.chars().take(FAILURE_SHOWN_MAX).collect(),
            threshold,
        }
    }

    fn alarm(&self, rule: Option<&AlarmRule>, condition: AlarmCondition) -> NewAlarm {
        let rule_id = rule.map(|rule| rule.id);
        NewAlarm {
            id: AlarmId::of(self.run, rule_id, self.ended_at),
            app: self.app,
            job: self.job,
            rule: rule_id,
            rule_name: rule.map(AlarmRule::resource_name).unwrap_or_default(),
            condition,
            facts: self.facts(rule.map_or(1, |rule| rule.spec.threshold.max(1))),
            fire_at: self.ended_at,
            targets: Vec::new(),
        }
    }
}

/// An alarm to be stored, with what it owes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAlarm {
    /// Id.
    pub id: AlarmId,
    /// Its app.
    pub app: AppId,
    /// The job it is about.
    pub job: JobId,
    /// The rule that raised it; None is the default of the configuration.
    pub rule: Option<AlarmRuleId>,
    /// Full name of that rule; empty for the default.
    pub rule_name: String,
    /// What was watched for.
    pub condition: AlarmCondition,
    /// What it says.
    pub facts: AlarmFacts,
    /// The instant it stands for: the end of the run.
    pub fire_at: DateTime<Utc>,
    /// [`Channel::target`] of each channel, in the rule's order.
    pub targets: Vec<String>,
}

/// An alarm as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    /// Id.
    pub id: AlarmId,
    /// Its app's name.
    pub app_name: String,
    /// Full name of the rule; empty for the default.
    pub rule_name: String,
    /// What was watched for.
    pub condition: AlarmCondition,
    /// What it says.
    pub facts: AlarmFacts,
    /// The instant it stands for.
    pub fire_at: DateTime<Utc>,
    /// When somebody said that they have seen it.
    pub acknowledged_at: Option<DateTime<Utc>>,
    /// Who.
    pub acknowledged_by: String,
    /// With which words.
    pub comment: String,
    /// Channels that have it.
    pub deliveries: u32,
    /// What the last failed delivery met; empty once its channel has it.
    pub last_error: String,
}

/// A rule that must see a row of ends before it fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Streak {
    /// The rule.
    pub rule: AlarmRuleId,
    /// The job.
    pub job: JobId,
    /// The end in question.
    pub until: DateTime<Utc>,
    /// How many ends to look at.
    pub take: u32,
}

/// The rows of ends that the rules of an ended run ask for, before [`raise`] can decide.
pub fn streaks(ended: &EndedRun, rules: &[AlarmRule]) -> Vec<Streak> {
    let Some(condition) = AlarmCondition::of(ended.state) else { return Vec::new() };
    watching(ended, condition, rules)
        .filter(|rule| rule.spec.threshold > 1)
        .map(|rule| Streak {
            rule: rule.id,
            job: ended.job,
            until: ended.ended_at,
            take: rule.spec.threshold.saturating_add(STREAK_MARGIN),
        })
        .collect()
}

/// The alarms that an end raises. `row` tells the states of the job's last ended runs, newest end
/// first, back to the rule's last alarm; it is asked for what [`streaks`] named.
pub fn raise(
    ended: &EndedRun,
    rules: &[AlarmRule],
    default: Option<&DefaultAlarm>,
    row: impl Fn(AlarmRuleId) -> Vec<RunState>,
) -> Vec<NewAlarm> {
    let Some(condition) = AlarmCondition::of(ended.state).filter(|_| !ended.is_shard) else {
        return Vec::new();
    };
    let mut alarms = Vec::new();
    let mut covered = false;
    for rule in watching(ended, condition, rules) {
        covered = true;
        let threshold = rule.spec.threshold.max(1) as usize;
        let met = |state: &RunState| AlarmCondition::of(*state) == Some(condition);
        if threshold > 1 && row(rule.id).iter().take_while(|state| met(state)).count() < threshold {
            continue;
        }
        let targets = rule.spec.channels.iter().map(Channel::target).collect();
        alarms.push(NewAlarm { targets, ..ended.alarm(Some(rule), condition) });
    }
    if let Some(default) = default.filter(|default| !covered && default.speaks_of(condition)) {
        let targets = vec![default.channel.target()];
        alarms.push(NewAlarm { targets, ..ended.alarm(None, condition) });
    }
    alarms
}

/// The rules of the run's own app that watch for this end of its job.
fn watching<'a>(
    ended: &'a EndedRun,
    condition: AlarmCondition,
    rules: &'a [AlarmRule],
) -> impl Iterator<Item = &'a AlarmRule> {
    rules.iter().filter(move |rule| {
        rule.app == ended.app
            && !ended.is_shard
            && !rule.spec.disabled
            && rule.spec.condition == condition
            && rule.spec.covers(&ended.job_name, &ended.spec)
    })
}

#[cfg(test)]
mod tests;
