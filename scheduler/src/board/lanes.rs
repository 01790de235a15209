//! Lanes: due runs that may be sent, together with those that the same executors could take.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, Inner, Live};
use crate::model::{
    ids::{AppId, AttemptRef, JobId, RunId},
    job::RouteStrategy,
    route::RouteCursor,
};

/// What one step of priority is worth: a run goes as if it had been due this much earlier per step.
/// So a run is overtaken only by those of a higher priority that fall due within this time per step
/// of difference: however many they are, it has its turn then.
pub const PRIORITY_STEP: TimeDelta = TimeDelta::seconds(60);

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
    /// What the route asks of an executor beside a free slot.
    pub demand: Demand,
}

/// What a route asks of an executor beside a free slot. Runs that ask for different things have
/// lanes of their own, so that one that must wait never stands in the way of another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Demand {
    /// Nothing.
    #[default]
    None,
    /// That it has this key.
    Key(String),
    /// That its load is not above this share, as the bits of an f32.
    Load(u32),
}

/// When the run would be due if it had no priority, then its id.
type Place = (DateTime<Utc>, RunId);

/// The waiting runs of a lane in order.
pub(super) struct Lane {
    key: Arc<LaneKey>,
    waiting: BTreeSet<Place>,
}

/// A run at the head of its lane.
#[derive(Clone, Debug)]
pub struct Pick {
    /// With its fence before the dispatch.
    pub attempt: AttemptRef,
    /// Its job.
    pub job: JobId,
    /// Where the job's route stands.
    pub cursor: RouteCursor,
    /// How an executor is picked; the first one if the run names it.
    pub route: RouteStrategy,
    /// The run whose end started this one.
    pub caused_by: Option<RunId>,
    /// It has no row yet.
    pub unwritten: bool,
}

impl Board {
    /// Lanes in which runs wait.
    pub fn waiting_lanes(&self) -> Vec<Arc<LaneKey>> {
        self.inner.lock().lanes.keys().cloned().collect()
    }

    /// The first runs of some lanes, at most as many of each as said, in the order in which they
    /// are to be sent over all of them: at most `max`, each with the place of its lane in `lanes`.
    /// They stay there until [`Board::sent`].
    pub fn heads(&self, lanes: &[(Arc<LaneKey>, usize)], max: usize) -> Vec<(usize, Pick)> {
        let inner = self.inner.lock();
        let waiting = lanes.iter().map(|(key, most)| {
            inner.lanes.get(key).into_iter().flat_map(|lane| &lane.waiting).take(*most)
        });
        let mut waiting: Vec<_> = waiting.collect();
        let mut next = BinaryHeap::with_capacity(waiting.len());
        for (index, lane) in waiting.iter_mut().enumerate() {
            next.extend(lane.next().map(|place| Reverse((*place, index))));
        }
        let mut heads = Vec::new();
        while heads.len() < max
            && let Some(Reverse(((_, id), index))) = next.pop()
        {
            heads.extend(inner.runs.get(&id).map(|live| (index, inner.pick(live))));
            next.extend(waiting[index].next().map(|place| Reverse((*place, index))));
        }
        heads
    }

    /// How many runs wait in a lane.
    pub fn waiting_in(&self, key: &LaneKey) -> usize {
        self.inner.lock().lanes.get(key).map_or(0, |lane| lane.waiting.len())
    }

    /// Runs of a lane whose shown reason for waiting is another one than `why`: at most `max`.
    /// They are taken to show it from now on.
    pub fn unexplained(&self, key: &LaneKey, why: &str, max: usize) -> Vec<RunId> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(lane) = inner.lanes.get(key) else { return Vec::new() };
        let mut found = Vec::new();
        for (_, id) in &lane.waiting {
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
        places.filter_map(|(_, id)| Some(inner.runs.get(id)?.run.due_at)).min()
    }
}

impl Live {
    /// The job for which it counts as waiting while it is in a lane: a parent stands for its shards, and
    /// backfills have a bound of their own.
    fn waits_for(&self) -> Option<JobId> {
        let counts = self.run.parent().is_none() && self.backfill().is_none();
        counts.then_some(self.run.job)
    }

    /// When it would be due if it had no priority.
    pub(super) fn place(&self) -> DateTime<Utc> {
        let ahead = PRIORITY_STEP * self.spec.priority;
        self.run.due_at.checked_sub_signed(ahead).unwrap_or(self.run.due_at)
    }
}

impl Inner {
    fn pick(&self, live: &Live) -> Pick {
        Pick {
            attempt: live.run.attempt_ref(),
            job: live.run.job,
            // Without its job the run goes to nobody in the end, and no turn is to be read for it.
            cursor: self
                .jobs
                .get(live.run.job)
                .map_or(RouteCursor { turn: Some(0), uses: None }, |entry| entry.cursor()),
            // Who names the executor has done the picking, and no route counts it.
            route: match live.run.extra.as_ref().is_none_or(|e| e.target_executor.is_empty()) {
                true => live.spec.placement.route,
                false => RouteStrategy::First,
            },
            caused_by: live.run.extra.as_ref().and_then(|extra| extra.caused_by),
            unwritten: self.unwritten.contains(&live.run.id),
        }
    }

    /// Lets a run that may be sent wait for an executor.
    pub(super) fn enter_lane(&mut self, id: RunId) {
        let Some((key, place)) = self.place_of(id) else { return };
        let (key, entered) = match self.lanes.get_mut(&key) {
            Some(lane) => (lane.key.clone(), lane.waiting.insert(place)),
            None => {
                let key = Arc::new(key);
                let lane = Lane { key: key.clone(), waiting: BTreeSet::from([place]) };
                self.lanes.insert(key.clone(), lane);
                (key, true)
            }
        };
        let Some(live) = self.runs.get_mut(&id) else { return };
        live.lane = Some(key);
        let job = live.waits_for().filter(|_| entered);
        self.count_waiting(job, |waiting| waiting + 1);
    }

    /// Takes it out again.
    pub(super) fn leave_lane(&mut self, id: RunId) {
        let Some(live) = self.runs.get_mut(&id) else { return };
        let Some(key) = live.lane.take() else { return };
        let (place, job) = ((live.place(), id), live.waits_for());
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let left = lane.waiting.remove(&place);
        if lane.waiting.is_empty() {
            self.lanes.remove(&key);
        }
        self.count_waiting(job.filter(|_| left), |waiting| waiting.saturating_sub(1));
    }

    fn count_waiting(&mut self, job: Option<JobId>, counted: impl FnOnce(usize) -> usize) {
        if let Some(entry) = job.and_then(|job| self.jobs.get_mut(job)) {
            let work = entry.work_mut();
            work.waiting = counted(work.waiting);
        }
    }

    fn place_of(&self, id: RunId) -> Option<(LaneKey, Place)> {
        let live = self.runs.get(&id)?;
        let target = live.run.extra.as_ref().map_or(String::new(), |e| e.target_executor.clone());
        let key = LaneKey {
            app: live.run.app,
            handler: live.spec.handler.clone(),
            labels: live.spec.placement.required_labels.clone(),
            demand: if target.is_empty() { self.demand(live) } else { Demand::None },
            target,
        };
        Some((key, (live.place(), id)))
    }

    /// What the route of a run asks for.
    fn demand(&self, live: &Live) -> Demand {
        let placement = &live.spec.placement;
        match placement.route {
            RouteStrategy::ConsistentHash if !placement.route_key.is_empty() => {
                Demand::Key(placement.route_key.clone())
            }
            RouteStrategy::ConsistentHash => {
                let slot = self.jobs.slot(live.run.job);
                Demand::Key(slot.map_or(String::new(), |slot| self.jobs.name(slot).to_owned()))
            }
            RouteStrategy::Busyover => Demand::Load(placement.busy_threshold.to_bits()),
            _ => Demand::None,
        }
    }
}
