//! How attempts ended, as columns and back.

use chrono::{DateTime, Utc};

use super::rows::{big, micros, to_json};
use crate::{
    model::{executor::ExecutorRef, run::Outcome},
    store::{Result, ops::AttemptEnd},
};

/// Ends of attempts, column by column, in the given order.
#[derive(Default)]
pub(super) struct Ends<'a> {
    pub(super) outcomes: Vec<Option<&'static str>>,
    pub(super) failures: Vec<Option<String>>,
    pub(super) acked: Vec<Option<DateTime<Utc>>>,
    pub(super) started: Vec<Option<DateTime<Utc>>>,
    pub(super) durations: Vec<Option<i64>>,
    pub(super) log_seqs: Vec<i64>,
    pub(super) by: Tellers<'a>,
}

impl<'a> Ends<'a> {
    pub(super) fn of(ends: impl IntoIterator<Item = &'a AttemptEnd>) -> Result<Self> {
        let mut columns = Self::default();
        for end in ends {
            columns.outcomes.push(end.outcome.map(outcome_text));
            columns.failures.push(end.failure.as_ref().map(to_json).transpose()?);
            columns.acked.push(end.acked_at);
            columns.started.push(end.started_at);
            columns.durations.push(end.duration.map(micros));
            columns.log_seqs.push(big(end.last_log_seq));
            columns.by.push(end.by.as_ref());
        }
        Ok(columns)
    }
}

/// Who says so, column by column: the app and the name; no app where the scheduler decided.
#[derive(Default)]
pub(super) struct Tellers<'a> {
    pub(super) apps: Vec<Option<i64>>,
    pub(super) names: Vec<Option<&'a str>>,
}

impl<'a> Tellers<'a> {
    pub(super) fn of(executors: impl IntoIterator<Item = &'a ExecutorRef>) -> Self {
        let mut columns = Self::default();
        executors.into_iter().for_each(|executor| columns.push(Some(executor)));
        columns
    }

    pub(super) fn push(&mut self, executor: Option<&'a ExecutorRef>) {
        self.apps.push(executor.map(|executor| executor.app.0));
        self.names.push(executor.map(|executor| &*executor.name));
    }
}

/// An outcome as stored.
pub(super) fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "SUCCEEDED",
        Outcome::Failed => "FAILED",
        Outcome::Canceled => "CANCELED",
        Outcome::TimedOut => "TIMED_OUT",
        Outcome::Lost => "LOST",
    }
}

/// Reads [`outcome_text`].
pub(super) fn parse_outcome(text: &str) -> Option<Outcome> {
    [Outcome::Succeeded, Outcome::Failed, Outcome::Canceled, Outcome::TimedOut, Outcome::Lost]
        .into_iter()
        .find(|outcome| outcome_text(*outcome) == text)
}
