//! Ends that somebody follows up, and what follows.

use chrono::{DateTime, Utc};

use super::NewRun;
use crate::model::{
    alarm::NewAlarm,
    ids::{AppId, JobId, RunId},
    run::{RunExtra, RunState, TriggerKind},
};

/// The end of a run, left by whoever wrote it to be followed up once.
#[derive(Clone, Debug, PartialEq)]
pub struct EndEvent {
    /// Its number; grows.
    pub seq: u64,
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its app.
    pub app: AppId,
    /// The job revision it ran.
    pub revision: u64,
    /// What made it.
    pub trigger: TriggerKind,
    /// How it ended.
    pub state: RunState,
    /// The instant its schedule named.
    pub fire_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: DateTime<Utc>,
    /// What most runs lack, without params. Its `follow` says who waits; an event without any is
    /// there because a row of `end_wish` asks for its state.
    pub extra: Option<Box<RunExtra>>,
}

/// What follows from one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followup {
    /// The event.
    pub seq: u64,
    /// Runs to be made. One that exists already is left as it is; one of a deleted job is not made.
    pub starts: Vec<NewRun>,
    /// For a shard: the parent, which ends with its last shard and is RUNNING before.
    pub parent: Option<RunId>,
    /// Alarms to be raised. One that is there already is left as it is.
    pub alarms: Vec<NewAlarm>,
}

/// What a settlement did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    /// Events that were taken away with their effects written; others were somebody else's.
    pub events: Vec<u64>,
    /// Runs that were made.
    pub started: Vec<RunId>,
    /// Parents that ended with their last shard.
    pub parents: Vec<(RunId, RunState)>,
}
