//! Lanes: due runs that may be sent, together with those that the same executors could take.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};

use super::{Board, Inner};
use crate::model::{
    ids::{AppId, AttemptRef, JobId, RunId},
    job::{JobSpec, RouteStrategy},
};

/// What decides which executors are eligible: runs with the same key share a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    /// The app.
    pub app: AppId,
    /// The handler.
    pub handler: String,
    /// Labels that must match.
    pub labels: BTreeMap<String, String>,
    /// The only executor allowed; empty means any.
    pub target: String,
}

/// Higher priority first, then the longest due.
type Place = (Reverse<i32>, DateTime<Utc>, RunId);

/// The waiting runs of a lane in order.
#[derive(Default)]
pub(super) struct Lane {
    waiting: BTreeSet<Place>,
}

/// A run at the head of its lane.
#[derive(Clone, Debug)]
pub struct Pick {
    /// With its fence before the dispatch.
    pub attempt: AttemptRef,
    /// Its job.
    pub job: JobId,
    /// The job's round-robin cursor.
    pub cursor: u64,
    /// How an executor is picked.
    pub route: RouteStrategy,
    /// The run whose end started this one.
    pub caused_by: Option<RunId>,
}

impl Board {
    /// Lanes in which runs wait.
    pub fn waiting_lanes(&self) -> Vec<Arc<LaneKey>> {
        let inner = self.inner.lock();
        inner
            .lanes
            .iter()
            .filter(|(_, l)| !l.waiting.is_empty())
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// The first `max` runs of a lane; they stay there until [`Board::sent`].
    pub fn head(&self, key: &LaneKey, max: usize) -> Vec<Pick> {
        let inner = self.inner.lock();
        let Some(lane) = inner.lanes.get(key) else { return Vec::new() };
        lane.waiting
            .iter()
            .filter_map(|(_, _, id)| inner.runs.get(id))
            .map(|live| Pick {
                attempt: live.run.attempt_ref(),
                job: live.run.job,
                cursor: inner.jobs.get(&live.run.job).map_or(0, |entry| entry.cursor),
                route: live.spec.placement.route,
                caused_by: live.run.extra.as_ref().and_then(|extra| extra.caused_by),
            })
            .take(max)
            .collect()
    }

    /// Runs of a lane whose shown reason for waiting is another one than `why`: at most `max`.
    /// They are taken to show it from now on.
    pub fn unexplained(&self, key: &LaneKey, why: &str, max: usize) -> Vec<RunId> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(lane) = inner.lanes.get(key) else { return Vec::new() };
        let mut found = Vec::new();
        for (_, _, id) in &lane.waiting {
            if let Some(live) = inner.runs.get_mut(id).filter(|live| live.run.message != why) {
                why.clone_into(&mut live.run.message);
                found.push(*id);
                if found.len() == max {
                    break;
                }
            }
        }
        found
    }

    /// When the longest-waiting run was due: the lag of this owner.
    pub fn oldest_waiting(&self) -> Option<DateTime<Utc>> {
        let inner = self.inner.lock();
        let places = inner.lanes.values().flat_map(|lane| lane.waiting.iter());
        places.map(|(_, due, _)| *due).min()
    }
}

impl Inner {
    pub(super) fn enter_lane(&mut self, id: RunId) {
        let Some(live) = self.runs.get(&id) else { return };
        let target = live.run.extra.as_ref().map_or(String::new(), |e| e.target_executor.clone());
        let key = lane_key(live.run.app, &live.spec, target);
        let place = (Reverse(live.spec.priority), live.run.due_at, id);
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.waiting.insert(place);
        } else {
            let mut lane = Lane::default();
            lane.waiting.insert(place);
            self.lanes.insert(Arc::new(key), lane);
        }
    }

    pub(super) fn leave_lane(&mut self, id: RunId) {
        let Some(live) = self.runs.get(&id) else { return };
        let target = live.run.extra.as_ref().map_or(String::new(), |e| e.target_executor.clone());
        let key = lane_key(live.run.app, &live.spec, target);
        let place = (Reverse(live.spec.priority), live.run.due_at, id);
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.waiting.remove(&place);
            if lane.waiting.is_empty() {
                self.lanes.remove(&key);
            }
        }
    }
}

fn lane_key(app: AppId, spec: &JobSpec, target: String) -> LaneKey {
    LaneKey {
        app,
        handler: spec.handler.clone(),
        labels: spec.placement.required_labels.clone(),
        target,
    }
}
