//! Owed notifications → channels, one file per channel.
//!
//! [`raise::Raiser`] says which alarms an end raises; they are written, with a row per channel that
//! is owed, by the transaction that takes the end in hand. [`courier::Courier`] claims such rows and
//! delivers them, at least once: a receiver knows a repeat by the alarm's id.

pub mod courier;
pub mod mail;
pub mod raise;
mod targets;
pub mod webhook;

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::model::alarm::{AlarmCondition, AlarmFacts, AlarmId, Channel};
use mail::{Mailer, SmtpSettings};
use webhook::Poster;

/// Longest time for one send, from the name's resolution to the answer's head.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Characters of a fault that are kept and shown.
pub const FAULT_MAX: usize = 300;

/// What a channel is to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The alarm; the receiver's key to know a repeat by. None for a test.
    pub alarm: Option<AlarmId>,
    /// Full name of the rule; empty for the default of the configuration.
    pub rule: String,
    /// What was watched for.
    pub condition: AlarmCondition,
    /// About which run.
    pub facts: AlarmFacts,
    /// When it was raised.
    pub fire_at: DateTime<Utc>,
    /// Which try this is: 1, 2, 3 …
    pub attempt: u32,
}

impl Notice {
    /// A sample, for trying a rule's channels.
    pub fn sample(app: &str, rule: &str, condition: AlarmCondition, now: DateTime<Utc>) -> Self {
        let facts = AlarmFacts {
            app: app.to_owned(),
            job: format!("apps/{app}/jobs/sample"),
            job_display_name: "A sample, to try this channel".to_owned(),
            run: format!("apps/{app}/runs/{}", ulid::Ulid::nil()),
            state: match condition {
                AlarmCondition::RunFailed => "FAILED",
                AlarmCondition::RunLost => "LOST",
                AlarmCondition::RunSucceeded => "SUCCEEDED",
            }
            .to_owned(),
            trigger: "API".to_owned(),
            attempts: 1,
            fire_time: now,
            end_time: now,
            threshold: 1,
            ..AlarmFacts::default()
        };
        Self { alarm: None, rule: rule.to_owned(), condition, facts, fire_at: now, attempt: 1 }
    }

    /// In one line.
    pub fn subject(&self) -> String {
        let test = if self.alarm.is_none() { "Test: " } else { "" };
        format!("{test}{}", self.facts.subject())
    }
}

/// Why a send did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFault {
    /// In words, without anything secret, at most [`FAULT_MAX`] characters.
    pub text: String,
    /// The receiver asks for this wait.
    pub retry_after: Option<Duration>,
    /// Nobody answered: the target itself is in trouble, not just this message.
    pub unreachable: bool,
}

impl SendFault {
    /// An answer that is a refusal.
    fn refused(text: impl Into<String>) -> Self {
        Self { text: cut(text.into()), retry_after: None, unreachable: false }
    }

    /// No answer.
    fn unreachable(text: impl Into<String>) -> Self {
        Self { text: cut(text.into()), retry_after: None, unreachable: true }
    }
}

fn cut(text: String) -> String {
    text.chars().filter(|c| !c.is_control()).take(FAULT_MAX).collect()
}

/// What an operator sets about sending.
#[derive(Clone, Debug)]
pub struct ChannelSettings {
    /// The mail server; None means that mail can't be sent.
    pub smtp: Option<SmtpSettings>,
    /// Where a run can be looked at, with `{app}` and `{run}` in place of their ids.
    pub run_url: Option<String>,
    /// Longest time for one send.
    pub timeout: Duration,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self { smtp: None, run_url: None, timeout: SEND_TIMEOUT }
    }
}

/// All channels.
pub struct Channels {
    poster: Result<Poster, String>,
    mailer: Option<Result<Mailer, String>>,
    run_url: Option<String>,
    timeout: Duration,
}

impl Channels {
    /// Makes the clients. One that can't be made, for want of certificates to trust, tells so with
    /// each send: it must not keep the scheduler from its work.
    pub fn new(settings: ChannelSettings) -> Self {
        let timeout = settings.timeout;
        let poster = Poster::new(timeout);
        let mailer = settings.smtp.map(|smtp| Mailer::new(smtp, timeout));
        let faults = [poster.as_ref().err(), mailer.as_ref().and_then(|m| m.as_ref().err())];
        for fault in faults.into_iter().flatten() {
            tracing::error!(fault, "alarms can't be sent");
        }
        Self { poster, mailer, run_url: settings.run_url, timeout }
    }

    /// Sends the notice once; `now` dates the signature.
    ///
    /// # Errors
    /// Why the target does not have it; after a timeout it may have it all the same.
    pub async fn send(
        &self,
        channel: &Channel,
        notice: &Notice,
        now: DateTime<Utc>,
    ) -> Result<(), SendFault> {
        let link = self.link(&notice.facts);
        let send = async {
            match channel {
                Channel::Webhook(webhook) => {
                    let poster = self.poster.as_ref().map_err(SendFault::refused)?;
                    poster.post(webhook, notice, &link, now).await
                }
                Channel::Mail(mail) => {
                    let none = "this server has no mail server to send by; set alarm.smtp.host";
                    let mailer = self.mailer.as_ref().ok_or_else(|| SendFault::refused(none))?;
                    let mailer = mailer.as_ref().map_err(SendFault::refused)?;
                    mailer.send(mail, notice, &link, now).await
                }
            }
        };
        tokio::time::timeout(self.timeout, send).await.unwrap_or_else(|_| {
            Err(SendFault::unreachable(format!("no answer within {:?}", self.timeout)))
        })
    }

    /// Where the run can be looked at; empty when nobody said where.
    fn link(&self, facts: &AlarmFacts) -> String {
        let Some(template) = &self.run_url else { return String::new() };
        let run = facts.run.rsplit('/').next().unwrap_or_default();
        let job = facts.job.rsplit('/').next().unwrap_or_default();
        template.replace("{app}", &facts.app).replace("{job}", job).replace("{run}", run)
    }
}
